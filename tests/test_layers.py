"""The architecture as arrows between packages and rooms: imports go downwards only, and no room stands in a cycle."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = (
    "api",
    "pipeline",
    "prosem",
    "optimizer",
    "cn",
)  # each may import itself and what stands to its right
FOLDERS = {name: ROOT / name for name in (*LAYERS, "bench", "migrations")}
FOLDERS["prosem_client"] = ROOT / "clients" / "python" / "prosem_client"
ALLOWED = {name: set(LAYERS[at:]) for at, name in enumerate(LAYERS)}
ALLOWED["api"] |= {"bench", "prosem_client"}  # the command line runs the benches and speaks as a client
ALLOWED["bench"] = {*LAYERS, "bench", "prosem_client"}
ALLOWED["migrations"] = {"migrations", "prosem"}
ALLOWED["prosem_client"] = {"prosem_client"}
ONLY_BENCH_COMMAND = Path("api/commands/cli.py")

# The rooms of a package, from the top down: a room may import those after it.
ROOMS = {
    "api": ("commands", "broker", "attach", "poll", "http", "server", "webhooks", "console"),
    "pipeline": ("backtest", "statistics"),
    "prosem": (
        "brokers",
        "delivery",
        "engine",
        "views",
        "types",
        "store",
        "index",
        "language",
        "values",
        "runtime",
    ),
    "prosem.types": (
        "registry",
        "notified",  # made of the structures of extreme, sums and value
        "aggregates",  # made of the structures of extreme and sums
        "EACH",
        "shared",
        "base",
    ),  # EACH: one package per type; none imports another
    "cn": ("simulation", "transport", "networks", "match", "model"),
}
LOOSE = {"__init__", "__main__"}  # modules that may stand in a package outside its rooms


def modules(package: str) -> Iterator[Path]:
    yield from sorted(FOLDERS[package].rglob("*.py"))


def dotted(path: Path) -> str:
    """The name under which a module of the repository is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(source: str, package: str = "") -> Iterator[tuple[str, int]]:
    """The dotted names that a module imports anywhere in it, also within functions; a member counts as a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package if node.level else (node.module or "")
            yield from ((f"{start}.{alias.name}", node.lineno) for alias in node.names)


def imports(source: str, package: str) -> Iterator[tuple[str, int]]:
    """The top-level packages that a module imports."""
    yield from ((name.partition(".")[0], line) for name, line in imported(source, package))


def upward(source: str, package: str) -> list[str]:
    """The arrows of a module that the layers do not allow."""
    ours = FOLDERS.keys()
    return [
        f"line {line}: {package} imports {name}"
        for name, line in imports(source, package)
        if name in ours and name not in ALLOWED[package]
    ]


@pytest.mark.parametrize("package", FOLDERS)
def test_no_arrow_points_upwards(package: str) -> None:
    found = list(modules(package))
    assert found, f"{FOLDERS[package]} holds no module"
    wrong = [
        f"{path.relative_to(ROOT)} {arrow}" for path in found for arrow in upward(path.read_text(), package)
    ]
    assert not wrong, "\n".join(wrong)


def test_an_upward_arrow_is_noticed() -> None:
    assert upward("def late():\n    from prosem.values.model import Row\n", "cn") == [
        "line 2: cn imports prosem"
    ]
    assert upward("import api.http.app as app", "optimizer")
    assert upward("import prosem.values.errors", "prosem_client")
    assert not upward("from . import geometry\nimport cn.model.message, json", "cn")


def room_of(package: str, name: str) -> str | None:
    """The room of a package that a dotted name stands in; None if it is not of the package, or the package itself."""
    prefix = package + "."
    return name[len(prefix) :].partition(".")[0] if name.startswith(prefix) else None


def misplaced(package: str, name: str, source: str) -> list[str]:
    """The arrows of a module to a room that stands above its own one, or beside it."""
    order = ROOMS[package]
    each = {room.name for room in (ROOT / package.replace(".", "/")).iterdir() if room.is_dir()} - {*order}
    rank = {room: at for at, room in enumerate(order)} | (
        dict.fromkeys(each, order.index("EACH")) if "EACH" in order else {}
    )
    own = room_of(package, name)
    if own is None or own in LOOSE:
        return []
    if own not in rank:
        return [f"{name} stands in no room of {package}"]
    found = []
    for target, line in imported(source):
        room = room_of(package, target)
        if room is None or room == own or room not in rank:
            continue
        if rank[room] <= rank[own]:
            found.append(f"{name} line {line}: {own} imports {room}")
    return found


@pytest.mark.parametrize("package", ROOMS)
def test_rooms_import_in_one_direction(package: str) -> None:
    folder = ROOT / package.replace(".", "/")
    wrong = [
        arrow
        for path in sorted(folder.rglob("*.py"))
        for arrow in misplaced(package, dotted(path), path.read_text())
    ]
    assert not wrong, "\n".join(wrong)


def test_a_cycle_between_two_rooms_is_noticed() -> None:
    assert misplaced("prosem", "prosem.engine.pipeline", "from prosem.delivery.edge import Edge")
    assert misplaced(
        "prosem.types", "prosem.types.value.form", "from prosem.types.join.shape import JoinShape"
    )
    assert misplaced("prosem.types", "prosem.types.base", "from prosem.types.join.shape import JoinShape")
    assert misplaced("cn", "cn.networks.cbn", "def late():\n    import cn.simulation.network")
    assert misplaced("prosem", "prosem.loose", "import json") == ["prosem.loose stands in no room of prosem"]
    assert not misplaced("prosem", "prosem.delivery.edge", "from prosem.engine import commands")


@pytest.mark.parametrize("package", ["api", "prosem", "cn", "pipeline"])
def test_no_module_stands_outside_the_rooms(package: str) -> None:
    assert {path.stem for path in (ROOT / package).glob("*.py")} <= LOOSE


@pytest.mark.parametrize("package", ["api", "prosem", "cn", "pipeline"])
def test_every_room_says_what_it_is_for(package: str) -> None:
    for room in ROOMS[package]:
        path = ROOT / package / room / "__init__.py"
        if path.exists():
            text = ast.get_docstring(ast.parse(path.read_text()))
            assert text, f"{path.relative_to(ROOT)} has no docstring"
            assert "\n" not in text.strip(), f"{path.relative_to(ROOT)}: one line"


def test_the_benches_are_reached_by_the_command_line_alone() -> None:
    users = {
        path.relative_to(ROOT)
        for path in modules("api")
        if any(name == "bench" for name, _ in imports(path.read_text(), "api"))
    }
    assert users <= {ONLY_BENCH_COMMAND}


def mentioned(source: str) -> set[str]:
    """Every name and word of a module's code and texts, comments aside."""
    words: set[str] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.NAME, tokenize.STRING):
            words |= {word.lower() for word in token.string.replace(".", " ").split()}
    return words


