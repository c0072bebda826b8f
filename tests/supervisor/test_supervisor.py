"""What the supervisor reads each time it looks, with few features and with many."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from aop.core.ids import FeatureId, RunId
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.record.port import Record, Snapshot
from aop.supervisor.board import Board, BoardEntry
from aop.supervisor.notices import Attention, NoNotifier
from aop.supervisor.supervisor import Supervisor
from tests.clocks import HandClock
from tests.world import World


class Counted:
    """A record, and how many questions it was asked."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self.asked = 0

    @contextmanager
    def read(self) -> Iterator[Any]:
        with self._record.read() as view:
            yield CountedView(self, view)


class CountedView:
    def __init__(self, counted: Counted, view: Snapshot) -> None:
        self._counted = counted
        self._view = view

    def __getattr__(self, name: str) -> Any:
        self._counted.asked += 1
        return getattr(self._view, name)


def questions_of_a_look(world: World, *, features: int) -> int:
    kernel = world.app.gateway.kernel
    record: Any = Counted(kernel.record)
    gateway = Gateway(
        msgspec.structs.replace(kernel, record=record, clock=HandClock("boot", 100.0)), world.app.gateway.tools
    )
    board = Board()
    attention = Attention(gateway, NoNotifier(), lambda _name, _line: None)
    nobody_is_woken: Any = None
    supervisor = Supervisor(gateway, nobody_is_woken, board, attention)
    for number in range(features):
        board.put(
            FeatureId(f"waits_{number}"), BoardEntry(does="waits", run_id=RunId("f"), topic="way0", others=("a",))
        )
        board.put(FeatureId(f"ended_{number}"), BoardEntry(does="ended", run_id=RunId("f")))
    attention.look(board.entries())
    before = record.asked
    board.put(FeatureId("one"), BoardEntry(does="works", run_id=RunId("f")))
    supervisor.deliver_answers()
    attention.look(board.entries())
    return int(record.asked - before)


def test_a_look_at_features_of_which_one_has_moved_asks_as_much_of_many_as_of_few(world: World) -> None:
    assert questions_of_a_look(world, features=50) == questions_of_a_look(world, features=1)
