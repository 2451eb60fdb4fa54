"""The graph of views: order, tables that extend others, what is a change and what is none, and refused rows."""

from __future__ import annotations

from decimal import Decimal

import pytest

from prosem.language.view_parse import parse_view
from prosem.values.errors import ViewRowError
from prosem.values.model import RowChange, Table, View
from prosem.views.definition import ViewDefinition, define
from prosem.views.graph import changes_of
from prosem.views.operator import PROGRESS
from tests.support.view_world import World, table

T = table(1, "t", {"k": "integer", "x": "integer", "z": "double precision", "n": "numeric(8,2)"}, ["k"])
U = table(2, "u", {"id": "integer", "x": "integer", "doc": "jsonb"}, ["id"])


class Texts(World):
    """A world whose views are given as SQL."""

    def __init__(self, *tables: Table) -> None:
        super().__init__(tables or (T, U))

    def defined(self, name: str, text: str) -> ViewDefinition:
        known = {one.name: one for one in [*self.tables, *self.graph]}
        return define(parse_view(text), known, 10 + len(self.definitions), name, "default")

    def view(self, name: str, text: str) -> View:
        definition = self.defined(name, text)
        assert self.add(definition)
        return definition.view


def test_views_are_in_topological_order_and_know_their_dependents() -> None:
    world = Texts()
    joined = world.view("joined", "SELECT k, id, t.x FROM t JOIN u ON t.x = u.x")
    groups = world.view("groups", "SELECT x, COUNT(*) AS n FROM t GROUP BY x")
    last = world.view("last", "SELECT j.k, j.id, g.x, n FROM joined j LEFT JOIN groups g ON g.x = j.x")
    graph = world.graph
    assert list(graph) == [joined, groups, last]
    assert graph.dependents(T) == [joined, groups]
    assert graph.dependents(U) == [joined]
    assert graph.dependents(groups) == [last]
    assert graph.is_read(T)
    assert not graph.is_read(last)
    with pytest.raises(ValueError, match="last reads groups"):
        graph.remove(groups)
    world.event(U, (1,), (1, 5, None))
    assert world.event(T, (1,), (1, 5, None, None)) == [
        (joined, [RowChange((1, 1), None, (1, 1, 5))]),
        (groups, [RowChange((5,), None, (5, 1))]),
        (last, [RowChange((1, 1, 5), None, (1, 1, 5, 1))]),
    ]
    graph.remove(last)
    graph.remove(groups)
    assert graph.dependents(T) == [joined]
    assert last not in graph


def test_a_view_is_added_after_those_that_it_reads() -> None:
    world, other = Texts(), Texts()
    world.view("groups", "SELECT x, COUNT(*) AS n FROM t GROUP BY x")
    above = world.defined("above", "SELECT x, n FROM groups")
    with pytest.raises(ValueError, match="above reads groups, which is not in the graph"):
        other.graph.add(above, above.open(world.rows_of))


def test_an_event_that_reaches_no_view_costs_nothing() -> None:
    world = Texts()
    world.view("groups", "SELECT x, COUNT(*) AS n FROM t GROUP BY x")
    assert not world.graph.is_read(U)
    assert world.event(U, (1,), (1, 5, None)) == []


def test_a_view_of_a_table_sees_the_rows_of_tables_that_extend_it() -> None:
    parent = table(1, "t", {"k": "integer", "x": "integer"}, ["k"])
    child = table(2, "c", {"k": "integer", "x": "integer", "y": "integer"}, ["k"], parent)
    world = Texts(parent, child)
    both = world.view("both", "SELECT a.k, c.k AS k2, a.x, c.y FROM t a LEFT JOIN c ON a.x = c.x")
    world.event(parent, (1,), (1, 7))
    assert world.event(child, (2,), (2, 7, 30)) == [
        (
            both,
            [
                RowChange((1, None), (1, None, 7, None), None),
                RowChange((1, 2), None, (1, 2, 7, 30)),
                RowChange((2, 2), None, (2, 2, 7, 30)),
            ],
        )
    ]
    assert world.event(child, (2,), (2, 8, 31))
    assert world.event(child, (2,), None)
    world.check_states()


def test_what_equals_for_postgresql_is_no_change() -> None:
    world = Texts()
    world.view("v", "SELECT k, CASE WHEN x > 0 THEN n * 1.0 ELSE n END AS n, z FROM t")
    world.event(T, (1,), (1, 0, 0.0, Decimal("2.50")))
    assert world.event(T, (1,), (1, 1, -0.0, Decimal("2.50"))) == []
    assert world.event(T, (1,), (1, 1, None, Decimal("2.50")))
    assert world.event(T, (1,), (1, None, None, Decimal("2.50"))) == []


