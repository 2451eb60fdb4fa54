"""The optimizer: what the server measured of each plan, the runs of the statistics job, and the weights.

`plan_measurement` is bounded by the writer, which drops the oldest. A run of the job is
written, marked active and notified on the channel `prosem_statistics` (payload: its id) in one transaction; at most one is
active. `statistics_training` is what the server's estimator learns from a run; the units are those of the cost model:
microseconds and bytes an event.
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
    CREATE TABLE prosem.plan_measurement (
        seq            bigint NOT NULL,
        group_id       integer NOT NULL,
        space          integer NOT NULL,
        plan           text COLLATE "C" NOT NULL,
        descriptor     double precision[] NOT NULL,
        server_time_us double precision NOT NULL,
        send_us        double precision NOT NULL,
        bytes_out      bigint NOT NULL,
        network_bytes  bigint NOT NULL,
        latency_us     double precision NOT NULL,
        affected       bigint NOT NULL,
        at             timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (seq, group_id, plan)
    )
    """,
    "COMMENT ON COLUMN prosem.plan_measurement.group_id IS 'the first group of the space'",
    "COMMENT ON COLUMN prosem.plan_measurement.server_time_us IS 'from the delta to the messages'",
    "COMMENT ON COLUMN prosem.plan_measurement.send_us IS 'putting the messages on the network interface'",
    """
    CREATE TABLE prosem.statistics_run (
        id      bigserial PRIMARY KEY,
        created timestamptz NOT NULL DEFAULT now(),
        job     text COLLATE "C" NOT NULL,
        state   text COLLATE "C" NOT NULL,
        since   timestamptz,
        rows    jsonb NOT NULL DEFAULT '{}',
        active  boolean NOT NULL DEFAULT false
    )
    """,
    "CREATE UNIQUE INDEX statistics_run_active ON prosem.statistics_run (active) WHERE active",
    """
    CREATE TABLE prosem.statistics_training (
        run           bigint NOT NULL REFERENCES prosem.statistics_run (id) ON DELETE CASCADE,
        group_id      bigint NOT NULL,
        plan          text COLLATE "C" NOT NULL,
        descriptor    double precision[] NOT NULL,
        server_time   double precision NOT NULL,
        response_time double precision NOT NULL,
        server_stress double precision NOT NULL,
        bandwidth     double precision NOT NULL,
        affected      double precision NOT NULL
    )
    """,
    "CREATE INDEX statistics_training_run ON prosem.statistics_training (run, group_id)",
    """
    CREATE TABLE prosem.optimizer_weight (
        metric text COLLATE "C" PRIMARY KEY,
        weight double precision NOT NULL CHECK (weight >= 0)
    )
    """,
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
