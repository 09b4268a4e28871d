import math

import pytest

from eigenveil.papers.kpca import SpikedRate, StepDecay


def test_step_decay_falls_as_printed_before_and_after_the_cutoff():
    schedule = StepDecay(steps=10, cutoff=1 / 3, power=2.0)  # tau = 4
    assert schedule.rate(1) == pytest.approx(1 / 11)
    assert schedule.rate(4) == pytest.approx(1 / 14)
    assert schedule.rate(5) == pytest.approx((14 / 15) ** 2 / 15)
    assert schedule.rate(10) == pytest.approx((14 / 20) ** 2 / 20)


def test_spiked_rate_as_printed():
    schedule = SpikedRate(n=1000, noise=0.1, leading=2.0, gap=0.5)
    assert schedule.rate(3) == pytest.approx(1 / (4 + 1.5 / math.log(1000)))
    scaled = SpikedRate(n=1000, noise=0.1, leading=2.0, gap=0.5, factor=50)
    assert scaled.rate(3) == pytest.approx(1 / (200 + 1.5 / math.log(1000)))
