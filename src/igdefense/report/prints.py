"""Figures for print, and tables for papers."""

from importlib.util import find_spec
from pathlib import Path

from igdefense.errors import SettingError
from igdefense.files import in_folder, written_whole
from igdefense.progress import track
from igdefense.report.evidence import Evidence
from igdefense.report.plots import figures_of
from igdefense.report.result_table import ResultTable


def require_matplotlib() -> None:
    """An error before any work where the extra is missing."""
    if find_spec("matplotlib") is None:
        raise SettingError("Figures for print need Matplotlib: pip install 'igdefense[figures]'.")


def write_prints(evidence: Evidence, folder: Path, format: str) -> list[Path]:
    """Each figure with its numbers, and the table of results in three forms."""
    require_matplotlib()
    from igdefense.report.drawn import print_figure  # noqa: PLC0415  (needs the extra)

    written = []
    with in_folder(folder):
        table = ResultTable.of(evidence.exhibits, evidence.published)
        forms = {"csv": table.csv(), "md": table.markdown(), "tex": table.latex()}
        for ending, text in forms.items():
            written.append(_text(folder / f"results.{ending}", text))
        figures = [figure for tab in figures_of(evidence).values() for figure in tab]
        for figure in track(figures, "figures"):
            written.append(_text(folder / f"{figure.name}.csv", figure.csv()))
            path = folder / f"{figure.name}.{format}"
            with written_whole(path) as part:
                print_figure(figure, part, format)
            written.append(path)
    return written


def _text(path: Path, text: str) -> Path:
    with written_whole(path) as part:
        part.write_text(text, encoding="utf-8")
    return path
