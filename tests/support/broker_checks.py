"""Queries and events for the tests of brokers, and the check of what their sockets received."""

from __future__ import annotations

import random

from tests.support.live import (
    Api,
    Json,
    Socket,
    in_any_order,
    insert,
    upsert,
)

QUERIES: list[tuple[str, Json, Json | None]] = [
    ("SELECT MIN(y) FROM {} WHERE x BETWEEN :a AND :b", {"a": 10, "b": 60}, None),
    ("SELECT MAX(y) FROM {} WHERE x BETWEEN :a AND :b AND z >= :c", {"a": 10, "b": 60, "c": 3}, None),
    ("SELECT SUM(y) FROM {} WHERE x >= :a", {"a": 40}, None),
    ("SELECT COUNT(*) FROM {} WHERE s >= :a", {"a": "m"}, None),  # a text range without an end
    ("SELECT DISTINCT y FROM {} WHERE x BETWEEN :a AND :b", {"a": 0, "b": 50}, None),
    ("SELECT * FROM {} WHERE y < :a AND s LIKE 'a%' OR z = :b", {"a": 50, "b": 2}, None),
    ("SELECT y FROM {} WHERE k = :a", {"a": 3}, {"change": 10}),
    ("SELECT y FROM {} WHERE k = :a", {"a": 3, "r": 5}, {"change": ":r"}),
    ("SELECT MAX(y) FROM {} WHERE x BETWEEN :a AND :b", {"a": 10, "b": 60}, {"change": 10}),
    ("SELECT AVG(y) FROM {} WHERE x >= :a", {"a": 40, "r": 30}, {"percent": ":r"}),
]


def event(rng: random.Random) -> Json:
    key = rng.randrange(40)
    if rng.random() < 0.1:
        return {"op": "upsert", "row": {"k": key, "x": None, "y": None, "z": 1, "s": None}}
    row = {
        "x": rng.randrange(100),
        "y": rng.randrange(100),
        "z": rng.randrange(6),
        "s": rng.choice("abcmxyz"),
    }
    return upsert(k=key, **row)


def assert_exact(api: Api, ids: list[str], sockets: list[Socket]) -> None:
    """Every socket received the same, and it folds to the server's answer."""
    for id in ids:
        wanted = essence(api.result(id)["result"])
        for socket in sockets:
            assert essence(socket.answer(id, ("k",))) == wanted, id
            assert socket.seqs(id) == sockets[0].seqs(id), id


def essence(answer: Json | None) -> object:
    """What of an answer must be the same: not the order of values or rows, nor which row attains a minimum."""
    if answer is None or "rows" in answer:
        return in_any_order(answer)
    return sorted(map(str, answer["values"])) if "values" in answer else answer["value"]


def last_seq(api: Api) -> int:
    """Publish something that concerns nobody: its seq is beyond everything."""
    beyond = api.table({"k": "integer"}, ["k"])
    seq: int = api.publish(beyond, [insert(k=1)])["last_seq"]
    return seq


def resumed(lost: Socket, url: str, ids: list[str]) -> Socket:
    """A socket that goes on where another was lost, with what that one had got."""
    made = Socket(url)
    made.frames = list(lost.frames)
    for id in ids:
        seen = [frame["seq"] for frame in lost.frames if frame.get("id") == id]
        made.attach(id, max(seen))
    return made
