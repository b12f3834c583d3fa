import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from igdefense.attacks.apgd import APGD
from igdefense.data.data import Data
from igdefense.defenses.ig_defense import IGDefense, defend
from igdefense.defenses.smoothing import Smoothed
from igdefense.errors import DataError, ModelError, OutputError, SettingError
from igdefense.models.toys import ConvNet
from igdefense.rankings.leave_one_out import leave_one_out
from igdefense.verdicts.evaluate import evaluate
from igdefense.verdicts.run import Run
from igdefense.verdicts.verdict import selecting
from igdefense.verdicts.verify import verify

BUDGET = {"steps": 4, "fab_steps": 3, "square_queries": 10, "rays_queries": 30}
NINE = [
    *("autoattack", "rays", "apgd-eot", "transfer-apgd-ce", "transfer-apgd-cw"),
    *("transfer-apgd-t-dlr", "transfer-autoattack", "transfer-rays", "transfer-apgd-eot"),
]


@pytest.fixture(scope="module")
def net() -> nn.Module:
    return ConvNet(channels=3, classes=4, width=6, seed=0).eval()


@pytest.fixture(scope="module")
def data(net: nn.Module) -> Data:
    """Images that the net gets right, but for every fourth."""
    images = torch.rand(20, 3, 8, 8, generator=torch.Generator().manual_seed(3))
    labels = net(images).argmax(1)
    labels[::4] = (labels[::4] + 1) % 4
    return Data(images, labels, ["a", "b", "c", "d"])


@pytest.fixture(scope="module")
def defense(net: nn.Module, data: Data) -> IGDefense:
    layer = [name for name, module in net.named_modules() if isinstance(module, nn.Conv2d)][-1]
    every = Data(data.images, torch.arange(20) % 4, data.class_names)
    return defend(net, leave_one_out(net, every, layer), 3, sigma=0.05, temperature=0.5)


def run(defense: nn.Module, data: Data, out: Path, **options: Any) -> Run:
    given: dict[str, Any] = {"base": defense.model if hasattr(defense, "model") else defense}
    given |= {"suite": "quick", "eps": 0.02, "budget": BUDGET, "progress": False, "draws": 4}
    return evaluate(defense, data, out=out, **(given | options))


def same(one: Run, other: Run) -> bool:
    return all(
        torch.equal(verdict.draws, other.verdicts[name].draws)
        for name, verdict in one.verdicts.items()
    ) and torch.equal(one.worst_case.robust, other.worst_case.robust)


def test_the_papers_nine_columns_and_their_worst_case(
    defense: IGDefense, data: Data, tmp_path: Path
) -> None:
    result = run(defense, data, tmp_path / "run")
    assert list(result.verdicts) == NINE
    worst = torch.stack([verdict.robust for verdict in result.verdicts.values()]).all(0)
    assert torch.equal(result.worst_case.robust, worst & result.clean.robust)
    assert 0 < result.worst_case.share.count < result.clean.share.count < 20
    assert (tmp_path / "run" / "results.json").is_file()


@pytest.mark.parametrize("random", [False, True])
def test_batch_size_and_workers_change_nothing(
    net: nn.Module, defense: IGDefense, data: Data, tmp_path: Path, random: bool
) -> None:
    judged: nn.Module = defense if random else net
    one = run(judged, data, tmp_path / "a" / "run", batch_size=20)
    two = run(judged, data, tmp_path / "b" / "run", batch_size=3)
    assert same(one, two)


def test_two_worker_processes_give_the_verdicts_of_one(
    defense: IGDefense, data: Data, tmp_path: Path
) -> None:
    one = run(defense, data, tmp_path / "a" / "run")
    two = run(defense, data, tmp_path / "b" / "run", workers=2)
    assert same(one, two)


@pytest.mark.parametrize("random", [False, True])
def test_a_cascade_has_the_worst_case_of_the_full_table(
    net: nn.Module, defense: IGDefense, data: Data, tmp_path: Path, random: bool
) -> None:
    judged: nn.Module = defense if random else net
    full = run(judged, data, tmp_path / "a" / "run")
    cascade = run(judged, data, tmp_path / "b" / "run", mode="cascade")
    assert torch.equal(full.worst_case.robust, cascade.worst_case.robust)
    assert sum(int(v.tested.sum()) for v in cascade.verdicts.values()) < 9 * 20


def test_a_cascade_finds_for_each_image_an_attack_as_bad_as_the_full_table_has(
    net: nn.Module, data: Data, tmp_path: Path
) -> None:
    unsure = Smoothed(net, sigma=0.1)
    full = run(unsure, data, tmp_path / "a" / "run")
    cascade = run(unsure, data, tmp_path / "b" / "run", mode="cascade")
    lowest = [lowest_rate(each) for each in (full, cascade)]
    assert torch.equal(*lowest)
    assert ((lowest[0] > 0) & (lowest[0] < 1)).any()  # images that fall on some draws only
    assert sum(int(v.tested.sum()) for v in cascade.verdicts.values()) < 9 * 20


