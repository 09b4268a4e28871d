"""Memory of known size, asked for before it is needed."""

import numpy as np

_MIN_BYTES = 1 << 24  # below it a lack of memory shows everywhere else too


def require_memory(size: int) -> None:
    """Take ``size`` bytes and give them back; raise `MemoryError` where they are not to be had.

    They are written to: a system may promise memory that it does not have.
    """
    if size < _MIN_BYTES:
        return
    try:
        np.ones(size, dtype=np.uint8)
    except MemoryError:
        raise MemoryError(
            f"a release needs about {size:,} bytes of memory, and nothing was charged: choose "
            "fewer columns, or a larger machine"
        ) from None
