"""The page for people: the numbers drawn are those of the release, and nothing else gets in."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from eigenveil import Ledger, PrivateCovariance, PrivatePCA, Release
from eigenveil.cli.summary import components as components_table
from eigenveil.cli.summary import headline
from eigenveil.exceptions import ColumnsLeftOutWarning
from eigenveil.privacy import Balance
from eigenveil.report import left_out
from eigenveil.report.page import promise, render
from tests.release.samples import HOSTILE, components, covariance, guarantee, regression

VOID = {"meta", "rect", "path"}


class Page(HTMLParser):
    """Elements with their attributes and text; fails on tags that do not match."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements = [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        element = {"tag": tag, "text": "", "inside": tuple(e["tag"] for e in self.open)}
        element |= dict(attrs)
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag in VOID:  # a rect may hold a title
            return
        assert self.open.pop()["tag"] == tag

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data


def page(release, **options):
    return render(release.guarantee, release.as_dict(), release.arrays, **options)


def drawing(text, title):
    """The SVG of that title."""
    found = re.findall(rf"<svg[^>]*><title>{title}.*?</svg>", text, re.DOTALL)
    narrow = [svg for svg in found if 'class="narrow"' in svg[:80]]  # the same for a phone
    assert len(found) - len(narrow) == 1
    return next(svg for svg in found if svg not in narrow)


def bars(svg, look):
    """Position and size of the rectangles of one look."""
    found = []
    for tag in re.findall(r"<rect[^>]*>", svg):
        attributes = dict(re.findall(r'([\w-]+)="([^"]*)"', tag))
        if attributes["class"] == look:
            found.append({k: float(attributes.get(k, 0)) for k in ("x", "y", "width", "height")})
    return found


