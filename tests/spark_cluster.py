"""A standalone Spark cluster on loopback: a master, and workers with one core each."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import psutil
from pyspark.find_spark_home import _find_spark_home

from spark_analysis.engine import class_data

_DEPLOY: Final = "org.apache.spark.deploy"
_LOOPBACK: Final = "127.0.0.1"
_LIMIT: Final = 120.0
"""Seconds for a process of the cluster to start or to end."""


class Cluster:
    """Starts for a block, and ends all of its processes after it; logs and work go to `folder`."""

    def __init__(self, folder: Path, workers: int) -> None:
        """`folder` is made; `workers` join before the block begins."""
        self.master = f"spark://{_LOOPBACK}:{_free_port()}"
        self.work = folder / "work"
        self.workers: list[psutil.Popen] = []
        self._folder = folder
        self._log = folder / "cluster.log"
        self._count = workers
        self._joined = 0
        self._processes: list[psutil.Popen] = []

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            port = self.master.rpartition(":")[2]
            # The workers try again until the master is there.
            self._start("master.Master", "--host", _LOOPBACK, "--port", port, "--webui-port", "0")
            self.join(self._count)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def join(self, count: int, hidden: Sequence[Path] = ()) -> None:
        """Start workers, and wait until the master has them.

        They do not see what is in the `hidden` folders, but for Spark itself; this needs root.
        """
        address = ("--host", _LOOPBACK, "--webui-port", "0")
        for _ in range(count):
            size = ("-c", "1", "-m", "1g")
            started = self._start("worker.Worker", *address, *size, self.master, hidden=hidden)
            self.workers.append(started)
        self._joined += count
        limit = time.monotonic() + _LIMIT
        while self._log.read_text().count("Registering worker") < self._joined:
            if time.monotonic() > limit:
                raise TimeoutError(self._log.read_text())
            time.sleep(0.1)

    def suspend(self, worker: psutil.Popen) -> None:
        """Stop a worker and all that it has started, until it goes on or is lost."""
        _signal([worker, *worker.children(recursive=True)], signal.SIGSTOP)

    def resume(self, worker: psutil.Popen) -> None:
        """Let a worker go on that was suspended."""
        _signal([worker, *worker.children(recursive=True)], signal.SIGCONT)

    def lose(self, worker: psutil.Popen) -> None:
        """Kill a worker and all that it has started, as if its machine had failed."""
        self.workers.remove(worker)
        self.suspend(worker)  # or some would see others go
        _kill([worker, *worker.children(recursive=True)])

    def stop(self) -> None:
        """End the master, the workers, and what they have started."""
        everything: list[psutil.Process | psutil.Popen] = list(self._processes)
        for process in self._processes:
            with suppress(psutil.NoSuchProcess):
                everything += process.children(recursive=True)
        for process in self._processes:
            if process.poll() is None:
                process.terminate()
        _, alive = psutil.wait_procs(everything, _LIMIT)
        _kill(alive)

    def _start(self, name: str, *words: str, hidden: Sequence[Path] = ()) -> psutil.Popen:
        home, before = Path(_find_spark_home()), list[str]()
        if hidden:
            home = self._folder / "spark"
            home.mkdir(exist_ok=True)
            script = f"mount --bind {_find_spark_home()} {home}; cd {self._folder}; "
            script += "".join(f"mount -t tmpfs none {folder}; " for folder in hidden)
            before = ["unshare", "--mount", "sh", "-ec", f'{script} exec "$@"', "-"]
        options = ("-XX:+UseSerialGC", *(() if hidden else class_data.options()))
        environment = {
            "SPARK_HOME": str(home),
            "PATH": "/usr/bin:/bin",
            "SPARK_LOCAL_IP": _LOOPBACK,
            "SPARK_WORKER_DIR": str(self.work),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": " ".join(options),
        }
        if "JDK_JAVA_OPTIONS" in os.environ:
            environment["JDK_JAVA_OPTIONS"] = os.environ["JDK_JAVA_OPTIONS"]
        before = ["setpriv", "--pdeathsig", "KILL", *before]
        launch = [*before, str(home / "bin/spark-class"), f"{_DEPLOY}.{name}", *words]
        with self._log.open("a") as log:
            process = psutil.Popen(launch, env=environment, stdout=log, stderr=log)
        self._processes.append(process)
        return process


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _signal(processes: Sequence[psutil.Process], number: int) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _kill(processes: Sequence[psutil.Process]) -> None:
    _signal(processes, signal.SIGKILL)
    psutil.wait_procs(processes, _LIMIT)
