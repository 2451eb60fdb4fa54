"""Joins of several tables ([ProSem thesis] 5.7.4): S in the middle of R, T and U, in a general schema and in a star schema.

A mix of R⋈S, R⋈S⋈T, R⋈S⋈T⋈U and S⋈T⋈U, 50 : 50 : 50 : 20. Only S has a choice of partner. In the general schema every
join key has several rows on both sides, and events come to all tables; the star schema has unique keys in R, T and U,
and events come to the facts, S. The source draws rows and subscriptions "similar to the case of binary joins": as in its
table 5.2 here, R as R is there and the others as S, with 100 join keys. Joined rows are left out of the general schema:
there are too many. Over a network, a message goes straight to each of a thousand brokers that hosts a subscription it
concerns, zones of about as many each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.common import fail, progress
from bench.join_walk import walk
from bench.join_workload import INTERESTS, KEYS, SPREADS, clipped, means, opened, ranges, table
from bench.network_setting import Zones
from prosem.types.join.decomposition import first_decomposition
from prosem.types.join.shape import JoinShape, mode_of
from prosem.values.model import Delta, Key, Row, Table

TABLES = {
    "r": "bap",
    "s": "bdexp",
    "t": "dcp",
    "u": "eyp",
}  # the join columns are b, d, e; a, x, c, y have conditions
DRAWN = {"r": ("a", "b"), "s": ("c", "b"), "t": ("c", "d"), "u": ("c", "e")}  # as which column, by which key
MIX = {"rs": 50, "rst": 50, "rstu": 50, "stu": 20}
GENERAL = {"r": 10, "s": 70, "t": 70, "u": 30}  # rows per join key
SEEDS = {"subscriptions": 5, "events": 9}
DIMENSION_ROWS, FACT_ROWS = 1_000, 25_000
BROKERS = 1_000
Rows = dict[str, dict[Key, Row]]


class Schema(NamedTuple):
    """Rows, join keys, and the size of the payloads of S."""

    rows: Rows
    keys: int
    fact_bytes: int
    unique: bool
    means: dict[str, NDArray[np.float64]]  # of the column with conditions, by key


def schema_of(keys: int, fact_bytes: int, unique: bool, random: np.random.Generator) -> Schema:
    """Without a row yet."""
    drawn = {name: means(random, column, keys) for name, (column, _) in DRAWN.items()}
    return Schema({name: {} for name in TABLES}, keys, fact_bytes, unique, drawn)


def made(name: str, id: int) -> Table:
    return table(id, name, TABLES[name])


def shape_of(names: str) -> JoinShape:
    tables = tuple(made(name, 1 + "rstu".index(name)) for name in names)
    classes = [{at: one.position[c] for at, one in enumerate(tables) if c in one.position} for c in "bde"]
    ranged = tuple(tuple(one.position[c] for c in "axcy" if c in one.position) for one in tables)
    return JoinShape(
        tables, tuple(one for one in classes if len(one) > 1), ranged, tuple(some[0] for some in ranged)
    )


def row_of(name: str, number: int, schema: Schema, random: np.random.Generator) -> Row:
    """A row; in a star schema the keys of R, T and U count up."""
    column, by = DRAWN[name]
    of_key = {
        one: number % schema.keys if schema.unique and name != "s" else int(random.integers(schema.keys))
        for one in TABLES[name]
        if one in "bde"
    }
    code = int(clipped(random.normal(schema.means[name][of_key[by]], SPREADS[column], 1))[0])
    payload = "x" * (schema.fact_bytes if name == "s" else 100)
    return number, *(of_key.get(one, payload if one == "p" else code) for one in TABLES[name])


def general(keys: int, random: np.random.Generator) -> Schema:
    schema = schema_of(keys, 100, False, random)
    for name, count in GENERAL.items():
        for number in range(count * keys):
            schema.rows[name][number,] = row_of(name, number, schema, random)
    return schema


def star(dimension_rows: int, fact_rows: int, fact_bytes: int, random: np.random.Generator) -> Schema:
    schema = schema_of(dimension_rows, fact_bytes, True, random)
    for name in TABLES:
        for number in range(fact_rows if name == "s" else dimension_rows):
            schema.rows[name][number,] = row_of(name, number, schema, random)
    return schema


def events(
    schema: Schema, names: str, count: int, random: np.random.Generator
) -> Iterator[tuple[str, Delta]]:
    """New rows, and deletes of the oldest, on these tables in turn."""
    oldest = dict.fromkeys(names, 0)
    newest = {name: len(schema.rows[name]) for name in names}
    for seq in range(1, count + 1):
        name = names[seq % len(names)]
        own = made(name, 1 + "rstu".index(name))
        if random.random() < 0.5:
            number = oldest[name]
            oldest[name] += 1
            yield name, Delta(seq, own, (number,), schema.rows[name][number,], None)
        else:
            number = newest[name]
            newest[name] += 1
            yield name, Delta(seq, own, (number,), None, row_of(name, number, schema, random))


def points_of(shape: JoinShape, count: int, random: np.random.Generator) -> NDArray[np.int64]:
    return np.column_stack([ranges(random, *INTERESTS[DRAWN[one.name][0]], count) for one in shape.tables])


def measure(
    schema: Schema,
    happened: Sequence[tuple[str, Delta]],
    subscriptions: int,
    plans: Sequence[str],
    partners: str,
    seed: int = SEEDS["subscriptions"],
) -> dict[str, tuple[float, float, float]]:
    """kB per event of each plan over the mix, and of the semijoins for each partner of S.

    They are those that leave the server, that arrive at subscriptions, and that go to brokers.
    """
    total: dict[str, tuple[int, int, int]] = {}
    for names, share in MIX.items():
        shape = shape_of(names)
        points = points_of(shape, subscriptions * share // sum(MIX.values()), np.random.default_rng(seed))
        brokers = Zones(points, BROKERS).of
        rows = tuple(schema.rows[name] for name in names)
        deltas = [delta for name, delta in happened if name in names]
        middle = names.index("s")
        chosen = first_decomposition(shape, [some.values() for some in rows])
        told: list[NDArray[np.int64]] | None = None
        for plan in plans:
            space = opened(shape, rows, points, chosen, mode_of(plan))
            choices = [(plan, chosen)]
            if plan == "ref-sj-clu+":
                choices += [(f"s⋉{name}", _with(chosen, middle, names, name)) for name in partners]
            for title, decomposition in choices:
                if decomposition != space.decomposition:
                    space.redecompose(decomposition)
                figures = walk(space, deltas, plan, brokers)
                sent, delivered, carried = total.get(title, (0, 0, 0))
                total[title] = (
                    sent + figures.wire_bytes,
                    delivered + figures.delivered_bytes,
                    carried + figures.network_bytes,
                )
                if plan in ("ref-j", "enum-j"):
                    if told is not None and not all(map(np.array_equal, told, figures.told)):
                        fail(f"plans disagree on the affected subscriptions of an event of {names}")
                    told = figures.told
    count = len(happened) * 1e3
    return {
        title: (round(sent / count, 3), round(came / count, 2), round(carried / count, 2))
        for title, (sent, came, carried) in total.items()
    }


def _with(chosen: tuple[int, ...], middle: int, names: str, partner: str) -> tuple[int, ...]:
    """The decomposition with this partner for S, where the query has it."""
    if partner not in names:
        return chosen
    return tuple(names.index(partner) if at == middle else one for at, one in enumerate(chosen))


def size(quick: bool) -> tuple[int, int]:
    """Events and subscriptions."""
    return (30, 1_700) if quick else (400, 170_000)


def run_many(quick: bool) -> dict[str, Any]:
    count, subscriptions = size(quick)
    random = np.random.default_rng(SEEDS["events"])
    progress(f"join: several tables, {subscriptions:,} subscriptions")
    schema = general(3 if quick else KEYS, random)
    happened = list(events(schema, "rstu", count, random))
    figures = {"general": measure(schema, happened, subscriptions, ("rel-sel", "ref-sj-clu+"), "rtu")}
    sizes = (60, 500) if quick else (DIMENSION_ROWS, FACT_ROWS)
    for fact_bytes in (0, 100):
        schema = star(*sizes, fact_bytes, random)
        happened = list(events(schema, "s", count, random))
        plans = ("enum-j", "ref-j", "rel-sel", "ref-sj-clu+")
        figures[f"star, S with {fact_bytes} bytes"] = measure(schema, happened, subscriptions, plans, "rtu")
    titles = list(dict.fromkeys(title for kb in figures.values() for title in reversed(kb)))
    return {
        "schemas": figures,
        "table": [
            {"strategy": title}
            | {
                name: f"{kb[title][0]:,.2f} / {kb[title][1]:,.1f}" if title in kb else "-"
                for name, kb in figures.items()
            }
            for title in titles
        ],
        "notes": [
            "s⋉r, s⋉t, s⋉u: semijoins with that partner for S; ref-sj-clu+: with the partner that the cost formula chose",
            "thesis, star schema without a payload in S: Ref-SJ-Clu+ 5, 9 and 127 times below Rel-Sel, Ref-J and Enum-J",
        ],
    }
