"""Runs of the statistics job hold hot keys of their own: they were read from the histograms, which have 64 buckets."""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

STATEMENTS = (
    "ALTER TABLE prosem.statistics_column ADD COLUMN hot_keys json NOT NULL DEFAULT '[]'",
    "ALTER TABLE prosem.statistics_point ADD COLUMN hot_keys json NOT NULL DEFAULT '[]'",
    "COMMENT ON COLUMN prosem.statistics_column.hot_keys IS 'frequent values and their shares: [[value, share], …]'",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
