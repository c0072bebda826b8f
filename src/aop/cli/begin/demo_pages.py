"""Demo on the pages: the recorded agents work, and a person decides in a browser."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

from aop.cli.begin.demo import ANSWER, FEATURES, Story
from aop.cli.screens.page_links import link_in, show
from aop.core.clock import Clock
from aop.core.errors import Fault
from aop.core.ids import FeatureId
from aop.kernel.features.endings import ending_of
from aop.kernel.record.documents.features import FeatureState
from aop.supervisor.workers import Worker, WorkerInput, WorkerOutput
from aop.wiring.build import App
from aop.wiring.server_lease import server_of
from aop.wiring.supervision import Supervision, take_over
from aop.wiring.supervisor_lease import leases_of, take_lease

TURN_SECONDS = 1.0
"""How long a recorded turn lasts at least, so that a person can watch it."""
LOOK_SECONDS = 0.2
LONGEST_STOP_SECONDS = 10.0
FAREWELL_SECONDS = 3.0
"""How long the pages still answer after the last merge, so that a browser can draw it."""


def decide_on_pages(story: Story, app: App, *, prints: bool) -> list[Mapping[str, Any]]:
    """Serve the pages until a person has merged all features there; return the merges in their order."""
    with _ended_like_ctrl_c(), take_lease(leases_of(app.root, app.record)) as lease, _pages(story, app, prints=prints):
        take_over(app, lease, list(FEATURES))
        made = story.begin(app, lambda worker: _PacedWorker(worker, app.gateway.kernel.clock))
        while _are_open(app):
            made.supervisor.supervise(until="ended", stopped=lambda: False)
            _look_again(made, app)
        made.engine.close()
        story.say("every feature is merged or deleted: the pages close")
        app.gateway.kernel.clock.pause(FAREWELL_SECONDS)
        return _merged(app)


@contextmanager
def _ended_like_ctrl_c() -> Iterator[None]:
    """Let a terminal that closes, or a `kill`, end the demo as Ctrl-C does: no server outlives it."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _pages(story: Story, app: App, *, prints: bool) -> Iterator[None]:
    """Serve the pages in a process of their own, and show them."""
    link = link_in(app.root, story.environ, to="/board")
    try:
        if prints or not show(link, story.terminal):
            story.terminal.line({"url": link.url, "pid": link.pid, "repository": str(app.root)}, link.url)
        story.say("watch it on the pages: answer the question, then approve and merge each feature (Ctrl-C ends it)")
        story.say(f"the agents are recordings: whatever you answer, they go on with {ANSWER!r}")
        yield
    finally:
        _stop(app)


def _stop(app: App) -> None:
    """End the server, and wait until it has ended: it writes into a folder that may be removed next."""
    clock = app.gateway.kernel.clock
    until = clock.boot_seconds() + LONGEST_STOP_SECONDS
    serving = server_of(app.root)
    if serving is not None:
        os.kill(serving.pid, signal.SIGTERM)
    while server_of(app.root) is not None and clock.boot_seconds() < until:
        clock.pause(LOOK_SECONDS)


def _look_again(made: Supervision, app: App) -> None:
    """Wait for what people do after all features are ready: merges, and requests that give work to the agents."""
    made.supervisor.follow_base()
    made.supervisor.take_requests()
    app.gateway.kernel.clock.pause(LOOK_SECONDS)


def _are_open(app: App) -> bool:
    with app.record.read() as view:
        return any(ending_of(view, name) is None for name in FEATURES)


def _merged(app: App) -> list[Mapping[str, Any]]:
    with app.record.read() as view:
        order = [each.event.feature_id for each in view.journal(kinds=("feature_merged",))]
        states = [view.get(FeatureState, name) for name in order if name is not None]
    return [_merge(state) for state in states if state is not None]


def _merge(state: FeatureState) -> Mapping[str, Any]:
    proof = state.evidence.merge
    if proof is None:
        raise Fault(f"`{state.feature_id}` is merged without evidence.")
    return {
        "feature_id": FeatureId(state.feature_id),
        "status": state.status,
        "commit": proof.commit,
        "merge_commit": proof.merge_commit,
        "gates": state.gates,
    }


class _PacedWorker:
    """Implements `aop.supervisor.workers.Worker`: a recorded agent that takes its time."""

    def __init__(self, worker: Worker, clock: Clock) -> None:
        self._worker = worker
        self._clock = clock

    def turn(self, given: WorkerInput) -> WorkerOutput:
        """Answer as recorded, after a while."""
        self._clock.pause(TURN_SECONDS)
        return self._worker.turn(given)
