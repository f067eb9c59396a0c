"""Which folder becomes which package; pyproject.toml has all the rest.

A wheel has everything in one package, `pubsub_testbed`: see `testbed/installed`.  Beside it is what
Spark looks for.
"""

from setuptools import find_packages, setup

NAME = "pubsub_testbed"
FOLDERS = ("testbed", "topologies", "nodeapp", "emulation", "capture", "spark_analysis")
TOP = "testbed.installed"
SOURCE = "pyspark_pcap"
FOLDER = "spark_analysis/captures/pyspark_pcap"

inner = find_packages(
    include=[*FOLDERS, *(f"{name}.*" for name in FOLDERS)], exclude=[TOP, FOLDER.replace("/", ".")]
)
setup(
    packages=[NAME, SOURCE, *(f"{NAME}.{name}" for name in inner)],
    package_dir={NAME: TOP.replace(".", "/"), SOURCE: FOLDER}
    | {f"{NAME}.{name}": name for name in FOLDERS},
)
