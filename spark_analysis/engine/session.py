"""The Spark session of the testbed.

One session serves everything a command does, since a cold start costs seconds: most of them for
the Java machine.  By default Spark runs inside this process on all processors (`local[*]`),
reachable from this machine only; any other master (`spark://...`, `yarn`) takes the same queries.

Workers run this interpreter and import the project from the folder of this file, unless they are
sent both (docs/sweeps.md).
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psutil
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from capture.process import low_limits
from emulation.network.interrupts import undisturbed
from emulation.network.liveness import IDLE_LIMIT, Watch
from emulation.network.processes import end_processes, ended
from nodeapp.installation import PROJECT
from spark_analysis import scratch
from spark_analysis.captures.source import PcapDataSource
from spark_analysis.engine import class_data
from spark_analysis.engine.gateway import environment, remember_names
from spark_analysis.errors import AnalysisError, first_line

MINIMUM_JAVA: Final = 17
"""Oldest Java that Spark 4 runs on."""
MASTER_TIMEOUT: Final = 5.0
"""Seconds for a standalone master to accept a connection."""
SOCKET_FOLDER: Final = 61
"""Characters that Spark allows in the path of a folder of sockets."""
_LOCAL: Final = re.compile(r"local(\[(\*|[1-9]\d*)(,\s*\d+)?\])?")
_JAVA_OPTIONS: Final = (
    # G1's threads compete with the work for processors; pauses do not matter here.
    "-XX:+UseParallelGC",
    # Metaspace starts so small that it grows in five steps, each with a full collection.
    "-XX:MetaspaceSize=256m",
    # The optimising compiler takes longer than it saves: packets are decoded in Python, and what is
    # left for Java is done before it gets there (the frames of half a million packets included).
    "-XX:TieredStopAtLevel=1",
    # The code that the other compiler makes for a dozen analyses fills the default cache: all of it
    # is then swept, thrown out and compiled again, which takes as long as the analyses do.
    "-XX:ReservedCodeCacheSize=240m",
    # Arrow's own checks of every access; the batches are made in `spark_analysis.captures.batches`.
    "-Darrow.enable_unsafe_memory_access=true",
    "-Darrow.enable_null_check_for_get=false",
)
_DRIVER_OPTIONS: Final = (
    f"-Dlog4j2.configurationFile={(PROJECT / 'spark_analysis/engine/log4j2.properties').as_uri()}",
    # A heap that starts small is collected in full at each step of its growth.
    "-Xms1g",
    "-Xmn512m",
)
"""Not for executors, which have less memory and log to files of their own."""
_RESERVED: Final = {"spark.master": "--master", "spark.app.name": None}
"""Spark's options that are not chosen by `choose`, and the option of commands that does it."""
_chosen: dict[str, str] = {}
_SECRET: Final = re.compile("secret|password|token|access[.]?key", re.IGNORECASE)
"""In options that Spark does not show either."""
_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger", "py4j")
"""PySpark logs to these, with a stack trace, what it also raises: at Ctrl-C, too."""
_INSTALL: Final = "install it, as root: apt-get install openjdk-17-jre-headless (or openjdk-21-...)"


class SessionError(AnalysisError):
    """Spark cannot start; the message says what to install or change."""


def java_version(environment: Mapping[str, str] | None = None) -> int:
    """Return the major version of the Java that Spark would use.

    That is the one in JAVA_HOME, else the one in PATH.  Raises `SessionError` if there is none
    or it is older than `MINIMUM_JAVA`.
    """
    environment = os.environ if environment is None else environment
    home = environment.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java", path=_path(environment))
    where = f" in JAVA_HOME={home}" if home else ""
    if java is None:
        raise SessionError(f"the analysis needs Java {MINIMUM_JAVA} or newer: {_INSTALL}")
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        ).stderr
    except subprocess.TimeoutExpired as error:
        raise SessionError(f"{java} -version{where} has no answer in {error.timeout:g} s") from None
    except OSError:
        raise SessionError(f"no Java runs{where}: {_INSTALL}") from None
    version_line = re.search(r'version "(?:1\.)?(\d+)', answer)
    if version_line is None:
        raise SessionError(f"{java} -version does not say its version{where}: {_INSTALL}")
    version = int(version_line[1])
    if version < MINIMUM_JAVA:
        raise SessionError(
            f"Java {version}{where} is too old, the analysis needs {MINIMUM_JAVA}: {_INSTALL}"
        )
    return version


