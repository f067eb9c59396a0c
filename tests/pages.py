"""The examples in docs/extending.md, so that tests can try them."""

from __future__ import annotations

import re

from emulation.network.processes import PROJECT


def example(title: str) -> str:
    """Return the one Python block of the section of that title."""
    page = (PROJECT / "docs" / "extending.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE))
    (code,) = re.findall(r"```python\n(.*?)```", sections[title], re.DOTALL)
    assert isinstance(code, str)
    return code
