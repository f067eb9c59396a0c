"""Files that are there whole or not at all, whoever reads, and whatever ends their writer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yield where to write a file, which is `path` after the block.  Raises OSError."""
    unfinished = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        yield unfinished
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> Path:
    """Write a text and return its path.  Raises OSError."""
    with whole(path) as unfinished:
        # Text from captures may hold halves of surrogate pairs, which UTF-8 cannot carry.
        unfinished.write_bytes(text.encode("utf-8", errors="replace"))
    return path
