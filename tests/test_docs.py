"""The documentation is right: complete, free of dead names and links, and its examples run.

A fenced block of `sh` or `python` is executed, in the order of its page; a block of `text` right after it is
its output. Blocks of `console` are only read: their commands and options must exist.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer.main

from api.commands.cli import app
from api.server.settings import BrokerSettings, Settings
from bench.registry import BENCHES
from cn.simulation.registry import NETWORKS
from docs import generate
from prosem.store.embedded import EmbeddedPostgres
from prosem.types.registry import TYPES
from prosem.values import columns
from prosem.values.errors import ProsemError
from tests.support.processes import ServerProcess

ROOT = Path(__file__).parents[1]
PAGES = {str(page.relative_to(ROOT)): page.read_text() for page in generate.pages()}
ADDRESS = "http://127.0.0.1:8080"
FRESH = ("docs/tutorial.md",)  # pages whose output is that of a new server
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS: dict[str, Any] = dict(generate.leaves(typer.main.get_command(app)))


def code_lines(text: str) -> Iterator[str]:
    """Lines of commands in blocks, and inline code."""
    for language, body in _BLOCK.findall(text):
        if language in ("sh", "console"):
            yield from body.splitlines()
    yield from re.findall(r"`([^`\n]+)`", _BLOCK.sub("", text))


# -- nothing is undocumented, and nothing is documented that does not exist ----------------------------------
def all_errors(kind: type[ProsemError] = ProsemError) -> Iterator[type[ProsemError]]:
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == "prosem.values.errors":
            yield from all_errors(child)


@pytest.mark.parametrize("page", PAGES)
def test_generated_parts_are_fresh(page: str) -> None:
    assert generate.renewed(PAGES[page]) == PAGES[page], f"{page} is stale: run python docs/generate.py"


def test_every_generated_part_is_on_a_page() -> None:
    assert sorted(re.findall(r"<!-- generated: (\w+) -->", "".join(PAGES.values()))) == sorted(generate.PARTS)


def test_every_error_has_its_section_and_no_other() -> None:
    sections = set(re.findall(r"^## ([a-z-]+)$", PAGES["docs/errors.md"], re.MULTILINE))
    assert sections == {kind.code for kind in all_errors()}


def test_every_setting_type_network_and_bench_is_documented() -> None:
    for field in fields(Settings):
        assert f"`PROSEM_{field.name.upper()}`" in PAGES["docs/settings.md"]
    for kind in TYPES:
        assert f"### {kind.name}\n" in PAGES["docs/types.md"]
    for name in NETWORKS:
        assert f"`{name}`" in PAGES["docs/networks.md"]
    for name in BENCHES:
        assert f"`{name}`" in PAGES["docs/benchmarks.md"]
    for name in columns._SIMPLE:
        assert f"`{name}`" in PAGES["docs/http.md"]


def test_every_metric_is_documented(server: str) -> None:
    text = httpx.get(server + "/metrics", trust_env=False).text
    found = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    assert "prosem_seq" in found
    assert found == set(
        re.findall(r"`(prosem_[a-z_]+)(?:\{[a-z,]+\})?`", _section("docs/http.md", "Operation"))
    )


def _section(page: str, title: str) -> str:
    return PAGES[page].partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    reasons = _section("ARCHITECTURE.md", "Dependencies")
    extras = [requirement for some in project["optional-dependencies"].values() for requirement in some]
    for requirement in [*project["dependencies"], *extras]:
        name = re.split(r"[\[<>=;~ ]", requirement)[0]
        if name == project["name"]:
            continue  # extras that another one takes in
        assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", reasons), f"why {name}?"


def bad_commands(line: str) -> list[str]:
    """What a line calls that does not exist: commands of prosem and their options, targets of make."""
    wrong = []
    for call in re.findall(r"(?:^|[\s$;|/])prosem ([a-z][^|;#&\n]*)", line):
        try:
            name, *rest = shlex.split(call)
        except ValueError:
            continue  # prose in quotes
        if name not in COMMANDS and rest and f"{name} {rest[0]}" in COMMANDS:
            name = f"{name} {rest.pop(0)}"
        command = COMMANDS.get(name)
        if command is None:
            wrong.append(f"prosem {name}")
            continue
        known = {option for parameter in command.params for option in parameter.opts}
        wrong += [
            f"prosem {name} {word}"
            for word in rest
            if word.startswith("-") and word != "-" and word not in known
        ]
        if (
            name == "bench"
            and rest
            and not rest[0].startswith("-")
            and rest[0] not in ("all", "NAME", *BENCHES)
        ):
            wrong.append(f"prosem bench {rest[0]}")
    targets = re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    wrong += [
        f"make {target}"
        for target in re.findall(r"(?:^|\s)make ([a-z][a-z-]*)", line)
        if target not in targets
    ]
    return wrong


def test_bad_commands_are_found() -> None:
    assert bad_commands("$ prosem serve --port 1 && prosem migrat") == ["prosem migrat"]
    assert bad_commands(".venv/bin/prosem serve --prot 1") == ["prosem serve --prot"]
    assert bad_commands("prosem bench ranges; make demmo") == ["prosem bench ranges", "make demmo"]


@pytest.mark.parametrize("page", PAGES)
def test_documented_commands_exist(page: str) -> None:
    assert [wrong for line in code_lines(PAGES[page]) for wrong in bad_commands(line)] == []


def test_documented_options_and_variables_exist() -> None:
    options = {option for command in COMMANDS.values() for p in command.params for option in p.opts}
    for page, text in PAGES.items():
        for option in re.findall(r"`(--[a-z-]+)", text):
            assert option in options, f"{page}: {option}"
    known = (*fields(Settings), *fields(BrokerSettings))
    variables = {f"PROSEM_{field.name.upper()}" for field in known} | {
        "PROSEM_URL",
        "PROSEM_SOURCE",
        "PROSEM_SETTINGS",
    }
    texts = PAGES | {
        path.name: path.read_text()
        for path in (ROOT / "docker").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    for page, text in texts.items():
        assert set(re.findall(r"\bPROSEM_[A-Z_]+[A-Z]\b", text)) <= variables, page


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", _BLOCK.sub("", PAGES[page])):
        if link.startswith(("http:", "https:")):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), link
        if anchor:
            titles = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}, (
                link
            )


def test_the_readme_shows_a_live_result_at_once() -> None:
    lines = PAGES["README.md"].splitlines()[:25]
    assert any("make demo" in line for line in lines)
    assert any(re.match(r'\{"id": .*"seq": \d+, "change": \{', line) for line in lines)


def test_the_readme_links_every_page() -> None:
    linked = set(re.findall(r"\]\(([^)#\s]+)\)", PAGES["README.md"]))
    linked |= {f"examples/{name}" for name in re.findall(r"\]\(([^)#\s]+)\)", PAGES["examples/README.md"])}
    assert {page for page in PAGES if page != "README.md"} <= linked


# -- the bibliography ----------------------------------------------------------------------------------------
CITED = set(re.findall(r"^### (.+)$", PAGES["docs/bibliography.md"], re.MULTILINE))


@pytest.mark.parametrize("page", [page for page in PAGES if page != "docs/bibliography.md"])
def test_every_citation_leads_to_the_bibliography(page: str) -> None:
    text = PAGES[page]
    defined = dict(re.findall(r"^\[([^\]]+)\]: (\S+)$", text, re.MULTILINE))
    cited = {key for key in CITED if f"[{key}]" in re.sub(r"^\[.+\]: \S+$", "", text, flags=re.MULTILINE)}
    assert set(defined) == cited
    for key, link in defined.items():
        path, _, anchor = link.partition("#")
        assert ((ROOT / page).parent / path).resolve() == ROOT / "docs" / "bibliography.md"
        assert anchor == key.lower().replace(" ", "-")


def test_code_cites_the_bibliography() -> None:
    keys = "|".join(map(re.escape, CITED))
    outside = re.compile(
        rf"seed texts? \d|algorithms §|(?<!\[)\b(?:{keys})(?:'s|,)? §?\d|\b(?<!ProSem )thesis \d", re.I
    )
    assert outside.search("(Thesis 3.1)")
    assert outside.search("(Beretta, §5.3)")
    assert not outside.search("([ProSem thesis] 3.1, [Beretta] 5.3)")
    folders = ("api", "bench", "clients/python", "cn", "migrations", "optimizer", "pipeline", "prosem")
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found = outside.search(ast.get_docstring(node) or "")
                assert not found, f"{path.relative_to(ROOT)}: {found}"


# -- the examples --------------------------------------------------------------------------------------------
@dataclass
class Example:
    language: str
    source: str
    output: str | None


def examples(text: str) -> list[Example]:
    found: list[Example] = []
    end = -1
    for block in _BLOCK.finditer(text):
        if block[1] in ("sh", "python"):
            found.append(Example(block[1], block[2], None))
            end = block.end()
        elif block[1] == "text" and found and not text[end : block.start()].strip():
            found[-1].output = block[2]
    return found


# curl fails on a refusal; streams that never end are cut off.
PRELUDE = """set -euo pipefail
curl() {
    local status=0 limit=()
    [[ " $* " == *" -N "* ]] && limit=(--max-time 1.5)
    command curl --silent --show-error --fail-with-body --noproxy '*' "${limit[@]}" "$@" || status=$?
    [[ $status == 0 || ($status == 28 && ${#limit[@]} != 0) ]]
}
prosem() {
    local status=0 limit=()
    [[ $1 == subscribe ]] && limit=(timeout 2)
    "${limit[@]}" "$PYTHON" -m api.commands.cli "$@" || status=$?
    [[ $status == 0 || ($status == 124 && ${#limit[@]} != 0) ]]
}
"""


def run(example: Example, url: str, folder: Path, source_url: str = "") -> str:
    source = example.source.replace(ADDRESS, url)
    is_python = example.language == "python"
    command = [sys.executable, "-c", source] if is_python else ["bash", "-c", PRELUDE + source]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PROSEM_")}
    environment = clean | {"PROSEM_URL": url, "PYTHON": sys.executable, "SOURCE": source_url}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{source}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_all(page: str, text: str, url: str, folder: Path, source_url: str = "") -> None:
    for example in examples(text):
        output = run(example, url, folder, source_url)
        if example.output is not None:
            output = re.sub(
                r'"timeline":"[0-9a-f]+"', '"timeline":"4f0c9a1b22"', output
            )  # each server has its own
            assert output.strip() == example.output.strip(), f"{page}:\n{example.source}"


@pytest.mark.skipif(shutil.which("curl") is None, reason="the examples use curl")
@pytest.mark.parametrize("page", FRESH)
def test_examples_on_a_new_server(page: str, own_server: ServerProcess, tmp_path: Path) -> None:
    assert examples(PAGES[page])
    run_all(page, PAGES[page], own_server.start(), tmp_path)


@pytest.mark.skipif(shutil.which("curl") is None, reason="the examples use curl")
@pytest.mark.parametrize(
    "page", [page for page, text in PAGES.items() if examples(text) and page not in FRESH]
)
def test_examples(page: str, server: str, postgres: EmbeddedPostgres, tmp_path: Path) -> None:
    own = "stocks_" + re.sub(r"\W", "_", page).lower()  # a table of the page's own on the shared server
    run_all(page, PAGES[page].replace("stocks", own), server, tmp_path, postgres.url)


def test_an_example_that_fails_is_noticed(tmp_path: Path) -> None:
    (example,) = examples("```sh\nfalse\ntrue\n```\n\n```text\nnothing\n```\n")
    assert example.output == "nothing\n"
    with pytest.raises(AssertionError):
        run(example, ADDRESS, tmp_path)


# -- committed files -----------------------------------------------------------------------------------------
HOSTS = "pypi/org pythonhosted/org npmjs/org npmjs/com yarnpkg/com docker/io ghcr/io quay/io gcr/io jfrog/io"
OPTIONS = r"--(?:extra-)?index-url[ =]\S|(?:PIP|UV)_(?:EXTRA_)?INDEX_URL"
REGISTRIES = re.compile("|".join([*(re.escape(host.replace("/", ".")) for host in HOSTS.split()), OPTIONS]))
LOCAL_PATH = re.compile(r"(?<![\w.~}/-])/(?:home|root|Users|work|workspace|tmp|mnt|private)/[\w.]")


def committed() -> list[Path]:
    """What is or would be committed; without git, everything outside of made folders."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = (
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if (ROOT / ".git").exists()
        else None
    )
    if listed is not None and listed.returncode == 0:
        return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    made = {".venv", "__pycache__", "build", "dist", ".hypothesis", ".mypy_cache", ".ruff_cache", ".git"}
    return [
        path for path in ROOT.rglob("*") if path.is_file() and not made & set(path.relative_to(ROOT).parts)
    ]


def leaks(text: str) -> list[str]:
    return [found[0] for pattern in (REGISTRIES, LOCAL_PATH) for found in pattern.finditer(text)]


def test_leaks_are_found() -> None:
    registry = "files." + "pythonhosted" + ".org"
    assert leaks(f"from {registry}/x")
    assert leaks("pip install --index" + "-url https://x")
    assert leaks('open("/' + 'home/me/x")')
    assert not leaks("https://x.example/home/me, ./tmp/x, --no-emit-index-url")


def test_no_registry_and_no_local_path_is_committed() -> None:
    files = committed()
    assert len(files) > 50
    for path in files:
        found = leaks(path.read_text(errors="replace"))
        assert not found, f"{path.relative_to(ROOT)}: {found}"
