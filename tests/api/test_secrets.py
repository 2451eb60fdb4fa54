"""No key, password or secret of a webhook is in a log: also where connections fail and requests are refused."""

from __future__ import annotations

import logging

import pytest

from prosem.store import schema
from prosem.store.embedded import EmbeddedPostgres
from tests.support import command_line, secrets
from tests.support.database import empty_database
from tests.support.processes import ServerProcess, open_folder
from tests.support.receiver import Receiver
from tests.support.secured import ADMIN_KEY, Keyed
from tests.support.waiting import until

WEBHOOK = "the-secret-of-a-webhook-in-a-test"
WRONG = "a-key-that-the-server-does-not-know"


def test_secrets_are_found_in_logs() -> None:
    folder = open_folder("prosem-secrets-")
    secrets.note("a-secret-that-was-logged")
    (folder / "server.log").write_text("fine\nthe key is a-secret-that-was-logged\n")
    with pytest.raises(AssertionError, match="the key is …"):
        secrets.check_folder(folder)
    listening = secrets.Listening()
    listening.emit(logging.makeLogRecord({"msg": "%s", "args": ("postgresql://a:b@c/d",)}))
    assert listening.found


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_server_that_says_everything_says_no_secret(postgres: EmbeddedPostgres, form: str) -> None:
    """With debug messages, through refusals, a failing receiver and a PostgreSQL that ends its sessions."""
    database = empty_database(postgres)
    schema.migrate(database)
    options = ("--database", database, "--admin-key", ADMIN_KEY, "--webhook-hosts", "127.0.0.1")
    server = ServerProcess(*options, "--log-level", "debug", "--log-format", form)
    with Receiver(WEBHOOK, behave=lambda number, request: 500 if number == 0 else 204) as receiver:
        admin = Keyed(server.start(), ADMIN_KEY)
        publisher = admin.make_key("publisher")
        admin.stocks(("A", "tech", 1, 1))
        id = admin.subscribe("SELECT COUNT(*) FROM stocks")["id"]
        admin.call("POST", "/v1/webhooks", json={"url": receiver.url, "id": id, "secret": WEBHOOK})
        publisher.publish(
            "stocks", [{"op": "upsert", "row": {"symbol": "B", "sector": "x", "risk": 1, "per": 1}}]
        )
        receiver.until(lambda: len(receiver.requests) > 1)
        assert Keyed(server.url, WRONG).status("GET", "/v1/tables") == 401
        assert admin.status("GET", f"/v1/tables?key={WRONG}") == 200
        assert publisher.status("POST", "/v1/subscriptions", json={"sql": WRONG}) == 403
        _end_sessions(database)
        until(lambda: "WARNING" in server.log or '"warning"' in server.log)
        server.wait_ready()
        for caller in (admin, publisher):
            caller.http.close()
    assert "DEBUG" in server.log or '"debug"' in server.log
    server.remove()


def _end_sessions(database: str) -> None:
    import psycopg

    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid()"
        )


@pytest.mark.parametrize("command", ["serve", "doctor", "keys list"])
def test_a_command_that_fails_says_no_password(command: str) -> None:
    """PostgreSQL's library shows an address that it cannot read."""
    address = "postgresql://me:a-password-of-this-test@[bad/x"
    done = command_line.run(*command.split(), "--database", address)
    assert done.returncode != 0
    assert "postgresql://me:***@[bad/x" in done.stdout + done.stderr
    assert "a-password-of-this-test" not in done.stdout + done.stderr
