"""Records in, bounded statistics out."""

from eigenveil.data.bounded import Bounded
from eigenveil.data.clip import Clip
from eigenveil.data.gram import count, second_moment, total
from eigenveil.data.source import RowSource, open_rows

__all__ = ["Bounded", "Clip", "RowSource", "count", "open_rows", "second_moment", "total"]
