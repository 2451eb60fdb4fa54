"""The setting of the compiled structures. It holds for the process, like the loop and the collector's thresholds."""

from __future__ import annotations

import logging

from cn.match import kernels
from prosem.values.errors import SetupError

log = logging.getLogger("prosem")


def configure_kernels(setting: str) -> None:
    """Choose the implementation of all structures that are made from here on."""
    try:
        kernels.select(setting)
    except ValueError as error:
        raise SetupError(f"--{error}") from None
    level = logging.WARNING if kernels.found() is kernels.Found.UNUSABLE else logging.INFO
    log.log(level, "indexes: %s", kernels.describe())
