"""A new network is one file and one line of the registry, and passes the contract suite of all networks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUITE = ("tests/cn/test_networks.py", "tests/cn/test_networks_faults.py")
FLOODING = '''
"""Flooding: every broker passes every message on to all of its children."""

from __future__ import annotations

from collections.abc import Iterable

from cn.model.frames import Data
from cn.networks.node import Out, Scheme, TreeNode, TreeRoot, balanced


class FloodingNode(TreeNode):
    """Passes every message on."""

    def carry(self, frame: Data) -> Iterable[Out]:
        return [(child, frame) for child in self.children]


class FloodingRoot(FloodingNode, TreeRoot):
    """The server sends every message to every broker. It loses by all that it sends without a match."""


FLOODING = Scheme("flooding", FloodingRoot, FloodingNode, balanced, exact=False)
'''


def test_one_file_and_one_line_pass_the_contract_suite_of_networks(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "cn", tmp_path / "cn", ignore=shutil.ignore_patterns("__pycache__"))
    for file in (
        *SUITE,
        "tests/support/effort.py",
        "tests/support/network_driver.py",
        "tests/support/network_examples.py",
        "pyproject.toml",
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    for folder in ("tests", "tests/cn", "tests/support"):
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "cn/networks/flooding.py").write_text(FLOODING)
    registry = tmp_path / "cn/networks/registry.py"
    text, line = registry.read_text(), "REGISTERED = (\n"
    assert text.count(line) == 1
    registry.write_text(text.replace(line, line + '    "cn.networks.flooding:FLOODING",\n'))

    chosen = "flooding or exactly_the_matching or every_network"
    found = subprocess.run(
        [sys.executable, "-m", "pytest", *SUITE, "-vv", "-p", "no:xdist", "-m", "not slow", "-k", chosen],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    passed = {file: len(re.findall(rf"^{file}::.*flooding.*PASSED", found.stdout, re.M)) for file in SUITE}
    assert all(passed.values()), found.stdout