def _path(environment: Mapping[str, str]) -> str:
    # shutil.which takes None for this process's own PATH, which is not what an empty one means.
    return environment.get("PATH", "")


def settings(
    master: str, folder: Path, java_options: Sequence[str] | None = None
) -> dict[str, str]:
    """Return the configuration of a session; tables that are saved by name go to `folder`.

    `java_options` are given to Java besides the usual ones (default: those for its class data).
    Its temporary files are this process's own, so that they go with it if Java cannot remove them.
    """
    local = master.startswith("local")
    if java_options is None:  # a cluster's class path is its own
        java_options = class_data.options() if local else ()
    cores = _cores(master)
    options = {
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.structuredLogging.enabled": "false",
        "spark.driver.extraJavaOptions": " ".join(
            (*_DRIVER_OPTIONS, *_temporary(scratch.lasting()), *_JAVA_OPTIONS, *java_options)
        ),
        "spark.executor.extraJavaOptions": " ".join(_JAVA_OPTIONS),
        "spark.driver.memory": f"{heap_megabytes()}m",
        # Every sort, hash table and broadcast begins with a page or block of memory, which is
        # cleared; at the default size, up to 64 MiB, they cause a full collection every minute.
        "spark.buffer.pageSize": "1m",
        "spark.broadcast.blockSize": "256k",
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        "spark.executorEnv.PYTHONPATH": str(PROJECT),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.catalogImplementation": "in-memory",
        # Records a Python stack for every column expression: a second in all for a page of queries.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        # The pcap source skips files and packets that a filter does not want.
        "spark.sql.python.filterPushdown.enabled": "true",
        # No table has buckets; with it on, Spark makes a session for each table that is cached.
        "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",
        # Plans would be formatted for the web page, which is off.
        "spark.sql.ui.explainMode": "simple",
        # Tables are small after their first aggregation.  Few partitions, and plans made once
        # instead of after every shuffle, save more than they cost.
        "spark.sql.shuffle.partitions": str(cores if local else 64),
        "spark.sql.adaptive.enabled": str(not local).lower(),
    }
    if local:
        options |= {
            # Spark draws a secret for each session; that of a cluster is up to its owner.
            "spark.authenticate": "true",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # A session that waits at the lowest priority, for the end of a long run on a busy
            # machine, may miss its own heartbeats for minutes; after 60 of them Spark ends.
            "spark.executor.heartbeatInterval": "10min",
            "spark.network.timeout": "2h",
        }
    return options


def choose(options: Mapping[str, str]) -> None:
    """Have all later sessions of this process take these options of Spark's before their own.

    Options for Java are added to those that it gets anyway.  Raises `SessionError` for a name that
    is not one of Spark's, or one of `_RESERVED`.
    """
    for name in options:
        if not name.startswith("spark."):
            raise SessionError(f"{name} is no option of Spark: their names begin with 'spark.'")
        if name in _RESERVED:
            instead = f"use {_RESERVED[name]}" if _RESERVED[name] else "it names this program"
            raise SessionError(f"{name} cannot be chosen: {instead}")
    _chosen.update(options)


def _with_chosen(options: Mapping[str, str]) -> dict[str, str]:
    added = {
        name: f"{options[name]} {value}"
        for name, value in _chosen.items()
        if name.endswith(".extraJavaOptions") and name in options
    }
    return {**options, **_chosen, **added}


def _temporary(folder: Path) -> tuple[str, ...]:
    """Return the option for Java's temporary folder; none at a comma, where Spark splits."""
    return () if "," in str(folder) else (shlex.quote(f"-Djava.io.tmpdir={folder}"),)


