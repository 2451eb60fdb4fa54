"""Random views and every type of subscription on them through a server, compared with PostgreSQL after every event."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import psycopg
import pytest

from prosem.store.embedded import EmbeddedPostgres
from prosem.types.registry import TYPES
from tests.support.live import Api, Json
from tests.support.processes import ServerProcess
from tests.support.random_views import Chance, Origin, RandomViews
from tests.support.view_oracle import BaseTable, Oracle
from tests.support.view_questions import Answer, Question, Questions

TEXTS = ["", "a", "ab", "abc", "B", "c"]
VALUES: dict[str, Any] = {
    "integer": lambda chance: chance.randint(-1, 4),
    "bigint": lambda chance: chance.randint(-1, 4),
    "numeric(8,2)": lambda chance: f"{chance.randint(-4, 16) * 25 / 100:.2f}",
    "numeric(30,10)": lambda chance: f"{chance.randint(-1, 4)}.{chance.choice(['0', '5', '25'])}",
    # No minus zero: filters and select-joins of tables notify the change of its sign (tests/test_written_alike.py).
    "double precision": lambda chance: chance.choice([-0.5, 0.0, 0.25, 0.5, 1.0, 3.0]),
    "text": lambda chance: chance.choice(TEXTS),
    "boolean": lambda chance: chance.random() < 0.5,
    "date": lambda chance: str(date(2024, 2, 27) + timedelta(chance.randrange(5))),
    "timestamptz": lambda chance: f"2024-02-28T00:00:0{chance.randrange(4)}Z",
    "jsonb": lambda chance: chance.choice([{"a": 1}, {"b": [1, "x"]}, [], "text", 3, None]),
    "bytea": lambda chance: base64.b64encode(chance.choice([b"", b"\0", b"ab"])).decode(),
}
NUMBERS = ["integer", "bigint", "numeric(8,2)", "numeric(30,10)", "double precision"]


def tables_of(chance: Chance, tag: str) -> list[BaseTable]:
    """Three tables that share some names."""
    y, n = chance.choice(NUMBERS), chance.choice(NUMBERS)
    second = ["id"] if chance.random() < 0.5 else ["id", "t"]
    first = {"k": "integer", "j": "integer", "y": y, "z": "double precision", "t": "text", "d": "date"}
    others = {"id": "integer", "t": "text", "j": chance.choice(["integer", "bigint"]), "n": n}
    others |= {"f": "boolean", "at": "timestamptz"}
    third = {
        "k": "bigint",
        "j": "integer",
        "w": "double precision",
        "x": "integer",
        "doc": "jsonb",
        "raw": "bytea",
    }
    columns = {"s": (first, ["k"]), "o": (others, second), "p": (third, ["k"])}
    return [BaseTable(f"{name}_{tag}", *made) for name, made in columns.items()]


class Watched:
    """A subscription, the answer that its stream was folded to, and PostgreSQL's answers that are not yet compared."""

    def __init__(self, question: Question, oracle: Oracle, made: Json) -> None:
        self.question, self.id, self.since = question, made["id"], made["seq"]
        if question.shape == "rows":  # over a join, either of two columns that USING merges may be the key's
            question.key = tuple(made["fold"]["key"])
        self.reader = oracle.reader(question)
        self.answer = self.reader.answer(made["result"])
        assert self.answer == oracle.ask(question), f"{question.asked()}: the first answer"
        self.answers: list[tuple[int, Answer]] = []
        self.frames: list[Json] = []

    def check(self, frames: list[Json]) -> None:
        """The changes that came are those of the answers, no more and no fewer."""
        self.frames += frames
        changes = {frame["seq"]: frame["change"] for frame in frames}
        assert len(changes) == len(frames), "two changes of one seq"
        for seq, now in self.answers:
            change = changes.pop(seq, None)
            folded = self.answer if change is None else self.reader.folded(self.answer, change)
            context = f"{self.question.asked()} {self.question.notify or ''} at {seq}: {change}"
            if self.question.notify is None:
                assert (change is None) == (self.answer == now), context
                assert folded == now, context
            elif self.question.shape == "items":
                for key in {*self.answer, *now, *folded}:
                    self._check_notified(self.answer.get(key), now.get(key), folded.get(key), context)
                assert change is None or folded != self.answer, context
            else:
                self._check_notified(self.answer, now, folded, context)
                assert change is None or folded != self.answer, context
            self.answer = folded
        assert not changes, f"{self.question.asked()}: changes of other events: {changes}"
        self.answers = []

    def _check_notified(self, before: Answer, now: Answer, after: Answer, context: str) -> None:
        """One value with a radius."""
        may, must = self._condition(before, now)
        assert after == now if must else after in ((before, now) if may else (before,)), context

    def _condition(self, before: Answer, now: Answer) -> tuple[bool, bool]:
        """Whether a subscription that was notified of one value may and must be notified of another."""
        if before is None or now is None or before == now:
            return before != now, before != now
        notify = self.question.notify or {}
        kind = self.reader.kinds[-1]
        if kind == "date":
            days = abs(date.fromisoformat(json.loads(now)) - date.fromisoformat(json.loads(before))).days
            return days >= 2, days >= 2
        number: Any = float if kind == "double precision" else Fraction
        before, now = number(before), number(now)

        def is_far(form: str, size: Any) -> bool:
            radius = number(Decimal(str(size)))
            if form == "factor":
                return bool(now >= before * radius or now <= before / radius)
            reach = abs(before) * radius / 100 if form == "percent" else radius
            return bool(now >= before + reach or now <= before - reach)

        far = [is_far(form, size) for form, size in notify.items()]
        return far[0], far[-1]


