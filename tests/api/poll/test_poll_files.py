"""Feeds that change while they are looked at: every version is seen, and half a version never."""

from __future__ import annotations

import os
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from api.poll import source as module
from api.poll.formats import FeedError
from api.poll.source import FileSource, HttpSource, SourceVersion
from tests.api.poll.test_poll import Desk, Site, desk, site, stock

__all__ = ["desk", "site"]


class Rewritten(type(Path())):  # type: ignore[misc]
    """A path whose file is replaced just before its status is asked for, once."""

    def stat(self, **options: Any) -> os.stat_result:
        other = self.with_name("next")
        if os.path.exists(other):
            os.replace(other, self)
        return super().stat(**options)  # type: ignore[no-any-return]


def test_a_file_replaced_during_a_look_is_seen_at_the_next(desk: Desk) -> None:
    desk.write([stock("B", 2, 2)])
    os.rename(desk.feed, desk.feed.with_name("next"))
    desk.write([stock("A", 1, 1)])
    source = FileSource(Rewritten(desk.feed), 1 << 20)
    desk.look(source)
    Rewritten(desk.feed).stat()
    desk.look(source)
    assert desk.rows().keys() == {"A", "B"}
    assert desk.look(source) is None


def test_a_file_with_the_same_size_and_time_is_seen(desk: Desk) -> None:
    desk.write([stock("A", 1, 1)])
    status = desk.feed.stat()
    desk.look()
    desk.write([stock("A", 2, 1)])
    os.utime(desk.feed, ns=(status.st_atime_ns, status.st_mtime_ns))
    desk.look()
    assert desk.rows() == {"A": (2, 1.0)}


@pytest.mark.parametrize("size", [0, 3, 50], ids=["emptied", "cut off", "longer"])
def test_a_file_that_is_written_while_it_is_read_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    feed, calls = tmp_path / "feed.csv", []
    feed.write_text("a,b\n1,2\n")

    def fstat(number: int) -> os.stat_result:
        calls.append(number)
        if len(calls) == 2:
            os.truncate(feed, size)
        return os.stat(number)

    monkeypatch.setattr(module.os, "fstat", fstat)
    source = FileSource(feed, 1_000)
    with pytest.raises(FeedError, match="being written"):
        source.fetch(SourceVersion())
    feed.write_text("a,b\n3,4\n")
    assert source.fetch(SourceVersion()) == (b"a,b\n3,4\n", SourceVersion())


def test_a_site_that_changes_twice_in_a_second_is_asked_again(desk: Desk, site: Site) -> None:
    versions = [
        b'{"items": [{"symbol": "A", "risk": 1, "per": 1}]}',
        b'{"items": [{"symbol": "B", "risk": 1, "per": 1}]}',
    ]
    now = formatdate(usegmt=True)

    def answer(headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        if "if-modified-since" in headers:
            return 304, {}, b""
        return 200, {"Last-Modified": now}, versions[len(site.asked) > 1]

    site.answer = answer
    source = HttpSource(site.url, 1 << 20)
    try:
        desk.look(source)
        desk.look(source)
    finally:
        source.close()
    assert desk.rows().keys() == {"A", "B"}