def test_json_values_are_compared_as_they_are_written() -> None:
    world = Texts()
    view = world.view("v", "SELECT id, doc FROM u")
    world.event(U, (1,), (1, 0, {"a": 1}))
    assert world.event(U, (1,), (1, 5, {"a": 1})) == []
    old, new = (1, {"a": 1}), (1, {"a": True})
    effects = world.graph.propagate(changes_of(U, (1,), (1, 5, {"a": 1}), (1, 5, {"a": True})), world.put)
    assert effects == [(view, [RowChange((1,), old, new)])]


def test_a_pair_that_never_existed_is_not_evaluated() -> None:
    """Row 1 goes from 1 to 2 on both sides at once: the pair of its new and its old self would divide by zero."""
    world = Texts()
    view = world.view("v", "SELECT a.k, b.k AS k2, a.z / (a.x + b.x - 3) AS q FROM t a JOIN t b USING (n)")
    one = Decimal("1.00")
    assert world.event(T, (1,), (1, 1, 6.0, one))
    assert world.event(T, (1,), (1, 2, 6.0, one)) == [(view, [RowChange((1, 1), (1, 1, -6.0), (1, 1, 6.0))])]
    assert world.event(T, (2,), (2, 1, 6.0, one)) is None
    world.check_states()


def test_the_error_names_the_view_and_the_keys() -> None:
    world = Texts()
    world.view("ratio", "SELECT k, id, z / (u.x - 3) AS q FROM t LEFT JOIN u ON u.id = t.x")
    for one, key, row in ((T, (1,), (1, 8, 1.0, None)), (T, (2,), (2, 9, 1.0, None))):
        world.event(one, key, row)
    with pytest.raises(ViewRowError) as error:
        world.graph.propagate(changes_of(U, (9,), None, (9, 3, None)), world.put)
    assert (
        error.value.detail
        == "the view ratio cannot have the row of t (k = 2) and u (id = 9): division by zero"
    )
    assert (error.value.status, error.value.view) == (422, "ratio")
    world.check_states()


def test_creating_a_view_over_a_bad_row_names_its_key() -> None:
    world = Texts()
    world.event(T, (4,), (4, 0, 1.0, None))
    definition = world.defined("ratio", "SELECT k, z / x AS q FROM t")
    with pytest.raises(
        ViewRowError, match=r"the view ratio cannot have the row of t \(k = 4\): division by zero"
    ):
        list(definition.open(world.rows_of).build())


def test_a_sum_that_is_too_large_is_refused_and_leaves_the_groups_as_they_were() -> None:
    world = Texts()
    world.view("sums", "SELECT x, SUM(z) AS total, MAX(z) AS most, COUNT(*) AS n FROM t GROUP BY x")
    world.event(T, (1,), (1, 1, 1e308, None))
    world.event(T, (2,), (2, 2, 1e308, None))
    states = world.states()
    with pytest.raises(ViewRowError, match=r"the group \(x = 1\): value out of range: overflow"):
        world.graph.propagate(changes_of(T, (2,), (2, 2, 1e308, None), (2, 1, 1e308, None)), world.put)
    assert world.states() == states
    assert world.event(T, (3,), (3, 1, -1e308, None))
    world.check_states()


def test_progress_is_reported_while_a_view_is_built() -> None:
    world = Texts()
    world.rows[T.id] = {(k,): (k, k % 7, 0.5, None) for k in range(2 * PROGRESS + 5)}
    for text in ("SELECT k, x FROM t", "SELECT x, COUNT(*) AS n FROM t GROUP BY x"):
        reports: list[int] = []
        definition = world.defined("v", text)
        assert list(definition.open(world.rows_of).build(reports.append))
        assert reports == [PROGRESS, 2 * PROGRESS]


def test_a_view_that_was_built_over_copies_reads_the_tables_afterwards() -> None:
    world = Texts()
    world.rows[T.id] = {(1,): (1, 5, 0.5, None), (2,): (2, 6, 0.5, None)}
    definition = world.defined("v", "SELECT k, id, z FROM t JOIN u ON t.x = u.x")
    copies = {id: dict(rows) for id, rows in world.rows.items()}
    operator = definition.open(lambda table: copies[table.id])
    world.rows[definition.view.id] = dict(operator.build())
    operator.rebind(world.rows_of)
    world.graph.add(definition, operator)
    world.definitions.append(definition)
    world.operators.append(operator)
    world.event(T, (1,), (1, 5, 1.5, None))
    assert world.event(U, (9,), (9, 5, None))
    assert world.event(U, (9,), (9, 6, None))
