r"""A noisy matrix drawn towards a target that has less noise and may be wrong.

.. math:: T + f\,(Y - T), \qquad f = \max\Bigl(0,\; 1 - \frac{E|N|^2}{|Y - T|^2}\Bigr)

for Y = S + N with noise N of known energy (James, Stein 1961; the best weight, with the energy of
T - S estimated by what |Y - T|^2 has more than the noise). Where the target is right, it is kept;
where noise is faint, the noisy matrix is. Post-processing.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["drawn_towards", "weight_of_noisy"]


def drawn_towards(
    target: NDArray[np.float64], noisy: NDArray[np.float64], energy: float
) -> NDArray[np.float64]:
    """Return the noisy matrix, drawn towards the target; ``energy`` is that of its noise."""
    weight = weight_of_noisy(target, noisy, energy)
    return np.asarray(target + weight * (noisy - target))


def weight_of_noisy(
    target: NDArray[np.float64], noisy: NDArray[np.float64], energy: float
) -> float:
    """Return the weight of the noisy matrix beside the target, between 0 and 1."""
    difference = noisy - target
    square = float(np.vdot(difference, difference))
    return max(0.0, 1 - energy / square) if square > 0 else 0.0
