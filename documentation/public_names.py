"""The API pages list what `igdefense` exports, in the order of its imports: the data path.

A line `[[names: models data layers]]` on a page stands for the public names that come from
those parts of the package, and `[[other names]]` for all that no page has named.
"""

import ast
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
NAMES = re.compile(r"^\[\[names: ([\w./ ]+)\]\]$", re.MULTILINE)
OTHERS = "[[other names]]"


def exported(init: Path) -> list[str]:
    """Full paths of what an `__init__.py` imports and lists in `__all__`, in that order."""
    tree = ast.parse(init.read_text())
    public: set[str] = set()
    found = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            public = set(ast.literal_eval(node.value))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("igdefense"):
            found += [(alias.name, f"{node.module}.{alias.name}") for alias in node.names]
    return [path for name, path in found if name in public]


def names_of(part: str) -> list[str]:
    """The public names from one part; `attacks/` means what that package itself exports."""
    if part.endswith("/"):
        return exported(ROOT / "src" / "igdefense" / part / "__init__.py")
    whole = exported(ROOT / "src" / "igdefense" / "__init__.py")
    return [path for path in whole if path.startswith(f"igdefense.{part}.")]


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put mkdocstrings' marks in place of ours."""
    markdown = NAMES.sub(
        lambda found: _listed([path for part in found[1].split() for path in names_of(part)]),
        markdown,
    )
    return markdown.replace(OTHERS, _listed(_others())) if OTHERS in markdown else markdown


def _others() -> list[str]:
    pages = (ROOT / "docs" / "api").glob("*.md")
    parts = [
        part for page in pages for line in NAMES.findall(page.read_text()) for part in line.split()
    ]
    named = {path for part in parts for path in names_of(part)}
    whole = exported(ROOT / "src" / "igdefense" / "__init__.py")
    return [path for path in whole if path not in named]


def _listed(paths: list[str]) -> str:
    return "\n\n".join(f"::: {path}" for path in dict.fromkeys(paths))
