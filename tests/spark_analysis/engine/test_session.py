from __future__ import annotations

import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import (  # type: ignore[import-untyped]
    GatewayClient,
    GatewayParameters,
)
from py4j.protocol import ERROR  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from nodeapp.installation import PROJECT
from spark_analysis.engine import class_data
from spark_analysis.engine.session import (
    SOCKET_FOLDER,
    SessionError,
    choose,
    find_master,
    java_version,
    settings,
    sockets,
)


def java(folder: Path, says: str) -> dict[str, str]:
    """Put a `java` that says `says` into a folder; return an environment that has only that."""
    program = folder / "bin" / "java"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    return {"PATH": str(program.parent)}


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('openjdk version "17.0.21" 2026-10-20', 17),
        ('java version "21" 2023-09-19', 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25-ea" 2025-09-16', 25),
    ],
)
def test_versions_that_work(tmp_path: Path, says: str, version: int) -> None:
    environment = java(tmp_path, says)
    assert java_version(environment) == version
    assert java_version({"PATH": "", "JAVA_HOME": str(tmp_path)}) == version


def test_no_java(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match=r"needs Java 17.*apt-get install openjdk-17") as raised:
        java_version({"PATH": str(tmp_path)})
    assert "\n" not in str(raised.value)


def test_java_that_is_too_old(tmp_path: Path) -> None:
    environment = java(tmp_path, 'openjdk version "1.8.0_392"')
    with pytest.raises(SessionError, match="Java 8 is too old, the analysis needs 17"):
        java_version(environment)


def test_java_home_without_java(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="no Java runs in JAVA_HOME="):
        java_version({"JAVA_HOME": str(tmp_path)})


def test_java_that_says_something_else(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="does not say its version"):
        java_version(java(tmp_path, "no such luck"))


def test_local_sessions_are_reachable_from_this_machine_only(tmp_path: Path) -> None:
    local = settings("local[3]", tmp_path)
    assert local["spark.driver.bindAddress"] == local["spark.driver.host"] == "127.0.0.1"
    assert local["spark.ui.enabled"] == "false"
    assert local["spark.sql.shuffle.partitions"] == "3"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("driver.memory", "driver.memory is no option of Spark: their names begin with 'spark.'"),
        ("spark.master", "spark.master cannot be chosen: use --master"),
    ],
)
def test_what_is_no_option_of_spark_is_refused(name: str, problem: str) -> None:
    with pytest.raises(SessionError) as raised:
        choose({name: "1"})
    assert str(raised.value) == problem


def test_a_local_session_may_wait_for_a_processor_for_hours(tmp_path: Path) -> None:
    local, cluster = (settings(each, tmp_path) for each in ("local[2]", "spark://master:7077"))
    minutes = int(local["spark.executor.heartbeatInterval"].removesuffix("min"))
    assert 60 * minutes >= 10 * 60  # Spark ends after 60 heartbeats without an answer
    hours = int(local["spark.network.timeout"].removesuffix("h"))
    assert 60 * hours > minutes  # or Spark does not start
    assert not {"spark.executor.heartbeatInterval", "spark.network.timeout"} & set(cluster)


def test_tasks_are_reached_by_sockets_in_a_folder_if_its_path_allows() -> None:
    enabled, where = (f"spark.python.unix.domain.socket.{name}" for name in ("enabled", "dir"))
    short = Path("/" + 60 * "s")
    assert sockets("local[2]", short) == {enabled: "true", where: str(short)}
    for other in (Path("/" + 61 * "s"), Path("/" + 31 * "ä")):
        assert sockets("local[2]", other) == {}
    # Executors of a cluster choose a folder where they are.
    assert sockets("spark://host:7077", short) == {enabled: "true"}


@pytest.mark.spark
def test_spark_takes_a_folder_of_sockets_of_that_length_and_no_longer(spark: SparkSession) -> None:
    java: Any = spark.sparkContext._jvm
    entry = getattr(java.org.apache.spark.internal.config, "Python$").__getattr__("MODULE$")
    folder = entry.PYTHON_UNIX_DOMAIN_SOCKET_DIR()
    conf = java.org.apache.spark.SparkConf(False)
    longest = "/" + (SOCKET_FOLDER - 1) * "s"
    assert conf.set(folder.key(), longest).get(folder).get() == longest
    with pytest.raises(Exception, match="directory path"):
        conf.set(folder.key(), longest + "s").get(folder)


@pytest.mark.spark
def test_sockets_of_tasks_are_in_that_folder(spark: SparkSession) -> None:
    assert spark.sparkContext.parallelize(range(4), 2).map(abs).sum() == 6
    folder = spark.conf.get("spark.python.unix.domain.socket.dir")
    assert folder is not None
    assert [path for path in Path(folder).iterdir() if path.suffix == ".sock" and path.is_socket()]


AGAIN = """
from spark_analysis.engine.session import SessionError, choose, spark_session
for _ in range(2):
    with spark_session("local[1]") as spark:
        print(spark.sparkContext.parallelize(range(4), 2).map(abs).sum())
for value in ("few", "3"):
    choose({"spark.sql.shuffle.partitions": value, "spark.my.secret.key": "hidden"})
    try:
        with spark_session("local[1]") as spark:
            print(spark.conf.get("spark.sql.shuffle.partitions"))
    except SessionError as error:
        print(error)
"""


