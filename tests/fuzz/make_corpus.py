"""Write the seeds of binary formats anew, from real parts: `python -m tests.fuzz.make_corpus`. Texts are written by hand."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import psycopg

from cn.model import frames
from cn.model.geometry import BOTTOM, TOP, Interval
from cn.model.message import Message
from cn.model.network import Space
from cn.transport.packets import Outgoing
from prosem.store.backup import back_up
from prosem.store.embedded import EmbeddedPostgres
from prosem.store.schema import migrate
from tests.support.processes import open_folder

CORPUS = Path(__file__).parent / "corpus"
STATEMENTS = (
    "INSERT INTO followed VALUES (1, 'a', 1.5), (2, NULL, NULL), (3, 'ü\u20ac', -7)",
    "UPDATE followed SET b = 'c' WHERE a = 1",
    "UPDATE followed SET a = 10 WHERE a = 3",
    "DELETE FROM followed WHERE a = 2",
    "TRUNCATE followed",
)


def write(target: str, name: str, data: bytes) -> None:
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def replication(connection: psycopg.Connection[Any]) -> None:
    """What the plugin says of some transactions, each message in the frame of the stream."""
    connection.execute("CREATE TABLE followed (a integer PRIMARY KEY, b text, c numeric)")
    connection.execute("CREATE PUBLICATION everything FOR ALL TABLES")
    connection.execute("SELECT pg_create_logical_replication_slot('corpus', 'pgoutput')")
    for statement in STATEMENTS:
        connection.execute(statement)
    said = connection.execute(
        "SELECT data FROM pg_logical_slot_get_binary_changes('corpus', NULL, NULL, 'proto_version', '1',"
        " 'publication_names', 'everything')"
    ).fetchall()
    for number, (data,) in enumerate(said):
        write("replication", f"{number:02}-{chr(data[0])}", b"w" + bytes(24) + data)
    write("replication", "alive", b"k" + bytes(16) + b"\1")


def brokers() -> None:
    space = Space(3, 1, True)
    region = ((Interval(1, 5),), (Interval(BOTTOM, TOP),))
    samples: list[frames.Frame] = [
        frames.PositionMark(7, 3),
        frames.placed(4, ("broker-1",), space, 11, b"tech", (5,)),
        frames.placed(4, ("broker-1", "broker-2"), space, 11, b"tech", None),
        frames.Data(8, Message(5, 0, 3, "range-min", b"tech", region, payload=b"payload")),
        frames.Data(9, Message(6, 0, 4, "filter", attributes=((1, "a", None), None), contents=(b"long",))),
    ]
    for number, frame in enumerate(samples):
        data = frames.encode(frame)
        assert frames.decode(data) == frame
        write("broker-frames", f"{number}-{type(frame).__name__}", b"\x91" + data)
    outgoing = Outgoing("server", 1_000, 4)
    for frame in samples:
        outgoing.put(frames.encode(frame))
    for number, packet in outgoing.due():
        write("packets", f"{number:02}", packet)


def main() -> None:
    folder = open_folder("prosem-corpus-")
    postgres = EmbeddedPostgres(folder / "data")
    url = postgres.start()
    try:
        migrate(url)
        shutil.rmtree(CORPUS / "backups", ignore_errors=True)
        (CORPUS / "backups").mkdir(parents=True)
        back_up(url, CORPUS / "backups" / "empty", "0.1.0", lambda *_: None)
        with psycopg.connect(url, autocommit=True) as connection:
            replication(connection)
    finally:
        postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)
    brokers()


if __name__ == "__main__":
    main()
