"""A stored release that verifies, and what was checked about it, in words."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eigenveil.exceptions import UncheckedPageError
from eigenveil.messages import VOUCHER
from eigenveil.release.signature import Signature
from eigenveil.report.page.document import PAGE_FORMAT

if TYPE_CHECKING:
    from eigenveil.release.artefact import Release


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
        """Whether ``report.html`` was rendered again and has the same bytes."""
        return self.page_format == PAGE_FORMAT

    @property
    def vouched(self) -> bool:
        """Whether a noted fingerprint or a trusted key covers every file."""
        return self.noted or self.trusted

    def require_page(self) -> None:
        """Raise `UncheckedPageError` where anybody could have written the page."""
        if not (self.page_checked or self.vouched):
            raise UncheckedPageError(
                f"the numbers are checked, but report.html has format {self.page_format}, which "
                "this version does not render, so anybody could have written it: give ",
                VOUCHER,
                ", or make a new page with eigenveil report -o",
            )

    @property
    def about_page(self) -> str:
        """How far ``report.html`` was checked."""
        if self.page_checked:
            return "checked: report.html is what the other files make"
        other = f"report.html has format {self.page_format}, this version writes {PAGE_FORMAT}"
        if self.vouched:
            by = "the key you gave" if self.trusted else "the fingerprint you noted"
            return f"not rendered again: {other}; it is covered by {by}"
        return f"not checked: {other}; make a new page with eigenveil report -o"

    @property
    def about_origin(self) -> str | None:
        """A warning that nothing shows who made the release; None where something does."""
        if self.vouched:
            return None
        signed = "unsigned" if self.signature is None else "signed by a key you did not give"
        return f"{signed}: anybody could have made this"

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
