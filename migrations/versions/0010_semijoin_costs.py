"""Runs of the statistics job hold no costs of semijoins: the server computes them from what it knows of joins."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("DROP TABLE prosem.statistics_semijoin")
