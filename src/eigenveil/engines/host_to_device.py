"""Parts of a table in the host's memory, brought to a device and kept there while they fit.

A copy to a GPU travels at the speed of the bus only from memory that the operating system may not
move. Rows therefore pass through two such buffers: one is filled while the other travels.
"""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BUFFER_BYTES = 1 << 26
_KEPT_SHARE = 0.5  # of the memory that is free at first: the other half is for the work


def room(device: Any) -> int:
    """Return how many bytes may be kept on a device of PyTorch: none but on a GPU."""
    import torch

    on_gpu = torch.device(device).type == "cuda"
    return int(_KEPT_SHARE * torch.cuda.mem_get_info(device)[0]) if on_gpu else 0


class Brought:
    """Rows of a numpy array on a device of PyTorch, by their places.

    Parameters
    ----------
    rows : ndarray
        In memory, or a memory map.
    device : str
        Such as "cuda". Only a GPU keeps what it was brought.

    """

    def __init__(self, rows: NDArray[Any], device: str) -> None:
        self._rows, self._device = rows, device
        self._kept: dict[tuple[int, int], Any] = {}
        self._room: int | None = None

    def between(self, start: int, stop: int) -> Any:
        """Return a part on the device, copied if it is not there yet. Private."""
        if (start, stop) in self._kept:
            return self._kept[start, stop]
        with warnings.catch_warnings():  # of memory that it may not write to, and does not
            warnings.simplefilter("ignore")
            part = self._copied(np.ascontiguousarray(self._rows[start:stop]))
        if part.nbytes <= self._left():
            self._kept[start, stop] = part
            self._room = self._left() - part.nbytes
        return part

    def _left(self) -> int:
        """Return how many bytes may still be kept."""
        if self._room is None:
            self._room = room(self._device)
        return self._room

    def _copied(self, rows: NDArray[Any]) -> Any:
        import torch

        if torch.device(self._device).type != "cuda":
            return torch.asarray(rows, device=self._device)
        here = torch.from_numpy(rows).reshape(-1)
        there = torch.empty(rows.shape, dtype=here.dtype, device=self._device)
        size = _BUFFER_BYTES // here.element_size()
        buffers = [torch.empty(size, dtype=here.dtype, pin_memory=True) for _ in range(2)]
        travelled = [torch.cuda.Event() for _ in buffers]
        targets = torch.split(there.view(-1), size)
        for i, (source, target) in enumerate(zip(torch.split(here, size), targets, strict=True)):
            travelled[i % 2].synchronize()
            staged = buffers[i % 2][: len(source)].copy_(source)
            target.copy_(staged, non_blocking=True)
            travelled[i % 2].record()
        torch.cuda.synchronize(self._device)
        return there
