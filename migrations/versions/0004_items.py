"""What subscriptions to many items were notified of: one row per item, until all were notified of its current value.

`item` is a hash of the key (which may be longer than an index takes), `told` a JSON array: the key's codes, and for each
epoch its last birth and the runs of radii with what they were told. Written with the events that notify a subscription.
"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
    CREATE TABLE prosem.item_told (
        space integer NOT NULL,
        item  bytea NOT NULL,
        told  json NOT NULL,
        PRIMARY KEY (space, item)
    )
    """,
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
