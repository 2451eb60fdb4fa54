"""`IN` on equality columns: where its subscriptions are placed. Their answers: `test_folded_ranges`."""

from __future__ import annotations

from typing import Any

import pytest

from prosem.language.parse import parse
from prosem.types.base import Bound
from prosem.types.registry import recognise
from prosem.types.shared.ranges import MOST_TOPICS, topic_of
from prosem.values.errors import InputError, LanguageError
from prosem.values.model import Table
from tests.support.folded import table_of

COLUMNS = {
    "k": "integer",
    "x": "integer",
    "z": "integer",
    "y": "integer",
    "e": "text",
    "f": "integer",
    "w": "text",
}
TABLE = table_of(COLUMNS)


def bind(sql: str, params: dict[str, Any] | None = None, table: Table = TABLE) -> Bound:
    return recognise(parse(sql), [table], None).bind(params or {})


def text(value: str) -> str:
    code = TABLE.columns[4].type.code(value)
    assert isinstance(code, str)
    return code


# -- places --------------------------------------------------------------------------------------------------------
def test_topics_are_all_combinations() -> None:
    bound = bind("SELECT SUM(y) FROM t WHERE e IN ('b', 'a', 'b') AND f IN (2, 1) AND x > 3")
    assert bound.topics == tuple(topic_of([text(e), f]) for e in "ab" for f in (1, 2))
    assert bound.place is not None
    assert bound.topics == (bound.topic, *bound.others)


def test_values_that_no_row_has_are_dropped() -> None:
    assert bind("SELECT SUM(y) FROM t WHERE f IN (1, NULL, 1.5, 99999999999999999999)").topics == (
        topic_of([1]),
    )
    assert bind("SELECT SUM(y) FROM t WHERE f IN (NULL, 1.5)").topics == ()


def test_other_conditions_on_the_same_column() -> None:
    assert bind("SELECT SUM(y) FROM t WHERE f IN (1, 2, 3) AND f > 1 AND f < 9").topics == (
        topic_of([2]),
        topic_of([3]),
    )
    assert bind("SELECT SUM(y) FROM t WHERE f IN (1, 2) AND f = 2").topics == (topic_of([2]),)
    assert bind("SELECT SUM(y) FROM t WHERE f IN (1, 2) AND f IN (2, 3)").topics == (topic_of([2]),)
    assert bind("SELECT SUM(y) FROM t WHERE f IN (1, 2) AND f = 5").place is None


def test_the_number_of_combinations_is_limited() -> None:
    many = ", ".join(map(str, range(MOST_TOPICS // 2)))
    assert len(bind(f"SELECT SUM(y) FROM t WHERE f IN ({many}) AND e IN ('a', 'b')").topics) == MOST_TOPICS
    with pytest.raises(LanguageError, match="1,000 combinations") as refused:
        bind(f"SELECT SUM(y) FROM t WHERE f IN ({many}) AND e IN ('a', 'b', 'c')")
    assert refused.value.at == "/sql"


def test_lists_as_parameters() -> None:
    sql = "SELECT SUM(y) FROM t WHERE e IN :some AND f IN (1, 2)"
    assert bind(sql, {"some": ["a", "b", None, "a"]}).topics == tuple(
        topic_of([text(e), f]) for e in "ab" for f in (1, 2)
    )
    assert bind(sql, {"some": []}).topics == bind(sql, {"some": [None]}).topics == ()
    with pytest.raises(InputError, match="1,000 combinations") as refused:
        bind(sql, {"some": list(map(str, range(501)))})
    assert refused.value.at == "/params/some"
    assert len(bind(sql, {"some": list(map(str, range(500))) * 2}).topics) == MOST_TOPICS


def test_labels_say_in() -> None:
    labels = [
        recognise(parse(f"SELECT MIN(y) FROM t WHERE x > 1 AND e {condition}"), [TABLE], None).label
        for condition in ("= 'a'", "IN ('a', 'c')", "IN ('a', 'b', 'c')")
    ]
    assert labels[1] == labels[2] != labels[0]
    assert "'e' IN ?" in labels[1]


def test_places_in_words() -> None:
    form = recognise(parse("SELECT MIN(y) FROM t WHERE x > 1 AND e IN ('a', 'b') AND f = 3"), [TABLE], None)
    assert form.place_in_words(form.bind({})) == {
        "equal": {"e": ["a", "b"], "f": 3},
        "point": {"x": [2, None]},
    }


@pytest.mark.parametrize(
    "sql", ["SELECT DISTINCT y FROM t WHERE e IN ('a', 'b')", "SELECT MIN(y) FROM t WHERE e LIKE 'a%'"]
)
def test_what_is_not_served(sql: str) -> None:
    with pytest.raises(LanguageError, match=r"IN on e|LIKE is supported in SELECT"):
        bind(sql)
