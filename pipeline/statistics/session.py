"""A Spark session for the job: on any master, with this package shipped to the executors."""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pipeline.statistics import StatisticsError
from pipeline.statistics.java import find_java, use

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
SHIPPED = ("pipeline", "prosem", "optimizer", "cn")
CONFIGURATION = {
    "spark.app.name": "prosem stats refresh",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # Spark's own is INT96, which others call deprecated
    "spark.sql.caseSensitive": "true",  # as PostgreSQL's names of columns are
}
_SHUFFLE = "spark.sql.shuffle.partitions"
_COLLECTOR = (
    "-XX:+UseSerialGC"  # sketches leave little garbage: other collectors only take threads from the executors
)
_LOGGING = """rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


class Session(NamedTuple):
    """A running session and what it runs on, in words."""

    spark: SparkSession
    engine: str

    @property
    def cores(self) -> int:
        """Those of all executors that have come; on a cluster `spark.default.parallelism` says it before they come."""
        return self.spark.sparkContext.defaultParallelism

    @property
    def partitions(self) -> int:
        """Into how many parts a table is read: at least two."""
        return max(2, self.cores)


def check_spark() -> None:
    """Whether everything of the extra is there; StatisticsError says what to install."""
    try:
        import pandas  # type: ignore[import-untyped]  # noqa: F401
        import pyarrow  # type: ignore[import-untyped]  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        raise StatisticsError(
            f"the statistics job needs PySpark ({error.name} is missing): pip install prosem[spark]"
        ) from None


@contextmanager
def open_session(master: str = "") -> Iterator[Session]:
    """A session on this master; without one, spark-submit's own or all cores of this machine. Stopped at the end."""
    check_spark()
    import pyspark
    from pyspark.sql import SparkSession

    from pipeline.statistics.source import PostgresSource

    submitted = (
        "PYSPARK_GATEWAY_PORT" in os.environ
    )  # by spark-submit: Java runs already, and knows its master
    origin = "spark-submit"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory(prefix="prosem-spark-") as folder:
        if not submitted:
            java = find_java(Path(folder))
            use(java)
            origin = str(java)
            master = master or "local[*]"
        builder = SparkSession.builder
        for name, value in _configuration(master, Path(folder)).items():
            builder = builder.config(name, value)
        try:
            spark = builder.getOrCreate()
        except Exception as error:
            reason = str(error).strip().partition("\n")[0]
            raise StatisticsError(f"Spark did not start on {master}: {reason}") from error
        try:
            context = spark.sparkContext
            context.addPyFile(str(_shipped(Path(folder))))
            spark.dataSource.register(PostgresSource)  # here: threads that register at once refuse each other
            session = Session(spark, f"Spark {pyspark.__version__} on {context.master}, {origin}")
            if (
                context.getConf().get(_SHUFFLE) is None
            ):  # Spark's 200 are for shuffles of data; ours are of sketches
                spark.conf.set(_SHUFFLE, str(session.partitions))
            yield session
        finally:
            spark.stop()


def _configuration(master: str, folder: Path) -> dict[str, str]:
    chosen = dict(CONFIGURATION)
    if master:
        chosen["spark.master"] = master
    if master.startswith("local"):
        logging = folder / "log4j2.properties"
        logging.write_text(_LOGGING)
        chosen["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile=file:{logging} {_COLLECTOR}"
        chosen["spark.driver.host"] = chosen["spark.driver.bindAddress"] = "127.0.0.1"
    return chosen


def _shipped(folder: Path) -> Path:
    """What executors import as an archive: they need no installation of ours, only the packages that it depends on.

    With the bytecode that Python keeps of it here, where their Python is the same: compiling takes a second in each process.
    """
    target = folder / "prosem_statistics.zip"
    with zipfile.ZipFile(target, "w") as archive:
        for package in SHIPPED:
            for path in sorted((ROOT / package).rglob("*.py")):
                archive.write(path, str(path.relative_to(ROOT)))
                compiled = Path(cache_from_source(str(path)))
                if compiled.exists():  # Python compares it with the source, as it does in a folder
                    archive.write(compiled, str(path.relative_to(ROOT).with_suffix(".pyc")))
    return target
