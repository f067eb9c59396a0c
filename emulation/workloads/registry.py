"""Finds workloads by name: each module in this folder holds one `Workload` subclass.

Shared modules (`_OTHERS`) hold none.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final

import emulation.workloads
from emulation.errors import ScenarioError
from emulation.workloads.base import Workload
from nodeapp.discovery import loading, modules_in, subclass_in
from nodeapp.parameters import Parameter, ParameterError, convert, suggestion

WORKLOAD: Final = "workload"
"""The setting that chooses the workload."""
FILE: Final = "file:"
"""`file:PATH` as a workload is short for `recorded` with the recording PATH."""
_OTHERS: Final = frozenset({"arrivals", "base", "patterns", __name__.rpartition(".")[2]})


def workload_names() -> list[str]:
    """Return the names of the workloads, sorted."""
    return modules_in(emulation.workloads, _OTHERS)


def workload_class(name: str) -> type[Workload]:
    """Return the class of a workload.

    Raises `ScenarioError` for an unknown name, and for a file that cannot be loaded.
    """
    if name.startswith(FILE):  # in a sweep, each would need two settings
        raise ScenarioError(
            f"{name} is one recording; a sweep over several is --set {WORKLOAD}=recorded --vary "
            "recording=PATH,PATH"
        )
    if name not in workload_names():
        known = ", ".join([*workload_names(), f"{FILE}PATH"])
        near = suggestion(name, workload_names())
        raise ScenarioError(f"no workload {name!r}{near}; there are: {known}")
    module = f"{emulation.workloads.__name__}.{name}"
    with loading(module, ScenarioError):
        workload = subclass_in(importlib.import_module(module), Workload)  # type: ignore[type-abstract]
        if workload is None:
            raise ScenarioError(
                f"emulation/workloads/{name}.py has no subclass of Workload: "
                "add one with operations()"
            )
        workload.parameters()
    return workload


def workload_parameters(name: str) -> list[Parameter]:
    """Return the parameters of a workload.  Raises `ScenarioError` as `workload_class` does."""
    return workload_class(name).parameters()


def workload_summary(name: str) -> str:
    """Return the line that describes a workload.  Raises `ScenarioError` like `workload_class`."""
    return (workload_class(name).__doc__ or "").partition("\n")[0]


def make_workload(name: str, settings: Mapping[str, Any]) -> Workload:
    """Return a workload with the parameters in `settings`, whose values may be text.

    Raises `ScenarioError` for unknown names or invalid values.
    """
    try:
        return workload_class(name)(**convert(workload_parameters(name), settings))
    except ParameterError as error:
        raise ScenarioError(f"{name}: {error}") from None


def expanded(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with `workload=file:PATH` expanded to the two settings it stands for.

    Raises `ScenarioError` if there is no path.
    """
    chosen = settings.get(WORKLOAD)
    if not isinstance(chosen, str) or not chosen.startswith(FILE):
        return dict(settings)
    path = chosen.removeprefix(FILE)
    if not path:
        raise ScenarioError(f"the workload {FILE} needs the path of a file: {FILE}PATH")
    return {**settings, WORKLOAD: "recorded", "recording": path}
