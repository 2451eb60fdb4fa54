"""Groups come with their first subscription and go with the last one, from memory, from the database and in the order."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import psycopg
import pytest

from api.server.running import RunningServer
from prosem.engine import commands as c
from prosem.engine import groups
from prosem.language.parse import parse
from tests.support.every_type import subscribe_every_type
from tests.support.live import insert, update
from tests.support.running import TABLE, Listener, publish, running, subscribe


def stored(url: str, table: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(f"SELECT count(*) FROM prosem.{table}").fetchone()  # type: ignore[call-overload]
    assert row is not None
    return int(row[0])


def template(number: int) -> c.Subscribe:
    """Each number below 60 is a template with a space of its own."""
    functions = [
        "MIN(y)",
        "MAX(x)",
        "COUNT(*)",
        "SUM(y)",
        "MIN(k)",
        "SUM(x)",
        "AVG(y)",
        "MAX(k)",
        "SUM(k)",
        "AVG(k)",
    ]
    terms = (("x",), ("y",), ("k",), ("x", "y"), ("x", "k"), ("y", "k"))[number // 10]
    where = " AND ".join(f"{name} >= :{name}" for name in terms)
    query = parse(f"SELECT {functions[number % 10]} FROM t WHERE {where}")
    return c.Subscribe(query, None, [(None, dict.fromkeys(terms, 1))])


async def test_two_templates_whose_digests_collide_are_two_groups(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The short digest is 40 bits: two templates with the same one can be searched for."""

    def collided(data: bytes, digest_size: int = 32) -> Any:
        return hashlib.blake2s(b"" if digest_size < 16 else data, digest_size=digest_size)

    monkeypatch.setattr(groups, "blake2s", collided)

    async with running(url) as made:
        await made.call(c.CreateTable(TABLE))
        await made.call(publish(insert(k=1, x=1, y=10)))
        asked = [f"SELECT MIN(y) FROM t WHERE {name} BETWEEN :lo AND :hi" for name in ("x", "k", "y")]
        subscribed = [
            await made.call(c.Subscribe(parse(sql), None, [(None, {"lo": 0, "hi": 9})])) for sql in asked
        ]
        names = [answer["group"] for answer in subscribed]
        assert len({*names}) == 3
        again = await made.call(c.Subscribe(parse(asked[1]), None, [(None, {"lo": 2, "hi": 9})]))
        assert again["group"] == names[1]
    async with running(url) as made:
        assert [group.name for group in made.state.groups.values()] == names, "stored names stay"
        answer = await made.call(c.Subscribe(parse(asked[2]), None, [(None, {"lo": 3, "hi": 9})]))
        assert answer["group"] == names[2]


async def test_a_group_goes_with_its_last_subscription(url: str) -> None:
    async with running(url) as made:
        ids = await subscribe_every_type(made)
        listener = await Listener(made, *ids).attached()
        twin = (await made.call(subscribe(0, 70)))["id"]
        before = len(made.state.groups)
        assert before == stored(url, "group_") > 8
        for id in ids:
            await made.call(c.Delete(id))
        assert [group.type for group in made.state.groups.values()] == ["range-min"]
        assert (stored(url, "group_"), stored(url, "statement")) == (1, 1)
        await made.call(c.Delete(twin))
        await made.call(publish(update(3, y=77)))
        assert not made.state.groups
        assert not made.state.group_sizes
        assert not made.state.group_store._of_label
        assert [stored(url, name) for name in ("group_", "statement", "item_told", "history")] == [0] * 4
        assert made.edge.hosted == len(made.edge.network) == 0  # type: ignore[arg-type]
        await listener.close()