class World:
    """Tables and views on both sides."""

    def __init__(self, api: Api, connection: psycopg.Connection[Any], seed: int) -> None:
        self.api, self.chance = api, Chance(seed)
        self.tag = f"{seed}_{random.randrange(10**6)}"
        tables = tables_of(self.chance, self.tag)
        self.oracle = Oracle(connection, tables)
        for table in tables:
            api.table(table.columns, table.key, table.name)
        self.random_views = RandomViews(self.chance, [table.origin() for table in tables])
        self.views: list[Origin] = []
        self.questions = Questions(self.chance, self.oracle.values)
        self.watched: list[Watched] = []

    # -- definitions ---------------------------------------------------------------------------------------------
    def create_view(self) -> None:
        drawn, origin = self.random_views.draw(f"v{len(self.views)}_{self.tag}")
        origin, types = self.oracle.create(origin, drawn)
        made = self.api.call("POST", "/v1/views", json={"name": origin.text, "sql": drawn})
        assert [(column["name"], column["type"]) for column in made["columns"]] == types, drawn
        assert {*made["primary_key"]} <= {*origin.columns}, drawn
        origin = replace(
            origin, key=tuple(made["primary_key"])
        )  # of a column that is selected twice either may be it
        self.views.append(origin)
        self.random_views.origins.append(origin)

    def subscribe(self, kind: str, listener: Any) -> bool:
        """One subscription of a type; False if the view that was drawn has no columns for it."""
        chance = self.chance
        if kind == "select-join":
            question = self.questions.join(*chance.sample(self.random_views.origins, 2))
        else:
            origin: Origin | None = chance.choice(self.views * 3 + self.random_views.origins)
            if chance.random() < 0.2:
                origin = self.random_views.join()
            question = self.questions.draw(kind, origin) if origin is not None else None
        if question is None:
            return False
        made = self.api.call("POST", "/v1/subscriptions", json=question.subscription(chance))
        assert made["type"] == kind, question
        self.watched.append(Watched(question, self.oracle, made))
        listener.attach(made["id"])
        return True

    # -- events --------------------------------------------------------------------------------------------------
    def event(self) -> Json:
        chance = self.chance
        table = chance.choice(list(self.oracle.tables.values()))
        cells = {name: self._cell(table, name) for name in table.columns}
        key = {name: cells[name] for name in table.key}
        if table.rows and chance.random() < 0.5:
            key = dict(zip(table.key, chance.choice(list(table.rows)), strict=True))
        is_there = table.key_of(key) in table.rows
        if is_there and chance.random() < 0.3:
            return {"table": table.name, "op": "delete", "key": key}
        if is_there and chance.random() < 0.6:
            rest = [name for name in cells if name not in key]
            some = {name: cells[name] for name in chance.sample(rest, chance.randint(1, 3))}
            return {"table": table.name, "op": "update", "key": key, "set": some}
        op = "upsert" if is_there or chance.random() < 0.5 else "insert"
        return {"table": table.name, "op": op, "row": cells | key}

    def _cell(self, table: BaseTable, name: str) -> Any:
        is_null = name not in table.key and self.chance.random() < 0.15
        return None if is_null else VALUES[table.columns[name]](self.chance)

    def publish(self, count: int) -> int:
        """One request; PostgreSQL's answers are noted after each of its events."""
        events = []
        answers: list[list[Answer]] = []
        for _ in range(count):
            events.append(self.event())
            self.oracle.apply(events[-1])
            answers.append([self.oracle.ask(one.question) for one in self.watched])
        made = self.api.call("POST", "/v1/events", json={"events": events})
        for at, row in enumerate(answers):
            for one, answer in zip(self.watched, row, strict=True):
                if one.question.per == "event" or at == count - 1:
                    one.answers.append((made["first_seq"] + at, answer))
        last: int = made["last_seq"]
        return last

    # -- comparison ----------------------------------------------------------------------------------------------
    def check(self, listener: Any) -> None:
        frames: dict[str, list[Json]] = {}
        for frame in listener.frames:
            assert "error" not in frame, frame
            if "change" in frame:
                frames.setdefault(frame["id"], []).append(frame)
        listener.frames.clear()
        for one in self.watched:
            one.check(frames.get(one.id, []))
        for one in self.chance.sample(self.watched, min(8, len(self.watched))):
            self.check_result(one)

    def check_result(self, one: Watched) -> None:
        result = self.api.result(one.id)["result"]
        answer = one.reader.answer(result)
        assert answer == one.answer, one.question.asked()
        if one.question.is_ordered:
            assert list(answer) == list(self.oracle.ask(one.question)), one.question.asked()

    def check_resumed(self, last: int) -> None:
        """From any seq on the same changes come again."""
        with self.api.socket() as socket:
            after = {}
            for one in self.watched:
                if "may" not in (one.question.notify or {}):
                    after[one.id] = self.chance.randint(one.since, last)
                    socket.attach(one.id, after=after[one.id])
            socket.pong()
            for one in self.watched:
                if one.id in after:
                    expected = [in_order(frame) for frame in one.frames if frame["seq"] > after[one.id]]
                    found = [in_order(frame) for frame in socket.of(one.id)]
                    assert found == expected, f"{one.question.asked()} after {after[one.id]}"

    def remove(self) -> None:
        for one in self.watched:
            self.api.delete(one.id)
        for view in reversed(self.views):
            self.api.call("DELETE", f"/v1/views/{view.text}")
        for name in self.oracle.tables:
            self.api.call("DELETE", f"/v1/tables/{name}")


