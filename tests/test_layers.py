"""The layers of the architecture: api → prosem → optimizer → cn, and no arrow upwards."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = ("api", "prosem", "optimizer", "cn")  # each may import itself and what stands to its right
FOLDERS = {name: ROOT / name for name in (*LAYERS, "bench", "migrations")}
FOLDERS["prosem_client"] = ROOT / "clients" / "python" / "prosem_client"
ALLOWED = {name: set(LAYERS[at:]) for at, name in enumerate(LAYERS)}
ALLOWED["api"] |= {"bench", "prosem_client"}  # the command line runs the benches and speaks as a client
ALLOWED["bench"] = {*LAYERS, "bench", "prosem_client"}
ALLOWED["migrations"] = {"migrations", "prosem"}
ALLOWED["prosem_client"] = {"prosem_client"}
ONLY_BENCH_COMMAND = Path("api/cli.py")


def modules(package: str) -> Iterator[Path]:
    yield from sorted(FOLDERS[package].rglob("*.py"))


def imports(source: str, package: str) -> Iterator[tuple[str, int]]:
    """The top-level packages that a module imports anywhere in it, also within functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (package if node.level else (node.module or "").partition(".")[0]), node.lineno


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
    assert upward("def late():\n    from prosem.model import Row\n", "cn") == ["line 2: cn imports prosem"]
    assert upward("import api.app as app", "optimizer")
    assert upward("import prosem.errors", "prosem_client")
    assert not upward("from . import geometry\nimport cn.message, json", "cn")


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
    brought = {"starlette", "typing_extensions", "py4j"}  # by FastAPI and PySpark
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
