"""jsonb: memory holds what PostgreSQL gives back, so that an equal row is equal before and after a restart."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prosem.engine import commands as c
from prosem.language.parse import parse
from prosem.store.embedded import EmbeddedPostgres
from prosem.store.packing import jsonb_text
from prosem.store.schema import migrate
from prosem.values.columns import column_type
from prosem.values.wire import decode, decode_exact, encode
from tests.support.database import empty_database
from tests.support.effort import examples
from tests.support.running import Listener, running

DOCUMENTS = {
    "k": "integer",
    "doc": "jsonb",
}
TABLE = {
    "name": "t",
    "columns": [{"name": name, "type": kind} for name, kind in DOCUMENTS.items()],
    "primary_key": ["k"],
}
WRITTEN = [
    '{"bb": 1, "a": 2, "é": 3, "c": {"zz": 1, "y": [{"q": 1, "p": 2, "": 0}]}}',
    '[{"b": 1, "a": 1}, -0.0, 1.0, 1.00, 1e2, 1e16, 12345678901234567890123, 1.5e300, 5e-324, -1e-5000]',
    '{"a": 1, "b": 2, "a": 3}',
    '{"ab": "\\u00e9", "\\u0061": "\\ud83d\\ude00", "😀": 1, "zzzz": 2}',
    "-0.0",
    '{"10": 1, "9": 2, "true": true, "one": 1, "null": null}',
]


async def test_an_equal_upsert_after_a_restart_is_no_change(postgres: EmbeddedPostgres) -> None:
    url = empty_database(postgres)
    migrate(url)

    def upserts() -> c.Publish:
        rows = [{"k": k, "doc": decode_exact(text)} for k, text in enumerate(WRITTEN)]
        return c.Publish("t", [{"op": "upsert", "row": row} for row in rows])

    async with running(url) as made:
        await made.call(c.CreateTable(TABLE))
        await made.call(upserts())
        await made.call(c.Subscribe(parse("SELECT * FROM t"), None, [("q", {})]))
        before = await made.call(c.Result("q"))
    async with running(url) as made:
        after = await made.call(c.Result("q"))
        ordered = lambda answer: sorted(map(encode, answer["result"]["rows"]))
        assert ordered(before) == ordered(after)
        listener = await Listener(made, "q").attached()
        done = await made.call(upserts())
        await listener.progress(done["last_seq"])
        assert listener.seqs["q"] == []
        await listener.close()


NUMBERS = (
    st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.decimals(-(10**9), 10**9, places=3)
)
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=6),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def connection(postgres: EmbeddedPostgres) -> Any:
    with psycopg.connect(postgres.url, autocommit=True, client_encoding="utf8") as made:
        yield made


@given(value=VALUES)
@settings(max_examples=examples(300))
def test_what_was_read_is_what_postgresql_gives_back(connection: psycopg.Connection[Any], value: Any) -> None:
    read = column_type("jsonb").read(value)
    row = connection.execute("SELECT %s::text::jsonb::text", [jsonb_text(read).decode()]).fetchone()
    assert row is not None
    assert encode(read) == encode(decode(row[0]))


@pytest.mark.parametrize(
    "bad", ["\0", {"a": ["\0"]}, {"\0": 1}, {"a": {"b\0": 1}}, ["\ud800"], [Decimal("1e400")]]
)
def test_what_jsonb_cannot_hold_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match=r"cannot hold|finite"):
        column_type("jsonb").read(bad)
