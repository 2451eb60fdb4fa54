"""Timelines: which history a seq belongs to, since a restored database gives seqs to other events.

The first one is begun by the server. Each has the one before it as its parent: what else there ever was, another database
knows.
"""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0006"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
    CREATE TABLE prosem.timeline (
        number      integer PRIMARY KEY,
        id          text COLLATE "C" NOT NULL UNIQUE,
        parent      text COLLATE "C" REFERENCES prosem.timeline (id),
        parted      bigint NOT NULL,
        first_sid   bigint NOT NULL,
        fingerprint text COLLATE "C" NOT NULL,
        reason      text NOT NULL,
        began       timestamptz NOT NULL DEFAULT now()
    )
    """,
    "COMMENT ON COLUMN prosem.timeline.parted IS 'the last seq that it shares with its parent'",
    "COMMENT ON COLUMN prosem.timeline.first_sid IS 'subscriptions from this number on were made in it'",
    "COMMENT ON COLUMN prosem.timeline.fingerprint IS 'of the database that it began on; a copy has another'",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
