"""The engine's database works with every SQLite that a supported Python comes with."""

from __future__ import annotations

import time


def test_sqlite_tells_the_time_in_fractions_of_a_second_also_where_it_is_older_than_3_42() -> None:
    import sqlalchemy

    from aop.adapters.storage.engine.database import supply_subseconds

    supply_subseconds()
    supply_subseconds()
    engine = sqlalchemy.create_engine("sqlite://")
    before = time.time()
    with engine.connect() as connection:
        told = connection.execute(sqlalchemy.text("SELECT unixepoch('subsec')")).scalar_one()
    engine.dispose()
    assert before - 0.001 <= told <= time.time() + 0.001
