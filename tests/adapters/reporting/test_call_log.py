"""Call log: complete lines from concurrent writers, in files of limited size."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from aop.adapters.reporting import call_log
from aop.adapters.reporting.call_log import CallReader, FileCallLog, predecessor_of
from aop.kernel.ports.call_log import LoggedCall


def called(number: int) -> LoggedCall:
    return LoggedCall(
        at="2026-01-02T03:04:05.678Z",
        actor="person:ada",
        role="orchestrator",
        tool="report.dashboard",
        feature_id=None,
        operation_id=f"op-{number}",
        milliseconds=0.5,
        outcome="ok",
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".aop" / "calls.jsonl"


def test_calls_of_many_threads_and_two_logs_are_all_there(path: Path) -> None:
    logs = [FileCallLog(path), FileCallLog(path)]

    def write(log: FileCallLog, start: int) -> None:
        for number in range(start, start + 200):
            log.note(called(number))

    threads = [threading.Thread(target=write, args=(logs[n % 2], n * 200)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for log in logs:
        log.close()
    ids = sorted(int(call.operation_id.removeprefix("op-")) for call in CallReader(path).new_calls())
    assert ids == list(range(1600))
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_full_file_makes_room_for_a_new_one_and_a_reader_misses_nothing(path: Path) -> None:
    first, second = FileCallLog(path), FileCallLog(path)
    reader = CallReader(path)
    first.note(called(1))
    second.note(called(2))
    assert [call.operation_id for call in reader.new_calls()] == ["op-1", "op-2"]
    second.note(called(3))
    with open(path, "ab") as file:
        file.write(b" " * call_log.LARGEST_FILE + b"\n")
    first.note(called(4))
    second.note(called(5))
    assert [call.operation_id for call in reader.new_calls()] == ["op-3", "op-4", "op-5"]
    assert predecessor_of(path).stat().st_size > call_log.LARGEST_FILE
    assert [call.operation_id for call in CallReader(path).older_calls()] == ["op-1", "op-2", "op-3"]
    for log in (first, second):
        log.close()


def test_a_line_that_was_cut_is_skipped_and_one_that_is_being_written_waits(path: Path) -> None:
    log = FileCallLog(path)
    log.note(called(1))
    with open(path, "ab") as file:
        file.write(b'{"at": "20\n{"at": "half')
    reader = CallReader(path)
    assert [call.operation_id for call in reader.new_calls()] == ["op-1"]
    assert list(reader.new_calls()) == []
    log.close()


def test_a_place_that_cannot_be_written_stops_nobody(path: Path) -> None:
    path.parent.mkdir()
    os.symlink("/dev/full", path)
    FileCallLog(path).note(called(1))
    path.unlink()
    path.mkdir()
    FileCallLog(path).note(called(1))
