"""`make docs`: the documentation as a site with search, in `build/site/<version>`, from the pages of the repository.

The pages are copied with the files that they link to, so every link is checked where it stands. Two pages are made here:
the reference of the HTTP interface, from the OpenAPI document of this version, and that of the Python client, from its
docstrings. `versions.json` beside the versions lists all that were built; the site has a menu of them. Nothing is
loaded from other hosts, neither while it is built nor by its readers.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from api import VERSION
from api.http.app import make_app
from api.server.lifetime import ServerLifetime
from api.server.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
SOURCE, SITE = ROOT / "build" / "site-source", ROOT / "build" / "site"
PAGES = ("*.md", "docs/**/*.md", "examples/**/*.md", "clients/*/README.md")
_LINK = re.compile(r"\]\((?!https?:|#)([^)\s#]+)")
_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_METHODS = ("get", "post", "put", "patch", "delete")
_PYTHON = ("Client", "SyncSubscription", "LiveFrame", "SyncPublisher", "AsyncClient", "Subscription", "Publisher",
           "UpdateMonitor", "PinnedVariable", "Change", "Result", "Published", "Batch", "ProsemError")  # fmt: skip


def main(site: Path = SITE) -> int:
    """Assemble the pages and build this version; the exit code of MkDocs."""
    assemble(SOURCE)
    target = site / VERSION
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    done = subprocess.run(
        [*command, "--config-file", ROOT / "docs" / "mkdocs.yml", "--site-dir", target],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )
    if done.returncode == 0:
        list_versions(site)
        print(f"{target}: python -m http.server --bind 127.0.0.1 --directory {site}")
    return done.returncode


def assemble(folder: Path) -> None:
    """Every page at its place in the repository, what it links to, and the generated pages."""
    shutil.rmtree(folder, ignore_errors=True)
    for page in sorted(found for pattern in PAGES for found in ROOT.glob(pattern)):
        text = page.read_text(encoding="utf-8")
        _write(folder / page.relative_to(ROOT), text)
        for link in _LINK.findall(_BLOCK.sub("", text)):
            target = (page.parent / link).resolve()
            if target.is_file() and target.suffix != ".md":
                copy = folder / target.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(target, copy)
    document = make_app(ServerLifetime(Settings())).openapi()
    _write(folder / "reference" / "http-api.md", http_reference(document))
    _write(folder / "reference" / "openapi.json", json.dumps(document, indent=1))
    _write(folder / "reference" / "python.md", python_reference())


def list_versions(site: Path) -> None:
    """`versions.json` for the menu of versions, newest first; the site's own page leads to the newest."""
    made = [page.parent.name for page in site.glob("*/index.html")]
    made.sort(key=lambda name: [int(part) for part in re.findall(r"\d+", name)], reverse=True)
    listed = [
        {"version": name, "title": name, "aliases": ["latest"] if not at else []}
        for at, name in enumerate(made)
    ]
    (site / "versions.json").write_text(json.dumps(listed))
    (site / "index.html").write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0; url={made[0]}/index.html">\n'
    )


def python_reference() -> str:
    parts = [
        f"# Python client, {VERSION}\n\nGenerated from docstrings. [The guide](../clients/python/README.md) has examples.\n"
    ]
    return "\n".join([*parts, *(f"::: prosem_client.{name}\n" for name in _PYTHON)])


# -- the HTTP interface ----------------------------------------------------------------------------------------------
def http_reference(document: dict[str, Any]) -> str:
    """A section per operation, by the tags of the document."""
    by_tag: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method in _METHODS:
            if method in operations:
                operation = operations[method]
                tag = (operation.get("tags") or ["operation"])[0]
                by_tag.setdefault(tag, []).append("\n".join(_operation(document, method, path, operation)))
    head = (
        f"# HTTP interface, {VERSION}\n\nGenerated from the OpenAPI document, which a server has at `/openapi.json`"
        " ([this version's](openapi.json)). [HTTP and WebSocket](../docs/http.md) explains it.\n"
    )
    sections = [f"## {tag}\n\n" + "\n".join(parts) for tag, parts in sorted(by_tag.items())]
    return "\n".join([head, *sections, _schemas(document)])


def _operation(document: dict[str, Any], method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"### {method.upper()} {path}\n"
    yield f"{operation.get('summary', '')}.\n"
    if parameters := operation.get("parameters"):
        yield "| parameter | in | type | meaning |\n| --- | --- | --- | --- |"
        for one in parameters:
            kind = _type(one.get("schema", {}))
            yield f"| `{one['name']}` | {one['in']} | {kind} | {_cell(one.get('description', ''))} |"
        yield ""
    for content, body in operation.get("requestBody", {}).get("content", {}).items():
        schema = body.get("schema", {})
        yield f"Body ({content}): {_type(schema)}\n"
        if example := schema.get("example") or body.get("example"):
            yield f"```json\n{json.dumps(example, indent=2)}\n```\n"
    responses = operation.get("responses", {})
    yield "| status | response |\n| --- | --- |"
    for status, response in responses.items():
        kinds = [_type(content.get("schema", {})) for content in response.get("content", {}).values()]
        yield f"| {status} | {_cell(response.get('description', ''))}{': ' if kinds else ''}{', '.join(kinds)} |"
    yield ""


def _schemas(document: dict[str, Any]) -> str:
    parts = ["## Schemas\n"]
    for name, schema in sorted(document.get("components", {}).get("schemas", {}).items()):
        parts.append(f"### {name}\n\n{schema.get('description', '')}\n")
        if fields := schema.get("properties"):
            required = set(schema.get("required", ()))
            parts.append("| field | type | required | meaning |\n| --- | --- | --- | --- |")
            for field, one in fields.items():
                meaning = _cell(one.get("description", ""))
                parts.append(
                    f"| `{field}` | {_type(one)} | {'yes' if field in required else ''} | {meaning} |"
                )
            parts.append("")
    return "\n".join(parts)


def _type(schema: dict[str, Any]) -> str:
    """A schema in a few words; a named one leads to its section."""
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_type(one) for one in schema[key]))
    if "enum" in schema or "const" in schema:
        return " or ".join(f"`{json.dumps(one)}`" for one in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    kind = schema.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
