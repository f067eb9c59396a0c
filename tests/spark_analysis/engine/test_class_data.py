"""Java's class data: used if they are of this Java, and not missed if there are none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_analysis.engine import class_data
from spark_analysis.engine.session import settings

MAIN = "org.apache.spark.deploy.SparkSubmit"


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java that is not there but for its name and its runtime's."""
    home = tmp_path / "java"
    for name in ("bin/java", "lib/modules"):
        (home / name).parent.mkdir(parents=True)
        (home / name).touch()
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setattr(class_data, "PROJECT", tmp_path)
    return home


def test_they_are_of_one_java(java: Path) -> None:
    assert class_data.options() == ()
    assert "run_testbed.sh setup" in str(class_data.obstacle())
    path = class_data.archive()
    assert path is not None
    path.parent.mkdir()
    path.touch()
    assert class_data.obstacle() is None
    assert f'-XX:SharedArchiveFile="{path}"' in class_data.options()
    assert str(path) in settings("local[1]", java)["spark.driver.extraJavaOptions"]
    (java / "lib/modules").write_text("upgraded")
    assert class_data.options() == ()
    (java / "lib/modules").unlink()
    assert "no Java, no package pyspark" in str(class_data.obstacle())


@pytest.mark.spark
def test_java_takes_classes_from_there(spark: SparkSession) -> None:
    path = class_data.archive()
    if path is None or not path.is_file():
        pytest.skip(str(class_data.obstacle()))
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    classes = jvm.java.lang.System.getProperty("java.class.path")
    arguments = jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    assert f"-XX:SharedArchiveFile={path}" in list(arguments)
    said = subprocess.run(
        [
            *("java", f"-XX:SharedArchiveFile={path}", "-Xlog:class+load", "-XX:+UseParallelGC"),
            *("-cp", classes, MAIN, "--version"),
        ],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    assert f"{MAIN} source: shared objects file (top)" in said
