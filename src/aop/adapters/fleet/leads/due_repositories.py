"""Due repositories: those that need a leader, and the claims of workers on them."""

from __future__ import annotations

from aop.adapters.fleet.rules import DEAD_SECONDS
from aop.adapters.storage.record.postgres.leadership import IS_LIVING

_LIVING_WORKER = f"""
    SELECT 1 FROM fleet.workers w WHERE w.id = leads.worker AND w.gone IS NULL
        AND w.beat > clock_timestamp() - make_interval(secs => {DEAD_SECONDS})
"""  # noqa: S608 (constants alone)
_DUE = f"""
    SELECT due.name, due.hub, (
        SELECT min((d.body::json ->> 'wished_at')::timestamptz) FROM aop.all_documents d
        WHERE d.repository = r.number AND d.kind = 'wish'
    ) AS wished, coalesce(leaders.ended, true) AS ended, leaders.beat FROM fleet.repositories due
    JOIN aop.repositories r ON r.name = due.name AND r.state = 'active' AND r.shared
    LEFT JOIN aop.leaders ON leaders.repository = r.number
    WHERE NOT coalesce(leaders.stop, false) AND NOT coalesce({IS_LIVING}, false)
        AND (NOT coalesce(leaders.ended, true) OR EXISTS (
            SELECT 1 FROM aop.all_documents d WHERE d.repository = r.number AND d.kind = 'wish'))
        AND NOT EXISTS (SELECT 1 FROM fleet.leads WHERE leads.repository = due.name AND EXISTS ({_LIVING_WORKER}))
"""  # noqa: S608 (constants alone)
CLAIM = f"""
    INSERT INTO fleet.leads AS leads (repository, worker)
    SELECT name, %s FROM ({_DUE}) found WHERE name <> ALL(%s) ORDER BY random() LIMIT 1
    ON CONFLICT (repository) DO UPDATE SET worker = excluded.worker, began = clock_timestamp()
    WHERE NOT EXISTS ({_LIVING_WORKER})
    RETURNING repository, (SELECT hub FROM fleet.repositories WHERE name = repository)
"""  # noqa: S608 (constants alone)
"""Claims a repository for a worker, but for some; returns its name and hub."""
RELEASE = "DELETE FROM fleet.leads WHERE worker = %s AND repository <> ALL(%s)"
"""Gives up all claims of a worker but those on some repositories."""
NUMBERS = f"""
    SELECT count(*), (SELECT count(*) FROM fleet.leads WHERE EXISTS ({_LIVING_WORKER})),
        coalesce(extract(epoch FROM clock_timestamp() - min(
            least(wished, CASE WHEN ended OR beat = '-infinity' THEN NULL ELSE beat END))), 0)::float8
    FROM ({_DUE}) found
"""  # noqa: S608 (constants alone)
"""How many repositories wait for a leader and have one from a worker, and for how long one has waited."""