def sockets(master: str, folder: Path) -> dict[str, str]:
    """Return the configuration of the sockets by which Java and Python talk.

    Over TCP a task waits 40 ms for an acknowledgement that the other side delays.  `folder` is for
    those of a local master: Java keeps the one that it is given first, whatever later sessions
    say.
    """
    enabled = {"spark.python.unix.domain.socket.enabled": "true"}
    if not master.startswith("local"):
        return enabled
    if len(os.fsencode(folder)) > SOCKET_FOLDER:
        return {}
    return enabled | {"spark.python.unix.domain.socket.dir": str(folder)}


def heap_megabytes() -> int:
    """Return the memory that Java may use, MB: a quarter of the machine's, as by Java's default.

    Less than 2 GB suffices for some ten million packets at most.
    """
    return max(2048, int(psutil.virtual_memory().total) // (4 << 20))


def _cores(master: str) -> int:
    """Return how many tasks a local master runs at a time."""
    local = _LOCAL.fullmatch(master)
    if local is None or local[2] is None:
        return 1
    return len(os.sched_getaffinity(0)) if local[2] == "*" else int(local[2])


@contextmanager
def spark_session(
    master: str = "local[*]",
    java_options: Sequence[str] | None = None,
) -> Iterator[SparkSession]:
    """Start Spark for the block, with the `pcap` data source; stop it after.

    Inside another such block its session is used, whatever the master, and goes on.  `java_options`
    are as for `settings`.  Raises `SessionError` if Spark cannot start, or if Java or a worker is
    killed or hangs.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    java_version()
    find_master(master)
    java = scratch.java_of_this_process
    with scratch.folder() as folder, Watch(java, idle_limit=IDLE_LIMIT) as watch:
        options = _with_chosen(
            settings(master, folder, java_options) | sockets(master, scratch.lasting())
        )
        spark: SparkSession | None = None
        try:
            spark = _start(master, options, folder)
            watch.idle_limit = None  # from now on it may wait for work
            yield spark
        except KeyboardInterrupt:
            _end_java()
            raise
        except Exception as error:
            cause = watch.cause or _killed(error)
            if cause is None:
                raise
            _end_java()
            raise SessionError(f"Spark failed: {cause}; try again") from error
        finally:
            if SparkContext._active_spark_context is not None:
                with suppress(Py4JError, OSError):
                    (spark or SparkContext._active_spark_context).stop()


def find_master(master: str) -> None:
    """Raise `SessionError` if `master` is not one, or a standalone one does not answer.

    Spark itself tries for a minute, and then says that its context was stopped.
    """
    if re.match(r"local\b(?!-)", master) and not _LOCAL.fullmatch(master):
        raise SessionError(f"no Spark master {master!r}: write local[*], local[2] or spark://...")
    if not master.startswith("spark://"):
        return
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        if host and port.isdecimal() and int(port) < 65_536:
            with suppress(OSError), socket.create_connection((host, int(port)), MASTER_TIMEOUT):
                return
    raise SessionError(
        f"no Spark master answers at {master}: check the address (spark://host:port), and that it "
        "runs"
    )


def _end_java() -> None:
    """End Java, and have the next session start it again.

    KeyboardInterrupt may have come in the middle of a reply, which the next request would get.
    """
    with undisturbed():
        # Java removes its files when it ends: on a busy machine that takes a while.
        end_processes(scratch.java_of_this_process(), 3 * scratch.GRACE)
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = None


def _killed(error: Exception) -> str | None:
    """Return how Java was killed, if that caused an error.

    While Java starts, only a stack frame of PySpark's holds its process.
    """
    java = getattr(SparkContext._gateway, "proc", None)
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_name == launch_gateway.__name__:
            java = frame.f_locals.get("proc", java)
    if java is None:
        return None
    if isinstance(error, Py4JError | OSError):  # its connections end a moment before it does
        with suppress(subprocess.TimeoutExpired):
            java.wait(1.0)
    code = java.poll()
    return f"Java {ended(code)}" if code is not None and code < 0 else None


def _ask_java_to_end() -> None:
    for process in scratch.java_of_this_process():
        with suppress(psutil.Error):
            process.terminate()
            process.resume()  # a stopped process would not see it


def _start(master: str, options: Mapping[str, str], folder: Path) -> SparkSession:
    conf = SparkConf().setAppName("testbed").setAll(list(options.items()))
    log = folder / scratch.LOG
    # Mininet, if loaded, gives every logger a level of its own, so py4j's are named one by one.
    of_py4j = [name for name in logging.root.manager.loggerDict if name.startswith("py4j.")]
    for name in (*_LOGGERS, *of_py4j):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    logging.root.addFilter(_not_of_py4j)
    with (
        # An exception would leave Java behind, and PySpark sets a handler of SIGINT that asks Java
        # to cancel its jobs, even in the middle of another question.
        undisturbed(_ask_java_to_end),
        environment(local=master.startswith("local"), python=options["spark.pyspark.python"]),
        scratch.instead_of_tmp(folder),  # PySpark makes a file, and removes it if it is not killed
        log.open("w") as errors,
    ):
        try:
            # What Java and Spark print when they start would stand in the middle of a progress
            # bar.  PySpark keeps one Java machine for the life of the process.
            gateway = SparkContext._gateway
            if gateway is None:
                # Ctrl-C is for this process alone.  Not a session: it would get a share of its own.
                options_of_java = {"stderr": errors, "process_group": 0}
                gateway = launch_gateway(conf, options_of_java)  # type: ignore[no-untyped-call]
                remember_names(gateway)
            server: Any = SparkContext(conf=conf, gateway=gateway)._accumulatorServer
            # Its thread prints that Java has gone, which is reported anyway.
            server.handle_error = lambda *_: None
        except (PySparkException, Py4JError, OSError) as error:
            if _killed(error):
                raise
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            reason = next((line for line in lines if "rror" in line or "xception" in line), error)
            limits = low_limits()
            why = f"{first_line(reason)} ({limits})" if limits else first_line(reason)
            raise SessionError(f"Spark does not start: {why}{_doubts()}") from None
    try:
        spark = SparkSession.builder.getOrCreate()
        spark.dataSource.register(PcapDataSource)
    except (PySparkException, Py4JError) as error:
        # The context has given up meanwhile, or an option has a value that it cannot have.
        if SparkContext._active_spark_context is not None:
            SparkContext._active_spark_context.stop()
        if isinstance(error, PySparkException):
            raise SessionError(f"Spark does not start: {_cause(error)}{_doubts()}") from None
        raise SessionError(f"the Spark master {master} does not accept this program") from None
    return spark


def _cause(error: BaseException) -> str:
    """Return why an exception was raised in Java, in the words of the first one."""
    while (before := getattr(error, "_cause", None)) is not None:
        error = before
    return first_line(error)


def _doubts() -> str:
    """Return which options may be wrong, in brackets; nothing if none was chosen."""
    pairs = [(name, f"{name}={value}") for name, value in _chosen.items()]
    shown = [f"{name}=..." if _SECRET.search(pair) else pair for name, pair in pairs]
    chosen = ", ".join(shown)
    return f" (chosen: {chosen})" if chosen else ""


def _not_of_py4j(record: logging.LogRecord) -> bool:
    """Return whether a record is not of py4j, whose lost connections go to the root logger."""
    return record.module != "java_gateway"


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn what goes wrong inside Spark (a full disk, a lost worker) into an `AnalysisError`."""
    try:
        yield
    except Py4JJavaError as error:
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        raise AnalysisError(f"Spark failed: {_root(first_line(cause.toString()))}") from error
    except PySparkException as error:
        raise AnalysisError(f"Spark failed: {_root(first_line(error))}") from error


def _root(reason: str) -> str:
    """Return why Spark shut down if that is why a job failed, else the job's own reason."""
    if "SparkContext was shut down" not in reason:
        return reason
    if "java.lang.OutOfMemoryError" in scratch.log_text():
        return (
            "Java ran out of memory: it may use a quarter of the machine's. Analyse on a machine "
            "that has more, or make a shorter run"
        )
    return reason
