"""Where an archive may be, and what is wrong with a place that cannot be used."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from pipeline.statistics import StatisticsError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def check_folder(folder: str, master: str) -> None:
    """StatisticsError if a folder of this machine cannot hold the archive: found before Spark starts."""
    if not _is_here(folder, master):
        return
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except FileExistsError:
        raise StatisticsError(f"--archive {folder} is a file: give a folder") from None
    except (OSError, ValueError) as error:
        wrong = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise StatisticsError(f"--archive {folder} cannot be used: {wrong}") from None


def check_archive(folder: str, master: str) -> None:
    """StatisticsError if there is no archive in a folder of this machine: found before Spark starts."""
    if _is_here(folder, master) and not any(Path(folder).glob("*/definition")):
        raise StatisticsError(f"--archive {folder} is empty: prosem stats refresh fills it")


def _is_here(folder: str, master: str) -> bool:
    """What is meant by a path without a scheme is Hadoop's to say where it is configured, and on a cluster."""
    elsewhere = "PYSPARK_GATEWAY_PORT" in os.environ or "HADOOP_CONF_DIR" in os.environ
    return not elsewhere and not _SCHEME.match(folder) and (master or "local").startswith("local")


def reason(error: Exception) -> str:
    """The line of a long report that names the error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    named = [line for line in lines if re.match(r"(: )?[\w.]+(Error|Exception)\b.*:", line)]
    return named[-1].removeprefix(": ") if named else lines[0]
