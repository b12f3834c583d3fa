"""`igd evaluate` and `igd verify`."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from torch import nn

from igdefense.attacks.threat import Linf
from igdefense.cli.app import app
from igdefense.cli.cd_ir import EncoderOption
from igdefense.cli.options import (
    ArchOption,
    CountOption,
    DataDirOption,
    DataOption,
    ForceRankingOption,
    KeepOption,
    MeanOption,
    ModelArg,
    RankingOption,
    SamplesOption,
    SeedOption,
    SigmaOption,
    SizeOption,
    StdOption,
    TemperatureOption,
    channels,
    images_for,
    number,
    refuse_given,
)
from igdefense.cli.rivals import (
    AntiAdversaryEpsOption,
    GradientOption,
    HedgeVariant,
    HedgeVariantOption,
    InnerStepsOption,
    Rival,
    SodefOption,
    SodefSolverOption,
    SolverName,
    build_rival,
    check_options,
    head_for,
    rival_settings,
)
from igdefense.data.data import Data
from igdefense.defenses.ig_defense import defend
from igdefense.defenses.rivals.head import Head
from igdefense.defenses.smoothing import Smoothed
from igdefense.errors import OutputError, SettingError
from igdefense.expert.suite import columns_of
from igdefense.models.architectures import default_layer
from igdefense.models.load import load_model
from igdefense.rankings.clip_dissect import clip_dissect
from igdefense.rankings.controls import shuffled
from igdefense.rankings.leave_one_out import leave_one_out
from igdefense.rankings.ranking import Ranking
from igdefense.verdicts.curves import curves as convergence
from igdefense.verdicts.evaluate import evaluate as run_evaluation
from igdefense.verdicts.run import Run
from igdefense.verdicts.verify import verify as find_faults

RANKING, HEAD = "ranking.safetensors", "sodef.safetensors"


class Defense(StrEnum):
    NONE = "none"
    LO_IR = "lo-ir"
    CD_IR = "cd-ir"
    RANDOM = "random"
    SMOOTHING = "smoothing"
    HEDGE = Rival.HEDGE.value
    ANTI_ADVERSARY = Rival.ANTI_ADVERSARY.value
    SODEF = Rival.SODEF.value


MASKED = (Defense.LO_IR, Defense.CD_IR, Defense.RANDOM)  # those with a ranking


class SuiteName(StrEnum):
    QUICK = "quick"
    AUTOATTACK = "autoattack"
    AUTOATTACK_RAND = "autoattack-rand"
    AUTOATTACK_STRONGER = "autoattack-stronger"
    PAPER = "paper"
    EXPERT = "expert"
    EXPERT_QUICK = "expert-quick"


class ModeName(StrEnum):
    FULL = "full"
    CASCADE = "cascade"


@app.command()
def evaluate(
    ctx: typer.Context,
    model: ModelArg,
    out: Annotated[Path, typer.Option(help="Folder of the run; the same command resumes it.")],
    defense: Annotated[Defense, typer.Option(help="What to judge.")] = Defense.LO_IR,
    ranking: RankingOption = None,
    keep: KeepOption = None,
    suite: Annotated[
        SuiteName,
        typer.Option(
            help="paper: its nine attacks; expert: those and the ones made for this defense; "
            "autoattack and its settings; quick, expert-quick: small budgets, no evidence."
        ),
    ] = SuiteName.PAPER,
    mode: Annotated[
        ModeName, typer.Option(help="Every attack on every image, or survivors only (IW-WC).")
    ] = ModeName.FULL,
    eps: Annotated[
        float, typer.Option(parser=number, metavar="NUMBER", help="L-inf budget, pixel units.")
    ] = "8/255",  # type: ignore[assignment]
    arch: ArchOption = None,
    mean: MeanOption = None,
    std: StdOption = None,
    data: DataOption = "embedded:test",
    data_dir: DataDirOption = None,
    n: CountOption = None,
    size: SizeOption = None,
    probe: Annotated[
        str, typer.Option(help="Data for the ranking, where --ranking is not given.")
    ] = "embedded:probe",
    encoder: EncoderOption = "embedded",
    sigma: SigmaOption = "4/255",  # type: ignore[assignment]
    samples: SamplesOption = 1,
    temperature: TemperatureOption = "0.01",  # type: ignore[assignment]
    seed: SeedOption = 0,
    workers: Annotated[int, typer.Option(help="Processes on this machine.")] = 1,
    batch_size: Annotated[
        int, typer.Option(help="Images in a unit of work; results do not depend on it.")
    ] = 32,
    draws: Annotated[
        int, typer.Option(help="Fresh draws on which a random defense is judged besides the first.")
    ] = 10,
    curves: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Also draw convergence curves (steps, restarts, EoT) on the first N images.",
        ),
    ] = 0,
    budget: Annotated[
        list[str] | None,
        typer.Option(help="Override a budget, NAME=N: steps, restarts, rays_queries, eot..."),
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="Folder of finished units; .store beside --out.")
    ] = None,
    force_ranking: ForceRankingOption = False,
    hedge_variant: HedgeVariantOption = HedgeVariant.AUTHORS,
    inner_steps: InnerStepsOption = None,
    anti_adversary_eps: AntiAdversaryEpsOption = None,
    gradient: GradientOption = None,
    sodef: SodefOption = None,
    sodef_solver: SodefSolverOption = SolverName.RK4,
) -> None:
    """Attack a defense and its base model; an image is robust only if it survives everything.

    The rivals are there to compare with: `--defense hedge --gradient through`, say.

    Example: `igd evaluate embedded --defense lo-ir --keep 16 --suite paper --n 200 --mode cascade
    --workers 2 --out runs/lo-ir`

    Example: `igd evaluate embedded --keep 16 --suite quick --n 24 --curves 24 --out runs/look`
    """
    recipe: dict[str, Any] = {
        **{"model": model, "arch": arch, "mean": mean, "std": std},
        **{"data": data, "n": n, "size": size, "defense": defense.value, "keep": keep},
        **{"sigma": sigma, "samples": samples, "temperature": temperature, "seed": seed},
        "rival": rival_settings(
            variant=hedge_variant,
            steps=inner_steps,
            eps=anti_adversary_eps,
            gradient=gradient,
            solver=sodef_solver,
        ),
    }
    check_options(ctx, defense.value)
    if defense is not Defense.CD_IR:
        refuse_given(ctx, ("encoder",), f"the defense is {defense.value}")
    columns_of(suite.value, Linf(eps), _budget(budget or []))  # refuse bad settings before any work
    judged = images_for(data, data_dir, n, size)
    base = load_model(model, arch, mean=channels(mean), std=channels(std))
    scores = None
    if defense in MASKED:
        if keep is None:
            raise SettingError(
                "--defense lo-ir, cd-ir and random need --keep; `igd tune` helps to choose."
            )
        by_names = encoder if defense is Defense.CD_IR else None
        scores = _ranking(base, ranking, probe, force_ranking, by_names)
        scores = shuffled(scores, seed) if defense is Defense.RANDOM else scores
    head = head_for(defense.value, base, sodef)
    deployed = _defended(base, scores, recipe, head)
    run = run_evaluation(
        deployed,
        judged,
        base=base,
        suite=suite.value,
        eps=eps,
        mode=mode.value,
        seed=seed,
        out=out,
        store=store,
        workers=workers,
        batch_size=batch_size,
        draws=draws,
        budget=_budget(budget or []),
        name=f"{model}, {defense.value}"
        + (f"-{keep}" if scores is not None else "")
        + (f" ({hedge_variant.value})" if defense is Defense.HEDGE else ""),
        recipe=recipe,
    )
    if scores is not None:
        scores.save(out / RANKING)
    if curves:
        run = replace(
            run,
            curves=convergence(
                deployed,
                judged[:curves],
                eps=eps,
                seed=seed,
                draws=draws,
                store=store or out.parent / ".store",
                workers=workers,
                batch_size=batch_size,
            ),
        )
        run.save(out)
    if head is not None:
        head.save(out / HEAD)
    typer.echo(run.table())
    typer.echo(f"-> {out}")


@app.command()
def verify(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    data_dir: DataDirOption = None,
) -> None:
    """Re-check a finished run from its saved adversarial images alone.

    Example: `igd verify runs/lo-ir`
    """
    finished = Run.load(run)
    recipe = finished.settings["recipe"]
    if recipe is None:
        raise OutputError(f"{run} was made from Python; verify it there, igdefense.verify(...).")
    base, defense, data = rebuilt(run, recipe, data_dir)
    faults = find_faults(run, defense, data, base=base)
    for fault in faults:
        typer.echo(fault)
    attacked = sum(int(verdict.tested.sum()) for verdict in finished.verdicts.values())
    if faults:
        raise typer.Exit(1)
    typer.echo(
        f"{run} holds: {attacked} adversarial images inside the budget, every verdict repeated."
    )


def rebuilt(
    run: Path, recipe: dict[str, Any], data_dir: Path | None
) -> tuple[nn.Module, nn.Module, Data]:
    """The base model, the defense and the data of a finished run, from the recipe it keeps."""
    base = load_model(
        recipe["model"],
        recipe["arch"],
        mean=channels(recipe["mean"]),
        std=channels(recipe["std"]),
    )
    scores = Ranking.load(run / RANKING) if recipe["defense"] in MASKED else None
    head = head_for(recipe["defense"], base, run / HEAD)
    data = images_for(recipe["data"], data_dir, recipe["n"], recipe["size"])
    return base, _defended(base, scores, recipe, head), data


def _defended(
    base: nn.Module, ranking: Ranking | None, recipe: dict[str, Any], head: Head | None
) -> nn.Module:
    if recipe["defense"] in list(Rival):
        return build_rival(
            Rival(recipe["defense"]), base, recipe["rival"], head, int(recipe["seed"])
        )
    noise = {name: recipe[name] for name in ("sigma", "samples", "seed")}
    if recipe["defense"] == Defense.NONE:
        return base
    if ranking is None:
        return Smoothed(base, **noise)
    temperature = recipe["temperature"]
    return defend(base, ranking, recipe["keep"], temperature=temperature, force=True, **noise)


def _ranking(
    base: nn.Module, path: Path | None, probe: str, force: bool, encoder: str | None
) -> Ranking:
    if path is not None:
        return Ranking.load(path, base, force=force)
    layer = default_layer(base)
    if layer is None:
        raise SettingError("The penultimate layer is not known: rank it first, --ranking FILE.")
    images = images_for(probe, None, None)
    if encoder is not None:
        return clip_dissect(base, images, layer, encoder=encoder)
    return leave_one_out(base, images, layer)


def _budget(pairs: list[str]) -> dict[str, int]:
    budget = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if not value.isdigit():
            raise SettingError(f"--budget {pair!r}; expected NAME=N, such as steps=50.")
        budget[name] = int(value)
    return budget
