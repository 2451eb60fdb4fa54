"""Input that nobody would send: the whole HTTP interface by its own description, the language, and frames of sockets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from api.http.app import make_app
from api.server.lifetime import ServerLifetime
from api.server.settings import Settings
from prosem.engine.validate import table_definition
from prosem.language import resolve
from prosem.language.notify import check_notify
from prosem.language.parse import parse
from prosem.values.errors import ProsemError
from prosem.views.subscription import recognise
from tests.support.effort import examples
from tests.support.secured import Keyed, frames, start_secured

schema = schemathesis.openapi.from_dict(make_app(ServerLifetime(Settings())).openapi())


@pytest.fixture(scope="module")
def admin() -> Iterator[Keyed]:
    made, admin = start_secured()
    admin.stocks(("A", "tech", 1, 1))
    admin.subscribe("SELECT * FROM stocks", id="mine")
    yield admin
    made.remove()


# -- HTTP ----------------------------------------------------------------------------------------------------------
@schema.parametrize()
@settings(max_examples=examples(12), suppress_health_check=list(HealthCheck))
def test_no_request_is_a_fault_of_the_server(case: schemathesis.Case, admin: Keyed) -> None:
    with requests.Session() as session:
        session.trust_env = False
        answer = case.call(
            base_url=admin.url, session=session, headers={"Authorization": f"Bearer {admin.key}"}, timeout=60
        )
    assert answer.status_code < 500, (case.method, case.formatted_path, case.body, answer.text)
    if answer.status_code >= 400:
        problem = answer.json()
        assert problem["status"] == answer.status_code
        assert problem["detail"]


# -- the language --------------------------------------------------------------------------------------------------
KINDS = (
    "integer",
    "bigint",
    "double precision",
    "numeric(9,2)",
    "text",
    "date",
    "timestamptz",
    "boolean",
    "jsonb",
)
COLUMNS = [{"name": f"c{at}", "type": kind} for at, kind in enumerate(KINDS)]
TABLES = {
    name: table_definition({"name": name, "columns": COLUMNS, "primary_key": ["c0"]}, number)
    for number, name in enumerate(("t", "u"), 1)
}
COLUMN = st.sampled_from(
    [*(f"c{at}" for at in range(len(KINDS))), "t.c1", "u.c2", "a.c1", "b.c0", "nowhere", '"c3"']
)
TERM = st.one_of(
    st.sampled_from(
        [":a", ":b", "NULL", "TRUE", "'x'", "'2024-02-30'", "1e400", "-0.0", "1/0", ":a - :b * 2", "''"]
    ),
    st.integers(-(2**70), 2**70).map(str),
    st.text(max_size=3).map(lambda text: "'" + text.replace("'", "''") + "'"),
)
ATOM = st.one_of(
    st.builds(
        "{} {} {}".format,
        COLUMN,
        st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "LIKE", "IS", "IS NOT"]),
        TERM,
    ),
    st.builds("{} BETWEEN {} AND {}".format, COLUMN, TERM, TERM),
    st.builds("{} IN ({}, {})".format, COLUMN, TERM, TERM),
    st.builds("{} IN :{}".format, COLUMN, st.sampled_from("abs")),
)
CONDITION = st.recursive(
    ATOM,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        inner.map("NOT {}".format),
    ),
    max_leaves=8,
)
AGGREGATE = st.one_of(
    st.builds("{}({})".format, st.sampled_from(["MIN", "MAX", "SUM", "COUNT", "AVG"]), COLUMN), st.just("COUNT(*)")
)  # fmt: skip
ITEM = st.builds(
    "{}{}".format, st.one_of(COLUMN, AGGREGATE), st.sampled_from(["", "", " AS n", ' AS "m"', " c1", " AS k"])
)
WHAT = st.one_of(
    st.just("*"),
    ITEM,
    COLUMN,
    AGGREGATE,
    st.builds("DISTINCT {}".format, ITEM),
    st.lists(ITEM, min_size=2, max_size=4).map(", ".join),
    st.lists(AGGREGATE, min_size=2, max_size=4, unique=True).map(", ".join),
)
JOIN = st.builds(
    "{} {}".format,
    st.sampled_from(["t a JOIN u b", "t a LEFT JOIN t AS b", "t JOIN u", "t a FULL JOIN u b"]),
    st.sampled_from(
        ["ON a.c0 = b.c0", "ON a.c1 = b.c2 AND b.c4 = a.c4", "ON t.c0 = u.c0", "USING (c0)", "ON a.c0 < b.c0"]
    ),
)
SOURCE = st.one_of(
    st.sampled_from(
        ["t", "u", "t a", "t JOIN u USING (c0)", "t JOIN u USING (c4, c1)", "t, u", "none", "t t2"]
    ),
    JOIN,
)
HAVING = st.builds(
    "{} {} {}".format,
    AGGREGATE,
    st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "IN", "BETWEEN 1 AND"]),
    TERM,
)
TAIL = st.one_of(
    st.builds("GROUP BY {}".format, COLUMN),
    st.builds("GROUP BY {}, {} HAVING {} AND {}".format, COLUMN, COLUMN, HAVING, HAVING),
    st.builds(
        "ORDER BY {} {} LIMIT {}".format,
        COLUMN,
        st.sampled_from(["", "ASC", "DESC", "NULLS FIRST", "DESC NULLS LAST"]),
        st.sampled_from(["1", "3", "1000", "0", ":a", "x"]),
    ),
    st.sampled_from(["HAVING COUNT(*) > 1", "LIMIT 3", "ORDER BY c1", "OFFSET 1"]),
)
GROUPS = st.builds(
    "SELECT {0}, {1} FROM {2} WHERE {3} GROUP BY {0} HAVING {4}".format,
    COLUMN,
    AGGREGATE,
    SOURCE,
    CONDITION,
    HAVING,
)
FIRST = st.builds("SELECT c0, {0} FROM {1} WHERE {2} ORDER BY {0} LIMIT 3".format, COLUMN, SOURCE, CONDITION)
QUERY = st.one_of(
    GROUPS,
    FIRST,
    st.builds("SELECT {} FROM {} WHERE {} {}".format, WHAT, SOURCE, CONDITION, TAIL),
    st.builds("SELECT {} FROM {} {}".format, WHAT, SOURCE, TAIL),
    st.builds("SELECT {} FROM {} WHERE {}".format, WHAT, SOURCE, CONDITION),
    st.builds("SELECT {} FROM {}".format, WHAT, SOURCE),
    st.text(max_size=40),
    st.lists(
        st.sampled_from(
            [
                "SELECT",
                "FROM",
                "WHERE",
                "AND",
                "OR",
                "NOT",
                "IN",
                "(",
                ")",
                "*",
                ",",
                ";",
                ":a",
                "'",
                '"',
                "--",
                "/*",
                "t",
                "c1",
                "=",
                "1",
                "BETWEEN",
            ]
        )
    ).map(" ".join),
)
VALUE = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.text(max_size=4), st.lists(st.integers(), max_size=2),
    st.decimals(allow_nan=False, allow_infinity=False), st.sampled_from(["2024-01-01", "2024-01-01T00:00:00Z", "1.5"]),
)  # fmt: skip
LISTED = st.one_of(st.lists(VALUE, max_size=4), VALUE)


@settings(max_examples=examples(600))
@example("SELECT MIN(c1) FROM t WHERE c2 < :a", {"a": 2**70, "b": 0, "s": []}, None)
@given(
    QUERY,
    st.fixed_dictionaries({"a": VALUE, "b": VALUE, "s": LISTED}),
    st.one_of(
        st.none(),
        st.dictionaries(
            st.sampled_from(["change", "percent", "factor", "may", "must", "x"]), VALUE, max_size=2
        ),
    ),
)
def test_a_query_is_served_or_refused_and_nothing_else(sql: str, given_: dict[str, Any], notify: Any) -> None:
    refusal = None
    try:
        query = parse(sql)
        form = recognise(query, TABLES, check_notify(notify))
        params = {name: value for name, value in given_.items() if name in query.parameters}
        resolve.check_parameters(query, params)
        form.bind(params)
    except ProsemError as error:
        refusal = error
    assert refusal is None or (refusal.status in (400, 413, 422) and refusal.detail)


# -- sockets -------------------------------------------------------------------------------------------------------
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
NEARLY = st.fixed_dictionaries(
    {},
    optional={
        "op": st.one_of(st.sampled_from(["attach", "detach", "authenticate", "publish"]), JSON),
        "id": st.one_of(st.sampled_from(["mine", "none", ""]), JSON),
        "after": st.one_of(st.integers(-1, 2**64), JSON),
        "table": st.one_of(st.sampled_from(["stocks", "none"]), JSON),
        "events": st.lists(
            st.one_of(JSON, st.just({"op": "upsert", "row": {"symbol": "A", "risk": 2}})), max_size=3
        ),
        "tag": JSON,
    },
)
FRAME = st.one_of(
    JSON.map(json.dumps),
    NEARLY.map(json.dumps),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.just("[" * 5_000),
)


@settings(max_examples=examples(60))
@given(st.lists(FRAME, max_size=8))
def test_a_stream_outlives_every_frame(admin: Keyed, sent: list[Any]) -> None:
    with admin.listen() as socket:
        for frame in frames(socket, *(frame for frame in sent if frame not in ('{"op": "ping"}', ""))):
            assert "error" in frame or frame["id"] == "mine", frame
            assert frame.get("error", {}).get("status", 400) < 500


@settings(max_examples=examples(60))
@given(st.lists(FRAME, max_size=8))
def test_a_publishers_stream_outlives_every_frame(admin: Keyed, sent: list[Any]) -> None:
    with admin.listen("/v1/publish") as socket:
        for frame in sent:
            socket.send(frame)
        socket.send(
            json.dumps(
                {"table": "stocks", "events": [{"op": "delete", "key": {"symbol": "?"}}], "tag": "last"}
            )
        )
        while (reply := json.loads(socket.recv(timeout=20)))["tag"] != "last":
            assert "first_seq" in reply or reply["error"]["status"] < 500, reply
        assert reply["error"]["status"] == 409
