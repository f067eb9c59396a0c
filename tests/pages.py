"""The examples in docs/extending/, so that tests can try them."""

from __future__ import annotations

import re

from nodeapp.installation import PROJECT


def page(kind: str) -> str:
    """Return the page that tells how to add a kind of thing: `protocol`, `paper`..."""
    return (PROJECT / "docs" / "extending" / f"{kind}.md").read_text(encoding="utf-8")


def example(kind: str) -> str:
    """Return the one Python block of that page."""
    (code,) = re.findall(r"```python\n(.*?)```", page(kind), re.DOTALL)
    assert isinstance(code, str)
    return code
