import io
import json
from pathlib import Path
from typing import Any

import pytest

from emulation.scenario.records import Fidelity
from emulation.scenario.runfolder import RunFolder, read_run
from testbed.display import Terminal, warn_of_infidelity
from topologies.catalog import make_scenario

CHECK = {"name": "frames late", "value": 25000, "limit": 10000, "unit": "µs", "advice": "rest"}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    settings = {"nodes": 2, "topics": 0}
    scenario = make_scenario("roaming_field", "flooding", seed=1, duration=5.0, settings=settings)
    return RunFolder.create(tmp_path, scenario)


def write_fidelity(folder: RunFolder, kept: bool | None, *checks: dict[str, Any]) -> None:
    fidelity = {"kept_real_time": kept, "checks": checks}
    folder.write_fidelity(Fidelity.model_validate(fidelity))


def warning(folder: RunFolder) -> str:
    shown = io.StringIO()
    warn_of_infidelity(Terminal(file=shown, width=40), read_run(folder.path))
    return shown.getvalue()


def test_a_run_whose_medium_gives_no_figures_is_not_called_lost(folder: RunFolder) -> None:
    unknown = CHECK | {"value": None, "ok": True}
    write_fidelity(folder, None, unknown)
    said = " ".join(warning(folder).split())
    assert "its medium does not say whether it kept real time" in said
    assert "lost" not in said


def test_a_run_that_lost_real_time_says_which_check_failed(folder: RunFolder) -> None:
    passed = CHECK | {"name": "fine", "ok": True}
    write_fidelity(folder, False, CHECK | {"ok": False}, passed)
    assert "lost real time" in warning(folder)
    assert "frames late: 25000 µs, at most 10000; rest" in warning(folder)
    assert "fine" not in warning(folder)


def test_a_run_that_kept_it_and_one_that_was_killed_say_nothing(folder: RunFolder) -> None:
    assert warning(folder) == ""
    write_fidelity(folder, True)
    assert warning(folder) == ""


@pytest.mark.parametrize("foreign", [{}, [], {"checks": [{}]}])
def test_a_file_that_is_no_verdict_does_no_harm(folder: RunFolder, foreign: Any) -> None:
    folder.fidelity.write_text(json.dumps(foreign))
    assert warning(folder) == ""
