"""The page: one HTML file with everything inside, which opens from disk without a network."""

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from plotly.offline import get_plotlyjs

from igdefense import __version__
from igdefense.files import written_whole
from igdefense.report.evidence import Evidence
from igdefense.report.figure import Figure, as_csv
from igdefense.report.plots import figures_of
from igdefense.report.published_table import PublishedTable
from igdefense.report.result_table import ResultTable

TABS = {
    "results": "Results",
    "classes": "Classes",
    "shift": "Activation shift",
    "sensitivity": "Sensitivity",
    "surface": "Loss surface",
    "neurons": "Neurons",
    "gallery": "Gallery",
    "paper": "The paper",
    "about": "About",
}
TEMPLATES = Path(str(files("igdefense.report") / "templates"))


def page(evidence: Evidence, *, title: str = "igdefense report") -> str:
    """The whole page as text."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["code"] = code
    figures = figures_of(evidence)
    table = ResultTable.of(evidence.exhibits, evidence.published)
    content: dict[str, Any] = {
        "figures": {figure.name: _embedded(figure) for tab in figures.values() for figure in tab},
        "gallery": evidence.gallery.content if evidence.gallery else None,
        "neurons": evidence.neurons,
        "sprites": [{"columns": s.columns, "rows": s.rows} for s in evidence.sprites],
        "table": table.csv(),
        "outcomes": [[o.name, as_csv(o.grid[0], o.grid[1:])] for o in evidence.outcomes],
    }
    shown = [name for name in TABS if name in _present(evidence, figures)]
    return environment.get_template("page.html.j2").render(
        title=title,
        version=__version__,
        tabs={name: TABS[name] for name in shown},
        figures=figures,
        table=table,
        theirs=PublishedTable.of(evidence.exhibits),
        published_by=evidence.published_by,
        outcomes=evidence.outcomes,
        exhibits=evidence.exhibits,
        gallery=evidence.gallery.content if evidence.gallery else None,
        neurons=evidence.neurons,
        first=evidence.exhibits[0].run.settings,
        quick=any(str(e.run.settings["suite"]).endswith("quick") for e in evidence.exhibits),
        images=len(evidence.exhibits[0].run.clean.robust),
        # The pictures are numbered classes of a style sheet, so that each is decoded once.
        sprites=[(i, Markup(sprite.uri)) for i, sprite in enumerate(evidence.sprites)],
        style=Markup((TEMPLATES / "page.css").read_text(encoding="utf-8")),
        script=Markup((TEMPLATES / "page.js").read_text(encoding="utf-8")),
        plotly=Markup(get_plotlyjs()),
        content=in_script(content),
        pretty=lambda value: json.dumps(value, indent=2, ensure_ascii=False),
    )


def write_page(evidence: Evidence, path: str | Path, *, title: str = "igdefense report") -> None:
    """Write the page; the file appears when it is whole."""
    text = page(evidence, title=title)
    with written_whole(Path(path)) as part:
        part.write_text(text, encoding="utf-8")


def code(text: str) -> Markup:
    """Escaped text, with what stands between backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def in_script(value: Any) -> Markup:
    """JSON that cannot end the script element it stands in, whatever text it holds."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)  # ASCII: no line separators
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _embedded(figure: Figure) -> dict[str, Any]:
    plot = json.loads(figure.plot.to_json())
    plot["layout"].pop("template", None)
    return {
        "name": figure.name,
        "data": plot["data"],
        "layout": plot["layout"] | {"height": figure.tall},
        "csv": figure.csv(),
        "title": figure.title,
    }


def _present(evidence: Evidence, figures: Mapping[str, list[Figure]]) -> set[str]:
    extra = {"gallery"} if evidence.gallery else set()
    extra |= {"paper"} if evidence.outcomes else set()
    return set(figures) | extra | {"about"}
