"""A made-up table of hospital admissions, as messy as such tables are.

Fifteen columns: an id that some rows share, a date, two categories, and eleven measurements in
units of their own, with cells missing at random and values below a limit of detection written as
``<0.5``. Three latent traits of a person (age, build, inflammation) make the columns depend on one
another. Nobody in it exists, so that its exact means and correlations may be shown beside private
ones. The same size and seed give the same table under every version of NumPy.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidParameterError

_MEASUREMENTS = {  # mean, scale, decimals, share missing; loadings on age, build, inflammation, sex
    "age": (58.0, 16.0, 0, 0.0, (1.0, 0.0, 0.0, 0.0)),
    "height_cm": (170.0, 9.5, 0, 0.05, (-0.2, 0.4, 0.0, 0.7)),
    "weight_kg": (77.0, 15.0, 1, 0.03, (0.0, 0.8, 0.0, 0.4)),
    "systolic": (132.0, 17.0, 0, 0.0, (0.5, 0.3, 0.0, 0.1)),
    "diastolic": (79.0, 10.0, 0, 0.0, (0.2, 0.5, 0.0, 0.1)),
    "pulse": (76.0, 12.0, 0, 0.0, (-0.1, 0.2, 0.6, -0.1)),
    "glucose": (6.1, 1.4, 1, 0.08, (0.3, 0.5, 0.2, 0.0)),
    "creatinine": (84.0, 21.0, 0, 0.04, (0.6, 0.1, 0.1, 0.4)),
    "hemoglobin": (138.0, 15.0, 0, 0.04, (-0.3, 0.1, -0.4, 0.5)),
    "cholesterol": (5.1, 1.0, 1, 0.15, (0.1, 0.4, -0.2, -0.1)),
    "crp": (0.0, 0.4, 2, 0.10, (0.1, 0.1, 0.8, 0.0)),  # of its logarithm
}
_DETECTION_LIMIT = 0.5  # of crp, in mg/l
_WARDS = ("medicine", "surgery", "cardiology", "geriatrics", "burns")
_PERSONS_PER_ROW = 0.8
_SEX_MISSING = 0.01
_FIRST_DAY, _DAYS = date(2024, 1, 1), 730


class _Drawn(NamedTuple):
    """What chance decides: of persons ``ids`` and ``sexes``, all else of rows."""

    persons: NDArray[np.intp]
    values: NDArray[np.float64]
    ids: NDArray[np.int_]
    days: NDArray[np.int_]
    sexes: NDArray[np.int_]
    wards: NDArray[np.int_]
    lost: NDArray[np.bool_]  # of the sex and the measurements


@dataclass(frozen=True)
class Patients:
    """Admissions to a hospital.

    Parameters
    ----------
    n_rows : int
        Number of admissions; there are fewer persons, some of whom come again.
    seed : int
        Another seed is another hospital of the same kind.

    """

    n_rows: int = 20_000
    seed: int = 1

    def __post_init__(self) -> None:
        if self.n_rows < 1:
            raise InvalidParameterError("a table has at least one row")
        if not 0 <= self.seed < 2**32:
            raise InvalidParameterError("a seed is a whole number from 0 to 4294967295")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return ("patient_id", "admitted", "sex", "ward", *_MEASUREMENTS)

    @property
    def persons(self) -> NDArray[np.intp]:
        """The number of the person in each row."""
        return self._drawn.persons

    @property
    def measurements(self) -> NDArray[np.float64]:
        """The last eleven columns, before cells are lost."""
        return self._drawn.values

    def records(self) -> Iterator[list[str]]:
        """Yield the cells of each row, as text."""
        persons, values, ids, days, sexes, wards, lost = self._drawn
        decimals = [kind[2] for kind in _MEASUREMENTS.values()]
        for i, person in enumerate(persons):
            cells = [f"{value:.{p}f}" for value, p in zip(values[i], decimals, strict=True)]
            if values[i, -1] < _DETECTION_LIMIT:
                cells[-1] = f"<{_DETECTION_LIMIT}"
            admitted = _FIRST_DAY + timedelta(days=int(days[i]))
            yield [
                str(ids[person]),
                admitted.isoformat(),
                "" if lost[i, 0] else "fm"[sexes[person]],
                _WARDS[wards[i]],
                *("" if gone else cell for cell, gone in zip(cells, lost[i, 1:], strict=True)),
            ]

    @cached_property
    def _drawn(self) -> _Drawn:
        rng = np.random.RandomState(self.seed)  # whose streams are frozen, unlike default_rng's
        n = self.n_rows
        count = max(1, round(_PERSONS_PER_ROW * n))
        persons = np.concatenate([rng.permutation(count), rng.randint(count, size=n - count)])
        rng.shuffle(persons)
        ids = 100_000 + rng.permutation(9 * count)[:count]
        sexes = (rng.random_sample(count) < 0.48).astype(np.int_)
        traits = np.column_stack([rng.standard_normal((count, 3)), 2.0 * sexes - 1.0])[persons]
        loadings = np.array([kind[4] for kind in _MEASUREMENTS.values()])
        own = np.sqrt(np.maximum(1.0 - (loadings**2).sum(axis=1), 0.02))
        values = traits @ loadings.T + own * rng.standard_normal((n, len(loadings)))
        values *= [kind[1] for kind in _MEASUREMENTS.values()]
        values += [kind[0] for kind in _MEASUREMENTS.values()]
        values[:, 0] = np.clip(values[:, 0], 18.0, 99.0)
        values[:, -1] = np.exp(values[:, -1])
        for j, kind in enumerate(_MEASUREMENTS.values()):
            values[:, j] = np.round(values[:, j], kind[2])
        chances = np.array([0.38, 0.25, 0.2, 0.165, 0.005])
        wards = rng.choice(len(chances), size=n, p=chances)
        wards[(wards == 3) & (values[:, 0] < 60)] = 0  # nobody is young in geriatrics
        days = rng.randint(_DAYS, size=n)
        missing = [_SEX_MISSING, *(kind[3] for kind in _MEASUREMENTS.values())]
        lost = rng.random_sample((n, len(missing))) < missing
        return _Drawn(persons, values, ids, days, sexes, wards, lost)