async def test_spaces_of_groups_that_are_gone_do_not_accumulate(url: str) -> None:
    async with running(url) as made:
        await made.call(c.CreateTable(TABLE))
        await made.call(publish(*(insert(k=k, x=k, y=k) for k in range(20))))
        labels = set()
        for number in range(60):
            answer = await made.call(template(number))
            labels.add(answer["group"])
            await made.call(publish(update(3, y=number)))
            await made.call(c.Delete(answer["id"]))
        assert len(labels) > 3 * groups.IDLE_SPACES
        await made.call(publish(update(3, y=1)))
        store = made.state.group_store
        kept = (
            store.spaces,
            store._members,
            store._first_of,
            store._space_of_label,
            store._label_of_space,
        )
        assert {len(one) for one in kept} <= set(range(groups.IDLE_SPACES + 2)), [len(one) for one in kept]
        assert len(made.state.chooser._known) <= groups.IDLE_SPACES + 1
        assert not made.state.groups


async def test_a_group_may_go_and_come_back_within_one_batch(url: str) -> None:
    async with running(url) as made:
        await made.call(c.CreateTable(TABLE))
        await made.call(publish(insert(k=1, x=1, y=10)))
        first = await made.call(subscribe(0, 9, "a"))
        asked: list[Any] = [c.Delete("a"), subscribe(0, 8, "a"), c.Delete("a"), subscribe(0, 7, "a")]
        replies = await asyncio.gather(*(made.call(one) for one in asked))
        assert {reply["group"] for reply in replies[1::2]} == {first["group"]}
        assert (stored(url, "group_"), stored(url, "subscription")) == (1, 1)
        listener = await Listener(made, "a").attached()
        done = await made.call(publish(update(1, y=3)))
        await listener.progress(done["last_seq"])
        assert listener.answers["a"]["value"] == 3
        await listener.close()


async def test_numbers_of_spaces_are_not_given_again_after_a_restart(url: str) -> None:
    async def spaces(made: RunningServer) -> set[int]:
        return {group.space for group in made.state.groups.values()}

    async with running(url) as made:
        await made.call(c.CreateTable(TABLE))
        kept = (await made.call(subscribe(0, 9)))["id"]
        gone = [(await made.call(template(number)))["id"] for number in range(5)]
        used = await spaces(made)
        for id in gone:
            await made.call(c.Delete(id))
    async with running(url) as made:
        assert len(made.state.groups) == 1
        await made.call(template(7))
        assert len(await spaces(made) - used) == 1
        assert (await made.call(c.Result(kept)))["result"]["value"] is None


async def test_what_ephemeral_subscriptions_used_is_gone_after_a_restart(url: str) -> None:
    async with running(url) as made:
        await made.call(c.CreateTable(TABLE))
        command = template(3)
        await made.call(c.Subscribe(command.query, None, command.rows, durable=False))
        await made.call(subscribe(0, 9))
        assert (stored(url, "group_"), stored(url, "statement")) == (2, 2)
    async with running(url) as made:
        assert (stored(url, "group_"), stored(url, "statement")) == (1, 1)
        assert len(made.state.groups) == len(made.state.group_store.statements) == 1


async def test_others_of_the_space_are_replayed_after_a_group_is_gone(url: str) -> None:
    """Filters of one table are several groups of one space."""
    async with running(url) as made:
        await made.call(c.CreateTable(TABLE))
        first = await made.call(publish(insert(k=1, x=1, y=10)))
        gone, kept = [
            (await made.call(c.Subscribe(parse(sql), None, [(None, {"a": 1})])))["id"]
            for sql in ("SELECT * FROM t WHERE x >= :a", "SELECT * FROM t WHERE y >= :a")
        ]
        assert len({group.space for group in made.state.groups.values()}) == 1
        for number in range(3):
            await made.call(publish(insert(k=10 + number, x=5, y=number)))
        await made.call(c.Delete(gone))
        done = await made.call(publish(insert(k=20, x=5, y=7)))
        listener = Listener(made)
        listener.seqs[kept] = []
        listener.answers[kept] = {"rows": [{"k": 1, "x": 1, "y": 10}]}
        listener.subscriber.attach(kept, first["last_seq"])
        await listener._until(lambda: listener.seqs[kept][-1:] == [done["last_seq"]])
        assert [row["k"] for row in listener.answers[kept]["rows"]] == [1, 11, 12, 20]
        await listener.close()
