"""The parts of the documentation that are lists of what the code has.

Each stands between two markers in a page, `<!-- generated: name -->` and `<!-- end -->`.
`python docs/generate.py` writes them anew, with `--check` it only says which are stale; a test does the same,
so that a new type, setting, error, route, command, network or benchmark cannot go undocumented.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import typer.main

from api.commands.cli import app
from api.http.app import make_app
from api.server.lifetime import ServerLifetime
from api.server.settings import Settings
from bench.registry import BENCHES
from cn.simulation.registry import NETWORKS
from prosem.types.registry import TYPES
from prosem.values.errors import ProsemError

ROOT = Path(__file__).resolve().parents[1]
_PART = re.compile(r"(<!-- generated: ([a-z]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
Rows = Iterator[list[str]]


def table(head: list[str], rows: Rows) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def code(text: str) -> str:
    return f"`{text}`" if text else ""


# -- the lists -----------------------------------------------------------------------------------------------
def errors() -> str:
    """Every class of the tree that has a code of its own, parents first."""

    def walk(kind: type[ProsemError], depth: int = 0) -> Rows:
        if "code" in vars(kind):  # else it only has something that its children share
            yield [
                "&emsp;" * depth + f"[`{kind.code}`](#{kind.code})",
                str(kind.status),
                kind.title,
                code(kind.__name__),
            ]
        for child in kind.__subclasses__():
            if child.__module__ == kind.__module__:
                yield from walk(child, depth + ("code" in vars(kind)))

    return table(["code", "status", "title", "class"], walk(ProsemError))


def settings() -> str:
    def rows() -> Rows:
        for field in fields(Settings):
            option, variable = "--" + field.name.replace("_", "-"), "PROSEM_" + field.name.upper()
            default = str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
            yield [code(option), code(variable), code(default), field.metadata["help"]]

    return table(["option", "variable", "default", "meaning"], rows())


def types() -> str:
    def one(kind: dict[str, Any]) -> str:
        lines = [f"### {kind['name']}\n", "```sql", kind["sql"], "```\n"]
        for message in kind["messages"]:
            lines.append(f"- message `{message['name']}`, to `{message['region']}`: {message['payload']}")
        lines.append(f"- the subscriber's update: {kind['update']}")
        lines.append(f"- the subscriber's transformation: {kind['transform']}")
        lines.append(f"- `notify`: {', '.join(map(str, kind['notify'])) or 'none'}")
        return "\n".join(lines) + "\n"

    return "\n".join(one(kind.describe()) for kind in TYPES)


def networks() -> str:
    return table(
        ["name", "what it is"],
        ([code(name), (made.__doc__ or "").partition("\n")[0]] for name, made in NETWORKS.items()),
    )


def benches() -> str:
    return table(["name", "what it measures"], ([code(name), text] for name, (_, text) in BENCHES.items()))


def commands() -> str:
    common = {field.name for field in fields(Settings)}
    parts = []
    for name, command in leaves(typer.main.get_command(app)):
        takes_all = common <= {p.name for p in command.params}
        own = [p for p in command.params if p.name not in common or not takes_all]
        arguments = " ".join(p.name.upper() for p in own if p.param_type_name == "argument")
        parts.append(
            f"### prosem {name}\n\n`prosem {name}{' ' + arguments if arguments else ''}`: {command.help}\n"
        )
        if own:
            parts.append(table(["argument or option", "default", "meaning"], (_parameter(p) for p in own)))
        if takes_all:
            parts.append("It also takes every [setting](settings.md).\n")
    return "\n".join(parts)


def leaves(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Every command by its full name, those of a group of commands too."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, f"{before}{name} ")
        else:
            yield before + name, command


def _parameter(parameter: Any) -> list[str]:
    if parameter.param_type_name == "argument":
        return [code(parameter.name.upper()), "", parameter.help or ""]
    names = [text for text in parameter.opts if text.startswith("-")]
    default = (
        "" if parameter.is_flag or parameter.required or parameter.multiple else str(parameter.default or "")
    )
    variable = f" (`{parameter.envvar}`)" if parameter.envvar else ""
    return [", ".join(map(code, names)), code(default), (parameter.help or "") + variable]


def routes() -> str:
    made = make_app(ServerLifetime(Settings()))

    def rows() -> Rows:
        for path, operations in made.openapi()["paths"].items():
            for method, operation in operations.items():
                yield [code(f"{method.upper()} {path}"), operation["summary"]]

    return table(["route", "what it does"], iter(sorted(rows(), key=lambda row: row[0].split()[1])))


PARTS: dict[str, Callable[[], str]] = {
    made.__name__: made for made in (errors, settings, types, networks, benches, commands, routes)
}


# -- the pages -----------------------------------------------------------------------------------------------
def pages() -> list[Path]:
    return [
        path
        for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md")
        for path in sorted(ROOT.glob(pattern))
    ]


def renewed(text: str) -> str:
    """A page with its generated parts as the code has them now."""
    return _PART.sub(lambda found: f"{found[1]}\n{PARTS[found[2]]()}\n{found[4]}", text)


def stale() -> list[Path]:
    return [page for page in pages() if renewed(page.read_text()) != page.read_text()]


def main(check: bool) -> int:
    found = stale()
    for page in found:
        print(f"{page.relative_to(ROOT)} is {'stale' if check else 'written anew'}")
        if not check:
            page.write_text(renewed(page.read_text()))
    return 1 if check and found else 0


if __name__ == "__main__":
    raise SystemExit(main("--check" in sys.argv[1:]))