def in_order(frame: Json) -> Json:
    """A frame whose rows may come in any order, to be compared. The row of MIN and MAX is any that attains the value."""
    change = {
        name: sorted(part, key=repr) if isinstance(part, list) else part
        for name, part in frame["change"].items()
        if name != "row"
    }
    return frame | {"change": change}


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    made = ServerProcess()
    with Api(made.start()) as found:
        yield found
    made.remove()


def drive(api: Api, postgres: EmbeddedPostgres, seed: int, views: int, rounds: int, per_type: int) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as connection, api.socket() as listener:
        world = World(api, connection, seed)
        world.publish(20)
        wanted = [kind.name for kind in TYPES for _ in range(per_type)]
        world.chance.shuffle(wanted)
        last = 0
        for number in range(rounds):
            for _ in range(views * (number + 1) // rounds - len(world.views)):
                world.create_view()
            while wanted and len(wanted) > per_type * len(TYPES) * (rounds - number - 1) // rounds:
                if world.subscribe(wanted[-1], listener):
                    wanted.pop()
            last = world.publish(world.chance.choice([1, 1, 1, 2, 5]))
            listener.progress(last)
            world.check(listener)
        assert not wanted
        world.check_resumed(last)
        world.remove()


@pytest.mark.parametrize("seed", range(5))
def test_every_type_on_random_views(api: Api, postgres: EmbeddedPostgres, seed: int) -> None:
    drive(api, postgres, seed, views=6, rounds=12, per_type=3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_every_type_on_random_views_at_length(api: Api, postgres: EmbeddedPostgres, seed: int) -> None:
    drive(api, postgres, seed, views=14, rounds=60, per_type=8)
