import numpy as np
import pytest

from eigenveil.mechanisms.pca.one_pass import _leading


@pytest.mark.parametrize("p", [4, 9, 14, 15])
def test_the_next_basis_are_eigenvectors_of_the_estimate(p):
    """Also where the columns outside the basis are fewer than those in it, or none."""
    rng = np.random.default_rng(p)
    basis = np.linalg.qr(rng.standard_normal((15, p)))[0]
    inside = rng.standard_normal((p, p))
    inside = inside @ inside.T - np.eye(p)
    outer = rng.standard_normal((15, p))
    outer -= basis @ (basis.T @ outer)
    estimate = basis @ inside @ basis.T + outer @ basis.T + basis @ outer.T
    turned, values = _leading(basis, inside, outer)
    np.testing.assert_allclose(turned.T @ turned, np.eye(p), atol=1e-10)
    np.testing.assert_allclose(estimate @ turned, turned * values, atol=1e-8)
    if p > 7:  # the estimate has no other eigenvectors, which would be of value zero
        np.testing.assert_allclose(values, np.linalg.eigvalsh(estimate)[::-1][:p], atol=1e-8)
