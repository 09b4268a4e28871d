r"""Deflation: components one after the other, each on records of its own.

Source: Düngler, Sanyal 2025 (k-DP-PCA and k-DP-Ojas), the baselines of [kPCA].

The records are divided into k equal parts. On part j a method for one component looks for the
leading direction of

.. math:: (I - V_j V_j') M (I - V_j V_j')

with V_j the directions found before. A record A enters as (I - V_j V_j') A w, before anything of it
is bounded, and what is released is projected likewise: a function of one record and of released
vectors. Each record is in one part, so that all parts together cost what one does.
Proof: docs/proofs/deflation.md.

Differences from the source
---------------------------
1. Eigenvalues come from the last batch of each part.
2. The components are orthonormal to the last digits: each is projected again.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from eigenveil.exact.batches import Batches, check_batches, count_records
from eigenveil.exact.clip import Clip
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.mechanisms.components import NoisyComponents
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.registry import BuildContext, ComponentMechanism
from eigenveil.messages import option
from eigenveil.numerics.spectral import signed
from eigenveil.papers.dppca.dp_pca import DPPCA
from eigenveil.papers.dppca.shuffled_oja import ShuffledOja
from eigenveil.privacy.cost import Allotment, Cost
from eigenveil.rows.base import RowSource
from eigenveil.rows.derived import shuffled
from eigenveil.rows.matrices import MatrixSource
from eigenveil.text import plural


@dataclass(frozen=True, kw_only=True)
class Deflation(ComponentMechanism):
    """Components one after the other, each on records of its own.

    Attributes
    ----------
    inner : DPPCA or ShuffledOja
        The method for one component: k-DP-PCA, the default, or k-DP-Ojas.

    """

    name = "deflation"
    about = "dp-pca, one component after the other"
    source = "k-DP-PCA and k-DP-Ojas: Düngler, Sanyal 2025"
    reads_once = False
    unit_rows = True
    batches = True
    needs_delta = True
    unpredicted = "is not predicted: 'oja' needs fewer rows and lost a thousandth as much"
    inner: DPPCA | ShuffledOja = field(default_factory=DPPCA)

    def at(self, strength: Allotment, context: BuildContext) -> Self:
        """Return the mechanism that runs at a strength, the mu of which is an epsilon."""
        rows = None if context.n_rows is None else context.n_rows // context.n_components
        one = self.inner.at(strength, replace(context, n_components=1, n_rows=rows))
        return replace(super().at(strength, context), inner=one)

    def cost(self) -> Cost:
        """Return the cost on one part of the records, and so on all."""
        return self.inner.cost()

    def check_records(self, d: int, n: int | None, rows_each: int = 1) -> None:
        """Refuse too few, before anything is charged; a message counts rows."""
        if n is None:
            raise InvalidDataError(
                f"{self.name!r} divides the records among components and must know their number: "
                "give a table that can be read twice, or choose ",
                option("mechanism", "adaptive-oja"),
            )
        if n < self.n_components:
            raise InvalidDataError(f"{self.name!r} needs a record at least for every component")
        try:
            self.inner.check_records(d, n // self.n_components, rows_each)
        except InvalidDataError as error:
            raise InvalidDataError("for each of its components ", *error.args) from None

    def run(self, source: RowSource | MatrixSource, clip: Clip, gate: Gate) -> NoisyComponents:
        """Return the leading components about the centre of ``clip``."""
        d, k = source.n_columns, self.n_components
        if k > d:
            raise InvalidParameterError(
                f"a table of {d} {plural('column', d)} has no more than {d} "
                f"{plural('component', d)}"
            )
        check_batches(gate.protects, gate.adjacency)
        n = count_records(source) if source.rereadable else None
        self.check_records(d, n)
        assert n is not None  # checked
        size = n // k
        reader = Batches(shuffled(source, gate.order, clip.check), gate.adjacency)
        found = np.empty((0, d))
        values, deviations = np.empty(0), np.empty(0)
        for _ in range(k):
            records = reader.take(size)
            assert records is not None  # counted above
            direction, value, deviation = self.inner.direction(records, clip, gate, found)
            direction = direction - found.T @ (found @ direction)
            found = np.vstack([found, direction / np.linalg.norm(direction)])
            values, deviations = np.append(values, value), np.append(deviations, deviation)
        trace = clip.known_trace
        if math.isnan(trace):
            found_trace = float(np.maximum(values, 0.0).sum())
            # Unit rows near the centre are shorter: a bound, unless nothing is left out.
            trace = clip.row_norm**2 if clip.normalise and k < d else found_trace
        return NoisyComponents(
            components=signed(found),
            eigenvalues=values,
            trace=trace,
            noise_scale=float(deviations.max()),
            law=None,
            reliability=np.zeros(k),  # what earlier directions were off by is not known
        )
