"""A private mean, and what is released about it: cases."""

import numpy as np

from eigenveil.exact import Clip, OnCircles, total
from eigenveil.mechanisms import (
    Centred,
    GaussCov,
    GaussianNoise,
    LaplaceNoise,
    PrivateMean,
    Uncentred,
)
from eigenveil.papers.covrev import LapCov
from eigenveil.privacy import split
from tests.conformance import case


def _centred(mu, d, k):
    mean_mu, inner_mu = split(mu, (0.1, 0.9))
    return Centred(
        mean=PrivateMean(noise=GaussianNoise(mu=mean_mu)),
        inner=GaussCov(mu=inner_mu),
        row_norm=1.0,
    )


def _mean_entries(released):
    return np.append(released.offset, [] if released.count is None else released.count)


def _circle_total(rows, adjacency):
    """Return the sum of rows on circles of circumference 2: every row has the same length."""
    points = case.open_rows(rows).map(OnCircles(np.full(rows.shape[1], 2.0)))
    return total(points, Clip(row_norm=points.change.reach, on_invalid="zero"), adjacency)


def _half_a_turn_apart(d, adjacency):
    return np.zeros(d), None if adjacency is case.ADD else np.ones(d)


CASES = [
    case.Case(
        "mean",
        lambda mu, d, k: PrivateMean(noise=GaussianNoise(mu=mu)),
        read=_mean_entries,
        deviation=case.vector_sigma,
        **case.VECTOR,
    ),
    case.Case(
        "mean on circles",
        lambda mu, d, k: PrivateMean(noise=GaussianNoise(mu=mu)),
        query=_circle_total,
        run=case.one_step(_circle_total),
        read=lambda released: released.offset,
        norm="l2",
        sensitivity=case.MEAN,
        worst_pair=_half_a_turn_apart,
        proof="circle",
    ),
    case.Case(
        "centred",
        _centred,
        read=case.centred_entries,
        **(case.VECTOR | {"run": case.procedure}),
    ),
    case.Case(
        "centred pure",
        lambda epsilon, d, k: Centred(
            mean=PrivateMean(noise=LaplaceNoise(epsilon=0.1 * epsilon)),
            inner=LapCov(epsilon=0.9 * epsilon),
            row_norm=1.0,
        ),
        read=case.centred_entries,
        strength_of=case.pure_of,
        shows=False,
        **(case.VECTOR | case.VECTOR_L1 | {"run": case.procedure}),
    ),
    case.Case(
        "centred about a known centre",
        lambda epsilon, d, k: Centred(
            mean=PrivateMean(noise=LaplaceNoise(epsilon=0.1 * epsilon)),
            inner=LapCov(epsilon=0.9 * epsilon),
            row_norm=1.0,
            fixed_centre=True,
        ),
        read=case.centred_entries,
        norm="l1",
        sensitivity=case.UPPER_L1,
        worst_pair=case.all_entries,
        attained=0.95,
        adjacencies=(case.ADD,),  # the count is public otherwise
        shows=False,
        **case.PURE,
    ),
    case.Case(
        "uncentred",
        lambda mu, d, k: Uncentred(inner=GaussCov(mu=mu), row_norm=1.0),
        read=case.centred_entries,
    ),
]
