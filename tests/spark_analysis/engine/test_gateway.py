"""Java's classes and static methods are asked for once; workers get what is installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.clientserver import JavaClient  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark_analysis.engine.gateway import environment, remember_names

pytestmark = pytest.mark.spark
LOOKUP = "r\n"
"""How a command of py4j begins that asks what a name is."""


@pytest.fixture
def asked(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What Java is asked about names."""
    names: list[str] = []
    send = JavaClient.send_command

    def listen(self: Any, command: str, *rest: Any, **options: Any) -> Any:
        if command.startswith(LOOKUP):
            names.append(command)
        return send(self, command, *rest, **options)

    monkeypatch.setattr(JavaClient, "send_command", listen)
    return names


def test_java_is_asked_once_for_each_function(spark: SparkSession, asked: list[str]) -> None:
    def work() -> int:
        total = sf.sum(sf.col("id") * sf.lit(2)).alias("total")
        (row,) = spark.range(4).select(total).collect()
        return int(row["total"])

    assert work() == 12
    asked.clear()
    assert work() == 12
    assert asked == []


def test_what_may_change_or_is_not_there_is_asked_for_again(
    spark: SparkSession, asked: list[str]
) -> None:
    jvm: Any = spark.sparkContext._jvm
    assert jvm.java.lang.Math.max(2, 3) == 3
    assert pytest.approx(3.14159, abs=1e-5) == getattr(jvm, "java.lang.Math").PI
    before = len(asked)
    assert getattr(jvm, "java.lang.Math").PI > 3
    assert len(asked) == before + 1  # the field, not its class
    for _ in range(2):
        with pytest.raises(Py4JError):
            getattr(jvm, "java.lang.Math").maximum(2, 3)


def test_workers_import_what_is_installed_which_is_compiled(spark: SparkSession) -> None:
    (path,) = spark.sparkContext.parallelize([0], 1).map(lambda _: pyspark.__file__).collect()
    assert path == pyspark.__file__
    assert Path(path).is_file()  # in no archive


def test_the_home_is_pysparks_own_with_its_configuration_but_not_its_archive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    with environment(local=True, python=sys.executable):
        home = Path(os.environ["SPARK_HOME"])
        package = Path(pyspark.__file__).parent
        assert {path.name: path.readlink() for path in home.iterdir()} == {
            name: package / name for name in ("bin", "conf", "jars")
        }
    assert "SPARK_HOME" not in os.environ


def test_a_gateway_remembers_once(spark: SparkSession) -> None:
    gateway: Any = spark.sparkContext._gateway
    view = gateway.jvm
    remember_names(gateway)
    assert gateway.jvm is view
