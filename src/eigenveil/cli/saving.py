"""Where a release goes: a name and room for it before the charge, another place if need be.

Once the ledger is charged the release is all there is to show for it. So a command that cannot
write where it was told to writes elsewhere, and its error says where.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from eigenveil.exceptions import InvalidParameterError
from eigenveil.release.artefact import Release
from eigenveil.storage.paths import require_new
from eigenveil.storage.reservation import Reservation, reserved
from eigenveil.wording import Phrase

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["expected_size", "keep", "place_for"]

_ADVICE = Phrase(
    python="choose a new folder",
    shell="choose a new folder with -o",
    file="choose a new folder as output",
)
_PLACE = Phrase(python="another place", shell="another place with -o", file="another output")
_PAGE = 2**20  # bytes of everything that does not grow with the table
_OWNER = 2**14  # of one owner's statement, twice
_COLUMN = 64  # of a column in release.json, bounds included
_CHARACTER = 12  # of a name, as JSON may write it


@contextmanager
def place_for(folder: Path) -> Iterator[Reservation]:
    """Reserve a new name, which is free again if the block releases nothing."""
    require_new(folder, _ADVICE)
    if not folder.parent.is_dir():
        raise InvalidParameterError(
            f"no folder {folder.parent}: create it first, or choose ", _PLACE
        )
    with reserved(folder, _ADVICE) as place:
        yield place


def expected_size(
    kind: str, d: int, k: int, names: Sequence[str] | None = None, owners: int = 0
) -> int:
    """Return how many bytes a release takes at most, about, from public numbers alone."""
    numbers = d * d + 3 * d
    if kind == "pca":
        numbers = k * d + 2 * d + 6 * k
    elif kind == "regression":  # of k targets
        numbers = 4 * k * (d + 1) + 2 * d
    text = d * _COLUMN + _CHARACTER * sum(map(len, names or ()))
    return 8 * numbers + text + owners * _OWNER + _PAGE


def keep(
    released: Release, place: Reservation, key: "Ed25519PrivateKey | str | Path | None" = None
) -> None:
    """Save a release where it should lie, or elsewhere; then an error says where."""
    try:
        released.save(place, key=key)
    except InvalidParameterError as error:
        where = _elsewhere(lambda folder: released.save(folder / place.path.name, key=key))
        if where is None:
            raise
        place.elsewhere = where
        raise InvalidParameterError(*error.args, f"; the release is whole, in {where}") from None


def _elsewhere(save: Callable[[Path], Path]) -> Path | None:
    """Save to a new folder in the first place that takes it; None where none does."""
    for find in (Path.cwd, tempfile.gettempdir, Path.home):
        with suppress(OSError, RuntimeError, InvalidParameterError):
            folder = Path(tempfile.mkdtemp(prefix="eigenveil-", dir=find()))
            try:
                return save(folder)
            except BaseException:
                folder.rmdir()
                raise
    return None
