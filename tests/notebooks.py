"""Executes docs/analysis.ipynb and writes what its cells print: `python tests/notebooks.py [FILE]`.

It does so as Jupyter would: in the notebook's folder, knowing nothing of the testbed.  A cell's
output is what it prints and the value of its last line, as text.  All of it is determined
by seeds, so that a test can compare.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

NOTEBOOK: Final = Path(__file__).resolve().parents[1] / "docs" / "analysis.ipynb"


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return the notebook with the outputs that its cells have now, in the current folder."""
    names: dict[str, Any] = {}
    cells, count = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            cells.append(cell)
            continue
        count += 1
        outputs = _outputs("".join(cell["source"]), names, count)
        cells.append(cell | {"execution_count": count, "outputs": outputs})
    return notebook | {"cells": cells}


def _outputs(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)  # the repository's own notebook
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        found.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        found.append(
            {
                "data": data,
                "execution_count": count,
                "metadata": {},
                "output_type": "execute_result",
            }
        )
    return found


def main() -> None:
    """Execute the notebook and write it with its outputs, by default in its place."""
    out = Path(sys.argv[1]).resolve() if sys.argv[1:] else NOTEBOOK
    os.chdir(NOTEBOOK.parent)
    done = executed(json.loads(NOTEBOOK.read_text(encoding="utf-8")))
    out.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
