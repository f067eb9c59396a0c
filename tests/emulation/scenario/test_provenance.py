"""Which code made a run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from emulation.scenario import provenance


def test_new_files_of_code_are_changes_and_results_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "PROJECT", tmp_path)
    me = ("-c", "user.name=me", "-c", "user.email=me@localhost")
    for words in (("init", "-q"), (*me, "commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)

    def changed() -> bool:
        made_by = provenance.code.__wrapped__()
        assert made_by is not None
        return made_by.changed

    for path, is_change in (
        ("runs/one/run.py", False),
        ("topologies/notes.txt", False),
        ("topologies/deep/mine.py", True),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
        assert changed() is is_change, path
