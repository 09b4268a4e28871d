"""A private mean, and what is released about it: cases."""

import numpy as np

from eigenveil.mechanisms import (
    Centred,
    GaussCov,
    GaussianNoise,
    LapCov,
    LaplaceNoise,
    PrivateMean,
    Uncentred,
)
from eigenveil.privacy.accounting import split
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


CASES = [
    case.Case(
        "mean",
        "mean",
        lambda mu, d, k: PrivateMean(noise=GaussianNoise(mu=mu)),
        read=_mean_entries,
        deviation=case.vector_sigma,
        **case.VECTOR,
    ),
    case.Case(
        "centred",
        "centred",
        _centred,
        read=case.centred_entries,
        **(case.VECTOR | {"run": case.procedure}),
    ),
    case.Case(
        "centred pure",
        "centred",
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
        "centred",
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
        "centred",
        lambda mu, d, k: Uncentred(inner=GaussCov(mu=mu), row_norm=1.0),
        read=case.centred_entries,
    ),
]
