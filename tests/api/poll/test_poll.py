"""prosem poll: feeds from a file and from a real HTTP server become rows of a table, once, whatever happens in between."""

from __future__ import annotations

import gzip
import json
import signal
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prosem_client import Client

from api.poll.command import Options, chosen, reader, seconds
from api.poll.formats import FeedError, read_csv, read_json, read_rss
from api.poll.paths import parse_path
from api.poll.poller import Poller, Seen
from api.poll.rows import Fields, cell
from api.poll.source import FileSource, HttpSource, Source, SourceVersion
from api.poll.state import StateFile, Stored
from prosem.values.errors import SetupError
from tests.support import forked
from tests.support.command_line import run
from tests.support.effort import examples
from tests.support.live import WAIT_S, Api
from tests.support.waiting import until

COLUMNS = {"symbol": "text", "risk": "integer", "per": "double precision"}
RSS = b"""<?xml version="1.0"?>
<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:content="http://purl.org/rss/1.0/modules/content/">
<channel><title>News</title><link>http://example.org</link>
<item><title>One &amp; all</title><link>http://example.org/1</link><guid>g1</guid>
<pubDate>Sat, 07 Sep 2002 00:00:01 GMT</pubDate>
<category>a</category><category>b</category><dc:creator>Ann</dc:creator>
<content:encoded><![CDATA[<b>x</b>]]></content:encoded></item>
<item><title>Two</title><link>http://example.org/2</link></item>
</channel></rss>"""
ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title>
<entry><title>One</title><id>urn:1</id><link rel="self" href="http://example.org/self"/><link href="http://example.org/1"/>
<updated>2003-12-13T18:30:02Z</updated><author><name>Ann</name><email>a@example.org</email></author><category term="a"/>
<summary>Short</summary></entry></feed>"""


# -- formats -------------------------------------------------------------------------------------------------------
def test_rss_and_atom_are_read_under_the_same_names() -> None:
    one, two = read_rss(RSS)
    assert one == {
        "title": "One & all", "link": "http://example.org/1", "id": "g1", "published": "2002-09-07T00:00:01+00:00",
        "categories": "a, b", "creator": "Ann", "content": "<b>x</b>",
    }  # fmt: skip
    assert (two["id"], two["title"]) == ("http://example.org/2", "Two")
    assert read_rss(ATOM) == [
        {
            "title": "One", "id": "urn:1", "link": "http://example.org/1", "updated": "2003-12-13T18:30:02Z",
            "author": "Ann", "categories": "a", "summary": "Short",
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [
        b'<!DOCTYPE rss [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><rss><channel><item>&b;</item></channel></rss>',
        b'<!DOCTYPE rss [<!ENTITY x SYSTEM "file:///etc/hostname">]><rss><item><title>&x;</title></item></rss>',
        b'<!DOCTYPE rss [<!ENTITY % p SYSTEM "http://127.0.0.1:9/x.dtd"> %p;]><rss/>',
        b"<rss><item></rss>",
        b"<html><body>Down for repair</body></html>",
        b"not XML",
        b"",
    ],
)
def test_no_document_declares_entities_or_is_something_else(content: bytes) -> None:
    with pytest.raises(FeedError):
        read_rss(content)


def test_a_plain_doctype_is_read_and_nothing_is_fetched_for_it() -> None:
    outer = b'<!DOCTYPE rss PUBLIC "-//N//DTD RSS 0.91//EN" "http://127.0.0.1:9/rss-0.91.dtd">'
    assert read_rss(outer + b"<rss><channel><item><link>l</link></item></channel></rss>") == [
        {"link": "l", "id": "l"}
    ]
    assert len(read_rss(b"<rss>" + b"<a>" * 100_000 + b"</a>" * 100_000 + b"</rss>")) == 0, (
        "no depth is too much"
    )


def test_json_items_are_found_by_their_path() -> None:
    content = b'{"data": {"items": [{"a": 1}, {"a": 0.10}]}, "more": []}'
    assert [str(item["a"]) for item in read_json(content, parse_path("$.data.items"))] == ["1", "0.10"]
    for path, says in (
        ("$", r"\$\.more"),
        ("$.x", "nothing at --path"),
        ("$.data", r"\$\.items"),
        ("$.data[0]", "nothing"),
    ):
        with pytest.raises(FeedError, match=says):
            read_json(content, parse_path(path))
    for bad in (b"[1]", b"{", b"", b"[" * 100_000):
        with pytest.raises(FeedError):
            read_json(bad, ())
    for text in ("$..a", "$.a[", "$.a[x]", "a b"):
        with pytest.raises(SetupError, match="no path"):
            parse_path(text)


def test_csv_is_read_with_its_header() -> None:
    content = '\ufeffsymbol;note\r\n"A;B";\r\nC;"two\nlines"\r\n'.encode()
    assert read_csv(content, ";") == [{"symbol": "A;B", "note": None}, {"symbol": "C", "note": "two\nlines"}]
    assert read_csv(b"a,b\n", ",") == []
    for bad in (b"a,b\n1,2,3\n", b"a\n\xff\n", b'a\n"x', b"a,b\n1\n", b""):
        with pytest.raises(FeedError):
            read_csv(bad, ",")


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (" 7 ", "integer", 7), ("7.5", "double precision", 7.5), (7, "double precision", 7.0),
        ("1.50", "numeric(9,2)", "1.50"),
        ("No", "boolean", False), ("t", "boolean", True), ("2026-01-31", "date", "2026-01-31"), (True, "text", "true"),
        ({"a": [1]}, "text", '{"a":[1]}'), ('{"a": 1}', "jsonb", {"a": 1}), ("plain", "jsonb", "plain"),
        ("YQ==", "bytea", "YQ=="),
    ],
)  # fmt: skip
def test_fields_take_the_type_of_their_column(value: Any, kind: str, expected: Any) -> None:
    assert cell(value, kind) == expected


@pytest.mark.parametrize(
    ("value", "kind"),
    [("x", "integer"), ("1_0", "integer"), ("1.5", "integer"), (1.5, "integer"), ("nan", "double precision"),
     ("perhaps", "boolean"), ("31.1.2026", "date"), ("999", "numeric(2,0)"), ([1], "boolean")],
)  # fmt: skip
def test_what_does_not_fit_is_refused(value: Any, kind: str) -> None:
    with pytest.raises((ValueError, ArithmeticError)):
        cell(value, kind)


def test_bad_options_are_refused_with_a_reason() -> None:
    for text in ("", "x", "0s", "-1s", "99d"):
        with pytest.raises(SetupError, match="--every"):
            seconds(text)
    with pytest.raises(SetupError, match="--map"):
        chosen(("per",))
    for bad, says in (
        (Options("feed", "", "t"), "--format"),
        (Options("f.csv", "", "t", path="$.a"), "--path"),
        (Options("f.csv", "", "t", delimiter=";;"), "--delimiter"),
    ):
        with pytest.raises(SetupError, match=says):
            reader(bad)
    definition = {"name": "t", "columns": [{"name": "k", "type": "text"}], "primary_key": ["k"]}
    with pytest.raises(SetupError, match="no such column"):
        Fields(definition, {"x": "y"})
    with pytest.raises(SetupError, match="--map k=field names one of: a, b"):
        Fields(definition, {}).check([{"a": 1, "b": 2}])


# -- a feed and a server -------------------------------------------------------------------------------------------
@pytest.fixture
def api(server: str) -> Iterator[Api]:
    with Api(server) as made:
        yield made


class Desk:
    """A table, and pollers of feeds for it that keep their state in one file."""

    def __init__(self, api: Api, client: Client, folder: Path) -> None:
        self.api, self.client = api, client
        self.table = api.table(COLUMNS, ["symbol"])
        self.feed, self.state = folder / "feed.json", folder / f"{self.table}.json"
        self.query = api.subscribe(f"SELECT * FROM {self.table}")["id"]

    def rows(self) -> dict[str, Any]:
        rows = self.api.result(self.query)["result"]["rows"]
        return {row["symbol"]: (row["risk"], row["per"]) for row in rows}

    @property
    def seq(self) -> int:
        found: int = self.api.call("GET", "/v1/status")["seq"]
        return found

    def write(self, items: list[dict[str, Any]]) -> None:
        self.feed.write_text(json.dumps({"items": items}))

    def look(self, source: Source | None = None, complete: bool = False, **mapped: str) -> Seen | None:
        """Look once, with nothing but the state file in memory."""
        state = StateFile(self.state, "the same feed")
        try:
            fields = Fields(self.client.table(self.table), mapped)
            read = lambda content: read_json(content, ("items",))
            source = source or FileSource(self.feed, 1 << 20)
            return Poller(source, read, fields, self.client, state, complete).look()
        finally:
            state.close()


@pytest.fixture
def desk(api: Api, client: Client, tmp_path: Path) -> Desk:
    return Desk(api, client, tmp_path)


def stock(symbol: str, risk: Any, per: Any) -> dict[str, Any]:
    return {"symbol": symbol, "risk": risk, "per": per, "more": "left alone"}


def test_only_what_changes_is_published_also_after_a_restart(desk: Desk) -> None:
    desk.write([stock("A", 1, 1.5), stock("B", 2, 2.5)])
    assert desk.look() == Seen(2, upserts=2, seq=desk.seq)
    before = desk.seq
    assert desk.look() is None
    desk.write([stock("B", 2, 2.5), stock("A", 1, 1.5)])  # written anew, in another order
    assert desk.look() == Seen(2)
    assert desk.seq == before
    desk.write([stock("A", 1, 9.5), stock("C", 3, None)])
    assert desk.look() == Seen(2, upserts=2, seq=before + 2)
    assert desk.rows() == {"A": (1, 9.5), "B": (2, 2.5), "C": (3, None)}


def test_a_complete_feed_deletes_what_has_vanished_and_nothing_of_others(desk: Desk) -> None:
    desk.api.publish(desk.table, [{"op": "insert", "row": {"symbol": "other", "risk": 0, "per": 0.0}}])
    desk.write([stock("A", 1, 1), stock("B", 2, 2)])
    desk.look(complete=True)
    desk.write([stock("A", 1, 1), stock("B", "not a number", 2)])
    seen = desk.look(complete=True)
    assert seen is not None
    assert (seen.left_out, seen.deletes, "risk" in seen.reason) == (1, 0, True)
    assert desk.rows().keys() == {"A", "B", "other"}, "what cannot be read has not vanished"
    desk.write([stock("A", 1, 1)])
    assert desk.look(complete=True) == Seen(1, deletes=1, seq=desk.seq)
    assert desk.rows().keys() == {"A", "other"}


def test_a_row_that_somebody_else_deleted_is_no_obstacle(desk: Desk) -> None:
    desk.write([stock("A", 1, 1), stock("B", 2, 2), stock("C", 3, 3)])
    desk.look(complete=True)
    desk.api.publish(desk.table, [{"op": "delete", "key": {"symbol": "B"}}])
    desk.write([stock("C", 4, 4)])
    assert desk.look(complete=True) == Seen(1, upserts=1, deletes=1, seq=desk.seq)
    assert desk.rows() == {"C": (4, 4.0)}
    assert desk.look(complete=True) is None


def test_who_dies_before_the_state_is_kept_publishes_nothing_twice(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.write([stock("A", 1, 1), stock("B", 2, 2)])
    save = StateFile.save

    def die(self: StateFile, stored: Stored) -> None:
        if stored.count:
            raise KeyboardInterrupt
        save(self, stored)

    monkeypatch.setattr(StateFile, "save", die)
    with pytest.raises(KeyboardInterrupt):
        desk.look()
    before = desk.seq
    assert desk.rows().keys() == {"A", "B"}
    monkeypatch.setattr(StateFile, "save", save)
    assert desk.look() == Seen(2, upserts=2, seq=before), "the answer that was given before"
    assert desk.seq == before


@settings(
    max_examples=examples(12),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(
        st.dictionaries(st.sampled_from("ABCD"), st.integers(0, 2)).map(lambda found: list(found.items())),
        max_size=6,
    )
)
def test_the_table_is_what_the_feed_said_last(desk: Desk, feeds: list[list[tuple[str, int]]]) -> None:
    """Feeds that come and go, also back to what they were: the table follows each."""
    for feed in feeds:
        desk.write([stock(symbol, risk, risk / 2) for symbol, risk in feed])
        desk.look(complete=True)
        assert desk.rows() == {symbol: (risk, risk / 2) for symbol, risk in feed}


def test_many_rows_go_in_several_requests(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.poll.poller.CHUNK", 40)
    desk.write([stock(f"s{number}", number, number) for number in range(100)])
    seen = desk.look(symbol="$.symbol")
    assert seen is not None
    assert (seen.upserts, len(desk.rows())) == (100, 100)
    assert msgspec.json.decode(desk.state.read_bytes())["count"] == 3


def test_two_pollers_do_not_share_a_state(tmp_path: Path) -> None:
    held = StateFile(tmp_path / "state", "a feed")
    with pytest.raises(SetupError, match="another prosem poll"):
        StateFile(tmp_path / "state", "a feed")
    held.close()
    (tmp_path / "state").write_text("{")
    with pytest.raises(SetupError, match="Remove it"):
        StateFile(tmp_path / "state", "a feed")


# -- over HTTP -----------------------------------------------------------------------------------------------------
class Site:
    """An HTTP server whose next answers are given as functions of a request."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.answer: Callable[[dict[str, str]], tuple[int, dict[str, str], bytes]] = lambda headers: (
            404,
            {},
            b"",
        )
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                site.asked.append(headers)
                status, given, content = site.answer(headers)
                self.send_response(status)
                for name, value in given.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/feed?token=hidden"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    made = Site()
    yield made
    made.close()


