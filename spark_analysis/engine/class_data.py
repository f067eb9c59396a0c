"""Java's class data: the classes of an analysis, read and verified once and mapped at each start.

Loading classes is much of what a cold Java machine does.  Set-up has Java write
what it had loaded at the end of a short analysis (dynamic class data sharing, JEP 350) into a file
below `.compiled`; later machines map that.  Java itself checks that the file is of this Java and of
these jars, and does without it otherwise; results do not depend on it.

Spark's launcher names one jar twice in the class path.  Java notes it once when it writes, and
since version 21 takes the two lists for different ones, so it gets a class path with each once.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from importlib import metadata
from pathlib import Path
from typing import Final

from nodeapp.compiled import COMMAND, FOLDER
from nodeapp.installation import PROJECT

SUFFIX: Final = ".jsa"
FORMAT: Final = 2
"""To be raised when the class path is made in another way."""
_QUIET: Final = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""A file that does not fit is no reason to print anything between a command's lines."""


def archive() -> Path | None:
    """Return where the class data of this Java and Spark are, or would be; None without them."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if "SPARK_HOME" in os.environ:  # another Spark, with jars of its own
        return None
    try:
        runtime = Path(java or "").resolve(strict=True).parent.parent / "lib/modules"
        status = runtime.stat()
        spark = metadata.distribution("pyspark")  # importing it would take half a second
    except (OSError, metadata.PackageNotFoundError):
        return None
    jars = str(spark.locate_file("pyspark"))
    # An upgrade of Java leaves its path as it was.
    identity = (FORMAT, str(runtime), status.st_mtime_ns, status.st_size, spark.version, jars)
    key = hashlib.sha256(repr(identity).encode()).hexdigest()[:16]
    return PROJECT / FOLDER / f"classes-{key}{SUFFIX}"


def is_missing() -> bool:
    """Return whether class data could be written, but have not been."""
    path = archive()
    return path is not None and not path.is_file()


def obstacle() -> str | None:
    """Return why no class data are used, and what to do; None if they are."""
    path = archive()
    if path is None:
        return "no Java, no package pyspark, or another Spark in SPARK_HOME"
    return None if path.is_file() else f"none written: {COMMAND}"


def options() -> tuple[str, ...]:
    """Return the options with which a local Spark's Java uses the class data; none without them."""
    path = archive()
    if path is None or not path.is_file():
        return ()
    return (f'-XX:SharedArchiveFile="{path}"', _class_path(), *_QUIET)


def writing(path: Path) -> tuple[str, ...]:
    """Return the options with which Java writes the class data to `path` when it ends."""
    return (f'-XX:ArchiveClassesAtExit="{path}"', _class_path(), *_QUIET)


def _class_path() -> str:
    """Return the option that names each jar of Spark once, the interface of its logs first."""
    folder = Path(str(metadata.distribution("pyspark").locate_file("pyspark/jars")))
    jars = sorted(folder.glob("*.jar"), key=lambda jar: (not jar.name.startswith("slf4j-api"), jar))
    return f'-Djava.class.path="{os.pathsep.join(map(str, jars))}"'
