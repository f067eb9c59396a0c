"""Which folder becomes which package; pyproject.toml has all the rest.

A wheel has everything in one package, `pubsub_testbed`: see `testbed/installed`.
"""

from setuptools import find_packages, setup

NAME = "pubsub_testbed"
FOLDERS = ("testbed", "topologies", "nodeapp", "emulation", "capture", "spark_analysis")
TOP = "testbed.installed"

inner = find_packages(include=[*FOLDERS, *(f"{name}.*" for name in FOLDERS)], exclude=[TOP])
setup(
    packages=[NAME, *(f"{NAME}.{name}" for name in inner)],
    package_dir={NAME: TOP.replace(".", "/")} | {f"{NAME}.{name}": name for name in FOLDERS},
)
