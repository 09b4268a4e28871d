"""A question or an answer as a Flower message.

A message is a tree of objects, each named by its SHA-256 and sent on its own: the message, its
`RecordDict`, and in it one `ConfigRecord` that holds the bytes. That is a chain of three objects,
and nothing else is accepted from the other side; none of them is unpickled.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

__all__ = [
    "FAREWELL",
    "LARGEST",
    "OVERHEAD",
    "QUESTION",
    "Sealed",
    "chain",
    "content",
    "held",
    "opened",
]

QUESTION, FAREWELL = "query.question", "query.farewell"  # types of the messages to an owner
LARGEST = 64 << 20  # bytes of a message, unless more is agreed: d = 100,000 with k = 80
OVERHEAD = 1024  # bytes of one request beyond the message that it carries
_RECORD, _FIELD = "eigenveil", "message"
_CHAIN = 3
# The head of a ConfigRecord, and in protobuf an entry with its key and a value of bytes.
_START = re.compile(
    rb"ConfigRecord  [0-9]{1,12}\x00"
    rb"\x0a(?P<entry>V)\x0a%c%s\x12(?P<value>V)\x32(?P<data>V)".replace(
        b"V", rb"[\x80-\xff]{0,4}[\x00-\x7f]"
    )
    % (len(_FIELD), _FIELD.encode())
)


def content(data: bytes) -> RecordDict:
    """Return the bytes as the content of a Flower message."""
    return RecordDict({_RECORD: ConfigRecord({_FIELD: data})})


@dataclass(frozen=True)
class Sealed:
    """A Flower message taken apart: its metadata, the tree of its objects, and the objects."""

    head: Message
    tree: ObjectTree
    objects: dict[str, bytes]

    @classmethod
    def of(cls, message: Message) -> "Sealed":
        """Take a message apart; it is named by its own hash, as the protocol wants."""
        with no_object_id_recompute():  # else every look at a name hashes the whole again
            message.metadata.__dict__["_message_id"] = message.object_id
            parts = get_all_nested_objects(message)
            tree = get_object_tree(message)
        objects = {name: part.deflate() for name, part in parts.items()}
        return cls(remove_content_from_message(message), tree, objects)


def chain(tree: ObjectTree) -> list[str] | None:
    """Return the names in the tree of a question or an answer, from the message down; None in
    another.
    """
    names = [tree.object_id]
    while len(tree.children) == 1 and len(names) < _CHAIN:
        tree = tree.children[0]
        names.append(tree.object_id)
    return names if len(names) == _CHAIN and not tree.children else None


def opened(tree: ObjectTree, fetch: Callable[[str], bytes]) -> bytes | None:
    """Return the bytes inside a tree, or None if it holds more; ``fetch`` gets an object."""
    names = chain(tree)
    if names is None:
        return None
    objects: dict[str, bytes] = {}
    for name in names[:-1]:
        objects[name] = fetch(name)
        if len(objects[name]) > OVERHEAD:  # before the next is fetched
            return None
    objects[names[-1]] = record = fetch(names[-1])
    if not _holds_one_field(record):
        return None
    try:
        message = inflate_object_from_contents(tree.object_id, objects)
        return held(message) if isinstance(message, Message) else None
    except Exception:  # the other side wrote it: there are many ways to be wrong, all the same here
        return None


def held(message: Message) -> bytes | None:
    """Return the bytes in a Flower message, or None if it holds anything else."""
    try:
        data = message.content[_RECORD][_FIELD]
    except (KeyError, TypeError, ValueError):  # no such record or field, no content
        return None
    return data if isinstance(data, bytes) else None


def _holds_one_field(record: bytes) -> bool:
    """Return whether a record is one run of bytes, read off its first bytes.

    As many fields as fit in a message would, as objects, take twenty times its memory and a minute.
    """
    start = _START.match(record)
    return start is not None and all(
        sum((byte & 0x7F) << 7 * i for i, byte in enumerate(start[each]))
        == len(record) - start.end(each)
        for each in ("entry", "value", "data")
    )
