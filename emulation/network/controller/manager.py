"""Ryu's own command, `ryu-manager`, or os-ken's: it runs any application of either.

    .ryu/bin/python -m emulation.network.controller.manager APPLICATION...

Ryu 4.34 does not start with today's eventlet, which lacks a name that its web server imports.
os-ken 4 no longer has a command, nor applications of its own: it is started here.  Its
modules are Ryu's under another name, so each runs applications that are written for the other.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import emulation.network.plain_distutils  # noqa: F401  before Ryu

# Since version 4 os-ken uses system threads by default; applications count on taking turns.
os.environ.setdefault("OSKEN_HUB_TYPE", "eventlet")
import eventlet.wsgi

if not hasattr(eventlet.wsgi, "ALREADY_HANDLED"):
    eventlet.wsgi.ALREADY_HANDLED = [b""]

RYU, OS_KEN = "ryu", "os_ken"
APP_CLASSES: Final = {RYU: "RyuApp", OS_KEN: "OSKenApp"}
"""Name of the class of applications, by package."""


class Renamed(MetaPathFinder, Loader):
    """Lets modules of the package `real` stand in for those of `name`, which is not installed."""

    def __init__(self, name: str, real: str) -> None:
        self._name, self._real = name, real

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None = None, _target: Any = None
    ) -> ModuleSpec | None:
        """Return how to load a module of the absent package; None for any other."""
        first, _, _ = fullname.partition(".")
        if first != self._name or find_spec(self._of_real(fullname)) is None:
            return None
        return spec_from_loader(fullname, self)

    def _of_real(self, fullname: str) -> str:
        return self._real + fullname.removeprefix(self._name)

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of the other package in place of a new one."""
        sys.modules[module.__name__] = import_module(self._of_real(module.__name__))


def know_both() -> str:
    """Let applications import either package; return the one that is installed."""
    real, name = (RYU, OS_KEN) if find_spec(RYU) is not None else (OS_KEN, RYU)
    if find_spec(name) is None:
        # First: the others would load modules again, by the path of the package.
        sys.meta_path.insert(0, Renamed(name, real))
        classes = import_module(f"{real}.base.app_manager")
        setattr(classes, APP_CLASSES[name], getattr(classes, APP_CLASSES[real]))
    return real


def run_os_ken() -> int:
    """Run the applications of the command line on os-ken; return the exit code."""
    cfg = import_module("os_ken.cfg")
    for module in ("log", "controller.controller", "topology.switches"):
        import_module(f"os_ken.{module}")  # registers its options
    cfg.CONF.register_cli_opts([cfg.MultiStrOpt("app", positional=True, default=[])])
    cfg.CONF(prog="osken-manager", project=OS_KEN, default_config_files=[])
    import_module("os_ken.log").init_log()
    applications = cfg.CONF.app or ["os_ken.controller.ofp_handler"]
    for name in applications:
        try:
            known = Path(name).exists() or find_spec(name) is not None
        except ModuleNotFoundError:  # its package is missing too
            known = False
        if not known:
            advice = "os-ken has no applications of its own: give a file"
            print(f"osken-manager: there is no application {name}; {advice}", file=sys.stderr)
            return 1
    import_module("os_ken.base.app_manager").AppManager.run_apps(applications)
    return 0


def main() -> int | None:
    """Run the applications of the command line; return the exit code."""
    real = know_both()
    if find_spec(f"{real}.cmd") is None:
        import_module("os_ken.lib.hub").patch()
        return run_os_ken()
    code: int | None = import_module(f"{real}.cmd.manager").main()
    return code


if __name__ == "__main__":
    sys.exit(main())
