"""Settings in a file: `prosem init` writes one with every setting as a comment, `prosem --settings` reads it."""

from __future__ import annotations

import os
import textwrap
from dataclasses import fields
from pathlib import Path

from api.server.settings import Settings
from prosem.values.errors import SetupError

NAME = "prosem.env"
_PREFIX = "PROSEM_"
_HEAD = """\
# Settings of a ProSem server: prosem --settings {name} serve
# One NAME=value per line; options and variables of the environment take precedence.
# The format is also that of systemd's EnvironmentFile= and of docker run --env-file.
"""


def written(name: str = NAME) -> str:
    """Every setting with its meaning and its default, as comments.

    >>> "# address to listen on\\n# PROSEM_HOST=127.0.0.1\\n" in written()
    True
    """
    parts = [_HEAD.format(name=name)]
    for field in fields(Settings):
        meaning = textwrap.wrap(field.metadata["help"], 90, initial_indent="# ", subsequent_indent="# ")
        default = str(field.default).lower() if isinstance(field.default, bool) else field.default
        parts.append("\n".join([*meaning, f"# {_PREFIX}{field.name.upper()}={default}", ""]))
    return "\n".join(parts)


def init(path: Path) -> int:
    """Write the file; an existing one is kept."""
    try:
        with open(path, "x", encoding="utf-8") as stream:
            stream.write(written(path.name))
    except FileExistsError:
        raise SetupError(f"{path} exists; give another name: prosem init NAME") from None
    except OSError as error:
        raise SetupError(f"cannot write {path}: {error.strerror}") from None
    print(f"wrote {path}; uncomment what you change, then: prosem --settings {path} serve")
    return 0


def load(path: Path) -> None:
    """Put the settings of a file into the environment, where they are not set already."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SetupError(
            f"cannot read {path}: {error.strerror}; prosem init {path.name} writes such a file"
        ) from None
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, separator, value = text.partition("=")
        if not separator or not name.startswith(_PREFIX):
            raise SetupError(f"{path}, line {number}: expected {_PREFIX}NAME=value, not {text[:60]!r}")
        os.environ.setdefault(name, value)