def lowest_rate(result: Run) -> Tensor:
    """How often an image is right on the draws that select, under the attack worst for it."""
    met = [result.clean, *result.verdicts.values()]
    half = selecting(result.clean.fresh.shape[1])
    rates = [torch.where(v.tested, v.draws[:, : half + 1].double().mean(1), 2.0) for v in met]
    return torch.stack(rates).amin(0)


def test_base_attacks_are_shared_between_defenses(
    net: nn.Module, defense: IGDefense, data: Data, tmp_path: Path
) -> None:
    run(defense, data, tmp_path / "one")
    units = {path.name for path in (tmp_path / ".store").iterdir()}
    other = defend(net, defense.ranking, 2, sigma=0.05, temperature=0.5)
    result = run(other, data, tmp_path / "two")
    new = {path.name for path in (tmp_path / ".store").iterdir()} - units
    assert len(units) == 9
    assert len(new) == 3  # only those that attack the defense itself
    assert all(result.seconds[name] == 0 for name in NINE if name.startswith("transfer"))


def test_an_interrupted_run_ends_with_the_verdicts_of_an_undisturbed_one(
    defense: IGDefense, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(defense, data, tmp_path / "a" / "run", batch_size=5)
    attack, calls = APGD.__call__, 0

    def cut_off(*arguments: Any, **options: Any) -> Tensor:
        nonlocal calls
        calls += 1
        if calls == 9:
            raise KeyboardInterrupt
        return attack(*arguments, **options)

    monkeypatch.setattr(APGD, "__call__", cut_off)
    with pytest.raises(KeyboardInterrupt):
        run(defense, data, tmp_path / "b" / "run", batch_size=5)
    monkeypatch.setattr(APGD, "__call__", attack)
    kept = list((tmp_path / "b" / ".store").rglob("*.safetensors"))
    assert kept
    before = {path: path.stat().st_mtime_ns for path in kept}
    resumed = run(defense, data, tmp_path / "b" / "run", batch_size=5)
    assert same(whole, resumed)
    assert before == {path: path.stat().st_mtime_ns for path in kept}  # not made twice


@pytest.mark.parametrize("damage", ["truncated", "changed", "emptied"])
def test_a_damaged_file_is_noticed_and_made_anew(
    defense: IGDefense, data: Data, tmp_path: Path, damage: str
) -> None:
    whole = run(defense, data, tmp_path / "run")
    shutil.rmtree(tmp_path / "run")
    path = next((tmp_path / ".store").rglob("*.safetensors"))
    content = bytearray(path.read_bytes())
    content[-9] ^= 0xFF
    damaged = {"truncated": bytes(content[:-50]), "changed": bytes(content), "emptied": b""}
    path.write_bytes(damaged[damage])
    assert same(whole, run(defense, data, tmp_path / "run"))
    assert path.read_bytes() != damaged[damage]


def test_results_hold_every_number_with_what_it_depends_on(
    defense: IGDefense, data: Data, tmp_path: Path
) -> None:
    result = run(defense, data, tmp_path / "run", seed=4)
    record = json.loads((tmp_path / "run" / "results.json").read_text())
    assert record["settings"]["seed"] == 4
    assert record["n"] == 20
    column = record["columns"]["autoattack"]
    assert column["right"] == result.verdicts["autoattack"].share.count
    assert "steps=4" in record["settings"]["columns"]["autoattack"]["attack"]
    assert same(Run.load(tmp_path / "run"), result)
    assert Run.load(tmp_path / "run").table() == result.table()
    assert "small budgets" in result.table()


def test_a_finished_run_verifies_from_its_saved_images(
    defense: IGDefense, data: Data, tmp_path: Path
) -> None:
    run(defense, data, tmp_path / "run", mode="cascade")
    shutil.rmtree(tmp_path / ".store")
    assert verify(tmp_path / "run", defense, data) == []


def test_verification_notices_a_changed_verdict_and_an_image_over_the_budget(
    defense: IGDefense, data: Data, tmp_path: Path
) -> None:
    run(defense, data, tmp_path / "run")
    path = tmp_path / "run" / "results.json"
    record = json.loads(path.read_text())
    robust = record["columns"]["rays"]["robust"]
    robust[robust.index(1)] = 0
    draws = record["columns"]["apgd-eot"]["fresh draws"]
    draws[3] = draws[3].replace("1", "0", 1)
    robust = record["base"]["columns"]["transfer-rays"]["robust"]
    robust[robust.index(1)] = 0
    path.write_text(json.dumps(record))
    images = tmp_path / "run" / "adversarial" / "autoattack.safetensors"
    tensors = load_file(images)
    tensors["x"] = tensors["x"].clone()
    tensors["x"][0, 0, 0, 0] += 0.5 if tensors["x"][0, 0, 0, 0] < 0.5 else -0.5
    save_file(tensors, images)
    faults = "; ".join(verify(tmp_path / "run", defense, data, base=defense.model))
    assert "rays: 1 verdicts differ" in faults
    assert "apgd-eot: 1 outcomes of fresh draws differ" in faults
    assert "transfer-rays, base: 1 verdicts differ" in faults
    assert "autoattack: 1 images are outside" in faults


def test_verification_refuses_another_defense_or_data(
    net: nn.Module, defense: IGDefense, data: Data, tmp_path: Path
) -> None:
    run(defense, data, tmp_path / "run")
    with pytest.raises(ModelError, match="judged a defense"):
        verify(tmp_path / "run", Smoothed(net), data)
    with pytest.raises(DataError, match="made on data"):
        verify(tmp_path / "run", defense, data[:10])


def test_the_base_is_judged_as_in_a_run_of_its_own(
    net: nn.Module, defense: IGDefense, data: Data, tmp_path: Path
) -> None:
    result, own = run(defense, data, tmp_path / "one"), run(net, data, tmp_path / "two")
    assert result.base_clean is not None
    assert result.base_worst_case is not None
    assert torch.equal(result.base_clean.robust, own.clean.robust)
    transfers = [name for name in NINE if name.startswith("transfer")]
    for name in transfers:
        assert torch.equal(result.base.attacked[name].robust, own.verdicts[name].robust)  # type: ignore[union-attr]
    worst = torch.stack([own.verdicts[name].robust for name in transfers]).all(0)
    assert torch.equal(result.base_worst_case.robust, worst)
    (row,) = [row for row in result.against_base if row.what == "IW-WC, 1 draw"]
    assert row.left == result.worst_case.share.value
    assert row.right == pytest.approx(float(worst.double().mean()))
    assert own.against_base == []


def test_a_cascade_says_that_it_cannot_compare_with_the_base(
    defense: IGDefense, data: Data, tmp_path: Path
) -> None:
    result = run(defense, data, tmp_path / "run", mode="cascade")
    assert result.against_base == []
    assert "`igd diff`" in result.table()
    assert "(survivors only)" in result.table()


def test_a_run_of_the_first_format_is_still_read(
    defense: IGDefense, data: Data, tmp_path: Path
) -> None:
    result = run(defense, data, tmp_path / "run")
    path = tmp_path / "run" / "results.json"
    record = json.loads(path.read_text())
    old = {"format": "igdefense-run-1", "clean": {"robust": record["clean"]["robust"]}}
    old |= {key: record[key] for key in ("settings", "footnotes", "checks", "n")}
    keys = ("seconds", "robust", "tested", "attacked", "broken")
    old["columns"] = {n: {k: c[k] for k in keys} for n, c in record["columns"].items()}
    path.write_text(json.dumps(old))
    read = Run.load(tmp_path / "run")
    assert read.worst_case.share == result.worst_case.share
    assert not read.worst_case.random
    assert verify(tmp_path / "run", defense, data) == []


@pytest.mark.parametrize("draws", [-1, 0, 1])
def test_fewer_than_two_fresh_draws_are_refused(
    defense: IGDefense, data: Data, tmp_path: Path, draws: int
) -> None:
    with pytest.raises(SettingError, match="at least 2 are needed"):
        run(defense, data, tmp_path / "run", draws=draws)
    assert not (tmp_path / "run").exists()


def test_a_suite_with_transfers_needs_a_base_model(
    defense: IGDefense, data: Data, tmp_path: Path
) -> None:
    with pytest.raises(SettingError, match=r"attacks the base model.*pass base="):
        run(defense, data, tmp_path / "run", base=None)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("eps", [0.0, -0.1, 1.5])
def test_an_eps_outside_its_range_is_refused(
    defense: IGDefense, data: Data, tmp_path: Path, eps: float
) -> None:
    with pytest.raises(SettingError, match="eps"):
        run(defense, data, tmp_path / "run", eps=eps)
    assert not (tmp_path / "run").exists()


def test_a_folder_of_another_run_is_refused(defense: IGDefense, data: Data, tmp_path: Path) -> None:
    run(defense, data, tmp_path / "run")
    with pytest.raises(OutputError, match="another seed"):
        run(defense, data, tmp_path / "run", seed=1)


def test_a_model_with_nan_logits_is_refused(data: Data, tmp_path: Path) -> None:
    net = ConvNet(channels=3, classes=4, width=6, seed=0).eval()
    with torch.no_grad():
        next(net.parameters()).fill_(float("nan"))
    with pytest.raises(ModelError, match="NaN"):
        run(net, data, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_unknown_budgets_and_suites_are_refused(
    defense: IGDefense, data: Data, tmp_path: Path
) -> None:
    with pytest.raises(SettingError, match="no budget 'stepps'"):
        run(defense, data, tmp_path / "run", budget={"stepps": 3})
    with pytest.raises(SettingError, match="no suite 'papers'"):
        run(defense, data, tmp_path / "run", suite="papers")
