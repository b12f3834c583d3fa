"""The paper's tables: which defenses each compares, and in which columns."""

from torch import nn

from igdefense.analysis.class_disparity import ClassDisparity
from igdefense.attacks.auto_attack import AutoAttack
from igdefense.attacks.square import Square
from igdefense.attacks.suites import Column, budget_of
from igdefense.attacks.threat import Linf
from igdefense.defenses.rivals.anti_adversary import AntiAdversary
from igdefense.defenses.rivals.hedge import Hedge
from igdefense.defenses.rivals.sodef import SODEF
from igdefense.expert.suite import columns_of
from igdefense.paper.bench import Bench
from igdefense.paper.outcome import Row
from igdefense.verdicts.run import Run
from igdefense.verdicts.statistics import Share


def contenders(bench: Bench) -> dict[str, nn.Module]:
    """The base model and the paper's two defenses."""
    k = bench.scale.keep
    return {
        "none": bench.model,
        f"CD-IR-{k}": bench.masked("CD-IR"),
        f"LO-IR-{k}": bench.masked("LO-IR"),
    }


def rival_contenders(bench: Bench) -> dict[str, nn.Module]:
    """The base model, the three rivals and the paper's two defenses."""
    ours = contenders(bench)
    rivals = {
        "HD": Hedge(bench.model, seed=bench.seed),
        "SODEF": SODEF(bench.model, bench.head),
        "CAAA": AntiAdversary(bench.model),
    }
    return {"none": ours.pop("none"), **rivals, **ours}


def headline(bench: Bench) -> list[Row]:
    """Tables 1 to 4: clean, AutoAttack, worst case."""
    return [
        {"defense": name, **_three(bench.run(name, defense))}
        for name, defense in contenders(bench).items()
    ]


def rivals(bench: Bench) -> list[Row]:
    """Table 5: clean, worst case, and how many forward passes an inference takes."""
    defenses = rival_contenders(bench)
    times = bench.times(defenses)
    rows = []
    for name, defense in defenses.items():
        run = bench.run(name, defense)
        row: Row = {"defense": name, "clean": run.clean.share, "IW-WC": run.worst_case.share}
        rows.append(row | {"inference time": round(times[name], 2)})
    return rows


def rivals_extended(bench: Bench) -> list[Row]:
    """Table 5 with all nine attacks."""
    rows = []
    for name, defense in rival_contenders(bench).items():
        run = bench.run(name, defense)
        attacks = {column: verdict.share for column, verdict in run.verdicts.items()}
        row: Row = {"defense": name, "clean": run.clean.share, **attacks}
        rows.append(row | {"IW-WC": run.worst_case.share})
    return rows


def ablation(bench: Bench) -> list[Row]:
    """Passes, masks and smoothing, one after another."""
    k, everything = bench.scale.keep, bench.ranking("LO-IR").neurons
    rows: list[tuple[int, str, bool, nn.Module]] = [
        (1, "none", False, bench.model),
        (1, "none", True, bench.smoothed()),
        (2, "none", False, bench.masked("LO-IR", keep=everything, sigma=0)),
    ]
    for method in ("random", "CD-IR", "LO-IR"):
        for smoothing in (False, True):
            defense = bench.masked(method, sigma=None if smoothing else 0)
            rows.append((2, f"{method}-{k}", smoothing, defense))
    out = []
    for number, (passes, masks, smoothing, defense) in enumerate(rows, 1):
        name = f"{number}: {passes} pass, masks {masks}" + ", smoothing" * smoothing
        about: Row = {"row": str(number), "passes": str(passes), "masks": masks}
        about["smoothing"] = "yes" if smoothing else "no"
        out.append(about | _three(bench.run(name, defense)))
    return out


def gradient_masking(bench: Bench) -> list[Row]:
    """AutoAttack, a stronger AutoAttack, Square, worst case."""
    threat, budget = Linf(bench.scale.eps), budget_of(bench.scale.suite)
    stronger = AutoAttack.stronger(threat)
    if bench.scale.suite == "quick":  # in the same proportion: twice the steps, more restarts
        stronger = AutoAttack.standard(
            threat,
            steps=2 * budget.steps,
            restarts=3,
            targets=budget.targets,
            queries=budget.square_queries,
            fab_steps=budget.fab_steps,
            fab_restarts=3,
            square_restarts=2,
        )
    extra = (
        Column(name="stronger AA", attack=stronger),
        Column(
            name="Square",
            attack=Square(threat=threat, queries=budget.square_queries),
            gradient=False,
        ),
    )
    rows = []
    compared = rival_contenders(bench)
    del compared["HD"]  # the paper leaves it out here
    for name, defense in compared.items():
        run = bench.run(name, defense)
        more = bench.run(f"{name}, checks", defense, suite=extra)
        shares: Row = {column: verdict.share for column, verdict in more.verdicts.items()}
        worst = run.worst_case.robust & more.worst_case.robust
        row: Row = {"defense": name, "clean": run.clean.share}
        row["AA"] = run.verdicts["autoattack"].share
        rows.append(row | shares | {"IW-WC": Share(int(worst.sum()), len(worst))})
    return rows


def eps(bench: Bench) -> list[Row]:
    """AutoAttack at four budgets."""
    rows: list[Row] = []
    for size in (4, 8, 16, 32):
        column = auto_attack(bench, size / 255)
        for name, defense in contenders(bench).items():
            run = bench.run(f"{name} at {size}/255", defense, suite=(column,), eps=size / 255)
            share = run.verdicts["autoattack"].share
            rows.append({"defense": name, "eps": f"{size}/255", "AA": share})
    return rows


def class_disparity(bench: Bench) -> list[Row]:
    """The mean over classes, the best and the worst class, clean and under AutoAttack."""
    rows = []
    for name, defense in contenders(bench).items():
        run = bench.run(name, defense)
        row: Row = {"defense": name}
        classes = ClassDisparity.of(
            run, bench.data.labels, bench.data.class_names, attack="autoattack"
        )
        for what, mean in zip(("clean", "AA"), classes.mean, strict=True):
            row[f"mean {what}"] = 100 * mean
        for which, chosen in (("best", max), ("worst", min)):
            for what, shares in (("clean", classes.clean), ("AA", classes.robust)):
                row[f"{which} {what}"] = chosen(shares, key=lambda share: share.value)
        rows.append(row)
    return rows


def auto_attack(bench: Bench, eps: float) -> Column:
    """AutoAttack alone, as the scale's suite has it."""
    columns = columns_of(bench.scale.suite, Linf(eps))
    return next(column for column in columns if column.name == "autoattack")


def _three(run: Run) -> Row:
    auto = run.verdicts["autoattack"].share
    return {"clean": run.clean.share, "AA": auto, "IW-WC": run.worst_case.share}
