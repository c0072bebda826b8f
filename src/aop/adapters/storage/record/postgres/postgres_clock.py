"""Clock of machines that share a database: leases end by the database's time."""

from __future__ import annotations

from aop.adapters.machine.clock import SystemClock
from aop.adapters.storage.record.postgres.postgres_record import PostgresRecord

DATABASE = "database"


class PostgresClock(SystemClock):
    """Implements `aop.core.clock.Clock`."""

    def __init__(self, record: PostgresRecord) -> None:
        self._record = record

    def lease_seconds(self) -> tuple[str, float]:
        return DATABASE, self._record.seconds()
