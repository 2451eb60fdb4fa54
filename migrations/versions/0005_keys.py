"""Keys, and whose everything is: groups, statements and subscriptions belong to a tenant, subscriptions to a key.

A key itself is stored nowhere; `digest` is its SHA-256. A revoked key stays, so that its number is never used again, and
so that a server that ever had a key never becomes open to all.
"""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
    CREATE TABLE prosem.api_key (
        id      integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
        name    text COLLATE "C" NOT NULL,
        tenant  text COLLATE "C" NOT NULL,
        roles   text[] NOT NULL,
        digest  bytea NOT NULL UNIQUE,
        rows    json NOT NULL DEFAULT '{}',
        limits  json NOT NULL DEFAULT '{}',
        created timestamptz NOT NULL DEFAULT now(),
        revoked timestamptz
    )
    """,
    "COMMENT ON COLUMN prosem.api_key.rows IS 'table to column to the values of the rows that the key sees'",
    "ALTER TABLE prosem.group_ ADD tenant text COLLATE \"C\" NOT NULL DEFAULT 'default'",
    "ALTER TABLE prosem.statement ADD tenant text COLLATE \"C\" NOT NULL DEFAULT 'default'",
    "COMMENT ON COLUMN prosem.statement.digest IS"
    " 'md5 of sql, of notify after a slash if there is one, and the tenant after @ if it is not default'",
    "ALTER TABLE prosem.subscription ADD key_id integer NOT NULL DEFAULT 0",
    "COMMENT ON COLUMN prosem.subscription.key_id IS 'the key that it was made with, 0: none'",
    "ALTER TABLE prosem.subscription DROP CONSTRAINT subscription_id_key",
    "ALTER TABLE prosem.subscription ADD CONSTRAINT subscription_id UNIQUE (tenant, id)",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