def test_a_site_is_asked_only_for_what_is_new(desk: Desk, site: Site) -> None:
    content = json.dumps({"items": [stock("A", 1, 1)]}).encode()
    mark = {"ETag": '"v1"', "Last-Modified": "Sat, 07 Sep 2002 00:00:01 GMT"}
    site.answer = lambda headers: (
        (304, {}, b"") if headers.get("if-none-match") == '"v1"' else (200, mark, content)
    )
    for expected in (True, False, False):
        source = HttpSource(site.url, 1 << 20)
        assert (desk.look(source) is not None) == expected
        source.close()
    assert "if-none-match" not in site.asked[0]
    assert site.asked[1]["if-modified-since"] == mark["Last-Modified"]
    assert desk.rows() == {"A": (1, 1.0)}


def test_a_site_that_fails_or_sends_too_much_changes_nothing(site: Site) -> None:
    source = HttpSource(site.url, 1_000)
    bomb = gzip.compress(b" " * 1_000_000)
    cases: list[tuple[int, dict[str, str], bytes]] = [
        (500, {}, b""),
        (200, {}, b" " * 2_000),
        (200, {"Content-Encoding": "gzip"}, bomb),
        (302, {"Location": "/feed"}, b""),
    ]
    for case in cases:
        site.answer = lambda headers, case=case: case  # type: ignore[misc]
        with pytest.raises(FeedError) as found:
            source.fetch(SourceVersion())
        assert "hidden" not in str(found.value)
    site.answer = lambda headers: (503, {"Retry-After": "17"}, b"")
    with pytest.raises(FeedError) as asked:
        source.fetch(SourceVersion())
    assert asked.value.retry_after_s == 17.0
    source.close()
    with pytest.raises(FeedError, match="cannot be read"):
        FileSource(Path("no such file"), 1_000).fetch(SourceVersion())


