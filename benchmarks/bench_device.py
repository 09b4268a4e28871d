"""Exact sums on a GPU: the Gram in digits against float64 and the host, and whole fits.

Wanted on an H200: 120 TFLOP/s at 262,144 x 4096 with the splitting into digits, equal to the host
in every entry; a fit of 1,000,000 x 4096 rows on the device in 4 s, and streamed from the host's
memory at the speed of the bus; ten components of a million columns, with lazy noise, in 0.5 s.
"""

import argparse
import statistics
import time

import numpy as np
import torch

from eigenveil import PrivatePCA
from eigenveil.engines import Brought, DeviceSource, device
from eigenveil.engines import host_to_device as brought
from eigenveil.exact import Clip, moment_products
from eigenveil.exact.gram import _accumulate
from eigenveil.mechanisms import AnalyzeGauss
from eigenveil.numerics import SystemSource
from eigenveil.privacy import Adjacency, Gaussian
from side_by_side import report

ONE = 1 << 18


def seconds(job, repeats=5):
    """Median seconds of a job on the GPU, after two that warm it up."""
    times = []
    for _ in range(repeats + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        job()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:])


def float64(integers):
    total = torch.zeros((integers.shape[1],) * 2, dtype=torch.int64, device="cuda")
    for part in torch.split(integers, 1 << 17):
        total += (part.T @ part).to(torch.int64)
    return total


def on_host(integers):
    d = integers.shape[1]
    total, sums = np.zeros((d, d), dtype=np.int64), np.zeros((d, d), order="F")
    for part in torch.split(integers, 1 << 17):
        sums[:] = 0.0
        sums = _accumulate(np.ascontiguousarray(part.cpu().numpy()), sums)
        total += sums.astype(np.int64)
    return np.triu(total) + np.triu(total, 1).T


def grams(shapes):
    rows = []
    for n, d, check in shapes:
        integers = torch.randint(-ONE, ONE + 1, (n, d), device="cuda").to(torch.float64)
        digits = device._gram_of_digits(integers)
        same = torch.equal(digits, float64(integers))
        if check:
            same = same and np.array_equal(digits.cpu().numpy(), on_host(integers))
        work = 2e-12 * n * d * d
        split = seconds(lambda x=integers: device._gram_of_digits(x))
        double = seconds(lambda x=integers: float64(x))
        rows.append(
            {
                "rows": n,
                "columns": d,
                "digits_tflops": work / split,
                "float64_tflops": work / double,
                "ratio": double / split,
                "host_checked": check,
                "equal": same,
            }
        )
        del integers
    report("device_gram", rows)


def fits(n, d, k):
    table = torch.randn((n, d), device="cuda")
    table *= torch.arange(1, d + 1, device="cuda") ** -0.5
    table += 0.5
    host = table.cpu().numpy()
    rows = []
    sides = {
        "resident": lambda: table,
        "brought once": lambda: DeviceSource(host, device="cuda"),
        "streamed": lambda: DeviceSource(host, device="cuda"),
    }
    for name, source in sides.items():
        brought._KEPT_SHARE = 0.0 if name == "streamed" else 0.5
        times = []
        for _ in range(3):
            torch.cuda.synchronize()
            start = time.perf_counter()
            PrivatePCA(k, epsilon=1.0, delta=1e-8).fit(source())
            times.append(time.perf_counter() - start)
        rows.append(
            {"rows": n, "columns": d, "k": k, "side": name, "first_s": times[0], "s": min(times)}
        )
    copies = {
        "one copy": lambda: Brought(host, "cuda").between(0, n // 8),
        "one copy by PyTorch": lambda: torch.as_tensor(host[: n // 8], device="cuda"),
    }
    brought._KEPT_SHARE = 0.0
    for name, copy in copies.items():
        s = 8 * seconds(copy, 3)
        rows.append({"rows": n, "columns": d, "k": k, "side": name, "first_s": s, "s": s})
    report("device_fit", rows)


def lazily(n, d, k):
    table = torch.randn((n, d), device="cuda") * 0.05
    table[:, : 2 * k] += torch.randn((n, 2 * k), device="cuda") * 40
    clip, adjacency = Clip(row_norm=1.0, normalise=True), Adjacency.REPLACE_ONE
    source = DeviceSource(table)
    times = []
    for _ in range(4):
        torch.cuda.synchronize()
        start = time.perf_counter()
        query = moment_products(source, clip, adjacency)
        torch.cuda.synchronize()
        read = time.perf_counter()
        AnalyzeGauss(strength=Gaussian(1.0), n_components=k, lazy=True).perturb(
            query, SystemSource()
        )
        times.append((read - start, time.perf_counter() - read))
    start = time.perf_counter()
    settings = {"epsilon": 1.0, "delta": 1e-6, "mechanism": "spherical", "centring": "none"}
    PrivatePCA(k, **settings).fit(table)
    whole = time.perf_counter() - start
    read, draw = (statistics.median(part) for part in zip(*times[1:], strict=True))
    row = {"rows": n, "columns": d, "k": k, "read_s": read, "components_s": draw, "fit_s": whole}
    report("device_lazy", [row])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    print(torch.cuda.get_device_name(), torch.__version__, torch.version.cuda)
    shapes = ((131_072, 1024, False), (262_144, 4096, True), (65_536, 16_384, False))
    grams(((20_000, 512, True),) if small else shapes)
    lazily(*((500, 20_000, 5) if small else (1000, 1_000_000, 10)))
    fits(*((20_000, 512, 5) if small else (1_000_000, 4096, 10)))


if __name__ == "__main__":
    main()
