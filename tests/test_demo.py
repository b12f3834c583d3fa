"""The demo on a few images, from the shell: runs, table and page."""

from pathlib import Path

import pytest

from igdefense import demo
from igdefense.data.data import Data
from igdefense.data.datasets import load_data
from igdefense.report.evidence import gather
from igdefense.verdicts.run import Run
from igdefense.verdicts.verify import verify

BUDGET = {"steps": 1, "targets": 1, "transfer_targets": 1, "fab_steps": 1, "eot": 1}
BUDGET |= {"square_queries": 2, "rays_queries": 2}


def few(spec: str, *, n: int | None = None) -> Data:
    return load_data(spec, n=n or 20)


def test_the_demo_judges_the_base_model_smoothing_and_the_defense_and_shows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "load_data", few)
    monkeypatch.setattr(
        demo, "gather", lambda *a, **k: gather(*a, **k | {"surface_images": 1, "points": 3})
    )
    evidence = demo.show(tmp_path, n=6, workers=1, budget=BUDGET, progress=False)
    names = ["base model", "smoothing alone", "LO-IR-16", "CD-IR-16"]
    assert [e.name for e in evidence.exhibits] == names
    page = (tmp_path / demo.PAGE).read_text(encoding="utf-8")
    for tab in ("results", "classes", "shift", "sensitivity", "surface", "neurons", "gallery"):
        assert f'id="panel-{tab}"' in page
    for exhibit in evidence.exhibits:
        assert exhibit.folder is not None
        assert Run.load(exhibit.folder).settings["recipe"]["defense"] == exhibit.folder.name
    last = evidence.exhibits[-1]
    assert last.defense is not None
    assert last.data is not None
    assert verify(last.folder or "", last.defense, last.data, base=last.base) == []
