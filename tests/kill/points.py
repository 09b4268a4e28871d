"""Where a process can be killed: around every call that may change a file or make it durable.

A call is two points, before and after it; a write has one more, with half of its bytes written. The
calls are replaced in the process that is to die, and nowhere else.
"""

import builtins
import io
import os
import signal
import sqlite3
from collections.abc import Callable
from typing import Any

__all__ = ["Points", "append", "kill_self"]

_CALLS = (
    *("fsync", "replace", "rename", "link", "symlink", "unlink", "remove", "mkdir", "rmdir"),
    *("ftruncate", "truncate", "chmod"),
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_open, _write, _close, _kill = os.open, os.write, os.close, os.kill  # which are no points


def append(path: str, line: bytes) -> None:
    """Add a line to a file of the harness, in one piece and without a point."""
    file = _open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    _write(file, line + b"\n")
    _close(file)


def kill_self() -> None:
    """Die at once, as by a power cut to the process."""
    _kill(os.getpid(), signal.SIGKILL)


class Points:
    """Counts points, and dies at the one it was made for; at none with 0."""

    def __init__(self, fatal: int = 0) -> None:
        self.passed = 0
        self._fatal = fatal

    def reach(self) -> None:
        """Pass a point, or die there."""
        self.passed += 1
        if self.passed == self._fatal:
            kill_self()

    def install(self) -> None:
        """Replace the calls of this process."""
        for name in _CALLS:
            setattr(os, name, self._around(getattr(os, name)))
        os.open = self._opening(os.open)  # type: ignore[assignment]
        os.write = self._writing(os.write)  # type: ignore[assignment]
        builtins.open = io.open = self._files(io.open)  # type: ignore[assignment]
        connect, points = sqlite3.connect, self

        class Connection(sqlite3.Connection):
            def execute(self, *arguments: Any) -> sqlite3.Cursor:
                points.reach()
                cursor = super().execute(*arguments)
                points.reach()
                return cursor

        sqlite3.connect = lambda *a, **o: connect(*a, factory=Connection, **o)  # type: ignore

    def _around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def around(*arguments: Any, **options: Any) -> Any:
            self.reach()
            result = call(*arguments, **options)
            self.reach()
            return result

        return around

    def _opening(self, call: Callable[..., Any]) -> Callable[..., Any]:
        struck = self._around(call)

        def opening(path: Any, flags: int, *arguments: Any, **options: Any) -> Any:
            chosen = struck if flags & _WRITING else call
            return chosen(path, flags, *arguments, **options)

        return opening

    def _writing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def writing(file: int, data: Any) -> Any:
            self.reach()
            if self.passed + 1 == self._fatal:
                call(file, bytes(data)[: len(data) // 2])
            self.reach()
            written = call(file, data)
            self.reach()
            return written

        return writing

    def _files(self, call: Callable[..., Any]) -> Callable[..., Any]:
        struck = self._around(call)

        def opening(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            if not set(mode) & set("wxa+"):
                return call(file, mode, *arguments, **options)
            return _File(struck(file, mode, *arguments, **options), self)

        return opening


class _File:
    """A file whose every change is a point."""

    def __init__(self, file: Any, points: Points) -> None:
        self._file, self._points = file, points

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: Any) -> Any:
        self._points.reach()
        if self._points.passed + 1 == self._points._fatal:
            self._file.write(data[: len(data) // 2])
            self._file.flush()
        self._points.reach()
        written = self._file.write(data)
        self._points.reach()
        return written

    def flush(self) -> None:
        self._points._around(self._file.flush)()

    def close(self) -> None:
        self._points._around(self._file.close)()

    def truncate(self, *size: int) -> Any:
        return self._points._around(self._file.truncate)(*size)

    def __enter__(self) -> "_File":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Any:
        return iter(self._file)
