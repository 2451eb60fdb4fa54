"""Row predicates of keys: whatever a restricted key asks, it sees its rows alone; and keys share groups."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prosem.language.parse import parse
from prosem.language.predicates import read_predicates, restricted
from prosem.language.restrict import restrict
from prosem.language.syntax import Atom, ColumnName, Parameter, Query
from prosem.values.access import Predicates
from prosem.values.columns import column_type
from prosem.values.errors import ForbiddenError, InputError, LanguageError
from prosem.values.model import Column, Table
from tests.support.effort import examples
from tests.support.processes import ServerProcess
from tests.support.secured import STOCKS, Keyed, frames, refused, start_secured, stock

TECH = Atom(ColumnName("sector"), "=", (Parameter("prosem_1"),))
LOWEST = "SELECT MIN(per) FROM stocks WHERE risk BETWEEN :lo AND :hi"
SHAPES = (
    LOWEST,
    "SELECT MAX(per) FROM stocks WHERE risk < 50 AND per > 1",
    "SELECT COUNT(*) FROM stocks",
    "SELECT SUM(per) FROM stocks WHERE risk = 3;",
    "SELECT DISTINCT per FROM stocks WHERE risk > 2",
    "SELECT * FROM stocks WHERE risk = 1 OR per = 2 -- where sector",
    'SELECT symbol, per FROM "stocks" WHERE NOT (risk = 1 AND per < 2) /* ) */',
    "(SELECT * FROM stocks where symbol LIKE 'a%') ;",
    "SELECT * FROM stocks WHERE symbol = 'WHERE (' AND (risk < 1 OR (per > 1))",
    "SELECT * FROM stocks WHERE FALSE",
    "SELECT s.symbol, per FROM stocks AS s WHERE s.risk = 1 OR per = 2",
    "SELECT MIN(per), MAX(per) AS high FROM stocks /* s */ s",
    "SELECT risk, COUNT(*) FROM stocks GROUP BY risk HAVING COUNT(*) > 1",
    "SELECT s.risk FROM stocks s WHERE s.per IN :some OR risk = 1 -- WHERE\nGROUP BY risk -- HAVING",
    "SELECT symbol, risk FROM stocks ORDER BY risk DESC LIMIT 3;",
    'SELECT symbol, per AS "where" FROM stocks WHERE risk = 1 OR per = 2\n-- GROUP BY\nORDER BY "where" LIMIT 3',
    "(SELECT symbol AS limit, stocks.risk FROM stocks WHERE risk > 1 OR risk < 0 ORDER BY risk LIMIT (3))",
)


def qualified(query: Query) -> Atom:
    """The condition as a text of this query has it; of one table the parser drops the qualifier."""
    return replace(TECH, column=ColumnName("sector", query.sources[0].alias))


# -- the text ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("sql", SHAPES)
def test_every_alternative_of_a_query_gets_the_condition(sql: str) -> None:
    query = parse(sql)
    made = restrict(query, [qualified(query)])
    assert made.where == tuple((*conjunction, TECH) for conjunction in query.where)
    assert (made.selection, made.sources) == (query.selection, query.sources)
    assert parse(made.sql) == made, "the text alone says it"


@settings(max_examples=examples(300))
@given(
    st.sampled_from(["*", "risk", "COUNT(*)"]),
    st.lists(
        st.sampled_from(
            ["SELECT", "*", "FROM", "stocks", "WHERE", "risk", "=", "1", "OR", "AND", "(", ")", "--", "\n", ";",
             "/*", "*/", "'", '"', "NOT", ":a", "IN", "TRUE", "per < 2", "sector = 'bio'", "ORDER BY risk", "LIMIT 3",
             "GROUP BY risk", "HAVING COUNT(*) > 1"]
        ),
        max_size=14,
    )
)  # fmt: skip
def test_no_text_gets_rid_of_the_condition(what: str, parts: list[str]) -> None:
    try:
        query = parse(f"SELECT {what} FROM stocks WHERE risk = 1 " + " ".join(parts))
    except LanguageError:
        return
    try:
        made = restrict(query, [qualified(query)])
    except LanguageError:
        return
    assert all(TECH in conjunction for conjunction in made.where)


def test_predicates_are_conjunctions_of_equality_and_in() -> None:
    assert read_predicates({"t": "a = 1 AND b IN ('x', 'y')"}) == {"t": {"a": (1,), "b": ("x", "y")}}
    assert read_predicates({"t": {"a": [1]}}) == {"t": {"a": (1,)}}
    assert read_predicates(None) == {}
    bad: list[Any] = [
        [], {"t": ""}, {"t": "a > 1"}, {"t": "a = 1 OR b = 2"}, {"t": "a = :p"}, {"t": "a = NULL"}, {"t": "TRUE"},
        {"t": "a = 1 AND a = 2"}, {"t": {}}, {"t": {"a": []}}, {"t": {"a": [None]}}, {"t": {"a": [{}]}}, {"t": 1},
        {"t": "a = 1; DROP TABLE x"}, {"t": "a = 1) OR (b = 2"}, {"t": "a = 1 -- \n OR TRUE"}, {"t": "u.a = 1"},
        {"t": "t.a = 1"}, {"t": "a = 1 GROUP BY a"}, {"t": "a IN :p"},
    ]  # fmt: skip
    for given_ in bad:
        with pytest.raises(InputError):
            read_predicates(given_)


def table(id: int, name: str, parent: Table | None = None, *more: str) -> Table:
    columns = parent.columns if parent else tuple(Column(n, column_type(t)) for n, t in STOCKS.items())
    columns += tuple(Column(column, column_type("text")) for column in more)
    return Table(id, name, columns, ("symbol",), parent=parent)


def test_predicates_reach_tables_that_extend_each_other() -> None:
    parent = table(1, "stocks")
    child = table(2, "funds", parent, "manager")
    query = parse("SELECT * FROM funds")
    made, constants = restricted(query, [child], [], {"stocks": {"sector": ("tech",)}, "*": {"risk": (1, 2)}})
    assert made.sql == (
        'SELECT * FROM funds WHERE "funds"."sector" = :prosem_1 AND "funds"."risk" IN (:prosem_2, :prosem_3)'
    )
    assert constants == {"prosem_1": "tech", "prosem_2": 1, "prosem_3": 2}
    below: Predicates = {"funds": {"manager": ("ann",)}}
    with pytest.raises(ForbiddenError, match="ask funds itself"):
        restricted(parse("SELECT * FROM stocks"), [parent], [child], below)
    with pytest.raises(ForbiddenError, match="no such column"):
        restricted(parse("SELECT * FROM stocks"), [parent], [], {"*": {"manager": ("ann",)}})
    with pytest.raises(LanguageError, match="prosem_"):
        restricted(parse("SELECT * FROM stocks WHERE risk = :prosem_1"), [parent], [], {})


# -- a running server ----------------------------------------------------------------------------------------------
class Desk:
    """A tenant with keys that see all rows, those of one sector, and those of two."""

    def __init__(self, admin: Keyed) -> None:
        self.all = admin.make_key("publisher", "subscriber", tenant="desk")
        self.all.stocks(
            ("T1", "tech", 10, 5), ("T2", "tech", 60, 3), ("B1", "bio", 10, 1), ("E1", "energy", 10, 0)
        )
        rows = {"tech": "sector = 'tech'", "bio": "sector = 'bio'", "both": "sector IN ('tech', 'bio')"}
        self.tech, self.bio, self.both = (
            admin.make_key("subscriber", tenant="desk", rows={"stocks": condition})
            for condition in rows.values()
        )


@pytest.fixture(scope="module")
def secured() -> Iterator[tuple[ServerProcess, Desk]]:
    made, admin = start_secured()
    yield made, Desk(admin)
    made.remove()


@pytest.fixture
def desk(secured: tuple[ServerProcess, Desk]) -> Desk:
    return secured[1]


def symbols(answer: dict[str, Any]) -> list[str]:
    return sorted(row["symbol"] for row in answer["result"]["rows"])


def test_answers_hold_the_rows_of_the_key_alone(desk: Desk) -> None:
    for caller, expected in ((desk.tech, ["T1", "T2"]), (desk.bio, ["B1"]), (desk.both, ["B1", "T1", "T2"])):
        for sql in (
            "SELECT * FROM stocks",
            "SELECT * FROM stocks WHERE risk < 100 OR sector = 'energy'",
            "SELECT * FROM stocks WHERE sector <> 'none' -- all",
        ):
            made = caller.subscribe(sql)
            assert symbols(made) == symbols(caller.result(made["id"])) == expected
            caller.delete(made["id"])
    assert desk.tech.subscribe("SELECT COUNT(*) FROM stocks")["result"]["value"] == 2
    assert desk.tech.subscribe("SELECT MIN(per) FROM stocks")["result"]["value"] == 3
    assert desk.tech.subscribe("SELECT COUNT(*) FROM stocks WHERE sector = 'bio'")["result"]["value"] == 0
    assert desk.both.subscribe("SELECT MIN(per) FROM stocks WHERE sector = 'bio'")["result"]["value"] == 1
    energy = desk.both.subscribe("SELECT MIN(per) FROM stocks WHERE sector = :s", {"s": "energy"})
    assert energy["result"]["value"] is None
    assert desk.both.patch(energy["id"], params={"s": "tech"})["result"]["value"] == 3
    assert desk.both.patch(energy["id"], params={"s": "energy"})["result"]["value"] is None


def test_keys_of_one_shape_share_a_group(desk: Desk) -> None:
    made = [caller.subscribe(LOWEST, {"lo": 0, "hi": 100}) for caller in (desk.tech, desk.bio)]
    plain = desk.all.subscribe(LOWEST + " AND sector = 'bio'", {"lo": 0, "hi": 100})
    assert len({one["group"] for one in (*made, plain)}) == 1
    assert [one["result"]["value"] for one in made] == [3, 1]
    described = desk.tech.call("POST", "/v1/describe", json={"sql": LOWEST, "params": {"lo": 0, "hi": 9}})
    assert described["group"] == plain["group"]
    assert described["place"]["equal"] == {"sector": "tech"}


def test_an_aggregate_covers_the_rows_of_a_key_with_several_values(desk: Desk) -> None:
    answers = [
        key.subscribe("SELECT MIN(s.per) FROM stocks AS s WHERE s.risk < 50")["result"]["value"]
        for key in (desk.tech, desk.bio, desk.both, desk.all)
    ]
    assert answers == [5, 1, 1, 0]
    assert desk.both.subscribe("SELECT COUNT(*) FROM stocks")["result"] == {"value": 3}


def test_what_cannot_be_held_to_the_rows_is_refused(desk: Desk) -> None:
    """A value notification looks at keys alone."""
    error = refused(desk.tech.subscribe, "SELECT per FROM stocks WHERE symbol = 'B1'")
    assert error.status == 422
    assert "value cannot be held to them" in error.problem["detail"]
    error = refused(desk.tech.subscribe, "SELECT * FROM nowhere")
    assert "there is no table nowhere" in error.problem["detail"]


def test_changes_and_replays_hold_the_rows_of_the_key_alone(desk: Desk) -> None:
    made = desk.tech.subscribe("SELECT * FROM stocks")
    lowest = desk.tech.subscribe(LOWEST, {"lo": 0, "hi": 100})
    with desk.tech.listen() as socket:
        frames(socket, {"op": "attach", "id": made["id"]}, {"op": "attach", "id": lowest["id"]})
        events = [
            stock("B9", "bio", 1, -9),  # never seen
            stock("T9", "tech", 1, -1),  # seen
            stock("T9", "bio", 1, -5),  # goes out of sight
            stock("B9", "tech", 1, -7),  # comes into sight
            {"op": "delete", "key": {"symbol": "B9"}},
            {"op": "delete", "key": {"symbol": "T9"}},  # unseen
        ]
        desk.all.publish("stocks", events)
        live = [frame for frame in frames(socket) if "change" in frame]
    with desk.tech.listen() as socket:
        attaches = [{"op": "attach", "id": one["id"], "after": one["seq"]} for one in (made, lowest)]
        replayed = [frame for frame in frames(socket, *attaches) if "change" in frame]
    for received in (live, replayed):
        rows = [frame["change"] for frame in received if frame["id"] == made["id"]]
        assert [[row["symbol"] for row in change["add"]] for change in rows] == [["T9"], [], ["B9"], []]
        assert "-9" not in json.dumps(received)
        assert "-5" not in json.dumps(received)
        values = [frame["change"]["value"] for frame in received if frame["id"] == lowest["id"]]
        assert values == [-1, 3, -7, 3]


def test_a_subscription_of_a_restricted_key_stays_restricted(
    desk: Desk, secured: tuple[ServerProcess, Desk]
) -> None:
    made = desk.tech.subscribe("SELECT * FROM stocks WHERE risk < :risk", {"risk": 100}, id="kept")
    for caller in (desk.tech, desk.all):
        error = refused(caller.patch, "kept", params={"prosem_1": "bio"})
        assert (error.status, error.problem["errors"][0]["at"]) == (422, "/params/prosem_1")
        assert symbols(caller.patch("kept", params={"risk": 1_000})) == ["T1", "T2"]
    bad = {"sql": "SELECT * FROM stocks WHERE sector = :prosem_1", "params": {"prosem_1": "bio"}}
    assert desk.tech.status("POST", "/v1/subscriptions", json=bad) == 422
    bad = {"sql": "SELECT * FROM stocks", "params": {"prosem_1": "bio"}}
    assert desk.tech.status("POST", "/v1/subscriptions", json=bad) == 422
    process, _ = secured
    process.kill()
    process.port = int(process.url.rsplit(":", 1)[1])
    process.start()
    assert symbols(desk.tech.result("kept")) == symbols(desk.all.result("kept")) == ["T1", "T2"]
    assert made["id"] == "kept"
    desk.tech.delete("kept")


def test_a_restricted_key_reaches_nothing_else_that_tells_of_rows(desk: Desk) -> None:
    theirs = desk.all.subscribe("SELECT * FROM stocks", id="theirs")
    desk.bio.subscribe("SELECT * FROM stocks", id="of-bio")
    for id in ("theirs", "of-bio"):
        assert desk.tech.status("GET", f"/v1/subscriptions/{id}/result") == 404
        assert desk.tech.status("GET", f"/v1/subscriptions/{id}/stream") == 404
        assert desk.tech.status("PATCH", f"/v1/subscriptions/{id}", json={"active": False}) == 404
        assert desk.tech.status("DELETE", f"/v1/subscriptions/{id}") == 404
        with desk.tech.listen() as socket:
            (answered,) = frames(socket, {"op": "attach", "id": id})
            assert answered["error"]["status"] == 404
    listed = desk.tech.call("GET", "/v1/subscriptions")["subscriptions"]
    assert not {"theirs", "of-bio"} & {one["id"] for one in listed}
    event = {"op": "delete", "key": {"symbol": "B1"}}
    assert desk.tech.status("POST", "/v1/explain", json={"table": "stocks", "event": event}) == 403
    assert desk.tech.status("POST", "/v1/geometry", json={"group": theirs["group"], "event": event}) == 403
    assert desk.tech.status("GET", "/v1/optimizer/decisions") == 403
    assert desk.tech.call("GET", "/v1/status")["tables"] == {"stocks": None}
    desk.all.call(
        "POST", "/v1/views", json={"name": "low", "sql": "SELECT symbol FROM stocks WHERE risk < 50"}
    )
    assert desk.all.call("GET", "/v1/views/low")["rows"] == 3
    assert desk.tech.call("GET", "/v1/views/low")["rows"] is None
    desk.all.call("DELETE", "/v1/views/low")
    assert all(one["example"] is None for one in desk.tech.call("GET", "/v1/groups")["groups"])
    assert desk.tech.status("POST", "/v1/tables/stocks/events", json={"events": [event]}) == 403
    assert symbols(desk.all.result("of-bio")) == ["B1"], "who sees all rows may see that too"


def test_a_join_is_held_to_the_rows_of_both_tables(desk: Desk) -> None:
    desk.all.table({"sector": "text", "boss": "text"}, ["sector"], "sectors")
    desk.all.publish(
        "sectors", [{"op": "insert", "row": {"sector": name, "boss": name}} for name in ("tech", "bio")]
    )
    made = desk.tech.subscribe("SELECT * FROM stocks JOIN sectors USING (sector)")
    assert {row["stocks"]["sector"] for row in made["result"]["rows"]} == {"tech"}
    assert len(desk.all.subscribe("SELECT * FROM stocks JOIN sectors USING (sector)")["result"]["rows"]) == 3
