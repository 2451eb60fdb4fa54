"""`prosem backup` and `prosem restore`: a consistent copy under load, a new timeline, and refusals that change nothing."""

from __future__ import annotations

import json
import threading
import zipfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from api import VERSION
from prosem.store import schema
from prosem.store.backup import back_up
from prosem.store.backup_file import BackupReader, Manifest
from prosem.store.embedded import EmbeddedPostgres
from prosem.store.restoring import restore
from prosem.store.timeline import establish
from prosem.values.errors import ConflictError, InputError, ProsemError, SetupError
from tests.store.test_release_0_1 import EXPECTED, load_release
from tests.support import bank, command_line
from tests.support.database import empty_database
from tests.support.live import Api, Json, insert, upsert
from tests.support.processes import ServerProcess, open_folder
from tests.support.waiting import until

QUERIES: dict[str, tuple[str, Json]] = {
    "min": ("SELECT MIN(y) FROM t WHERE x BETWEEN :a AND :b", {"a": 10, "b": 60}),
    "max": ("SELECT MAX(y) FROM t WHERE x BETWEEN :a AND :b AND z >= :c", {"a": 0, "b": 60, "c": 20}),
    "sum": ("SELECT SUM(y) FROM t WHERE x >= :a", {"a": 30}),
    "average": ("SELECT AVG(y) FROM t WHERE x <= :b", {"b": 40}),
    "count": ("SELECT COUNT(*) FROM t WHERE name = :n", {"n": "\\N\t'ü"}),
    "distinct": ("SELECT DISTINCT y FROM t WHERE x BETWEEN :a AND :b", {"a": 0, "b": 50}),
    "filter": ("SELECT * FROM t WHERE y < :a OR x = :b", {"a": 50, "b": 2}),
    "groups": ("SELECT name, COUNT(*) AS n, SUM(y) AS total FROM t WHERE x > :a GROUP BY name", {"a": 5}),
    "top": ("SELECT k, y FROM t WHERE x > :a ORDER BY y DESC LIMIT 7", {"a": 5}),
    "joined": (
        "SELECT COUNT(*), SUM(a.balance) FROM t JOIN accounts a ON t.z = a.id WHERE t.x < :b",
        {"b": 60},
    ),
    "view": ("SELECT * FROM branches WHERE accounts > :a", {"a": 3}),
}
NAMES = ["\\N\t'ü", "", "a\nb", "plain"]


class Load:
    """Publishers of transfers and of rows, until closed; what was acknowledged is remembered."""

    def __init__(self, url: str) -> None:
        self._closing = threading.Event()
        self.acknowledged: list[int] = []
        self._threads = [threading.Thread(target=run, args=[url]) for run in (self._transfer, self._put)]
        for thread in self._threads:
            thread.start()

    def _transfer(self, url: str) -> None:
        transfers = bank.Transfers(1)
        with Api(url) as api:
            while not self._closing.is_set():
                reply = api.call("POST", "/v1/events", json={"events": transfers.request()})
                self.acknowledged.append(reply["last_seq"])

    def _put(self, url: str) -> None:
        number = 0
        with Api(url) as api:
            while not self._closing.is_set():
                number += 1
                rows = [row((number * 7 + at * 13) % 300, number + at) for at in range(5)]
                self.acknowledged.append(api.publish("t", [upsert(**one) for one in rows])["last_seq"])

    def more(self, count: int) -> None:
        """Until so many further requests were acknowledged."""
        goal = len(self.acknowledged) + count
        until(lambda: len(self.acknowledged) >= goal or not all(t.is_alive() for t in self._threads))
        assert all(thread.is_alive() for thread in self._threads)

    def close(self) -> None:
        self._closing.set()
        for thread in self._threads:
            thread.join()


def row(k: int, number: int) -> Json:
    return {
        "k": k,
        "x": number % 97,
        "y": number % 89,
        "z": number % bank.ACCOUNTS,
        "name": NAMES[number % 4],
    }


