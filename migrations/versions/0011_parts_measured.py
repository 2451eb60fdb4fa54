"""Measurements of a part of a join are kept under the number of the part; runs hold no rates that follow from counts."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

STATEMENTS = (
    # of parts, without a number that outlives the server
    "DELETE FROM prosem.plan_measurement m WHERE NOT EXISTS (SELECT FROM prosem.group_ g WHERE g.space = m.space)",
    "ALTER TABLE prosem.plan_measurement ADD COLUMN part integer NOT NULL DEFAULT 0",
    "ALTER TABLE prosem.plan_measurement DROP CONSTRAINT plan_measurement_pkey",
    "ALTER TABLE prosem.plan_measurement ADD PRIMARY KEY (seq, group_id, part, plan)",
    "COMMENT ON COLUMN prosem.plan_measurement.part IS 'which part of the group''s space; 0: that space itself'",
    "ALTER TABLE prosem.statistics_training ADD COLUMN part integer NOT NULL DEFAULT 0",
    "ALTER TABLE prosem.statistics_column DROP COLUMN update_rate",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
