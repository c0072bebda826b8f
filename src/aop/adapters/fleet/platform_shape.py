"""Platform shape: tables and triggers, numbered; a released number never changes.

They are in a schema of their own, `fleet`, beside that of the record, to which a worker has no right.
"""

from __future__ import annotations

RUNS = 1
"""The number of the shape of runs: what orders and answers look like. A worker serves one number."""
LARGEST_ANSWER = 16 << 20
"""So many bytes may an answer have: more is not sent, and not read."""
APPLICATION = "aop-fleet"
VERSION = f"runs-{RUNS}"
TICKETS = "tickets"
QUEUES = ("gates", "agents", TICKETS)
"""The queues of every platform: what can be asked for from other machines."""
LEADS = "leads"
"""Repositories that need a leader: nothing is queued for them, workers look for them in the record."""
QUEUED, ENDED = "aop_queued", "aop_ended"
"""The channels on which the database tells of runs that wait, and of runs that ended."""
CALLED, ANSWERED = "aop_called", "aop_answered"
"""The channels on which the database tells of the calls of turns, and of their answers."""

MOVE_TICKET_RUNS = """
    UPDATE dbos.workflow_status s SET queue_name = q.name FROM fleet.ticket_runs r, dbos.queues q
    WHERE s.queue_name = 'tickets' AND s.status IN ('ENQUEUED', 'PENDING') AND s.workflow_uuid = 'tickets/' || r.run_id
    AND q.name = 'tickets/' || regexp_replace(r.ticket, '-[0-9]+$', '') AND q.application_name = 'aop-fleet'
"""
"""Runs that were queued before their project had a queue; the one that is active stays with its worker."""
FORGET_RUNS = (
    "DELETE FROM fleet.logs WHERE run = ANY(%s)",
    "DELETE FROM fleet.attempts WHERE run = ANY(%s)",
    "DELETE FROM fleet.calls WHERE run = ANY(%s)",
    "DELETE FROM fleet.stops WHERE run = ANY(%s)",
)
"""What goes with runs that are removed."""