class BackedUp:
    """A server that was backed up while publishers ran, and another one on what was restored."""

    def __init__(self, database: str, other: str) -> None:
        folder = open_folder("prosem-backup-")
        self.path = folder / "the.backup"
        first = ServerProcess("--database", database, "--partition-events", "200", folder=folder)
        with Api(first.start()) as api:
            bank.open_accounts(api)
            columns = {"k": "integer", "x": "integer", "y": "integer", "z": "integer", "name": "text"}
            api.table(columns, ["k"], "t")
            for id, (sql, params) in QUERIES.items():
                api.subscribe(sql, params, id=id)
            with api.socket() as socket:
                for id in QUERIES:
                    socket.attach(id)
                socket.pong()
                load = Load(first.url)
                try:
                    load.more(50)
                    done = command_line.run("backup", "--database", database, "--output", str(self.path))
                    load.more(50)
                finally:
                    load.close()
                assert done.returncode == 0, done.stderr
                self.said, self.printed = done.stderr, done.stdout
                self.last = max(load.acknowledged)
                socket.progress(self.last)
                self.frames = [frame for frame in socket.frames if "id" in frame]
            self.before: str = api.call("GET", "/v1/status")["timeline"]
        first.stop()
        with BackupReader.open(self.path) as opened:
            self.manifest = opened.manifest
        done = command_line.run("restore", str(self.path), "--database", other)
        assert done.returncode == 0, done.stderr
        self.second = ServerProcess("--database", other, folder=folder)
        self.api = Api(self.second.start())
        self.database = other

    def close(self) -> None:
        self.api.http.close()
        self.second.remove()

    def attach(self, id: str, after: int, timeline: str) -> list[Json]:
        with self.api.socket() as socket:
            socket.send({"op": "attach", "id": id, "after": after, "timeline": timeline})
            socket.pong()
            return [frame for frame in socket.frames if frame.get("id") == id]


@pytest.fixture(scope="module")
def restored(postgres: EmbeddedPostgres) -> Iterator[BackedUp]:
    database = empty_database(postgres)
    schema.migrate(database)
    made = BackedUp(database, empty_database(postgres))
    yield made
    made.close()


def answer_of_postgres(connection: psycopg.Connection[Any], id: str) -> Any:
    sql, params = QUERIES[id]
    for name in params:
        sql = sql.replace(f":{name}", f"%({name})s")
    if id == "top":
        sql = sql.replace(" LIMIT", ", k LIMIT")  # the order of ties
    if id == "view":
        sql = f"WITH branches AS ({bank.VIEW['sql']}) {sql}"
    cursor = connection.execute(sql, params)  # type: ignore[call-overload]
    names = [column.name for column in cursor.description or ()]
    return [dict(zip(names, values, strict=True)) for values in cursor]


def comparable(answer: Any, id: str) -> Any:
    """An answer of the server or of PostgreSQL, in one shape: rows, sorted unless their order counts."""
    if isinstance(answer, dict):
        if "columns" in answer:
            answer = [answer["columns"]]
        elif "values" in answer:
            answer = [{"y": value} for value in answer["values"]]
        elif "value" in answer:
            answer = [{id: answer["value"]}]
        else:
            answer = answer.get("rows", answer.get("groups"))
    rows = [[_number(value) for value in one.values()] for one in (dict(sorted(r.items())) for r in answer)]
    return rows if id == "top" else sorted(rows, key=repr)


def _number(value: Any) -> Any:
    if isinstance(value, str) and value not in NAMES:
        return Decimal(value).quantize(Decimal("1.000000"))
    return Decimal(value).quantize(Decimal("1.000000")) if isinstance(value, int | Decimal) else value


def test_a_backup_under_load_is_one_commit(restored: BackedUp) -> None:
    assert restored.printed.strip() == str(restored.path)
    assert f"as of seq {restored.manifest.last_seq:,}" in restored.said
    assert restored.path.stat().st_mode & 0o777 == 0o600
    assert 0 < restored.manifest.last_seq < restored.last, "publishers ran before and after it"
    assert len(restored.manifest.partitions) > 1
    with psycopg.connect(restored.database) as connection:
        total = connection.execute("SELECT sum(balance), count(*) FROM tenant_default.accounts").fetchone()
        assert total == (bank.TOTAL, bank.ACCOUNTS), "no transaction was seen by half"
        seqs = connection.execute("SELECT max(seq), count(*) FROM prosem.event_log").fetchone()
        assert seqs == (restored.manifest.last_seq, restored.manifest.last_seq)


