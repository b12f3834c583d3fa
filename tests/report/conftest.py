"""A finished run on a small net, whose first class has a name that a careless page would run."""

from pathlib import Path

import pytest
import torch
from torch import nn

from igdefense.data.data import Data
from igdefense.defenses.ig_defense import defend
from igdefense.paper.outcome import Outcome, Row
from igdefense.rankings.leave_one_out import leave_one_out
from igdefense.report.evidence import Evidence, gather
from igdefense.report.exhibit import Exhibit
from igdefense.report.page import write_page
from igdefense.verdicts.evaluate import evaluate
from igdefense.verdicts.statistics import Share
from nets import make_net

HOSTILE = "<script>window.hacked = 1</script>"
CLASSES = [HOSTILE, "dog & cat", "bird"]
BUDGET = {"steps": 2, "targets": 1, "transfer_targets": 1, "fab_steps": 1, "eot": 1}
BUDGET |= {"square_queries": 2, "rays_queries": 5}


@pytest.fixture(scope="session")
def exhibits(tmp_path_factory: pytest.TempPathFactory) -> list[Exhibit]:
    """The base model and IG-Defense on twelve images, most of them right when clean."""
    folder = tmp_path_factory.mktemp("runs")
    net = make_net("cnn")
    images = torch.rand(12, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        net.fc.bias -= net(images).mean(0)  # type: ignore[union-attr]
        labels = net(images).argmax(1)  # right when clean, but for the last three
    labels[-3:] = torch.arange(3)
    data = Data(images, labels, CLASSES)
    guided = defend(net, leave_one_out(net, data, "last"), 3, temperature=1e-6)
    defenses: dict[str, nn.Module] = {"base": net, "<b>LO-IR</b>": guided}
    made = []
    for i, (name, defense) in enumerate(defenses.items()):
        out = folder / str(i)
        run = evaluate(
            defense,
            data,
            base=net,
            suite="quick",
            budget=BUDGET,
            out=out,
            name=name,
            progress=False,
        )
        made.append(Exhibit(name, run, out, data, defense, net))
    return made


OUTCOME = Outcome(
    "smoothing",
    "Figure: <i>noise</i>",
    {"model": "cnn", "n": 4},
    tuple(
        {"sigma": f"{sigma}/255", "LO-IR clean": Share(4, 4), "LO-IR AA": Share(right, 4)}
        for sigma, right in ((1, 3), (4, 1))
    ),
)
AT_FOUR: Row = {"defense": "none", "eps": "4/255", "AA": Share(1, 4)}
TABLE = Outcome("eps", "Table", {"model": HOSTILE}, (AT_FOUR,))


@pytest.fixture(scope="session")
def evidence(exhibits: list[Exhibit]) -> Evidence:
    return gather(
        exhibits,
        surface_images=2,
        points=5,
        published={"base": {"IW-WC": 12.34}},
        outcomes=[OUTCOME, TABLE],
        progress=False,
    )


@pytest.fixture(scope="session")
def page_file(evidence: Evidence, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    write_page(evidence, path)
    return path
