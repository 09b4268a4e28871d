"""Charts hold what both renderers draw."""

import numpy as np
from matplotlib.figure import Figure

from eigenveil.report import Level, ScreeDisplay, scree, spectrum
from tests.release.samples import components


def chart_of(values, most=40, **settings):
    release = components(np.eye(3), values, clear=[1, 0, 0], **settings)
    return scree(spectrum("pca", release.settings, release.arrays), most)


def test_the_level_with_the_centre_is_drawn_where_it_has_room():
    near, far = (chart_of([3, 0.12, 0.05], noise_floor=floor) for floor in (0.2, 9.0))
    assert [level.value for level in near.of(Level)] == [0.1, 0.2]
    assert [level.name for level in near.of(Level)] == ["noise floor", "with centre"]
    assert len(far.of(Level)) == 1


def test_the_summary_tells_what_is_drawn():
    chart = chart_of([3, 0.12, 0.05], most=2, noise_floor=0.2)
    assert "largest 2 released eigenvalues, from 3 to 0.12" in chart.summary
    assert "1 of them stands out" in chart.summary


def test_a_display_draws_a_chart_as_it_is():
    shown = ScreeDisplay(chart_of([3, 0.12, 0.05], most=2, noise_floor=0.2)).plot(
        Figure().subplots()
    )
    assert [bar.get_height() for bar in shown.bars_] == [3, 0.12]
    assert len(shown.levels_) == 2
