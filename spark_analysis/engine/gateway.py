"""The gateway to Java: what its machine is started with, and how it is asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import JavaClass, JavaGateway, JavaMember, JVMView  # type: ignore[import-untyped]

from nodeapp.installation import PROJECT
from spark_analysis import scratch


@contextmanager
def environment(local: bool, python: str) -> Iterator[None]:
    """Give the Java machine, which copies the environment when it starts, what it needs.

    `python` is the workers' interpreter, which Spark takes from nowhere else.  PYTHONPATH is handed
    on to them; Java takes its address from SPARK_LOCAL_IP before it reads any configuration.
    """
    inherited = os.environ.get("PYTHONPATH")
    variables = {
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(PROJECT), *([inherited] if inherited else [])]),
    }
    if local:
        variables |= {"SPARK_LOCAL_IP": "127.0.0.1", **_home(scratch.lasting())}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _home(folder: Path) -> dict[str, str]:
    """Return the variable that names Spark's home, one without PySpark's own archive.

    Workers would import PySpark from that, and compile its source each time: a third of a second
    for each kind of worker, of which an analysis has three.  Without it they import what is
    installed.
    """
    if "SPARK_HOME" in os.environ:
        return {}
    home = folder / "home"
    home.mkdir(exist_ok=True)
    for name in ("bin", "conf", "jars"):
        with suppress(FileExistsError):
            (home / name).symlink_to(Path(pyspark.__file__).parent / name)
    return {"SPARK_HOME": str(home)}


def remember_names(gateway: JavaGateway) -> None:
    """Have a gateway ask Java once for each class and each static method.

    Every column expression of PySpark names a class (`sf.col` does it twice), and py4j asks Java
    each time what the name means; Java looks for it in all of Spark's 280 archives.  An analysis
    asks two thousand times for some eighty names, which takes longer than optimising its queries.
    """
    view = gateway.jvm
    if not isinstance(view, _RememberingView):
        gateway.jvm = _RememberingView(view)


class _RememberingView(JVMView):  # type: ignore[misc]
    """Classes that were looked up are attributes, for which Python does not ask again."""

    def __init__(self, view: JVMView) -> None:
        self.__dict__.update(view.__dict__)

    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        # What is a package now may be a class later, and costs next to nothing.
        if isinstance(member, JavaClass):
            member = self.__dict__[name] = _RememberingClass(member._fqn, member._gateway_client)
        return member


class _RememberingClass(JavaClass):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        # A static field may have another value next time.
        if isinstance(member, JavaMember):
            self.__dict__[name] = member
        return member
