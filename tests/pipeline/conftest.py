"""One Spark session for all tests of the pipeline: its start takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.statistics.session import Session, open_session


@pytest.fixture(scope="session")
def spark() -> Iterator[Session]:
    """Needs Java: without any, the fixture fails and says what to install. Tests end before code is worth optimizing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
        with open_session("local[2]") as session:
            yield session
