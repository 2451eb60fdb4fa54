"""Ownership of the database has an epoch, and a lease.

Taking the engine's lock raises `engine_state.epoch`; every batch names its epoch and a token, and is refused once the
epoch has changed. `ownership` keeps the last token of each former epoch, so that the outcome of a batch can be asked for
later.
"""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0008"
branch_labels = None
depends_on = None

STATEMENTS = (
    "ALTER TABLE prosem.engine_state ADD COLUMN epoch bigint NOT NULL DEFAULT 0,"
    " ADD COLUMN token bigint NOT NULL DEFAULT 0, ADD COLUMN beats bigint NOT NULL DEFAULT 0,"
    " ADD COLUMN lease_s double precision NOT NULL DEFAULT 0",
    "COMMENT ON COLUMN prosem.engine_state.epoch IS 'raised by every server that takes the lock'",
    "COMMENT ON COLUMN prosem.engine_state.token IS 'of the last batch of this epoch'",
    "COMMENT ON COLUMN prosem.engine_state.beats IS 'renewals of the lease'",
    "COMMENT ON COLUMN prosem.engine_state.lease_s IS"
    " 'a standby takes over when epoch, token and beats have not changed for so long; 0: never'",
    """
    CREATE TABLE prosem.ownership (
        epoch  bigint PRIMARY KEY,
        server text NOT NULL,
        name   text NOT NULL,
        taken  timestamptz NOT NULL DEFAULT now(),
        token  bigint
    )
    """,
    "COMMENT ON COLUMN prosem.ownership.token IS 'the last one of the epoch; NULL while it lasts'",
    """
    CREATE FUNCTION prosem.hold_epoch(stored bigint, own bigint) RETURNS bigint LANGUAGE plpgsql AS $$
    BEGIN
        IF stored <> own THEN
            RAISE EXCEPTION 'epoch % of this server was superseded by epoch %', own, stored USING ERRCODE = 'PS001';
        END IF;
        RETURN stored;
    END
    $$
    """,
    "COMMENT ON FUNCTION prosem.hold_epoch IS 'fails a transaction of a server that lost its ownership'",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
