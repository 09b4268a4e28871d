"""What an owner says of a release: public words, checked before they are stored."""

from collections.abc import Mapping
from typing import Any

from eigenveil.exceptions import InvalidParameterError
from eigenveil.text import printable

__all__ = ["ABOUT", "about_settings"]

ABOUT = ("title", "purpose", "owner", "approver")
_LONGEST = 200  # characters


def about_settings(
    settings: Mapping[str, Any], image: tuple[int, int] | None = None, **words: str | None
) -> dict[str, Any]:
    """Return the settings for what was said."""
    said = dict(settings.get("about", {}))
    for name, text in words.items():
        if name not in ABOUT:
            raise InvalidParameterError(f"a release has no {name!r}: give {', '.join(ABOUT)}")
        if text is None:
            continue
        plain = isinstance(text, str) and text.strip() and printable(text) == text
        if not (plain and len(text) <= _LONGEST):
            raise InvalidParameterError(
                f"{name} must be one line of at most {_LONGEST} characters: shorten it"
            )
        said[name] = text.strip()
    found: dict[str, Any] = {"about": said} if said else {}
    if image is not None:
        found["image"] = _image(settings, image)
    return found


def _image(settings: Mapping[str, Any], image: Any) -> list[int]:
    """Return height and width of an image whose pixels are the columns."""
    try:
        height, width = (int(length) for length in image)
    except (TypeError, ValueError, OverflowError):
        height = width = 0
    if min(height, width) < 1 or height * width != settings["n_features"]:
        raise InvalidParameterError(
            f"image must be a height and a width whose product is the number of columns, "
            f"{settings['n_features']}"
        )
    return [height, width]
