"""Where the acceptance kit is."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
KIT = Path(os.environ.get("PROSEM_ACCEPTANCE") or ROOT.parent / "shared" / "acceptance")
