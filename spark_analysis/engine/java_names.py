"""Java's classes and their static methods, asked for once.

Every column expression of PySpark names a class of Java (`sf.col` does it twice), and py4j asks
Java each time what the name means: a package, a class, a member of it?  Java looks for it in all of
Spark's 280 archives.  An analysis asks two thousand times for some eighty names, which takes it
longer than to optimise its queries.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaGateway, JavaMember, JVMView  # type: ignore[import-untyped]


def remember_names(gateway: JavaGateway) -> None:
    """Have a gateway ask Java once for each class and each static method."""
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