# -- the command ---------------------------------------------------------------------------------------------------
def test_the_command_follows_a_feed_until_it_is_stopped(desk: Desk, site: Site, tmp_path: Path) -> None:
    """Its site is down at first, then changes; the end is orderly."""
    content = b""
    site.answer = lambda headers: (200, {}, content) if content else (503, {}, b"")
    options = ("--table", desk.table, "--format", "csv", "--every", "100ms", "--state", str(tmp_path / "s"))
    mapped = (
        "--map",
        "symbol=Ticker Symbol",
        "--map",
        "per=P/E",
        "--map",
        "risk=Risk",
        "--complete",
        "--url",
        desk.api.url,
    )
    log = tmp_path / "log"
    with log.open("wb") as errors:
        process = forked.start("poll", site.url, *options, *mapped, stderr=errors)
    try:
        until(lambda: site.asked)
        content = b"Ticker Symbol,Risk,P/E\nA,1,1.5\nB,2,\n"
        until(lambda: desk.rows() == {"A": (1, 1.5), "B": (2, None)})
        content = b"Ticker Symbol,Risk,P/E\nB,3,2.5\n"
        until(lambda: desk.rows() == {"B": (3, 2.5)})
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(WAIT_S)
    said = log.read_text()
    assert code == 0, said
    assert "answers 503" in said
    assert "1 deleted" in said
    assert "hidden" not in said


def test_the_command_says_what_is_wrong(desk: Desk, tmp_path: Path) -> None:
    desk.feed.write_text('{"items": [{"ticker": "A"}]}')
    common = ("--once", "--url", desk.api.url, "--state", str(tmp_path / "s"))
    done = run("poll", str(desk.feed), "--table", desk.table, "--path", "$.items", *common)
    assert (done.returncode, "--map symbol=field" in done.stderr) == (1, True), done.stderr
    assert "Traceback" not in done.stderr
