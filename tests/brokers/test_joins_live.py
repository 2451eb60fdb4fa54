"""Joins that have two tables in common over real brokers: each stream folds to the server's answer."""

from __future__ import annotations

import random

import pytest

from tests.support.deployed import Deployed
from tests.support.live import Api, attached, delete, in_any_order, upsert

SIGNATURES = (
    "{r} JOIN {s} USING (b)",
    "{r} JOIN {s} USING (b) JOIN {t} USING (d)",
    "{s} JOIN {t} USING (d) JOIN {r} USING (b)",
)
LETTERS = {"r": "ab", "s": "bcd", "t": "de"}


@pytest.mark.parametrize(
    "network",
    [
        "cbn",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("unicast", "can", "range-tree", "stages")),
    ],
)
def test_every_broker_hears_every_join(network: str) -> None:
    chance = random.Random(network)
    with Deployed(brokers=2, options=("--network", network)) as made, Api(made.server.url) as api:
        tables = {
            name: api.table(dict.fromkeys(f"k{some}", "integer"), ["k"]) for name, some in LETTERS.items()
        }

        def publish(count: int) -> int:
            for _ in range(count):
                name, key = chance.choice("rst"), chance.randrange(6)
                row = {column: chance.choice([None, 0, 1, 2]) for column in LETTERS[name]}
                events = [upsert(k=key, **row)] + [delete(key)] * (chance.random() < 0.2)
                seq: int = api.publish(tables[name], events)["last_seq"]
            return seq

        publish(20)
        where = " WHERE {r}.a >= :a AND {s}.c < :c".format(**tables)
        ids = [
            api.subscribe(f"SELECT * FROM {source.format(**tables)}{where}", {"a": a, "c": 3 - a})["id"]
            for source in SIGNATURES
            for a in (0, 1)
        ]
        sockets = [attached(one.url, ids) for one in (made.server, *made.brokers)]
        for turn in range(4):
            publish(10)
            api.patch(ids[turn], params={"a": 1 - turn % 2})
            api.patch(ids[turn + 1], active=False)
            publish(5)
            api.patch(ids[turn + 1], active=True)
            seq = publish(5)
            for socket in sockets:
                socket.progress(seq)
                for id in ids:
                    assert in_any_order(socket.answer(id)) == in_any_order(api.result(id)["result"]), (
                        turn,
                        id,
                    )
                    assert socket.seqs(id) == sockets[0].seqs(id)
        made.brokers[0].kill()
        seq = publish(10)
        sockets[2].progress(seq)
        for id in ids:
            assert in_any_order(sockets[2].answer(id)) == in_any_order(api.result(id)["result"])
        for socket in sockets:
            socket.close()
