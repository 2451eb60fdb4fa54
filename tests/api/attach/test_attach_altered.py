"""Tables that are altered in the source while they are followed: the command ends and says what to do."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from api.attach.catalog import checked, described, read_facts, written_facts
from api.attach.pgoutput import Attribute, Relation
from api.attach.slot import connect
from api.attach.source import Followed, Source, SourceTable
from api.attach.translate import Translation
from prosem.values.errors import SetupError
from tests.support.attached import Attacher, complaint, execute, rows_here, rows_there, slot_name

SCHEMA = """
    CREATE TABLE prices (id integer PRIMARY KEY, price numeric(8,2), name varchar(10), extra integer);
    INSERT INTO prices SELECT n, n * 1.25, 'n' || n, n FROM generate_series(1, 5) n;
"""
PARTITIONED = """
    CREATE TABLE days (day integer, id integer, PRIMARY KEY (day, id)) PARTITION BY RANGE (day);
    CREATE TABLE days_1 PARTITION OF days FOR VALUES FROM (1) TO (2);
    CREATE TABLE days_2 PARTITION OF days FOR VALUES FROM (2) TO (3);
    INSERT INTO days VALUES (1, 1), (2, 2);
"""
SWAP = """
    BEGIN; CREATE TABLE prices_new (LIKE prices INCLUDING ALL); INSERT INTO prices_new VALUES (9, 9, 'new', 9);
    ALTER TABLE prices RENAME TO prices_old; ALTER TABLE prices_new RENAME TO prices; COMMIT
