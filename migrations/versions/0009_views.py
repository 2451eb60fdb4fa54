"""Views, subscriptions that are notified once per transaction, and where requests end in the event log.

Events that were logged before count as requests of their own: no subscription was notified per transaction then.
"""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0007"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
    CREATE TABLE prosem.view_ (
        id          integer PRIMARY KEY,
        tenant      text COLLATE "C" NOT NULL,
        name        text COLLATE "C" NOT NULL,
        sql         text NOT NULL,
        created_seq bigint NOT NULL,
        UNIQUE (tenant, name)
    )
    """,
    "COMMENT ON COLUMN prosem.view_.id IS 'numbered with the tables; a view refers to smaller numbers only'",
    "ALTER TABLE prosem.statement ADD COLUMN per text COLLATE \"C\" NOT NULL DEFAULT 'event'",
    "ALTER TABLE prosem.group_ ADD COLUMN per text COLLATE \"C\" NOT NULL DEFAULT 'event'",
    "ALTER TABLE prosem.event_log ADD COLUMN request_end bigint",
    "COMMENT ON COLUMN prosem.event_log.request_end IS 'the last seq of its request; NULL: its own'",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
