"""The machine's clock and ids."""

from __future__ import annotations

import re
import resource
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aop.adapters.machine.clock import SystemClock, new_id
from aop.core.clock import timestamp
from aop.core.ids import operation_id


def test_the_time_of_day_is_in_utc() -> None:
    before = datetime.now(UTC)
    now = SystemClock().now()
    assert before <= now <= datetime.now(UTC)
    assert now.utcoffset() == timedelta(0)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", timestamp(now))


def test_boot_time_never_goes_back() -> None:
    clock = SystemClock()
    seen = [clock.boot_seconds() for _ in range(1000)]
    assert seen == sorted(seen)
    assert seen[0] > 0


@pytest.mark.hostile("S26")
def test_deadlines_are_counted_by_the_clock_that_counts_sleep() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    seconds = SystemClock().boot_seconds()
    assert before <= seconds <= time.clock_gettime(time.CLOCK_BOOTTIME)


@pytest.mark.hostile("S25")
def test_a_start_of_the_machine_has_one_name() -> None:
    names = {SystemClock().boot_id() for _ in range(3)}
    assert names == {Path("/proc/sys/kernel/random/boot_id").read_text().strip()}


@pytest.mark.hostile("S25")
def test_a_start_whose_name_could_not_be_read_for_a_moment_gets_it_later() -> None:
    clock = SystemClock()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        assert clock.boot_id() == ""
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert clock.boot_id() == SystemClock().boot_id() != ""


def test_ids_are_new_each_time_and_sort_by_the_time_they_were_made() -> None:
    ids = [new_id("gate") for _ in range(5000)]
    assert len(set(ids)) == len(ids)
    assert [name.rpartition("-")[0] for name in ids] == sorted(name.rpartition("-")[0] for name in ids)
    assert operation_id(ids[0]) == ids[0]
    assert re.fullmatch(r"gate-\d{13}-[0-9a-f]{16}", ids[0])