"""
RECREATE = "BEGIN; DROP TABLE prices; " + SCHEMA + "ALTER PUBLICATION {slot} ADD TABLE prices; COMMIT"


# -- the command -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("alter", "says"),
    [
        (SWAP, "is called public.prices_old"),
        (RECREATE, "dropped"),
        ("ALTER TABLE prices ALTER price TYPE numeric(8,4)", "'price'"),
        pytest.param(
            "ALTER PUBLICATION {slot} DROP TABLE prices",
            "no longer in the publication",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["swapped", "recreated", "numeric", "unpublished"],
)
def test_an_altered_table_ends_the_command(
    source: str, server: str, tmp_path: Path, alter: str, says: str
) -> None:
    execute(source, SCHEMA)
    slot = slot_name()
    target = "prices_" + slot
    attacher = Attacher(source, server, f"prices={target}", tmp_path / "log", "--slot", slot)
    attacher.begin()
    execute(source, alter.format(slot=slot))
    said = attacher.ended()
    assert says in said
    assert "--again" in said
    # Nor does it go on by itself at the next start; copied anew it is as the source again.
    options = ("--tables", f"prices={target}", "--slot", slot, "--once")
    assert "--again" in complaint(source, server, *options)
    if "TYPE" in alter:
        assert httpx.delete(f"{server}/v1/tables/{target}", trust_env=False).is_success
    execute(source, "UPDATE prices SET price = price + 0.01")
    attacher.catch_up("--again")
    execute(source, "UPDATE prices SET price = price + 0.01 WHERE id IN (1, 9)")
    attacher.catch_up()
    assert rows_there(server, target) == rows_here(source, "prices")


def test_a_change_of_an_altered_table_is_not_cut(source: str, server: str, tmp_path: Path) -> None:
    """The message that comes with the next change says so too, before the catalog is looked at."""
    execute(source, SCHEMA)
    slot = slot_name()
    attacher = Attacher(source, server, f"prices={slot}", tmp_path / "log", "--slot", slot)
    attacher.begin()
    execute(
        source,
        "BEGIN; ALTER TABLE prices ALTER price TYPE numeric(8,4); INSERT INTO prices VALUES (6, 1.2345); COMMIT",
    )
    assert "'price'" in attacher.ended()
    assert len(rows_there(server, slot)) == 5


def test_a_table_that_the_server_lost_is_not_followed_from_the_middle(
    source: str, server: str, tmp_path: Path
) -> None:
    execute(source, SCHEMA)
    slot = slot_name()
    attacher = Attacher(source, server, f"prices={slot}", tmp_path / "log", "--slot", slot)
    attacher.catch_up()
    assert httpx.delete(f"{server}/v1/tables/{slot}", trust_env=False).is_success
    execute(source, "INSERT INTO prices VALUES (6, 1, 'new', 1)")
    attacher.start("--once")
    assert "--again" in attacher.ended()
    attacher.catch_up("--again")
    assert rows_there(server, slot) == rows_here(source, "prices")


def test_truncate_cascades_and_partitions_are_followed(source: str, server: str, tmp_path: Path) -> None:
    execute(source, SCHEMA + PARTITIONED)
    execute(source, "CREATE TABLE lines (id integer PRIMARY KEY, price integer REFERENCES prices)")
    execute(source, "INSERT INTO lines VALUES (1, 1)")
    slot = slot_name()
    names = {name: f"{name}_{slot}" for name in ("prices", "lines", "days")}
    tables = ",".join(f"{name}={target}" for name, target in names.items())
    attacher = Attacher(source, server, tables, tmp_path / "log", "--slot", slot)
    attacher.catch_up()
    execute(source, "TRUNCATE prices CASCADE")
    execute(source, "CREATE TABLE days_3 PARTITION OF days FOR VALUES FROM (3) TO (4)")
    execute(source, "INSERT INTO days VALUES (3, 3); UPDATE days SET day = 3 WHERE day = 1")
    attacher.catch_up()
    for name, target in names.items():
        assert rows_there(server, target) == rows_here(source, name)
    assert rows_there(server, names["lines"]) == []
    execute(source, "DROP TABLE days_3")  # one that was made after the copy
    attacher.start("--once")
    assert "partition" in attacher.ended()


# -- the catalog -----------------------------------------------------------------------------------------------------
HARMLESS = [
    "ALTER TABLE prices ADD COLUMN more text",
    "ALTER TABLE prices DROP COLUMN extra",  # which is not followed
    "ALTER TABLE prices ALTER name TYPE varchar(20)",
    "ALTER TABLE prices ALTER name SET NOT NULL; VACUUM FULL prices",
    "ALTER TABLE prices REPLICA IDENTITY FULL",
    "CREATE TABLE days_3 PARTITION OF days FOR VALUES FROM (3) TO (4)",
]
HARMFUL = [
    ("DROP TABLE prices", "was dropped"),
    ("ALTER TABLE prices RENAME TO other", "public.other"),
    ("CREATE SCHEMA s; ALTER TABLE prices SET SCHEMA s", "s.prices"),
    ("ALTER TABLE prices DROP COLUMN name", "'name'"),
    ("ALTER TABLE prices RENAME name TO title", "'name'"),
    ("ALTER TABLE prices DROP COLUMN name; ALTER TABLE prices ADD COLUMN name varchar(10)", "'name'"),
    ("ALTER TABLE prices DROP COLUMN name; ALTER TABLE prices ADD name text GENERATED ALWAYS AS ('x') STORED", "'name'"),
    ("ALTER TABLE prices ALTER id TYPE bigint", "'id'"),
    ("ALTER TABLE prices ALTER price TYPE numeric(10,2)", "'price'"),
    ("ALTER TABLE prices ALTER price TYPE numeric", "'price'"),
    ("ALTER TABLE prices DROP CONSTRAINT prices_pkey", "the key"),
    ("ALTER TABLE prices DROP CONSTRAINT prices_pkey, ADD PRIMARY KEY (name)", "the key"),
    ("ALTER TABLE prices ALTER name SET NOT NULL; CREATE UNIQUE INDEX n ON prices (name);"
     "ALTER TABLE prices REPLICA IDENTITY USING INDEX n", "the key"),
    ("ALTER TABLE prices REPLICA IDENTITY NOTHING", "the key"),
    ("DROP PUBLICATION watched", "publication"),
    ("ALTER PUBLICATION watched DROP TABLE prices; ALTER PUBLICATION watched ADD TABLE prices", "added again"),
    ("ALTER PUBLICATION watched SET (publish = 'insert')", "all changes"),
    ("ALTER PUBLICATION watched SET TABLE prices WHERE (id > 3), days", "publi"),
    ("ALTER PUBLICATION watched SET (publish_via_partition_root = false)", "all changes"),
    ("ALTER TABLE days DETACH PARTITION days_1", "detached"),
    ("DROP TABLE days_2", "detached"),
    ("CREATE TABLE late (day integer, id integer, PRIMARY KEY (day, id)); INSERT INTO late VALUES (5, 5);"
     "ALTER TABLE days ATTACH PARTITION late FOR VALUES FROM (5) TO (6)", "attached"),
]  # fmt: skip


def watched(source: str, alter: str) -> None:
    execute(source, SCHEMA + PARTITIONED)
    with connect(source) as connection:
        catalog = Source(connection, "none", "watched")
        tables = [
            catalog.table("public", "prices", "prices", {"extra"}),
            catalog.table("public", "days", "days", set()),
        ]
        catalog.publish(tables)
        stored = written_facts(described(connection, "watched", tables))
        for statement in alter.split(";"):
            execute(source, statement)
        known = read_facts(stored)
        assert known is not None
        checked(connection, "watched", known)


@pytest.mark.parametrize("alter", HARMLESS)
def test_what_does_no_harm_is_not_stopped_by(source: str, alter: str) -> None:
    watched(source, alter)


@pytest.mark.parametrize(("alter", "says"), HARMFUL)
def test_what_cannot_be_followed_further_is_found_in_the_catalog(source: str, alter: str, says: str) -> None:
    with pytest.raises(SetupError, match=says) as caught:
        watched(source, alter)
    assert "--again" in caught.value.detail


# -- the stream ------------------------------------------------------------------------------------------------------
TABLE = SourceTable(
    7, "public", "t", "t",
    (Followed("id", 23, -1, "integer", False, int), Followed("a", 1700, 524294, "numeric(8,2)", True, str),
     Followed("b", 25, -1, "text", True, str)),
    ("id",), False,
)  # fmt: skip
ID, A, B = Attribute("id", 23, -1, True), Attribute("a", 1700, 524294, False), Attribute("b", 25, -1, False)


@pytest.mark.parametrize(
    "relation",
    [
        Relation(8, "public", "t", "d", (ID, A, B)),
        Relation(7, "public", "other", "d", (ID, A, B)),
        Relation(7, "public", "t", "d", (ID, A)),
        Relation(7, "public", "t", "d", (ID, B, A)),
        Relation(7, "public", "t", "d", (ID, A._replace(modifier=524296), B)),
        Relation(7, "public", "t", "d", (ID._replace(type=20), A, B)),
        Relation(7, "public", "t", "i", (ID._replace(is_key=False), A, B._replace(is_key=True))),
        Relation(7, "public", "t", "n", (ID._replace(is_key=False), A, B)),
    ],
    ids=["recreated", "renamed", "dropped", "exchanged", "modifier", "type", "key", "no key"],
)
def test_what_cannot_be_followed_further_is_found_in_the_stream(relation: Relation) -> None:
    with pytest.raises(SetupError, match="--again"):
        Translation([TABLE]).relation(relation)


def test_relations_that_can_be_followed() -> None:
    translation = Translation([TABLE])
    whole = tuple(column._replace(is_key=True) for column in (ID, A, B))
    for relation in (
        Relation(7, "public", "t", "d", (ID, A, B)),
        Relation(7, "public", "t", "f", whole),
        Relation(7, "public", "t", "d", (ID, A, Attribute("new", 25, -1, False), B)),
        Relation(9, "public", "of_another", "d", (ID,)),
    ):
        translation.relation(relation)
