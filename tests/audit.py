"""Audit of the dependencies: `python -m tests.audit`, run by `make check`. It needs no network.

Fails unless every requirement of the locks is pinned to one version with SHA-256 hashes and names no address, the locks
agree with each other and with what pyproject.toml asks for, what is installed is what the locks say, and nothing that is
known to be vulnerable is pinned (`KNOWN`, kept by hand). With `--online` it also asks pip-audit for published advisories,
where that is installed and the network allows it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
LOCKS = ("requirements.txt", "requirements-dev.txt", "requirements-kernels.txt")
OWN = {"prosem", "prosem-client", "prosem-kernels"}
# Versions with a published advisory that concerns how we use the package.
KNOWN: dict[str, tuple[str, str]] = {
    "uvicorn": ("<0.11.7", "CVE-2020-7694, CVE-2020-7695: responses could be split, logs forged"),
    "starlette": ("<0.49.1", "CVE-2025-62727: quadratic time of Range headers"),
    "fastapi": ("<0.109.1", "CVE-2024-24762: a form's content type takes exponential time"),
    "websockets": ("<9.1", "CVE-2021-33880: timing of basic authentication"),
    "httpx": ("<0.23.0", "CVE-2021-41945: URLs joined wrongly"),
    "h11": ("<0.16.0", "CVE-2025-43859: chunked bodies could be smuggled"),
    "pyarrow": (">=0.14.0,<14.0.1", "CVE-2023-47248: code in IPC and Parquet files"),
    "requests": ("<2.32.4", "CVE-2024-47081: credentials of .netrc sent to another host"),
    "urllib3": ("<2.6.0", "CVE-2025-66418, CVE-2025-66471: decompression without a bound"),
    "certifi": ("<2024.7.4", "CVE-2024-39689: a root certificate that is distrusted"),
    "jinja2": ("<3.1.6", "CVE-2025-27516: the sandbox could be left"),
    "setuptools": ("<78.1.1", "CVE-2025-47273: a path could be written outside of the folder"),
    "pillow": ("<10.3.0", "CVE-2024-28219: a buffer overflow"),
}


def entries(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each requirement of a lock with its hashes.

    >>> list(entries("a==1 \\\\\\n    --hash=sha256:00\\n# comment\\nb>=2\\n"))
    [('a==1', ['sha256:00']), ('b>=2', [])]
    """
    for line in text.replace("\\\n", " ").splitlines():
        line = line.split("#", 1)[0].strip()
        if line:
            first, *options = re.split(r"\s+--hash=", line)
            yield first.strip(), [option.strip() for option in options]


def findings(locks: dict[str, str], project: str) -> list[str]:
    """What is wrong with the locks themselves."""
    found, pinned = list[str](), dict[str, dict[str, set[Version]]]()
    for file, text in locks.items():
        for entry, hashes in entries(text):
            try:
                requirement = Requirement(entry)
            except InvalidRequirement:
                found.append(f"{file}: {entry!r} is no pinned requirement")
                continue
            name = canonicalize_name(requirement.name)
            pins = [one.version for one in requirement.specifier if one.operator == "=="]
            if requirement.url or len(pins) != 1 or len(requirement.specifier) != 1 or "*" in pins[0]:
                found.append(f"{file}: {entry} is not pinned to one version")
                continue
            if not hashes or not all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in hashes):
                found.append(f"{file}: {entry} has no SHA-256 hashes")
            version = Version(pins[0])
            bad, why = KNOWN.get(name, ("<0", ""))
            if version in SpecifierSet(bad, prereleases=True):
                found.append(f"{file}: {entry} is vulnerable: {why}")
            pinned.setdefault(name, {}).setdefault(str(requirement.marker or ""), set()).add(version)
    found += [
        f"{name} has several versions: {', '.join(sorted(map(str, versions)))}"
        for name, by_marker in pinned.items()
        for versions in by_marker.values()
        if len(versions) > 1
    ]
    for text in tomllib.loads(project)["project"]["dependencies"]:
        asked = Requirement(text)
        versions = {one for some in pinned.get(canonicalize_name(asked.name), {}).values() for one in some}
        if canonicalize_name(asked.name) not in OWN and not any(one in asked.specifier for one in versions):
            found.append(f"pyproject.toml asks for {text}, which no lock has")
    return found


def installed_otherwise(lock: str) -> list[str]:
    """What is installed in another version than the lock says."""
    found = []
    for entry, _ in entries(lock):
        requirement = Requirement(entry)
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if version not in requirement.specifier:
            found.append(
                f"{requirement.name} {version} is installed, the lock says {requirement.specifier}: make install"
            )
    return found


def main() -> int:
    locks = {name: (ROOT / name).read_text() for name in LOCKS}
    found = findings(locks, (ROOT / "pyproject.toml").read_text())
    found += installed_otherwise(locks["requirements-dev.txt"])
    for line in found:
        print(line, file=sys.stderr)
    total = sum(len(list(entries(text))) for text in locks.values())
    print(f"dependencies: {total} pinned requirements in {len(LOCKS)} locks, {len(found)} findings")
    if "--online" in sys.argv[1:]:
        if importlib.util.find_spec("pip_audit") is None:
            print("pip-audit is not installed: published advisories were not asked for", file=sys.stderr)
            return 1
        for name in LOCKS:
            command = [
                sys.executable,
                "-m",
                "pip_audit",
                "--require-hashes",
                "--disable-pip",
                "-r",
                str(ROOT / name),
            ]
            found += ["pip-audit"] * bool(subprocess.run(command, check=False).returncode)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