@pytest.mark.parametrize("name", ["sqlglot", "psycopg", "sqlalchemy", "fastapi", "starlette"])
def test_the_network_knows_no_sql_no_database_and_no_http(name: str) -> None:
    assert name in mentioned(f"import {name}.sub")
    users = [str(path.relative_to(ROOT)) for path in modules("cn") if name in mentioned(path.read_text())]
    assert not users


def test_every_import_is_known() -> None:
    """A module imports the standard library, a dependency of the project, or one of our packages."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = [
        *project["dependencies"],
        *(name for extra, some in extras.items() if extra != "dev" for name in some),
    ]
    names = {text.split(">")[0].split("<")[0].split("[")[0].strip().replace("-", "_") for text in needed}
    brought = {
        "starlette",
        "typing_extensions",
        "py4j",
        "multidict",
        "yarl",
    }  # by FastAPI, PySpark and aiohttp
    brought |= {
        "opentelemetry",
        "nats",
        "adbc_driver_postgresql",
    }  # the packages are not called as they are imported
    known = names | brought | set(FOLDERS) | set(sys.stdlib_module_names)
    for package in FOLDERS:
        for path in modules(package):
            odd = {name for name, _ in imports(path.read_text(), package)} - known
            assert not odd, f"{path.relative_to(ROOT)} imports {odd}"