DIRECTIONS = np.array([[0.8, -0.6, 0.0], [0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])
MATRIX = np.array([[4.0, 2.0, -1.0], [2.0, 4.0, 0.0], [-1.0, 0.0, 1.0]])


ROWS = np.random.default_rng(1).standard_normal((60, 5))
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
CLIPPED = {"bounds": (-3, 3), "row_norm": 4.0, "centring": "mean", "adjacency": "add-remove"}
NAMED = {"feature_names": list(HOSTILE[:3])}
FITTED = {
    "components": PrivatePCA(3, **BUDGET),
    "bounded": PrivatePCA(3, **BUDGET, row_norm=2.0),
    "exponential": PrivatePCA(2, **BUDGET, mechanism="exponential"),
    "clipped": PrivatePCA(1, **BUDGET, **CLIPPED),
    "covariance": PrivateCovariance(**BUDGET, bounds=(-3, 3)),
    "gauss": PrivateCovariance(**BUDGET, row_norm=2.0, mechanism="gauss"),
    "zero": PrivateCovariance(**BUDGET, row_norm=2.0, mechanism="zero"),
}


@pytest.mark.parametrize("kind", FITTED)
def test_every_page_of_a_fit_is_whole_safe_and_accessible(kind):
    assert_whole(page(clone(FITTED[kind]).fit(ROWS).release_))


def test_pages_with_hostile_names_or_a_ledger_are_whole_safe_and_accessible():
    assert_whole(page(components(DIRECTIONS, [3, 2, 1], **NAMED)))
    assert_whole(page(covariance(MATRIX, **NAMED)))
    then, now = Balance("rho", 0.1, 0.2, 1.0), Balance("rho", 0.3, 0.5, 1.0)
    assert_whole(page(covariance(MATRIX), balance=then, now=now))


def assert_whole(text):
    parsed = Page(text)
    tags = {element["tag"] for element in parsed.elements}
    assert not tags & {"script", "img", "iframe", "object", "link", "form", "a", "image", "use"}
    keys = {key for element in parsed.elements for key in element}
    assert not keys & {"src", "href", "xlink:href", "srcset", "action"}
    assert not {key for key in keys if key.startswith("on")}
    assert not re.search(r"https?:|url\(|@import|data:", text)
    assert "default-src 'none'; style-src 'unsafe-inline'" in text
    drawings = [e for e in parsed.elements if e["tag"] == "svg" and e.get("role") == "img"]
    described = [e for e in parsed.elements if e["tag"] == "desc" and e["inside"][-1] == "svg"]
    assert len(described) == len(drawings)
    assert all(e["text"] for e in described)
    headers = [e for e in parsed.elements if e["tag"] == "th"]
    assert headers
    assert all(e["scope"] in ("row", "col") for e in headers)
    assert len([e for e in parsed.elements if e["tag"] == "h1"]) == 1
    assert "nan" not in re.sub(r"<style>.*?</style>", "", text).lower().replace("covariance", "")
    assert "eigenveil verify FOLDER --fingerprint" in text


def test_hostile_names_are_shown_and_do_nothing():
    text = page(components(DIRECTIONS, [3, 2, 1], feature_names=list(HOSTILE[:3])))
    assert "<script" not in text
    assert "<img" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;: 0.8" in text
    assert "a &amp; &#x27;b&#x27;" in text


def test_the_bars_of_the_scree_plot_are_the_eigenvalues():
    release = components(DIRECTIONS, [3.0, 1.5, 0.05], clear=[1, 1, 0], noise_floor=0.5)
    svg = drawing(page(release), "Scree plot")
    clear, faint = bars(svg, "clear"), bars(svg, "faint")
    unit = clear[0]["height"] / 3.0
    assert clear[1]["height"] == pytest.approx(1.5 * unit, abs=0.1)
    assert [bar["height"] for bar in faint] == [pytest.approx(0.05 * unit, abs=0.1)]
    (zone,) = bars(svg, "zone")
    assert zone["height"] == pytest.approx(0.1 * unit, abs=0.1)
    base = clear[0]["y"] + clear[0]["height"]
    lines = [float(y) for y in re.findall(r'd="M60 ([\d.]+)H\d+" class="level"', svg)]
    assert lines == pytest.approx([base - 0.1 * unit, base - 0.5 * unit], abs=0.2)
    assert ">noise floor<" in svg
    assert ">with centre<" in svg


@pytest.mark.parametrize(
    ("values", "clear", "words"),
    [
        ([3, 2, 1], [1, 1, 1], "Every released eigenvalue lies above that."),
        ([3, 0.05, 0.01], [1, 0, 0], "1 of the 3 released ones does; the others"),
        ([0.05, 0.04, 0.01], [0, 0, 0], "No released eigenvalue does"),
        ([3, 0.15, 0.01], [1, 0, 0], "up to 0.2: number 2 is taken for it."),
    ],
)
def test_the_verdict_in_words(values, clear, words):
    text = page(components(DIRECTIONS, values, clear=clear, noise_floor=0.2))
    assert words in text
    assert f"<b>{sum(clear)} of 3 components {'is' if sum(clear) == 1 else 'are'} clear" in text


def test_many_eigenvalues_are_cut_and_negative_ones_counted():
    values = np.concatenate([np.linspace(5, 0.2, 40), -np.ones(5)])
    text = page(covariance(np.diag(values), noisy=values))
    assert "The largest 40 are drawn. 5 are negative" in text
    svg = drawing(text, "Scree plot")
    assert len(bars(svg, "clear")) + len(bars(svg, "faint")) == 40
    assert "released eigenvalues, from 5 to 0.2" in svg


def test_the_number_on_a_bar_is_lifted_off_the_line():
    svg = drawing(page(components([[1.0, 0.0]], [0.099], clear=[0])), "Scree plot")
    (line,) = re.findall(r'd="M60 ([\d.]+)H\d+" class="level"', svg)
    (number,) = re.findall(r'y="([\d.]+)" text-anchor="middle" class="over">0.099', svg)
    assert float(number) == pytest.approx(float(line) - 6, abs=0.2)


def test_reliability_is_drawn_and_said():
    text = page(components(DIRECTIONS, [3, 2, 1], reliability=[1.0, 0.5, 0.0], clear=[1, 1, 0]))
    assert 'width="200.0" height="14" class="clear"' in text
    assert 'width="0.0" height="14" class="clear"' not in text  # hatched, not measured
    assert '<td class="number">50 %</td><td class="verdict soft">clear</td>' in text
    assert '<td class="verdict no">not clear</td>' in text


MIXED = [[0.98, 0.01, 0.0], [0.01, 0.6, 0.38], [0.0, 0.37, 0.61]]


def test_single_components_replace_the_span():
    release = components(DIRECTIONS, [3, 2, 1], reliability=[0.9, 0.9, 0.9], mixing=MIXED)
    text = page(release)
    assert "<h3>Reproducibility</h3>" in text
    assert "Reliability" not in text
    assert '<td class="number">98 %</td><td class="verdict soft">clear</td>' in text
    assert '<td class="number">60 %</td>' in text
    told = "omponents 2 and 3 cannot be told apart; together 98 %"
    assert f"<p>C{told}.</p>" in text
    assert "with reproducibilities from 60" in text.replace("\N{NO-BREAK SPACE}", " ")
    card = release._repr_html_()
    assert "<th>reproducibility</th>" in card
    assert f"<p>c{told}</p>" in card
    assert components_table(release)[0].split() == [
        "component",
        "share",
        "together",
        "reproducibility",
        "largest",
        "certain",
        "loadings",
    ]
    assert components_table(release)[-1] == f"c{told}"


def test_a_component_that_nothing_is_stated_of():
    mixing, errors = np.array(MIXED), np.full((3, len(DIRECTIONS[0])), 0.1)
    mixing[2], errors[2] = np.nan, np.nan
    release = components(DIRECTIONS, [3, 2, 1], mixing=mixing, errors=errors)
    text = page(release)
    assert "nan" not in text.lower()
    assert "<p>It is not known whether components 2 and 3 can be told apart.</p>" in text
    assert "not stated" in components_table(release)[3]


def test_loadings_are_drawn_with_their_standard_errors():
    mixing = [[0.99]]
    release = components([[0.8, 0.6]], [3], mixing=mixing, errors=np.array([[0.1, 0.3]]))
    text = page(release)
    svg = drawing(text, "Loadings of component 1")
    assert "0.8 ± 0.1</title>" in svg
    assert "0.6 ± 0.3</title>" in svg
    assert svg.count('class="clear"') == 1  # the sign of the other is not certain
    assert svg.count('class="faint"') == 1
    assert 'class="zone"' not in svg
    lines = re.findall(r'd="M([\d.]+) [\d.]+H([\d.]+)" class="arrow"', svg)
    lengths = [float(end) - float(start) for start, end in lines]
    assert lengths[1] == pytest.approx(3 * lengths[0], rel=0.02)
    assert "one standard error" in text


def test_more_than_forty_components_are_cut():
    text = page(components(np.eye(45), np.ones(45)))
    assert "The first 40 are shown." in text
    assert "component </span>40<" in text
    assert "component </span>41<" not in text


def test_the_bars_of_loadings_are_the_loadings():
    release = components(
        [[0.8, -0.6, 0.02], [0.0, 0.0, 1.0]],
        [3, 2],
        reliability=[0.999, 1.0],
        feature_names=["height", "weight", "age"],
    )
    svg = drawing(page(release), "Loadings of component 1")
    assert "<title>height: 0.8</title>" in svg
    (plus, minus), (grey,) = (bars(svg, look) for look in ("clear", "faint"))
    assert plus["width"] / minus["width"] == pytest.approx(0.8 / 0.6, rel=0.01)
    assert plus["width"] / grey["width"] == pytest.approx(40, rel=0.05)
    assert minus["x"] + minus["width"] == pytest.approx(plus["x"], abs=0.2)
    other = drawing(page(release), "Loadings of component 2")
    assert bars(other, "clear")[0]["width"] / plus["width"] == pytest.approx(1 / 0.8, rel=0.1)


def test_only_components_that_stand_out_have_loadings():
    text = page(components(DIRECTIONS, [3, 2, 1], clear=[0, 1, 0]))
    assert "Loadings of component 2" in text
    assert "Loadings of component 1" not in text
    none = page(components(DIRECTIONS, [3, 2, 1], clear=[0, 0, 0]))
    assert "No component stands out from the noise" in none
    assert "Loadings of" not in none


def test_at_most_six_components_of_twelve_columns():
    text = page(components(np.eye(20)[:8], np.arange(8, 0, -1.0)))
    assert text.count("<h3>Component") == 6
    assert "The first 6 that stand out are drawn." in text
    assert "The 12 largest of 20 loadings" in text
    assert len(re.findall("<g><title>", drawing(text, "Loadings of component 6"))) == 12


def cells(svg, d):
    """The matrix that the map of correlations shows."""
    shown = np.full((d, d), np.nan)
    for path, look, opacity in re.findall(
        r'<path d="([^"]*)" class="(paper|clear|minus)"(?: fill-opacity="([\d.]+)")?/>', svg
    ):
        for x, y, width, back in re.findall(r"M(\d+) (\d+)h(\d+)v1h-(\d+)z", path):
            assert width == back
            sign = {"paper": 0, "clear": 1, "minus": -1}[look]
            value = sign * float(opacity or 0)
            shown[int(y), int(x) : int(x) + int(width)] = value
    return shown


def test_the_map_shows_the_correlations():
    factors = np.random.default_rng(5).standard_normal((30, 8))
    release = covariance(factors @ factors.T)
    svg = drawing(page(release), "Map of released correlations")
    spread = np.sqrt(np.diag(factors @ factors.T))
    expected = factors @ factors.T / np.outer(spread, spread)
    assert np.abs(cells(svg, 30) - expected).max() <= 0.5 / 20 + 1e-9


def test_small_maps_hold_numbers_and_every_map_its_strongest_pairs():
    text = page(covariance(MATRIX, feature_names=["a-b", "c", "d"]))
    svg = drawing(text, "Map of released correlations")
    assert len(re.findall(">0.50<", svg)) == 2
    assert len(re.findall(">−0.50<", svg)) == 2
    assert '<th scope="row">a-b</th><td>c</td><td class="number">+0.50 ± ' in text
    assert '<td class="number">−0.50 ± ' in text


def test_what_a_map_cannot_show_is_said():
    matrix = np.array([[1.0, 1.4, 0.1], [1.4, 1.0, 0.1], [0.1, 0.1, -0.2]])
    text = page(covariance(matrix, noise_floor=10.0))
    assert "cannot be told from noise are blank" in text
    assert "beyond ±1" in text
    assert "what the map shows may be noise" in text
    shown = cells(drawing(text, "Map of released correlations"), 3)
    assert np.isnan(shown[2]).all()
    assert shown[0, 1] == 1


@pytest.mark.parametrize("floor", [0.0, 0.1])
def test_a_zero_matrix_has_no_map(floor):
    text = page(covariance(np.zeros((3, 3)), noise_floor=floor, noisy=[0.05, 0, 0]))
    assert "so no map is drawn" in text
    assert "<b>0 of 3 eigenvalues are clear of noise</b>" in text
    assert ("This is the zero matrix, which says nothing" in text) == (floor == 0)


def test_columns_without_correlation_have_no_strongest_pair():
    text = page(covariance(np.eye(2)))
    assert "Strongest pairs" not in text
    assert "Strongest: none." in text


def test_a_wide_covariance_shows_sixty_columns_and_stays_small():
    d = 500
    factors = np.random.default_rng(2).standard_normal((d, 20)) * np.linspace(1, 2, d)[:, None]
    names = [f"a rather long name of a column, number {i}" for i in range(d)]
    text = page(covariance(factors @ factors.T, feature_names=names, noisy=np.ones(d)))
    assert "The 60 columns with the largest released variance, of 500, are drawn." in text
    assert len(text.encode()) < 300_000
    assert cells(drawing(text, "Map of released correlations"), 60).shape == (60, 60)


def test_ten_thousand_columns_stay_small():
    d, k = 10_000, 50
    rows = np.random.default_rng(3).standard_normal((k, d)) / 100
    names = [f"a rather long name of a column, number {i}" for i in range(d)]
    text = page(components(rows, np.arange(k, 0, -1.0), feature_names=names))
    assert len(text.encode()) < 300_000


def test_the_bar_of_the_budget_is_cut_where_it_was_spent():
    balance = Balance("epsilon", 1.0, 1.5, 4.0, 1e-6)
    text = page(covariance(MATRIX), balance=balance)
    svg = drawing(text, "Budget of the ledger, epsilon = 4")
    whole = bars(svg, "track")[0]
    before, this = bars(svg, "spent")[0], bars(svg, "clear")[0]
    assert before["width"] == pytest.approx(whole["width"] / 4, abs=0.1)
    assert this["width"] == pytest.approx(whole["width"] / 8, abs=0.1)
    assert this["x"] == pytest.approx(before["x"] + before["width"], abs=0.1)
    assert "not spent 2.5" in text
    assert "spent epsilon = 1.5 of 4 at delta = 1e-06" in text
    later = page(covariance(MATRIX), balance=balance, now=Balance("epsilon", 2.0, 3.0, 4.0, 1e-6))
    svg = drawing(later, "Budget of the ledger")
    assert "spent since 1.5" in svg
    assert "not spent 1<" in later
    assert "When this page was written the ledger of this table had spent epsilon = 3 of 4" in later


def test_a_release_knows_what_its_ledger_had_spent(tmp_path):
    rows = np.random.default_rng(4).standard_normal((50, 3))
    ledger = Ledger.create(tmp_path / "l", rho=1.0)
    asked = {"rho": 0.25, "row_norm": 3.0, "ledger": ledger}
    PrivateCovariance(**asked).fit(rows)
    release = PrivatePCA(2, **asked).fit(rows).release_
    spent = {"spent_before": 0.25, "spent": 0.5, "granted": 1.0, "largest_next": 0.5}
    stated = release.settings["ledger"]
    assert stated == {"notion": "rho", "delta": None} | {
        name: pytest.approx(value) for name, value in spent.items()
    }
    folder = release.save(tmp_path / "release")
    assert "spent rho = 0.5 of 1; largest next release: rho = 0.5" in (
        folder / "report.html"
    ).read_text("utf-8")
    assert Release.verify(folder).settings["ledger"] == stated


def test_without_a_ledger_no_budget_is_drawn():
    release = PrivateCovariance(rho=1.0, row_norm=1.0).fit(np.ones((9, 2))).release_
    assert "ledger" not in release.settings
    assert "What it cost" not in page(release)


def test_why_a_mechanism_was_chosen_is_said_where_it_is_known():
    assert "why this mechanism" not in page(covariance(MATRIX))
    text = page(covariance(MATRIX, choice="least error <expected> of 3"))
    assert ">why this mechanism</th><td>least error &lt;expected&gt; of 3</td>" in text


def test_a_simulation_is_named_in_the_title_and_warned_of():
    text = page(covariance(MATRIX, simulated=True))
    assert "<title>Private covariance (simulation)</title>" in text
    assert "Do not publish." in text
    assert "Do not publish." not in page(covariance(MATRIX))


def test_a_private_number_of_rows_is_not_shown():
    assert "from a private number of rows." in page(covariance(MATRIX, n_rows=None))


def test_the_promise_is_a_part_of_the_page_word_for_word():
    assert promise(guarantee()) in page(covariance(MATRIX))


def test_five_questions_are_answered_first():
    text = page(covariance(MATRIX).described(title="Heights <2026>", purpose="audit"))
    asked = re.findall(r"<dt>([^<]*\?)</dt>", text)
    assert asked[0] == "What is it?"
    assert len(asked) == 5
    assert "<h1>Heights &lt;2026&gt;</h1>" in text
    assert "<b>The covariance matrix of 3 columns</b>, from 1,000 rows. It estimates the" in text
    assert "were pulled in to it. For: audit." in text
    assert "becomes at most 73.2\N{NO-BREAK SPACE}% (epsilon = 1, delta = 1e-06)" in text
    assert text.index("What is it?") < text.index("What is promised") < text.index("Signatures")


def test_a_simulation_may_not_be_shared():
    text = page(components(DIRECTIONS, [3, 2, 1], simulated=True))
    assert "<b>Nobody</b>" in text
    assert "<b>No</b>: it is a simulation." in text


def test_those_who_sign_are_named():
    text = page(covariance(MATRIX).described(owner="A. Owner", approver="B & C"))
    assert "Data owner: <b>A. Owner</b>" in text
    assert "Approver: <b>B &amp; C</b>" in text
    assert "Data owner: name" in page(covariance(MATRIX))


def test_shares_add_up_and_noise_is_not_interpreted():
    text = page(components(DIRECTIONS, [3, 2, 5], clear=[1, 1, 0]))
    cells = re.findall(r'data-label="(?:share|together)">([^<]*)<', text)
    assert cells == ["30.0 %", "30.0 %", "20.0 %", "50.0 %", "50.0 %", "100.0 %"]
    assert text.count("not clear of noise: do not interpret") == 1


def test_columns_have_their_means_and_scales():
    rows = np.random.default_rng(6).standard_normal((900, 2)) * [1, 50] + [3, 100]
    budget = {"epsilon": 50.0, "delta": 1e-6, "random_state": 0}
    text = page(PrivatePCA(1, **budget, scale="private").fit(rows).release_)
    assert "Standard deviations were released" in text
    numbers = r'<code>x1</code><span class="number">([^<]*)</span><[^>]*>([^<]*)'
    ((mean, scale),) = re.findall(numbers, text)
    mean, noise = mean.split(" ± ")
    assert float(mean) == pytest.approx(100, abs=10)
    assert 0 < float(noise) < 10
    assert float(scale) == pytest.approx(50, rel=0.1)
    named = page(PrivatePCA(1, **budget, scale="private", mechanism="spherical").fit(rows).release_)
    assert "Scales were found privately" in named
    told = "It is about columns in units of their private scales."  # of reliability
    assert told in named
    assert told not in text
    assert "noise on a mean, and of nothing else" in text
    plain = page(PrivatePCA(1, **budget, centring="paired").fit(rows).release_)
    assert "Means were not released" in plain
    assert told not in plain
    assert '<li class="one"><code>x1</code></li>' in plain
    # The heading is wider than its numbers: on one line it would run into the next list.
    assert '<span class="number">standard deviation</span>' in text
    assert ".columns li.head .number { white-space: normal; }" in text


def test_a_column_left_out_is_named_at_the_top_and_has_no_numbers():
    rows = np.random.default_rng(6).standard_normal((900, 3)) * [1, 50, 0] + [3, 100, 7]
    frame = pd.DataFrame(rows, columns=["age", "cost", "<ward>"])
    budget = {"epsilon": 50.0, "delta": 1e-6, "random_state": 0}
    with pytest.warns(ColumnsLeftOutWarning, match="<ward>"):
        release = PrivatePCA(1, **budget, mechanism="tangent", scale="private").fit(frame).release_
    text = page(release)
    assert "1 principal component of 2 of 3 columns" in text
    assert "Left out (no scale found): &lt;ward&gt;." in text
    numbers = r"<code>&lt;ward&gt;</code>(.*?)</li>"
    (cells,) = re.findall(numbers, text)
    assert re.findall(r">([^<]+)<", cells) == ["left out", "left out"]
    assert left_out(release.settings, release.arrays) == ("<ward>",)
    assert "1 principal component of 2 of 3 columns, without <ward> (no scale found)" in headline(
        release
    )


def test_pixels_are_drawn_as_images():
    rows = np.eye(6)[:2]
    release = components(rows, [2, 1], clear=[1, 0]).described(image=(2, 3))
    text = page(release)
    assert "Component 2 as an image" not in text
    assert "Loadings of" not in text
    svg = drawing(text, "Component 1 as an image")
    assert 'viewBox="0 0 3 2"' in svg
    assert '<path d="M0 0h1v1h-1z" class="clear" fill-opacity="1"/>' in svg


def test_a_phone_has_drawings_of_its_own():
    text = page(components(DIRECTIONS, [3, 2, 1]))
    assert text.count('class="narrow"><title>Scree plot, narrow') == 1
    assert 'viewBox="0 0 340 260"' in text


def test_means_alone_have_no_coefficients_and_no_means_of_features():
    """What was not estimated is said to be so, not shown as zero."""
    never = [np.inf, np.inf]
    release = regression(
        [[0.0, 0.0]] * 2,
        [3.25, 4.0],
        [[*never, np.inf], [*never, 0.5]],
        shares={"offset": 1.0},
        noise_scale=0.0,
        feature_names=["waist", HOSTILE[0]],
        target_names=["price", HOSTILE[1]],
    )
    page = release.page()
    seen = " ".join(" ".join(element["text"] for element in Page(page).elements).split())
    assert "Coefficients were not estimated" in seen
    assert "price 3.25 not known" in seen
    assert f"{HOSTILE[1]} 4 3.5 to 4.5" in seen
    assert "Nothing was estimated of the other 2 columns." in seen
    for absent in ("waist", "Means are private", "Gram", "told from zero", "stands out", "coef 2"):
        assert absent not in seen, absent
    assert "mean or median of 2 targets alone" in repr(release)
