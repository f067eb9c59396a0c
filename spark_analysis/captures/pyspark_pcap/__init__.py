"""Where Spark looks for the data source `pcap`, so that no session has to register it.

Spark imports all modules at the top level named `pyspark_*`.  Set-up links this package into the
virtual environment; the wheel has it beside `pubsub_testbed`.
"""

import sys
from importlib import import_module
from pathlib import Path

try:
    import_module("pubsub_testbed")  # the project's packages, if it is installed as one
except ModuleNotFoundError:
    sys.path.append(str(Path(__file__).resolve().parents[3]))

from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from spark_analysis.captures.source import PcapDataSource, PcapReader


class DefaultSource(PcapDataSource):
    """The data source, by the name that Spark looks for; workers import this package."""

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the columns in `schema`."""
        return _Unfiltered(schema, self.options)


class _Unfiltered(PcapReader):
    """Leaves filters to Spark: a session refuses a reader that takes them, unless told before."""

    pushFilters = DataSourceReader.pushFilters  # noqa: N815
