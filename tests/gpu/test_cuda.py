"""On a real GPU: the same integers and the same sums as on the host."""

import numpy as np
import pytest

from eigenveil import PrivatePCA
from eigenveil.engines import DeviceSource, device
from eigenveil.engines import host_to_device as brought
from eigenveil.exact import Clip, DistanceCounts, MomentSum, SquareSum, VectorSum

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("array_api_compat")
if not torch.cuda.is_available():
    pytest.skip("no GPU is at hand", allow_module_level=True)

CLIP = Clip(row_norm=6.0, centre=np.linspace(-1, 1, 300))


def rows(n=5000):
    return np.random.default_rng(0).standard_normal((n, 300)) * np.linspace(0.1, 1, 300)


@pytest.mark.parametrize("kind", [MomentSum, SquareSum, VectorSum, DistanceCounts])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_host_has_the_same_bits(kind, dtype):
    table = rows().astype(dtype)
    there = DeviceSource(torch.as_tensor(table, device="cuda"))
    assert there._exact
    host = DeviceSource(torch.as_tensor(table)).summed(kind(CLIP))
    assert all(map(np.array_equal, there.summed(kind(CLIP)), host))
    brought = DeviceSource(table, device="cuda").summed(kind(CLIP))
    assert all(map(np.array_equal, brought, host))


@pytest.mark.parametrize("share", [0.5, 0.0])
@pytest.mark.parametrize("n", [0, 1, 5000])
def test_rows_arrive_whole_and_are_kept_while_they_fit(monkeypatch, share, n):
    monkeypatch.setattr(brought, "_KEPT_SHARE", share)
    monkeypatch.setattr(brought, "_BUFFER_BYTES", 1 << 14)  # many buffers, and a part of one
    table = rows(n)[:, ::-3]
    bringing = brought.Brought(table, "cuda")
    first = bringing.between(0, n)
    assert np.array_equal(first.cpu().numpy(), table)
    assert (bringing.between(0, n) is first) == (share > 0 or n == 0)


@pytest.mark.parametrize("n", [1, 31, 65_537, 200_000])
def test_int8_digits_add_up_to_float64(n):
    one = 1 << 18
    integers = torch.randint(-one, one + 1, (n, 257), device="cuda").to(torch.float64)
    integers[0] = -one
    total = torch.zeros((257, 257), dtype=torch.int64, device="cuda")
    for part in torch.split(integers, 1 << 17):
        total += (part.T @ part).to(torch.int64)
    assert torch.equal(device._gram_of_digits(integers), total)


def test_digits_at_their_largest_fit_int32():
    integers = torch.full((1 << 17, 256), -128.0, dtype=torch.float64, device="cuda")
    found = device._gram_of_digits(integers)
    assert int(found.min()) == int(found.max()) == (1 << 17) * 128**2


def test_a_fit_there_is_a_fit_here():
    table = rows()
    here = PrivatePCA(3, epsilon=2.0, delta=1e-6, random_state=0).fit(torch.as_tensor(table))
    there = PrivatePCA(3, epsilon=2.0, delta=1e-6, random_state=0)
    there.fit(torch.as_tensor(table, device="cuda"))
    assert np.array_equal(here.components_, there.components_)
    assert np.array_equal(here.mean_, there.mean_)
