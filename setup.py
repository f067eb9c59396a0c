"""Which folder becomes which package; pyproject.toml has all the rest.

A wheel has everything in one package, `pubsub_testbed`: see `testbed/installed`.  Beside it is what
Spark looks for.
"""

from setuptools import find_packages, setup

NAME = "pubsub_testbed"
FOLDERS = ("testbed", "topologies", "nodeapp", "emulation", "capture", "spark_analysis")
TOP = "testbed.installed"
SOURCE = "pyspark_pcap"
SOURCE_IN = f"spark_analysis.captures.{SOURCE}"

inner = find_packages(
    include=[*FOLDERS, *(f"{name}.*" for name in FOLDERS)], exclude=[TOP, SOURCE_IN]
)
setup(
    packages=[NAME, SOURCE, *(f"{NAME}.{name}" for name in inner)],
    package_dir={NAME: TOP.replace(".", "/"), SOURCE: SOURCE_IN.replace(".", "/")}
    | {f"{NAME}.{name}": name for name in FOLDERS},
)
