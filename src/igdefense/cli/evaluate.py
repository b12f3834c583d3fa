"""`igd evaluate` and `igd verify`."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from igdefense.attacks.threat import Linf
from igdefense.cli.app import app
from igdefense.cli.backends import (
    AddressOption,
    BackendName,
    BackendOption,
    CpusOption,
    GpusOption,
    StoreOption,
    WorkersOption,
    backend_for,
)
from igdefense.cli.cd_ir import EncoderOption
from igdefense.cli.judged import (
    HEAD,
    MASKED,
    OTHER,
    RANKING,
    Defense,
    defended,
    others,
    ranked,
    rebuilt,
)
from igdefense.cli.options import (
    ArchOption,
    CountOption,
    DataDirOption,
    DataOption,
    ForceRankingOption,
    KeepOption,
    MeanOption,
    ModelArg,
    ModelDirOption,
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
    SodefOption,
    SodefSolverOption,
    SolverName,
    check_options,
    head_for,
    rival_settings,
)
from igdefense.errors import OutputError, SettingError
from igdefense.expert.suite import EXPERT, columns_of
from igdefense.models.load import load_model
from igdefense.rankings.controls import shuffled
from igdefense.rankings.ranking import Ranking
from igdefense.verdicts.curves import curves as convergence
from igdefense.verdicts.evaluate import evaluate as run_evaluation
from igdefense.verdicts.run import Run
from igdefense.verdicts.verify import verify as find_faults


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
    model_dir: ModelDirOption = None,
    data: DataOption = "embedded:test",
    data_dir: DataDirOption = None,
    n: CountOption = None,
    size: SizeOption = None,
    probe: Annotated[
        str, typer.Option(help="Data for the ranking, where --ranking is not given.")
    ] = "embedded:probe",
    other_ranking: Annotated[
        Path | None,
        typer.Option(
            help="Suites expert: another ranking of the layer, for the adversary to craft with; "
            "CD-IR for LO-IR, else LO-IR, made of --probe if not given."
        ),
    ] = None,
    encoder: EncoderOption = "embedded",
    sigma: SigmaOption = "4/255",  # type: ignore[assignment]
    samples: SamplesOption = 1,
    temperature: TemperatureOption = "0.01",  # type: ignore[assignment]
    seed: SeedOption = 0,
    workers: WorkersOption = 1,
    backend: BackendOption = BackendName.LOCAL,
    address: AddressOption = "auto",
    gpus_per_worker: GpusOption = None,
    cpus_per_worker: CpusOption = 1,
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
    store: StoreOption = None,
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

    Example: `igd evaluate embedded --keep 16 --backend ray --store s3://bucket/igd --out runs/far`
    """
    recipe: dict[str, Any] = {
        **{"model": model, "arch": arch, "mean": mean, "std": std},
        "model_dir": str(model_dir) if model_dir else None,
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
    if defense is not Defense.CD_IR and not (defense is Defense.LO_IR and suite in EXPERT):
        refuse_given(ctx, ("encoder",), f"the defense is {defense.value}")
    where = backend_for(ctx, backend, workers, address, gpus_per_worker, cpus_per_worker)
    budgets = budget_from(budget or [])
    columns_of(suite.value, Linf(eps), budgets)  # refuse bad settings before any work
    judged = images_for(data, data_dir, n, size)
    base = load_model(model, arch, mean=channels(mean), std=channels(std), folder=model_dir)
    scores, other = None, None
    if other_ranking is not None and not (defense in MASKED and suite in EXPERT):
        raise SettingError(
            "--other-ranking is for masks (lo-ir, cd-ir, random) under --suite expert."
        )
    if defense in MASKED:
        if keep is None:
            raise SettingError(
                "--defense lo-ir, cd-ir and random need --keep; `igd tune` helps to choose."
            )
        by_names = encoder if defense is Defense.CD_IR else None
        alike = probe.partition(":")[0] == data.partition(":")[0]  # its folder and size hold, too
        scores = ranked(
            base,
            ranking,
            probe,
            force_ranking,
            by_names,
            data_dir=data_dir if alike else None,
            size=size if alike else None,
        )
        if suite in EXPERT:
            other = others(
                base,
                scores,
                defense,
                given=other_ranking,
                kept=out / OTHER,
                probe=probe,
                encoder=encoder,
            )
            recipe["other ranking"] = OTHER if isinstance(other, Ranking) else other
        scores = shuffled(scores, seed) if defense is Defense.RANDOM else scores
    head = head_for(defense.value, base, sodef)
    deployed = defended(base, scores, recipe, head)
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
        backend=where,
        batch_size=batch_size,
        draws=draws,
        budget=budgets,
        other_ranking=other,
        name=f"{model}, {defense.value}"
        + (f"-{keep}" if scores is not None else "")
        + (f" ({hedge_variant.value})" if defense is Defense.HEDGE else ""),
        recipe=recipe,
    )
    if scores is not None:
        scores.save(out / RANKING)
    if isinstance(other, Ranking):
        other.save(out / OTHER)
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
                backend=where,
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


def budget_from(pairs: list[str]) -> dict[str, int]:
    """`steps=50` and the like."""
    budget = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if not value.isdigit():
            raise SettingError(f"--budget {pair!r}; expected NAME=N, such as steps=50.")
        budget[name] = int(value)
    return budget
