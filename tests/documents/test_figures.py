"""Numbers in sentences come from benchmarks: they are written by a command, never typed."""

import re

import pytest

from tests.documents.figures import FIGURES, MARK, PAGES, ROOT, marked

TABLE = re.compile(r"<!-- \w+: python -m tests\.documents --write -->.*?<!-- end -->", re.DOTALL)
FENCE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
# What was measured is a share, a ratio, a time, a size or a number of cells. Settings that were
# chosen have an equals sign; versions have two points.
SETTING = re.compile(r"\w+ = [\d.e-]+(?:(?:,| and| to| or) [\d.e-]+)*|\d+\.\d+\.\d+")
TYPED = re.compile(
    r"\b[\d.]+ (?:%|times\b|s\b|seconds\b|minutes\b|ms\b|[MG]i?B\b|cells\b)|(?<![\w.])\d?\.\d+\b"
)


def typed(text):
    """Return measurements that were typed into paragraphs which name a benchmark."""
    text = FENCE.sub("", TABLE.sub("", text))
    found = []
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*[-*|] )", text):
        if "bench_" in paragraph or "benchmarks/" in paragraph:
            words = re.sub(r"`[^`]*`|\]\([^()]*\)", " ", MARK.sub(" ", paragraph))
            found += [match[0] for match in TYPED.finditer(SETTING.sub(" ", words))]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_figures_are_up_to_date(page):
    text = page.read_text("utf-8")
    assert marked(text) == text, "python -m tests.documents --write"
    # Markdown takes a line that begins with a comment for HTML, to its end.
    assert not re.search(r"^[\s>*+-]*<!--=", text, re.MULTILINE)
    assert not re.findall(r"<!--=(?![\w.-]+-->[^<>\n]*<!---->)", text), "a mark is not closed"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_measurement_is_typed_by_hand(page):
    assert not typed(page.read_text("utf-8")), "make a figure or a table of it"


@pytest.mark.parametrize(
    "said",
    ["97 % of them", "1.3 times the error", ".998 of the variance", "taken 12.5 s", "9 cells"],
)
def test_a_typed_measurement_is_found(said):
    assert typed(f"# Title\n\nIt has {said} (`benchmarks/bench_x.py`).\n")
    assert not typed(f"# Title\n\nIt has {said}, and no benchmark.\n")


@pytest.mark.parametrize(
    "said",
    [
        "at epsilon = 0.5 and delta = 1e-6",
        "ε = 0.5, 1 and 2",
        "<!--=auto.near-->94 %<!----> of <!--=auto.cells-->267<!----> cells",
        "50 repeats of 1,000 x 20 rows",
        "with PyTorch 2.11.0",
    ],
)
def test_settings_and_marks_are_no_typed_measurements(said):
    assert not typed(f"It was run {said} (`benchmarks/bench_x.py`).")


def test_figures_have_the_form_of_numbers():
    for name, figure in FIGURES.items():
        assert re.fullmatch(r"(?=.*\d)[\d,]*\.?\d*(?: %)?", figure()), name
