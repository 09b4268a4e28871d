"""How a release of components goes about it, decided from public numbers before anything is read.

Stages and their default shares of the budget (of mu^2, or of a pure epsilon): scales of columns
0.1; a centre 0.15, pure 0.25, or a mean of clipped rows 0.1, pure 0.2; a private radius 0.1 at
most; the rank 0.1; variances 0.05; the components what is left. Searches for a centre and for the
distance of variances come on top, each at most mu/3, or a tenth of a pure epsilon, and 64/n where n
is public.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

from eigenveil.mechanisms.additive import Allowance
from eigenveil.mechanisms.base import Procedure
from eigenveil.mechanisms.centred import CENTRE_SHARE, Centred, CentredResult, Uncentred
from eigenveil.mechanisms.located import SHARES, Located, distance_epsilon, enough_rows
from eigenveil.mechanisms.mean import PrivateMean
from eigenveil.mechanisms.paired import Paired
from eigenveil.mechanisms.pca.staged import RANK_SHARE, VARIANCE_SHARE, Staged, Variances
from eigenveil.mechanisms.ranged import RADIUS_SHARE, Ranged
from eigenveil.mechanisms.scalars.column_scale import ColumnScale
from eigenveil.mechanisms.scalars.quantile import PrivateQuantile
from eigenveil.mechanisms.scalars.rank import PrivateRank
from eigenveil.mechanisms.scalars.variances import PrivateVariances
from eigenveil.mechanisms.scaled import SCALE_SHARE, Scaled
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import whole_strength

__all__ = ["Centring", "Plan", "free_centring", "too_few"]

Centring = Literal["none", "mean", "located", "paired"]

_SEARCHABLE = 48.0  # epsilon times rows, at which a search fails once in twenty times
_MEAN_SHARES = {False: CENTRE_SHARE, True: 0.2}  # by whether the budget is pure


def free_centring(
    budget: Budget, *, pure: bool, n_rows: int | None, n_columns: int, private_scale: bool
) -> Centring:
    """The better centring of rows that are scaled to unit length."""
    if n_rows is None:
        return "located"
    if private_scale:  # columns may lie any number of their scales away
        return "paired"
    # The error of a located centre falls as n mu/sqrt(d); a distance needs n mu of about 200. A
    # pure mean has noise in the l1 norm, and a pure search a tenth of the budget.
    if pure:
        few = n_rows * whole_strength(budget, pure=True) < 700 + 64 * n_columns
    else:
        mu = whole_strength(budget, pure=False)
        few = n_rows * mu < max(192.0, 20 * math.sqrt(n_columns))
    return "paired" if few else "located"


def too_few(whole: Allowance, rows: int | None) -> bool:
    """Whether a search for a distance would mostly fail, as far as public numbers tell."""
    if rows is None:
        return False
    return rows == 0 or distance_epsilon(whole, rows) * rows < _SEARCHABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The stages of a release of components. Fields are public, never data.

    Attributes
    ----------
    pure : bool
        Whether the budget is an epsilon, not a mu.
    centring : Centring
        How the centre is found.
    normalise : bool
        Whether components are those of rows scaled to unit length.
    bounded : bool
        Whether rows are known to lie in a ball about the start.
    row_norm : float
        Where rows are clipped that are not normalised.
    n_rows : int, optional
        Where it is public.
    n_columns : int
        Number of columns.
    max_rank : int, optional
        For a private number of components.
    scale, variances, count : bool
        Whether scales, variances, or a count about a known centre are bought.
    lazy : bool
        Whether noise is drawn for products.
    radius : bool
        Whether a radius is bought that rows are clipped at.
    persons : bool
        Whether ``n_rows`` counts persons, who may own several.

    """

    pure: bool
    centring: Centring
    normalise: bool
    bounded: bool
    row_norm: float
    n_rows: int | None
    n_columns: int
    max_rank: int | None
    scale: bool
    variances: bool
    count: bool
    lazy: bool
    radius: bool = False
    persons: bool = False

    @property
    def n_differences(self) -> int | None:
        """Number of rows, or of pairs of them, that a search for a distance sees."""
        return None if self.n_rows is None else self.n_rows // self.rows_each

    @property
    def rows_each(self) -> int:
        """Rows that make one record: two where it is their difference."""
        return 2 if self.centring == "paired" else 1

    def too_few(self, whole: Allowance) -> bool:
        """Whether a search for a distance would mostly fail, as far as public numbers tell."""
        return too_few(whole, self.n_differences)

    @property
    def shares(self) -> dict[str, float]:
        """Of the budget, by stage."""
        shares = {}
        if self.scale:
            shares["scale"] = SCALE_SHARE
        if self.centring == "located":
            shares["centre"] = sum(SHARES[self.pure])
        elif self.centring == "mean" or self.count:
            shares["centre"] = _MEAN_SHARES[self.pure]
        if self.radius:
            shares["radius"] = RADIUS_SHARE
        if self.max_rank is not None:
            shares["rank"] = RANK_SHARE
        if self.variances:
            shares["variances"] = VARIANCE_SHARE
        shares["components"] = 1 - sum(shares.values())
        return shares

    @property
    def alone(self) -> bool:
        """Whether nothing else is bought."""
        return self.shares.keys() == {"components"} and self.centring in ("none", "paired")

    def components(self, whole: Allowance) -> Allowance:
        """What is left for the components."""
        return whole.part(self.shares["components"])

    def build(self, whole: Allowance, inner: Any) -> Procedure[CentredResult[Any]]:
        """All stages around ``inner``, which releases the components."""
        staged: Procedure[Any] = self._staged(whole, inner)
        if self.radius:
            staged = Ranged.build(whole, self.n_rows, staged)
        centred = self._centred(whole, staged)
        if not self.scale:
            return centred
        scale = ColumnScale(noise=whole.part(self.shares["scale"]).noise())
        return Scaled(scale=scale, inner=centred)

    def _staged(self, whole: Allowance, inner: Any) -> Staged:
        rank = variances = None
        if self.max_rank is not None:
            noise = whole.part(self.shares["rank"]).noise()
            rank = PrivateRank(noise=noise, max_rank=self.max_rank)
        if self.variances:
            epsilon = distance_epsilon(whole, self.n_differences)
            variances = Variances(
                distance=PrivateQuantile(epsilon=epsilon, level=0.5),
                values=PrivateVariances(noise=whole.part(self.shares["variances"]).noise()),
            )
        return Staged(
            inner=inner,
            normalise=self.normalise,
            rank=rank,
            variances=variances,
            lazy=self.lazy,
        )

    def _centred(self, whole: Allowance, inner: Procedure[Any]) -> Procedure[CentredResult[Any]]:
        if self.centring == "paired":
            return Paired(inner=inner)
        # Which rows a person owns is private: there is no sample of persons by position.
        share = 1.0 if self.persons else enough_rows(whole, self.n_rows, self.n_columns)
        if self.centring == "located":
            return Located.build(
                whole,
                self.n_rows,
                inner,
                bounded=self.bounded,
                share=share,
                directions=self.normalise,
            )
        if "centre" not in self.shares:
            return Uncentred(inner=inner, row_norm=self.row_norm)
        return Centred(
            mean=PrivateMean(noise=whole.part(self.shares["centre"]).noise()),
            inner=inner,
            row_norm=self.row_norm,
            fixed_centre=self.count,
            share=share,
        )
