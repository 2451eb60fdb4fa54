"""A replication connection: making a slot with its snapshot, and reading the stream of its changes.

psycopg has no cursor for replication; its connection of libpq has all that is needed. The session writes values in one
form whatever the source's settings are, so a value from the stream and one from the snapshot are the same text.
"""

from __future__ import annotations

from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import DiagnosticField, ExecStatus
from psycopg.pq.abc import PGresult

from api.attach.pgoutput import Alive, Data, frame, lsn, status_update, written
from prosem.values.errors import SetupError

# How values are written, in every session with the source.
FORMS = "-c datestyle=ISO -c timezone=UTC -c extra_float_digits=1 -c bytea_output=hex"

# A source that has vanished without a word is noticed within half a minute.
_LIVELINESS = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}


def connect(url: str, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
    """A session with the source, in which each statement is a transaction of its own."""
    given = conninfo_to_dict(url).get("options") or ""
    return psycopg.connect(
        url,
        autocommit=True,
        client_encoding="utf8",
        application_name="prosem attach",
        options=f"{given} {FORMS}".strip(),
        **{**_LIVELINESS, **options},
    )


class Slot:
    """The slot of this name over a connection of its own. Used by one thread."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self._connection = connect(url, replication="database")
        self._link = self._connection.pgconn

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def create(self) -> tuple[int, str]:
        """Make the slot: its first position, and the snapshot of exactly that moment.

        The snapshot can be taken up by another session until this one does anything else.
        """
        made = self._run(f"CREATE_REPLICATION_SLOT {self._quoted} LOGICAL pgoutput EXPORT_SNAPSHOT")
        position, snapshot = made.get_value(0, 1), made.get_value(0, 2)
        assert position is not None
        assert snapshot is not None
        return lsn(position.decode()), snapshot.decode()

    def start(self, position: int, publication: str) -> None:
        """Begin the stream of all transactions that end after this position."""
        publications = sql.quote(sql.Identifier(publication).as_string(None))
        self._run(
            f"START_REPLICATION SLOT {self._quoted} LOGICAL {written(position)}"
            f" (proto_version '1', publication_names {publications})"
        )

    def next(self) -> Data | Alive | None:
        """The next frame if one is here; OperationalError when the source has ended the stream."""
        size, data = self._link.get_copy_data(1)
        if size == 0:
            self._link.consume_input()
            size, data = self._link.get_copy_data(1)
        if size == 0:
            return None
        if size < 0:
            raise self._failure(self._link.get_result())
        return frame(bytes(data))

    def fileno(self) -> int:
        """The socket, to wait for what arrives."""
        return self._link.socket

    def confirm(self, position: int) -> None:
        """Everything up to this position is safe here. The source ends a stream that it hears nothing of for long."""
        self._link.put_copy_data(status_update(position, datetime.now(UTC)))
        self._link.flush()

    @property
    def _quoted(self) -> str:
        return sql.Identifier(self.name).as_string(None)

    def _run(self, command: str) -> Any:
        result = self._link.exec_(command.encode())
        if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK, ExecStatus.COPY_BOTH):
            raise self._failure(result)
        return result

    def _failure(self, result: PGresult | None) -> Exception:
        """OperationalError if another attempt may help, SetupError if the operator must act."""
        code = None if result is None else result.error_field(DiagnosticField.SQLSTATE)
        text = self._link.get_error_message().strip() or "the source has ended the replication"
        if (
            code is None or code[:2] in (b"08", b"53", b"57") or code == b"55006"
        ):  # the last: the slot is in use
            return psycopg.OperationalError(text)
        if code in (b"55000", b"58P01"):  # invalidated, or its log is gone
            return SetupError(lost_slot(self.name, text))
        return SetupError(f"the source refuses replication: {text}")


def lost_slot(name: str, reason: str) -> str:
    """What has happened, and what to do."""
    return (
        f"the slot {name!r} cannot be continued: {reason}. The changes since then are lost; start again with --again, which"
        " copies the tables anew. A slot is lost when it is dropped, or when its log exceeds max_slot_wal_keep_size of the"
        " source: allow more there, or let less time pass without this command"
    )