@pytest.mark.spark
def test_a_process_may_start_one_session_after_the_other() -> None:
    # A path that is short enough for sockets.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        done = subprocess.run(
            [sys.executable, "-c", AGAIN], cwd=PROJECT, env=os.environ | {"TMPDIR": folder},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        *fine, refused, chosen = done.stdout.splitlines()
        assert (fine, chosen) == (["6", "6"], "3"), done.stderr
        assert refused.startswith("Spark does not start: ")
        assert refused.endswith("=few, spark.my.secret.key=...)")
        assert not list(Path(folder).iterdir())


KILLED = """
from spark_analysis import scratch
from spark_analysis.engine.session import spark_session
with spark_session("local[1]") as spark:
    spark.sparkContext.parallelize(range(4), 2).sum()
    for process in scratch.java_of_this_process():
        process.kill()
    raise KeyboardInterrupt
"""


@pytest.mark.spark
def test_files_of_a_java_that_was_killed_go_with_the_process_that_started_it() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="a path ") as folder:
        elsewhere = {"TMPDIR": folder, "JDK_JAVA_OPTIONS": f"'-Djava.io.tmpdir={folder}'"}
        done = subprocess.run(
            [sys.executable, "-c", KILLED], cwd=PROJECT, env=os.environ | elsewhere,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"
        assert not list(Path(folder).iterdir())


STANDS_STILL = """
import sys, psutil
from contextlib import suppress
from emulation.network import liveness
from spark_analysis import scratch
from spark_analysis.engine.session import SessionError, spark_session
liveness.LIMIT = 1.0
try:
    with spark_session("local[1]") as spark:
        spark.sparkContext.parallelize(range(4), 2).map(abs).sum()
        for process in scratch.java_of_this_process():
            with suppress(psutil.Error):  # a worker that has ended meanwhile
                if sys.argv[1] in process.cmdline():
                    process.suspend()
        spark.sparkContext.parallelize(range(4), 2).map(abs).sum()
except SessionError as error:
    print(error)
"""


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize(
    ("word", "name"),
    [("org.apache.spark.deploy.SparkSubmit", "java"), ("pyspark.daemon", "pyspark.daemon")],
)
def test_a_session_whose_processes_are_stopped_ends(tmp_path: Path, word: str, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STANDS_STILL, word], cwd=PROJECT,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = rf"Spark failed: {name} \(process \d+\) was stopped by a signal; try again\n"
    assert re.fullmatch(told, done.stdout), done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.spark
@pytest.mark.parametrize("seconds", [0, 1])
def test_that_java_is_killed_at_its_start_is_told(tmp_path: Path, seconds: int) -> None:
    found = shutil.which("java")
    assert found is not None
    program = tmp_path / "home" / "bin" / "java"
    program.parent.mkdir(parents=True)
    kill = f"(sleep {seconds}; kill -9 $$) &"
    cases = f'case "$*" in *launcher.Main*) ;; *SparkSubmit*) {kill} esac'
    program.write_text(f'#!/bin/sh\n{cases}\nexec {found} "$@"\n')
    program.chmod(0o755)
    folder = tmp_path / "tmp"
    folder.mkdir()
    elsewhere = {"TMPDIR": str(folder), "JAVA_HOME": str(program.parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", STANDS_STILL, "nothing"], cwd=PROJECT, env=os.environ | elsewhere,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "Spark failed: Java was killed by signal 9; try again\n", done.stderr
    assert "Traceback" not in done.stderr
    assert not list(folder.iterdir())


@pytest.mark.spark
def test_a_connection_that_java_resets_is_not_logged(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    def reset() -> None:
        connection, _ = server.accept()
        connection.recv(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as java:
        java.submit(reset)
        client = GatewayClient(gateway_parameters=GatewayParameters(port=server.getsockname()[1]))
        assert client.send_command("a question\n", retry=False) == ERROR
    assert not caplog.records


def test_a_cluster_reaches_the_driver_by_its_own_rules(tmp_path: Path) -> None:
    cluster = settings("spark://master:7077", tmp_path)
    assert "spark.driver.host" not in cluster
    assert cluster["spark.master"] == "spark://master:7077"


def test_executors_have_their_own_class_path_and_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_data, "options", lambda: ("-Djava.class.path=here",))
    assert "here" in settings("local[1]", tmp_path)["spark.driver.extraJavaOptions"]
    cluster = settings("spark://master:7077", tmp_path)
    executors = cluster["spark.executor.extraJavaOptions"]
    assert not re.search(r"class.path|-Xm[nsx]", executors)
    assert "class.path" not in cluster["spark.driver.extraJavaOptions"]


@pytest.mark.parametrize(
    "master",
    ["spark://127.0.0.1:1", "spark://127.0.0.1:1,127.0.0.1:2", "spark://nowhere", "spark://"],
)
def test_a_master_that_is_not_there_is_said_at_once(master: str) -> None:
    with pytest.raises(SessionError, match="no Spark master answers"):
        find_master(master)


def test_a_master_that_is_there_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        find_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    for local in ("local", "local[2]", "local[*]", "local[2,4]"):
        find_master(local)
    for none in ("local[0]", "local[", "local[two]"):
        with pytest.raises(SessionError, match="no Spark master"):
            find_master(none)
