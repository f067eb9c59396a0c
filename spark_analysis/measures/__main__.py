"""Versions of the measures: `python -m spark_analysis.measures [--renew | --same-rows]`.

Without an option it names the files whose code does not have the hash that they state, and fails
if there are any.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from nodeapp.installation import PROJECT
from spark_analysis.engine.code import read_sources
from spark_analysis.errors import AnalysisError
from spark_analysis.measures.versions import Files, renewed


def main() -> int:
    """Print what is out of date, or renew it.  Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m spark_analysis.measures", description=__doc__)
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--renew", action="store_true", help="rows differ: raise versions")
    ways.add_argument("--same-rows", action="store_true", help="rows stay the same: hashes only")
    options = parser.parse_args()
    try:
        files = Files(read_sources(PROJECT))
    except AnalysisError as error:
        parser.exit(1, f"{error}\n")
    failed = False
    for name in files.outdated():
        path = Path(PROJECT, *name.split(".")).with_suffix(".py")
        if not (options.renew or options.same_rows):
            print(f"{name}: its queries have changed and its version has not: --renew")
            failed = True
            continue
        try:
            text = renewed(
                path.read_text(encoding="utf-8"), files.codes[name], same_rows=options.same_rows
            )
        except ValueError as error:
            print(f"{name} {error}", file=sys.stderr)
            failed = True
            continue
        path.write_text(text, encoding="utf-8")
        print(f"{name}: renewed")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
