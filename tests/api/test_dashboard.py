"""The dashboard of Grafana is written from its source, and asks only for what the server measures."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

FOLDER = Path(__file__).parents[2] / "docker" / "grafana"


@pytest.fixture(scope="module")
def source() -> Any:
    spec = importlib.util.spec_from_file_location("grafana", FOLDER / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_it_is_fresh(source: Any) -> None:
    assert source.TARGET.read_text() == source.dashboard(), "run python docker/grafana/generate.py"


def test_it_asks_for_what_is_measured(source: Any, server: str) -> None:
    text = httpx.get(server + "/metrics", trust_env=False).text
    measured = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    asked = {
        name
        for _, _, queries in source.PANELS
        for query, _ in queries
        for name in re.findall(r"\bprosem_\w+", query)
    }
    assert asked - measured - {name + "_total" for name in measured} == set()
