"""What a ledger granted and has spent, read one way by every face."""

from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal

_FOUR_DIGITS = Context(prec=4, rounding=ROUND_FLOOR)
_ROUNDING = Decimal("1.000000001")  # by which sums of floats may fall short
_WHY = (
    "that is more than the difference, {difference:g}, because Gaussian releases together cost "
    "less than the sum of their epsilons"
)


def rounded_down(value: float) -> float:
    """Return a number of four digits that is not larger."""
    if value <= 0:
        return 0.0
    # What is left of 2 after 1 is 1, and not the float below it.
    return float(_FOUR_DIGITS.create_decimal(Decimal(value) * _ROUNDING))


@dataclass(frozen=True, slots=True)
class Balance:
    """What a ledger granted and had spent when an entry was made, in its own notion.

    Attributes
    ----------
    notion : str
        ``"epsilon"`` or ``"rho"``.
    spent_before, spent, granted : float
        Before the entry, with it, and in total.
    delta : float, optional
        At which an epsilon is stated.
    largest_next : float, optional
        The most that one further release may ask for; None in releases of earlier versions.

    """

    notion: str
    spent_before: float
    spent: float
    granted: float
    delta: float | None = None
    largest_next: float | None = None

    def summary(self) -> str:
        """Say what was spent of what."""
        at_delta = "" if self.delta is None else f" at delta = {self.delta:g}"
        return f"spent {self.notion} = {self.spent:.6g} of {self.granted:g}{at_delta}"

    def brief(self) -> str:
        """Say what was spent and what one further release may ask for."""
        if self.largest_next is None:
            return self.summary()
        return f"{self.summary()}; largest next release: {self.notion} = {self.largest_next:g}"

    def reading(self) -> str:
        """Say the same, and why that is more than the difference where it is."""
        return "; ".join(filter(None, (self.brief(), self.why())))

    def why(self) -> str:
        """Say why the largest next release is more than what was not spent; empty if it is not."""
        difference = rounded_down(self.granted - self.spent)
        if self.largest_next is None or self.largest_next <= difference:
            return ""
        return _WHY.format(difference=difference)
