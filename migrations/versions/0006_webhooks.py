"""Webhooks: addresses that changes are sent to, how far each subscription of them has come, and what is being sent.

A delivery is stored in the transaction that moves the positions past what it holds, and deleted once the receiver has it:
so a change is before a position, or in a delivery, or was received. One that was given up stays, as a dead letter.
"""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
    CREATE TABLE prosem.webhook (
        id       text COLLATE "C" PRIMARY KEY,
        tenant   text COLLATE "C" NOT NULL,
        key_id   integer NOT NULL,
        own      boolean NOT NULL,
        url      text NOT NULL,
        secret   text NOT NULL,
        progress bigint NOT NULL DEFAULT 0,
        created  timestamptz NOT NULL DEFAULT now()
    )
    """,
    "COMMENT ON COLUMN prosem.webhook.key_id IS 'the key that it was made with, 0: none'",
    "COMMENT ON COLUMN prosem.webhook.own IS 'whether the key sees only subscriptions of its own'",
    "COMMENT ON COLUMN prosem.webhook.secret IS 'what deliveries are signed with'",
    "COMMENT ON COLUMN prosem.webhook.progress IS"
    " 'all subscriptions that have a seq have come this far, too'",
    "CREATE INDEX webhook_key ON prosem.webhook (tenant, key_id, id)",
    """
    CREATE TABLE prosem.webhook_subscription (
        webhook text COLLATE "C" NOT NULL REFERENCES prosem.webhook ON DELETE CASCADE,
        id      text COLLATE "C" NOT NULL,
        seq     bigint,
        PRIMARY KEY (webhook, id)
    )
    """,
    "COMMENT ON COLUMN prosem.webhook_subscription.seq IS"
    " 'everything up to it is in a delivery or was received; NULL: nothing yet, not even the snapshot'",
    """
    CREATE TABLE prosem.webhook_delivery (
        number    bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
        id        uuid NOT NULL UNIQUE,
        webhook   text COLLATE "C" NOT NULL REFERENCES prosem.webhook ON DELETE CASCADE,
        frames    integer NOT NULL,
        first_seq bigint NOT NULL,
        last_seq  bigint NOT NULL,
        body      bytea NOT NULL,
        attempts  integer NOT NULL DEFAULT 0,
        error     text,
        created   timestamptz NOT NULL DEFAULT now(),
        dead      timestamptz
    )
    """,
    "COMMENT ON COLUMN prosem.webhook_delivery.dead IS 'when it was given up; NULL while it is being sent'",
    "CREATE INDEX webhook_delivery_order ON prosem.webhook_delivery (webhook, number)",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
