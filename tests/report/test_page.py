import json
import re
from pathlib import Path

import pytest

from handmade import handmade
from igdefense.errors import DataError, SettingError
from igdefense.report.evidence import Evidence, gather
from igdefense.report.exhibit import Exhibit, side_by_side
from igdefense.report.figure import shown
from igdefense.report.page import in_script, page
from igdefense.report.plots import figures_of
from report.conftest import HOSTILE

BARE = Exhibit("run", handmade("1101", {"pgd": "1001"}, ["<i>note</i>"]))


@pytest.mark.parametrize("text", ["</script>", "<!--<script>", "a & b", "\u2028", HOSTILE])
def test_json_in_a_script_cannot_end_it_and_reads_back(text: str) -> None:
    written = in_script({"name": text})
    assert not set("<>&\u2028") & set(written)
    assert json.loads(written) == {"name": text}


def test_text_from_data_is_escaped(page_file: Path) -> None:
    text = page_file.read_text(encoding="utf-8")
    assert HOSTILE not in text
    assert "<b>LO-IR" not in text
    assert "&lt;b&gt;LO-IR&lt;/b&gt;" in text


def test_the_page_asks_no_network_for_anything(page_file: Path) -> None:
    text = page_file.read_text(encoding="utf-8")
    head = text[: text.index('<script type="application/json"')]
    assert not re.findall(r'(?:src|href)="(?!data:)', head)
    assert "default-src 'none'" in head


def test_a_run_without_models_still_has_its_table_and_notes() -> None:
    text = page(gather([BARE]))
    assert re.search(r'data-attack="pgd">\s*<span class="value">50.0<', text)
    assert "&lt;i&gt;note&lt;/i&gt;" in text
    assert 'id="panel-gallery"' not in text
    assert 'id="panel-results"' in text


def test_every_part_has_its_figures(evidence: Evidence) -> None:
    names = {tab: [f.name for f in figures] for tab, figures in figures_of(evidence).items()}
    assert names == {
        "results": ["survival", "cost"],
        "classes": ["classes"],
        "shift": ["shift-b-lo-ir-b"],
        "sensitivity": ["keep"],
        "surface": ["surface-base", "flat-base", "surface-b-lo-ir-b", "flat-b-lo-ir-b"],
        "neurons": ["class-overlap-b-lo-ir-b"],
    }


def test_labels_of_plots_show_what_looks_like_a_tag(evidence: Evidence) -> None:
    assert shown(HOSTILE) == "&lt;script&gt;window.hacked = 1&lt;/script&gt;"
    (figure,) = figures_of(evidence)["classes"]
    assert shown(HOSTILE) in figure.plot.data[0].x
    assert HOSTILE in figure.csv()


def test_runs_on_other_data_do_not_share_a_page() -> None:
    other = Exhibit("other", handmade("1101", {"pgd": "1001"}, data="y"))
    with pytest.raises(DataError, match=r"other was made on other data \(y\) than run \(x\)"):
        side_by_side([BARE, other])
    with pytest.raises(SettingError, match="at least one run"):
        side_by_side([])


def test_runs_of_one_name_are_told_apart_by_their_folders() -> None:
    twins = [Exhibit("run", BARE.run, Path("runs") / name) for name in ("a", "b")]
    assert [e.name for e in side_by_side(twins)] == ["run (a)", "run (b)"]
