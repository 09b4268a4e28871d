"""A stored release that verifies, and what was checked about it, in words."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eigenveil.release.signature import Signature
from eigenveil.report.page import PAGE_FORMAT

if TYPE_CHECKING:
    from eigenveil.release.artefact import Release

__all__ = ["Verdict"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Verdict:
    """What is known of a stored release; what was not checked is said where it matters.

    Attributes
    ----------
    release : Release
        Its content.
    fingerprint : str
        One hash for all files.
    noted : bool
        Whether it is the fingerprint that the caller had noted.
    signature : Signature or None
        Who signed it.
    trusted : bool
        Whether the signature was checked against a key that the caller trusts.
    page_format : int
        How ``report.html`` is written.

    """

    release: "Release"
    fingerprint: str
    noted: bool
    signature: Signature | None
    trusted: bool
    page_format: int

    @property
    def page_checked(self) -> bool:
        """Whether this version knows every byte that ``report.html`` must have."""
        return self.page_format == PAGE_FORMAT

    @property
    def about_page(self) -> str:
        """How far ``report.html`` was checked."""
        if self.page_checked:
            return "checked: report.html is what the other files make"
        return (
            f"not checked: report.html has the older format {self.page_format}; make a new page "
            "with eigenveil report -o"
        )

    @property
    def about_fingerprint(self) -> str:
        """Whether the release is the one that was noted."""
        if self.noted:
            return "the one you noted"
        return "not compared: note it where the release is not"

    @property
    def about_signature(self) -> str:
        """What is known of who vouches for the release."""
        signature = self.signature
        if signature is None:
            return "not signed"
        if not signature.checkable:
            return (
                f"signature, said to be by {signature.signer}, not checked at all: pip install "
                "'eigenveil[sign]'"
            )
        if self.trusted:
            return f"signed by {signature.signer}, the key you gave"
        return f"signed by {signature.signer}, not checked against a key you trust"

    def as_dict(self) -> dict[str, Any]:
        """Return everything public about the release, as plain JSON values."""
        release = self.release
        return {
            **release.as_dict(),
            "page_format": self.page_format,
            "fingerprint": self.fingerprint,
            "signer": None if self.signature is None else self.signature.signer,
            "signature": self.about_signature,
            "page": self.about_page,
            "values": {
                name: array.tolist()
                for name, array in release.arrays.items()
                if release.kind == "pca" and array.ndim == 1 and name not in ("mean", "scale")
            },
        }