@pytest.mark.parametrize("id", QUERIES)
def test_every_answer_of_the_restored_server_is_that_of_postgresql(restored: BackedUp, id: str) -> None:
    with psycopg.connect(restored.database, options="-c search_path=tenant_default") as connection:
        expected = answer_of_postgres(connection, id)
    assert comparable(restored.api.result(id)["result"], id) == comparable(expected, id)


@pytest.mark.parametrize("id", QUERIES)
def test_streams_resume_up_to_the_backup_and_begin_anew_beyond_it(restored: BackedUp, id: str) -> None:
    parted = restored.manifest.last_seq
    before = [frame for frame in restored.frames if frame["id"] == id and frame["seq"] <= parted]
    middle = before[len(before) // 2]["seq"]
    replayed = restored.attach(id, middle, restored.before)
    shared = [frame for frame in replayed if frame["seq"] <= parted]
    assert shared == [frame for frame in before if frame["seq"] > middle], "the changes that were sent then"
    (only,) = restored.attach(id, parted + 1, restored.before)
    assert comparable(only["snapshot"], id) == comparable(restored.api.result(id)["result"], id)
    (only,) = restored.attach(id, parted, "unknown")
    assert "snapshot" in only


def test_the_restored_server_begins_one_timeline_and_goes_on(restored: BackedUp) -> None:
    assert restored.manifest.timeline == restored.before
    now = restored.api.call("GET", "/v1/status")["timeline"]
    assert now != restored.before
    with psycopg.connect(restored.database) as connection:
        rows = connection.execute("SELECT id, parted, reason FROM prosem.timeline ORDER BY number").fetchall()
    assert [row[0] for row in rows] == [restored.before, now]
    assert rows[1][1] == restored.manifest.last_seq
    assert restored.manifest.made in rows[1][2]
    seq = restored.api.publish("t", [upsert(**row(1_000, 5))])["first_seq"]
    assert seq == restored.manifest.last_seq + 1


# -- the database of a release, at its own schema ----------------------------------------------------------------
def test_an_older_database_is_saved_as_it_is_and_migrated_when_restored(
    postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    source, target, path = load_release(postgres), empty_database(postgres), tmp_path / "old.backup"
    assert back_up(source, path, VERSION, _quiet).schema == "0006"
    manifest, timeline = restore(target, path, _quiet)
    assert timeline.parted == manifest.last_seq == EXPECTED["seq"]
    schema.migrate(source)
    with psycopg.connect(source) as one, psycopg.connect(target) as other:
        schema.check_revision(other)
        skipped = ("timeline", "engine_state", "statistics_archive", "webhook", "webhook_subscription")
        names = one.execute(
            "SELECT nspname || '.' || quote_ident(relname) FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace"
            " WHERE (nspname = 'prosem' OR nspname LIKE 'tenant%%') AND relkind IN ('r', 'p') AND relname <> ALL(%s)",
            [list(skipped)],
        ).fetchall()
        assert len(names) > 20
        for (name,) in names:
            text = f"SELECT t::text FROM {name} t ORDER BY 1"
            assert one.execute(text).fetchall() == other.execute(text).fetchall(), name  # type: ignore[call-overload]
        sequences = "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = 'prosem' ORDER BY 1"
        assert one.execute(sequences).fetchall() == other.execute(sequences).fetchall()
    assert establish(target).current == timeline.id, "the server does not begin another one"


# -- the embedded database ---------------------------------------------------------------------------------------
def test_the_embedded_database_is_saved_with_and_without_a_server(
    own_server: ServerProcess, tmp_path: Path
) -> None:
    data = own_server.folder / "data"
    done = command_line.run("backup", "--data-dir", str(data))
    assert "there is no database in" in _refused(done)
    paths = [tmp_path / "running.backup", tmp_path / "stopped.backup"]
    with Api(own_server.start()) as api:
        api.table({"k": "integer", "x": "integer", "y": "integer"}, ["k"], "t")
        api.publish("t", [insert(k=1, x=2, y=3)])
        api.subscribe("SELECT SUM(y) FROM t", id="sum")
        done = command_line.run("backup", "--data-dir", str(data), "--output", str(paths[0]))
        assert done.returncode == 0, done.stderr
        done = command_line.run("restore", str(paths[0]), "--data-dir", str(data), "--replace")
        assert "stop it" in _refused(done)
        api.publish("t", [insert(k=2, x=2, y=4)])
    own_server.stop()
    done = command_line.run("restore", str(paths[0]), "--data-dir", str(data), "--replace")
    assert done.returncode == 0, done.stderr
    done = command_line.run("backup", "--data-dir", str(data), "--output", str(paths[1]))
    assert done.returncode == 0, done.stderr
    opened = [_manifest_of(path) for path in paths]
    for manifest in opened:
        assert (manifest.last_seq, manifest.subscriptions) == (1, 1), "the second is of what was restored"
    assert opened[0].timeline != opened[1].timeline


def _manifest_of(path: Path) -> Manifest:
    with BackupReader.open(path) as opened:
        opened.verify(_quiet)
        return opened.manifest


def _refused(done: Any) -> str:
    assert done.returncode == 1
    said: str = done.stderr
    assert "Traceback" not in said
    return said


# -- what is refused ---------------------------------------------------------------------------------------------
@pytest.fixture
def saved(url: str, tmp_path: Path) -> Path:
    path = tmp_path / "a.backup"
    back_up(url, path, VERSION, _quiet)
    return path


def _quiet(name: str, size_bytes: int) -> None:
    """Progress that is not shown."""


def rewritten(path: Path, change: Any) -> None:
    """The backup with other members: `change` is given all of them by name."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def manifest_with(**changed: Any) -> Any:
    def change(members: dict[str, bytes]) -> None:
        members["manifest.json"] = json.dumps(json.loads(members["manifest.json"]) | changed).encode()

    return change


CHANGES: dict[str, tuple[Any, str]] = {
    "a byte is another": (lambda m: m.update({"prosem/engine_state": m["prosem/engine_state"][:-2] + b"7\n"}), "bytes of"),
    "a member is missing": (lambda m: m.pop("prosem/webhook"), "other members"),
    "there is one more": (lambda m: m.update({"prosem/more": b""}), "other members"),
    "no manifest": (lambda m: m.pop("manifest.json"), "no manifest"),
    "a manifest of something else": (manifest_with(parts="none"), "manifest that is wrong"),
    "a newer format": (manifest_with(format=2, version="9.9"), "restore it with that version"),
    "a newer schema": (manifest_with(schema="9999", version="9.9"), "restore it with that version"),
    "another schema": (manifest_with(schema="0002"), "tables of schema 0002"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_backup_that_is_not_what_was_written_is_refused(
    postgres: EmbeddedPostgres, saved: Path, name: str
) -> None:
    change, complaint = CHANGES[name]
    rewritten(saved, change)
    target = empty_database(postgres)
    with pytest.raises(InputError, match=complaint):
        restore(target, saved, _quiet)
    with psycopg.connect(target) as connection:
        assert schema.current_revision(connection) is None, "nothing was changed"


@pytest.mark.parametrize("kept", [0, 100, -1])
def test_a_file_that_was_not_written_to_its_end_is_refused(saved: Path, kept: int) -> None:
    saved.write_bytes(saved.read_bytes()[:kept])
    with pytest.raises(InputError, match="use another copy"), BackupReader.open(saved):
        pass


def test_a_backup_replaces_no_file_and_leaves_none_behind(url: str, saved: Path, tmp_path: Path) -> None:
    before = saved.read_bytes()
    with pytest.raises(InputError, match="exists already"):
        back_up(url, saved, VERSION, _quiet)
    with pytest.raises(InputError, match="cannot be written"):
        back_up(url, tmp_path / "missing" / "a.backup", VERSION, _quiet)

    def fail(name: str, size_bytes: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        back_up(url, tmp_path / "b.backup", VERSION, fail)
    assert [path.name for path in tmp_path.iterdir()] == [saved.name]
    assert saved.read_bytes() == before


def test_databases_without_our_schema_or_with_a_newer_one_are_refused(
    postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    empty = empty_database(postgres)
    with pytest.raises(SetupError, match="nothing to back up"):
        back_up(empty, tmp_path / "a.backup", VERSION, _quiet)
    schema.migrate(empty)
    with psycopg.connect(empty) as connection:
        connection.execute("UPDATE prosem.alembic_version SET version_num = '9999'")
    for refused in (
        lambda: back_up(empty, tmp_path / "a.backup", VERSION, _quiet),
        lambda: schema.migrate(empty),
    ):
        with pytest.raises(SetupError, match=r"newer version of prosem .*: install that version"):
            refused()
    done = command_line.run("serve", "--database", empty, "--port", "0")
    assert "install that version" in _refused(done)


def test_a_restore_that_fails_leaves_the_database_as_it_was(url: str, saved: Path) -> None:
    def counts(connection: psycopg.Connection[Any]) -> Any:
        return connection.execute("SELECT count(*), min(epoch) FROM prosem.engine_state").fetchall()

    with psycopg.connect(url) as connection:
        connection.execute("UPDATE prosem.engine_state SET epoch = 41")
    seen = list[str]()

    def fail(name: str, size_bytes: int) -> None:
        seen.append(name)
        if seen.count("prosem.engine_state") == 2:  # verified, and now loaded
            raise psycopg.OperationalError("the connection is lost")

    with pytest.raises(ProsemError, match="the database is as it was"):
        restore(url, saved, fail, is_replacing=True)
    with psycopg.connect(url) as connection:
        assert counts(connection) == [(1, 41)]
        connection.execute(
            "INSERT INTO prosem.api_key (digest, name, tenant, roles) VALUES ('', '', '', '{}')"
        )
    with pytest.raises(ConflictError, match="--replace"):
        restore(url, saved, _quiet)
    restore(url, saved, _quiet, is_replacing=True)
    with psycopg.connect(url) as connection:
        assert counts(connection) == [(1, 42)], "greater than that of any server before"


def test_a_restore_beside_a_server_is_refused(url: str, saved: Path) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", [schema.ENGINE_LOCK])
        with pytest.raises(ConflictError, match="stop it"):
            restore(url, saved, _quiet, is_replacing=True)


def test_a_table_that_is_dropped_and_made_while_the_backup_begins(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot shows the first table, its name leads to the second: the backup begins again and has the second."""
    from prosem.store import backup, catalog
    from tests.support.database import table_of

    first, second = table_of(["integer"], 1), table_of(["integer"], 2)

    def make(table: Any) -> None:
        with psycopg.connect(url) as connection:
            for statement in catalog.create(table):
                connection.execute(statement)
            connection.execute(
                "INSERT INTO prosem.tenant_table VALUES (%s, %s, %s, %s, 0)",
                [table.id, table.tenant, table.name, json.dumps(table.definition())],
            )
            connection.execute("INSERT INTO tenant_default.t VALUES (%s)", [table.id])

    listed = backup._tenant_tables

    def raced(connection: Any) -> Any:
        found = list(listed(connection))
        if not done:
            done.append(True)
            with psycopg.connect(url) as other:
                other.execute("DROP TABLE tenant_default.t")
                other.execute("DELETE FROM prosem.tenant_table")
            make(second)
        return iter(found)

    done = list[bool]()
    make(first)
    monkeypatch.setattr(backup, "_tenant_tables", raced)
    manifest = back_up(url, tmp_path / "a.backup", VERSION, _quiet)
    (part,) = (part for part in manifest.parts if part.member.startswith("tables/"))
    assert (part.member, part.rows) == ("tables/2", 1)
