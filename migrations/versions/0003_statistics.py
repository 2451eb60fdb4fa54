"""What a run of the statistics job knows of columns, joins and the points of subscriptions.

Every row belongs to one run (`statistics_run`), is written in the run's one transaction and never changed. A histogram is
equi-depth: a JSON array of bounds, the least and the greatest value first and last, in the form in which the API
shows values of that column; `rank_error` is the share of values by which the rank of a bound can be wrong.
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
    CREATE TABLE prosem.statistics_column (
        run             bigint NOT NULL REFERENCES prosem.statistics_run (id) ON DELETE CASCADE,
        table_id        integer NOT NULL,
        position        integer NOT NULL,
        name            text COLLATE "C" NOT NULL,
        type            text COLLATE "C" NOT NULL,
        events          bigint NOT NULL,
        nulls           bigint NOT NULL,
        distinct_values double precision NOT NULL,
        changes         bigint NOT NULL,
        update_rate     double precision NOT NULL,
        histogram       json,
        rank_error      double precision NOT NULL,
        PRIMARY KEY (run, table_id, position)
    )
    """,
    "COMMENT ON COLUMN prosem.statistics_column.changes IS 'events that gave the column of a row another value'",
    "COMMENT ON COLUMN prosem.statistics_column.update_rate IS 'changes an event on the table'",
    """
    CREATE TABLE prosem.statistics_join (
        run       bigint NOT NULL REFERENCES prosem.statistics_run (id) ON DELETE CASCADE,
        table_r   integer NOT NULL,
        columns_r text[] NOT NULL,
        table_s   integer NOT NULL,
        columns_s text[] NOT NULL,
        p_r       double precision NOT NULL,
        p_s       double precision NOT NULL,
        j_r       double precision NOT NULL,
        j_s       double precision NOT NULL,
        keys_r    bigint NOT NULL,
        keys_s    bigint NOT NULL,
        skew_r    double precision NOT NULL,
        skew_s    double precision NOT NULL,
        PRIMARY KEY (run, table_r, columns_r, table_s, columns_s)
    )
    """,
    "COMMENT ON COLUMN prosem.statistics_join.p_r IS 'share of the events that are on the table'",
    "COMMENT ON COLUMN prosem.statistics_join.j_r IS 'rows a key'",
    "COMMENT ON COLUMN prosem.statistics_join.skew_r IS"
    " 'rows that share the key of a row, over rows a key: 1 if all keys are equally frequent'",
    """
    CREATE TABLE prosem.statistics_semijoin (
        run             bigint NOT NULL REFERENCES prosem.statistics_run (id) ON DELETE CASCADE,
        base_table      integer NOT NULL,
        base_columns    text[] NOT NULL,
        filter_table    integer NOT NULL,
        filter_columns  text[] NOT NULL,
        cost            double precision NOT NULL,
        PRIMARY KEY (run, base_table, base_columns, filter_table, filter_columns)
    )
    """,
    """
    CREATE TABLE prosem.statistics_point (
        run             bigint NOT NULL REFERENCES prosem.statistics_run (id) ON DELETE CASCADE,
        group_id        integer NOT NULL,
        dimension       text COLLATE "C" NOT NULL,
        subscriptions   bigint NOT NULL,
        distinct_values double precision NOT NULL,
        histogram       json,
        rank_error      double precision NOT NULL,
        PRIMARY KEY (run, group_id, dimension)
    )
    """,
    "COMMENT ON COLUMN prosem.statistics_point.dimension IS 'a column and how it is compared, such as risk >='",
    """
    CREATE TABLE prosem.statistics_archive (
        singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
        id        uuid NOT NULL DEFAULT gen_random_uuid()
    )
    """,
    "COMMENT ON TABLE prosem.statistics_archive IS 'which archives were made from this database'",
    "INSERT INTO prosem.statistics_archive DEFAULT VALUES",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
