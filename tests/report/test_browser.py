"""The page as a reader meets it, in headless Chromium."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from igdefense.report.evidence import Evidence
from igdefense.report.gallery import BROKEN, OUTCOMES
from igdefense.report.plots import figures_of
from report.conftest import CLASSES, HOSTILE

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
FLAGS = ["--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
FLAGS += ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"]  # 3-D without a graphics card


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not CHROMIUM:
        required = next(filter(os.environ.get, ("IGD_REQUIRE_BROWSER", "CI")), None)
        if required:
            pytest.fail(f"There is no Chromium, and ${required} is set: apt-get install chromium.")
        pytest.skip("There is no Chromium here: apt-get install chromium.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


class Opened:
    """A page, and what went wrong on it."""

    def __init__(self, browser: Browser, path: Path, **context: object) -> None:
        self.context = browser.new_context(**context)  # type: ignore[arg-type]
        self.page: Page = self.context.new_page()
        self.wrong: list[str] = []
        self.asked: list[str] = []
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", lambda m: self.wrong.append(m.text) if m.type == "error" else None)
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())


@pytest.fixture
def opened(browser: Browser, page_file: Path) -> Iterator[Opened]:
    opened = Opened(browser, page_file)
    yield opened
    opened.context.close()
    assert opened.wrong == []


def test_the_table_shows_the_numbers_of_results_json(opened: Opened, evidence: Evidence) -> None:
    cells = {
        (int(cell.get_attribute("data-run") or -1), cell.get_attribute("data-attack")): cell
        for cell in opened.page.locator("#result-table td").all()
    }
    assert len(cells) == 2 * 11
    for number, exhibit in enumerate(evidence.exhibits):
        assert exhibit.folder is not None
        record = json.loads((exhibit.folder / "results.json").read_text())
        rows = {"clean": record["clean"], "IW-WC": record["worst case"], **record["columns"]}
        for name, row in rows.items():
            low, high = row["interval 95 %"]
            text = cells[number, name].inner_text()
            assert text.startswith(
                f"{100 * row['accuracy']:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
            )
            if "broken" in row:
                assert f"{row['broken']} of {row['attacked']} broken" in text
    assert "published 12.34" in cells[0, "IW-WC"].inner_text()


def test_every_tab_opens_and_draws_its_plots(opened: Opened) -> None:
    page = opened.page
    for tab in page.locator("[role=tab]").all():
        tab.click()
        panel = page.locator(f"#{tab.get_attribute('aria-controls')}")
        assert panel.is_visible()
        assert page.locator("[role=tabpanel]:visible").count() == 1
        for canvas in panel.locator(".canvas").all():
            canvas.locator(".main-svg, canvas").first.wait_for(state="attached")
    assert page.locator(".plot").count() == page.locator(".plot[data-drawn]").count() == 11


def test_tabs_are_reached_by_arrow_keys(opened: Opened) -> None:
    opened.page.locator("#tab-results").focus()
    opened.page.keyboard.press("ArrowRight")
    assert opened.page.locator("#panel-classes").is_visible()
    opened.page.keyboard.press("End")
    assert opened.page.locator("#panel-about").is_visible()


def test_the_gallery_filters_by_run_class_attack_and_outcome(
    opened: Opened, evidence: Evidence
) -> None:
    page = opened.page
    page.click("#tab-gallery")
    assert evidence.gallery is not None
    content = evidence.gallery.content
    labels, run = content["labels"], content["runs"][0]
    cards = page.locator("#cards .card")
    assert cards.count() == len(labels)
    page.select_option("#filters [name=run]", "0")
    attack = next(
        i for i, a in enumerate(run["attacks"]) if OUTCOMES.index(BROKEN) in a["outcomes"]
    )
    page.select_option("#filters [name=attack]", str(attack))
    page.select_option("#filters [name=outcome]", label=BROKEN)
    fell = [i for i, o in enumerate(run["attacks"][attack]["outcomes"]) if OUTCOMES[o] == BROKEN]
    assert cards.count() == len(fell) > 0
    page.select_option("#filters [name=class]", str(labels[fell[0]]))
    assert cards.count() == sum(labels[i] == labels[fell[0]] for i in fell)
    assert page.locator("#count").inner_text() == f"{cards.count()} of {len(labels)} images"


def test_an_image_opens_by_keyboard_and_tells_its_predictions(
    opened: Opened, evidence: Evidence
) -> None:
    page = opened.page
    page.click("#tab-gallery")
    assert evidence.gallery is not None
    run = evidence.gallery.content["runs"][1]
    page.locator("#cards .card").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    detail = page.locator("#detail")
    attack = run["attacks"][run["decisive"][1]]
    facts = detail.locator("dd").all_inner_texts()
    assert facts[1].startswith(attack["name"])
    tile = attack["tiles"][1]
    expected = [run["clean"]["predictions"][1], attack["predictions"][tile]]
    expected += [run["clean"]["guesses"][1], attack["guesses"][tile]]
    assert facts[5:] == [CLASSES[number] for number in expected]
    assert detail.locator(".bars .point").count() == 3 * len(attack["neurons"][tile]["neurons"])
    with page.expect_download() as csv:
        detail.locator("[data-save=csv]").click()
    levels = attack["neurons"][tile]
    line = [levels[name][0] for name in ("neurons", "clean", "attacked", "masked")]
    saved = Path(csv.value.path()).read_text().splitlines()
    assert [float(number) for number in saved[1].split(",")] == line
    with page.expect_download() as png:
        detail.locator("[data-save=png]").click()
    assert png.value.suggested_filename == "neurons-of-image-1.png"
    page.keyboard.press("ArrowRight")
    assert detail.locator("h3").inner_text().startswith("Image 2:")
    page.keyboard.press("Escape")
    assert not detail.is_visible()
    focused = "[...document.querySelectorAll('#cards .card')].indexOf(document.activeElement)"
    page.wait_for_function(f"{focused} === 2")
    assert page.locator("#cards [tabindex='0']").count() == 1
    page.keyboard.press("End")
    assert page.evaluate(focused) == 11


def test_a_class_named_script_is_shown_and_not_run(opened: Opened) -> None:
    page = opened.page
    page.click("#tab-classes")
    assert HOSTILE in page.locator("#panel-classes .xtick").all_text_contents()
    page.click("#tab-gallery")
    assert HOSTILE in page.locator("#filters [name=class] option").all_inner_texts()
    page.click("#tab-neurons")
    assert HOSTILE in page.locator("#neuron-hint").inner_text()
    assert page.evaluate("window.hacked") is None


@pytest.mark.slow
def test_every_plot_is_saved_as_png_and_csv(opened: Opened, evidence: Evidence) -> None:
    page = opened.page
    for tab, figures in figures_of(evidence).items():
        page.click(f"#tab-{tab}")
        for figure in figures:
            place = page.locator(f'[data-figure="{figure.name}"]')
            with page.expect_download() as csv:
                place.locator("[data-save=csv]").click()
            assert csv.value.suggested_filename == f"{figure.name}.csv"
            assert Path(csv.value.path()).read_text() == figure.csv()
            with page.expect_download() as png:
                place.locator("[data-save=png]").click()
            assert png.value.suggested_filename == f"{figure.name}.png"
            with Image.open(png.value.path()) as picture:
                assert picture.size == (1600, 1040)


def test_the_tables_of_outcomes_are_saved_as_csv(opened: Opened) -> None:
    opened.page.click("#tab-paper")
    with opened.page.expect_download() as csv:
        opened.page.locator("[data-save=outcome]").last.click()
    assert csv.value.suggested_filename == "eps.csv"
    assert ",none,4/255,25.0 [4.6" in Path(csv.value.path()).read_text().replace('"', "")


def test_on_paper_solids_are_seen_from_above_and_pictures_are_kept(
    browser: Browser, page_file: Path
) -> None:
    opened = Opened(browser, page_file)
    page = opened.page
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    titles = page.locator("#panel-surface figure:visible").evaluate_all(
        "all => all.map((figure) => figure.textContent.trim())"
    )
    assert titles
    assert all(title.startswith("From above") for title in titles)
    kept = page.locator(".tile").first.evaluate("tile => getComputedStyle(tile).printColorAdjust")
    assert kept == "exact"
    opened.context.close()
    assert opened.wrong == []


@pytest.mark.slow
def test_on_paper_every_plot_fits_and_is_light(browser: Browser, page_file: Path) -> None:
    opened = Opened(browser, page_file, color_scheme="dark")
    page = opened.page
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".plot:not([data-drawn])").count() == 0
    drawn = page.locator(".main-svg:first-child").evaluate_all(
        "all => all.map((svg) => [svg.getAttribute('width'), svg.style.background])"
    )
    assert {width for width, _ in drawn} == {"640"}
    assert {colour for _, colour in drawn} == {"rgb(255, 255, 255)"}
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    dark = page.locator("#panel-results .main-svg:first-child").first.evaluate(
        "svg => svg.style.background"
    )
    assert dark != "rgb(255, 255, 255)"
    opened.context.close()
    assert opened.wrong == []


def test_nothing_is_fetched(opened: Opened) -> None:
    outside = [url for url in opened.asked if not re.match("file:|data:|blob:", url)]
    assert outside == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_scrolls_in_one_direction_and_follows_the_colour_scheme(
    browser: Browser, page_file: Path, scheme: str
) -> None:
    size = {"width": 390, "height": 844}
    opened = Opened(browser, page_file, viewport=size, color_scheme=scheme)
    page = opened.page
    for tab in page.locator("[role=tab]").all():
        tab.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    opened.context.close()
    assert opened.wrong == []
