import json
import re
from pathlib import Path

import pytest

from handmade import handmade
from igdefense.data.cifar10 import CLASSES as CIFAR10
from igdefense.data.data import Data
from igdefense.errors import DataError, SettingError
from igdefense.report.evidence import Evidence, gather
from igdefense.report.exhibit import Exhibit, side_by_side
from igdefense.report.figure import shown
from igdefense.report.page import code, in_script, page
from igdefense.report.plots import figures_of
from igdefense.report.published_table import PublishedTable, published_for
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
        "sensitivity": ["keep", "sweep-sigma"],
        "surface": ["surface-base", "flat-base", "surface-b-lo-ir-b", "flat-b-lo-ir-b"],
        "neurons": ["class-overlap-b-lo-ir-b"],
    }


def test_a_sweep_is_drawn_with_its_intervals_and_all_its_numbers(evidence: Evidence) -> None:
    figure = figures_of(evidence)["sensitivity"][1]
    clean, attacked = figure.plot.data
    assert (clean.name, list(attacked.y)) == ("LO-IR clean", [75, 25])
    assert attacked.y[1] + attacked.error_y.array[1] == pytest.approx(100 * 0.699, abs=0.05)
    assert list(figure.plot.layout.xaxis.ticktext) == ["1", "4"]
    assert "LO-IR AA,4/255,1,4,25.0," in figure.csv()


def test_outcomes_are_shown_beside_what_was_published(page_file: Path) -> None:
    text = page_file.read_text(encoding="utf-8")
    panel = text[text.index('id="panel-paper"') : text.index('id="panel-about"')]
    assert "Figure: &lt;i&gt;noise&lt;/i&gt;" in panel
    assert "published as a picture only" in panel
    assert re.search(
        r"<tr><td>published</td><td>DAJAT RN18</td><td>none</td><td>4/255</td><td>71.1</td>", panel
    )


def test_what_was_published_for_the_same_defenses_stands_below_the_table(
    exhibits: list[Exhibit],
) -> None:
    base = exhibits[0]
    assert PublishedTable.of(exhibits) is None  # three classes are no data of the paper's
    assert base.data is not None
    data = Data(base.data.images, base.data.labels, CIFAR10)
    runs = [handmade("11", {"rays": "10"}, recipe={"defense": d}) for d in ("none", "lo-ir")]
    table = PublishedTable.of(
        [Exhibit(name, run, data=data) for name, run in zip("ab", runs, strict=True)]
    )
    assert table is not None
    assert table.runs == ("a", "b")
    assert ("DAJAT RN18", ("85.71 / 52.50 / 52.45", "85.18 / 54.53 / 53.34")) in table.rows


def test_a_published_base_model_fills_the_cells_of_the_table() -> None:
    run = handmade("11", {"rays": "10", "own": "11"}, recipe={"defense": "hedge"})
    found = published_for([Exhibit("HD", run)], "rivals-extended/OAAT RN18")
    assert found == {"HD": {"clean": 79.89, "rays": 73.24, "IW-WC": 50.68}}
    text = page(gather([Exhibit("HD", run)], published="rivals-extended/OAAT RN18"))
    assert "Published: rivals-extended/OAAT RN18" in text
    assert "published 73.24" in text


def test_only_backticks_become_code() -> None:
    assert code("`igd cost` <b>") == "<code>igd cost</code> &lt;b&gt;"
    assert code("`<b>`") == "<code>&lt;b&gt;</code>"


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
