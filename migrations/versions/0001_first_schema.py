"""The first schema: catalog, subscriptions with the history of their points, event log and outbox.

Texts compare by code point everywhere. `json`, not `jsonb`, wherever we store what a client sent: byte
for byte. Event log and outbox are partitioned by `seq`; the writer makes the partitions
(prosem/store/partitions.py).
"""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

STATEMENTS = (
    """
    CREATE TABLE prosem.engine_state (
        singleton      boolean PRIMARY KEY DEFAULT true CHECK (singleton),
        last_seq       bigint NOT NULL DEFAULT 0,
        retained_after bigint NOT NULL DEFAULT 0,
        next_table     integer NOT NULL DEFAULT 1,
        next_group     integer NOT NULL DEFAULT 1,
        next_statement integer NOT NULL DEFAULT 1,
        next_sid       bigint NOT NULL DEFAULT 1,
        batches        bigint NOT NULL DEFAULT 0
    ) WITH (fillfactor = 10)
    """,
    "COMMENT ON COLUMN prosem.engine_state.retained_after IS 'what has a greater seq is kept'",
    "COMMENT ON COLUMN prosem.engine_state.batches IS 'tells whether a commit without an answer took place'",
    "INSERT INTO prosem.engine_state DEFAULT VALUES",
    """
    CREATE TABLE prosem.tenant_table (
        id          integer PRIMARY KEY,
        tenant      text COLLATE "C" NOT NULL,
        name        text COLLATE "C" NOT NULL,
        definition  json NOT NULL,
        created_seq bigint NOT NULL,
        UNIQUE (tenant, name)
    )
    """,
    """
    CREATE TABLE prosem.group_ (
        id         integer PRIMARY KEY,
        name       text COLLATE "C" NOT NULL UNIQUE,
        type       text COLLATE "C" NOT NULL,
        label      text COLLATE "C" NOT NULL,
        space      integer NOT NULL,
        tables     text[] NOT NULL,
        sample_sql text NOT NULL,
        sample_notify json
    )
    """,
    "CREATE UNIQUE INDEX group_label ON prosem.group_ (md5(label))",
    "CREATE INDEX group_type ON prosem.group_ (type)",
    """
    CREATE TABLE prosem.statement (
        id     integer PRIMARY KEY,
        sql    text COLLATE "C" NOT NULL,
        notify json,
        digest text COLLATE "C" NOT NULL UNIQUE
    )
    """,
    "COMMENT ON COLUMN prosem.statement.digest IS 'md5 of sql, and of notify after a slash if there is one'",
    """
    CREATE TABLE prosem.subscription (
        sid          bigint PRIMARY KEY,
        id           text COLLATE "C" NOT NULL UNIQUE,
        statement_id integer NOT NULL,
        group_id     integer NOT NULL,
        params       json NOT NULL,
        active       boolean NOT NULL DEFAULT true,
        durable      boolean NOT NULL DEFAULT true,
        created_seq  bigint NOT NULL,
        frozen       json,
        tenant       text COLLATE "C" NOT NULL DEFAULT 'default'
    ) WITH (fillfactor = 90)
    """,
    "CREATE UNIQUE INDEX subscription_page ON prosem.subscription (group_id, id)",
    "CREATE INDEX subscription_passing ON prosem.subscription (sid) WHERE NOT durable",
    """
    CREATE TABLE prosem.history (
        sid    bigint NOT NULL,
        seq    bigint NOT NULL,
        part   bigint NOT NULL,
        kind   text COLLATE "C" NOT NULL
               CHECK (kind IN ('created', 'patched', 'suspended', 'resumed', 'deleted', 'marked', 'told')),
        params json,
        state  json,
        mark   json,
        PRIMARY KEY (sid, seq, part)
    )
    """,
    "COMMENT ON COLUMN prosem.history.mark IS 'the place the server gave, and what had been told by then'",
    "CREATE INDEX history_later ON prosem.history (seq) WHERE kind <> 'created'",
    """
    CREATE TABLE prosem.event_log (
        seq      bigint NOT NULL,
        table_id integer NOT NULL,
        op       text COLLATE "C" NOT NULL,
        old      json,
        new      json,
        at       timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (seq)
    ) PARTITION BY RANGE (seq)
    """,
    "CREATE INDEX event_log_table ON prosem.event_log (table_id, seq)",
    """
    CREATE TABLE prosem.outbox (
        space integer NOT NULL,
        seq   bigint NOT NULL,
        part  integer NOT NULL,
        kind  text COLLATE "C" NOT NULL,
        plan  text COLLATE "C" NOT NULL,
        body  bytea,
        PRIMARY KEY (space, seq, part)
    ) PARTITION BY RANGE (seq)
    """,
    """
    CREATE TABLE prosem.idempotency (
        key    text COLLATE "C" PRIMARY KEY,
        answer json,
        done   boolean NOT NULL,
        lines  bigint NOT NULL,
        at     timestamptz NOT NULL DEFAULT now()
    )
    """,
    "CREATE INDEX idempotency_age ON prosem.idempotency (at)",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
