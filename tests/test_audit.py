"""The audit of dependencies finds what it says it finds."""

from __future__ import annotations

import pytest

from tests import audit

HASH = " --hash=sha256:" + "0" * 64
PROJECT = '[project]\ndependencies = ["httpx>=0.27"]\n'
GOOD = f"httpx==0.28.1 \\\n   {HASH}\n"


def test_what_is_pinned_here_has_no_findings() -> None:
    assert audit.main() == 0


def test_a_good_lock_has_none() -> None:
    assert audit.findings({"a": GOOD}, PROJECT) == []


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (f"x>=1{HASH}", "not pinned"),
        (f"x==1.*{HASH}", "not pinned"),
        ("x==1", "no SHA-256"),
        ("x==1 --hash=md5:00", "no SHA-256"),
        (f"x @ https://example.org/x.whl{HASH}", "not pinned"),
        ("-e ./x", "no pinned requirement"),
        ("--find-links ./x", "no pinned requirement"),
        (f"h11==0.14.0{HASH}", "CVE-2025-43859"),
        (f"httpx==0.27.0{HASH}", "several versions"),
    ],
)
def test_a_bad_line_is_found(line: str, complaint: str) -> None:
    (found,) = audit.findings({"a": f"{GOOD}{line}\n"}, PROJECT)
    assert complaint in found


def test_a_dependency_that_is_not_pinned_is_found() -> None:
    assert audit.findings({"a": ""}, PROJECT) == ["pyproject.toml asks for httpx>=0.27, which no lock has"]


def test_another_version_than_the_lock_says_is_found() -> None:
    assert "make install" in audit.installed_otherwise(f"pytest==1.0{HASH}")[0]
