"""`igd search`."""

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
from igdefense.cli.evaluate import ModeName, budget_from
from igdefense.cli.options import (
    ArchOption,
    DataDirOption,
    MeanOption,
    ModelArg,
    SeedOption,
    SizeOption,
    StdOption,
    channels,
    number,
    one_of_several,
)
from igdefense.errors import SettingError
from igdefense.expert.suite import columns_of
from igdefense.family.probed import Probed
from igdefense.family.search import search as search_family
from igdefense.family.space import default_space, drawn, members, read_space, varied
from igdefense.models.load import load_model

BudgetOption = Annotated[
    list[str] | None, typer.Option(help="Override a budget of the validation attacks, NAME=N.")
]


@app.command()
def search(
    ctx: typer.Context,
    model: ModelArg,
    out: Annotated[Path, typer.Option(help="Folder of the search; the same command resumes it.")],
    validation: Annotated[
        str, typer.Option(help="Data to choose on: --data's forms, slices too.")
    ] = "embedded:test[500:1000]",
    test: Annotated[
        str, typer.Option(help="Data to report on; it must share no image with the others.")
    ] = "embedded:test[0:500]",
    space: Annotated[
        Path | None,
        typer.Option(help="Settings to try: a TOML file of tables [[grid]], NAME = [VALUES]."),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            help="A setting to vary, in place of the default space, NAME=VALUE,VALUE: kind, "
            "ranking, layer, keep, sigma, samples, temperature."
        ),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="Try at most so many settings, drawn by the seed.")
    ] = None,
    first: Annotated[
        int | None,
        typer.Option(help="Validation images of the first round, then twice as many; a quarter."),
    ] = None,
    suite: Annotated[
        str, typer.Option(help="For the validation images: expert-quick or expert.")
    ] = "expert-quick",
    budget: BudgetOption = None,
    test_suite: Annotated[
        str, typer.Option(help="For the test images: expert, or expert-quick for a trial run.")
    ] = "expert",
    test_budget: Annotated[
        list[str] | None, typer.Option(help="Override a budget of the test attacks, NAME=N.")
    ] = None,
    mode: Annotated[
        ModeName, typer.Option(help="Every attack on every image, or survivors only.")
    ] = ModeName.CASCADE,
    eps: Annotated[
        float, typer.Option(parser=number, metavar="NUMBER", help="L-inf budget, pixel units.")
    ] = "8/255",  # type: ignore[assignment]
    arch: ArchOption = None,
    mean: MeanOption = None,
    std: StdOption = None,
    data_dir: DataDirOption = None,
    size: SizeOption = None,
    probe: Annotated[str, typer.Option(help="Data for the rankings.")] = "embedded:probe",
    encoder: EncoderOption = "embedded",
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
    store: StoreOption = None,
    list_only: Annotated[
        bool, typer.Option("--list", help="Print the settings and attack nothing.")
    ] = False,
) -> None:
    """Look for a setting of the method whose gain lasts.

    All settings are attacked on a few validation images, the better half on twice as many, and so
    on; the best is then compared with its base model on test images that had no part in the choice.

    Example: `igd search embedded --vary keep=8,16,32 --vary sigma=0,4/255 --validation
    'embedded:test[700:1000]' --test 'embedded:test[0:500]' --out runs/search`
    """
    if space is not None and vary:
        raise SettingError("--space and --vary both say what to try; give one of them.")
    where = backend_for(ctx, backend, workers, address, gpus_per_worker, cpus_per_worker)
    net = load_model(model, arch, mean=channels(mean), std=channels(std))
    grids = read_space(space) if space else varied(vary) if vary else default_space(net)
    tried = drawn(members(grids), trials, seed)
    if list_only:
        typer.echo("\n".join(member.name for member in tried))
        return
    budgets = {"budget": budget_from(budget or []), "test_budget": budget_from(test_budget or [])}
    for name, given in zip((suite, test_suite), budgets.values(), strict=True):
        columns_of(name, Linf(eps), given)  # refuse bad settings before any work
    recipe: dict[str, Any] = {
        **{"model": model, "arch": arch, "mean": mean, "std": std, "size": size},
        **{"validation": validation, "test": test, "probe": probe, "encoder": encoder},
        **{"sigma": 0.0, "samples": 1, "seed": seed},
    }
    outcome = search_family(
        tried,
        Probed(net, one_of_several(probe, data_dir, size=size), encoder=encoder),
        validation=one_of_several(validation, data_dir, size=size),
        test=one_of_several(test, data_dir, size=size),
        out=out,
        suite=suite,
        test_suite=test_suite,
        **budgets,
        eps=eps,
        mode=mode.value,
        seed=seed,
        first=first,
        store=store,
        recipe=recipe,
        backend=where,
        batch_size=batch_size,
        draws=draws,
    )
    typer.echo(outcome.table())
    typer.echo(f"-> {out}")