WORKER_RIGHTS = (
    "USAGE ON SCHEMA dbos, fleet",
    "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA dbos",
    "USAGE ON ALL SEQUENCES IN SCHEMA dbos, fleet",
    "SELECT ON fleet.shape, fleet.repositories",
    "SELECT, UPDATE ON fleet.judge",
    "SELECT, INSERT, UPDATE, DELETE ON fleet.workers, fleet.logs, fleet.attempts",
    "SELECT, INSERT, DELETE ON fleet.calls",
    "SELECT, DELETE ON fleet.stops",
    "SELECT, INSERT, UPDATE ON fleet.ticket_runs, fleet.ticket_steps",
)
"""Queues, logs, turns and the rows of workers; nothing in the schema `aop`, which has the record."""
ROLES = {
    "aop_worker": WORKER_RIGHTS,
    "aop_leader": (
        *WORKER_RIGHTS,
        "USAGE ON SCHEMA aop",
        "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA aop",
        "USAGE ON ALL SEQUENCES IN SCHEMA aop",
        "SELECT, INSERT, UPDATE, DELETE ON fleet.repositories, fleet.leads, fleet.calls, fleet.stops",
        "SELECT ON fleet.ticket_ledger",
        "SELECT, INSERT, UPDATE ON fleet.ticket_numbers, fleet.ticket_deliveries",
    ),
    "aop_reader": ("USAGE ON SCHEMA aop, dbos, fleet", "SELECT ON ALL TABLES IN SCHEMA aop, dbos, fleet"),
}
"""The roles that users of the database are made members of, and the rights of each."""

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE fleet.workers (
        id text COLLATE "C" PRIMARY KEY,
        host text NOT NULL,
        queues text[] NOT NULL,
        places integer NOT NULL,
        busy integer NOT NULL DEFAULT 0,
        runs integer NOT NULL,
        version text NOT NULL,
        labels text NOT NULL,
        began timestamptz NOT NULL DEFAULT clock_timestamp(),
        beat timestamptz NOT NULL DEFAULT clock_timestamp(),
        drains boolean NOT NULL DEFAULT false,
        gone timestamptz
    );
    CREATE INDEX workers_living ON fleet.workers (id) WHERE gone IS NULL;

    CREATE TABLE fleet.judge (
        place integer PRIMARY KEY CHECK (place = 1),
        worker text NOT NULL,
        until timestamptz NOT NULL
    );
    INSERT INTO fleet.judge VALUES (1, '', clock_timestamp());

    CREATE TABLE fleet.logs (
        run text COLLATE "C" NOT NULL,
        worker text COLLATE "C" NOT NULL,
        path text COLLATE "C" NOT NULL,
        start bigint NOT NULL,
        content bytea NOT NULL,
        number bigint GENERATED ALWAYS AS IDENTITY,
        PRIMARY KEY (run, worker, path, start)
    );
    CREATE INDEX logs_in_order ON fleet.logs (run, number);

    CREATE FUNCTION fleet.tell_of_run() RETURNS trigger LANGUAGE plpgsql AS '
    BEGIN
        IF NEW.status = ''ENQUEUED'' THEN
            PERFORM pg_notify(''aop_queued'', coalesce(NEW.queue_name, ''''));
        ELSIF NEW.status <> ''PENDING'' THEN
            PERFORM pg_notify(''aop_ended'', left(NEW.workflow_uuid, 200));
        END IF;
        RETURN NULL;
    END';
    CREATE TRIGGER aop_tell_of_run AFTER INSERT OR UPDATE OF status ON dbos.workflow_status
        FOR EACH ROW WHEN (NEW.application_name = 'aop-fleet') EXECUTE FUNCTION fleet.tell_of_run();
    """,
    """
    CREATE TABLE fleet.repositories (
        name text COLLATE "C" PRIMARY KEY,
        hub text COLLATE "C" NOT NULL,
        added timestamptz NOT NULL DEFAULT clock_timestamp()
    );

    CREATE TABLE fleet.leads (
        repository text COLLATE "C" PRIMARY KEY REFERENCES fleet.repositories (name) ON DELETE CASCADE,
        worker text COLLATE "C" NOT NULL,
        began timestamptz NOT NULL DEFAULT clock_timestamp()
    );
    """,
    """
    CREATE TABLE fleet.ticket_ledger (name text NOT NULL);
    INSERT INTO fleet.ticket_ledger VALUES (substr(replace(gen_random_uuid()::text, '-', ''), 1, 8));
    CREATE TABLE fleet.ticket_runs (
        run_id text COLLATE "C" PRIMARY KEY,
        number bigint GENERATED ALWAYS AS IDENTITY,
        kind text COLLATE "C" NOT NULL,
        ticket text COLLATE "C" NOT NULL,
        payload text NOT NULL DEFAULT 'null',
        began text NOT NULL,
        ended text,
        state text NOT NULL,
        answer text
    );
    CREATE UNIQUE INDEX ticket_runs_active ON fleet.ticket_runs (kind, ticket) WHERE state = 'active';
    CREATE INDEX ticket_runs_of_ticket ON fleet.ticket_runs (ticket, kind, state);
    CREATE TABLE fleet.ticket_steps (
        run_id text COLLATE "C" NOT NULL,
        name text COLLATE "C" NOT NULL,
        number bigint GENERATED ALWAYS AS IDENTITY,
        at text NOT NULL,
        outcome text NOT NULL,
        PRIMARY KEY (run_id, name)
    );
    CREATE TABLE fleet.ticket_deliveries (
        name text COLLATE "C" PRIMARY KEY,
        kind text COLLATE "C" NOT NULL,
        ticket text COLLATE "C" NOT NULL,
        run_id text COLLATE "C" NOT NULL,
        sent bigint NOT NULL,
        at text NOT NULL
    );
    CREATE INDEX ticket_deliveries_of_ticket ON fleet.ticket_deliveries (ticket, kind);
    CREATE TABLE fleet.ticket_numbers (
        kind text COLLATE "C" NOT NULL,
        ticket text COLLATE "C" NOT NULL,
        last bigint NOT NULL,
        PRIMARY KEY (kind, ticket)
    );
    """,
    """
    CREATE TABLE fleet.attempts (
        run text COLLATE "C" NOT NULL,
        worker text COLLATE "C" NOT NULL,
        usage text NOT NULL DEFAULT 'null',
        PRIMARY KEY (run, worker)
    );
    CREATE TABLE fleet.calls (
        run text COLLATE "C" NOT NULL,
        number bigint GENERATED ALWAYS AS IDENTITY,
        tool text NOT NULL,
        arguments text NOT NULL,
        answer text,
        PRIMARY KEY (run, number)
    );
    CREATE TABLE fleet.stops (
        run text COLLATE "C" PRIMARY KEY,
        reason text NOT NULL
    );
    """,
    """
    CREATE OR REPLACE FUNCTION fleet.tell_of_run() RETURNS trigger LANGUAGE plpgsql AS '
    BEGIN
        IF NEW.status = ''ENQUEUED'' THEN
            -- A ticket belongs to no repository: its run is not named.
            PERFORM pg_notify(''aop_queued'', concat_ws('' '', coalesce(NEW.queue_name, ''''),
                CASE WHEN NEW.queue_name IN (''gates'', ''agents'') THEN left(NEW.workflow_uuid, 200) END));
        ELSIF NEW.status <> ''PENDING'' THEN
            PERFORM pg_notify(''aop_ended'', left(NEW.workflow_uuid, 200));
        END IF;
        RETURN NULL;
    END';
    """,
)


def project_queue(project: str) -> str:
    """Return the name of the queue for the tickets of one project."""
    return f"{TICKETS}/{project}"


def queued_kind(queue: str) -> str:
    """Return the queue of `QUEUES` that holds the same kind of runs."""
    return queue.partition("/")[0]
