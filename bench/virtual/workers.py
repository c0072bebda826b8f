"""Workers of a simulation: they beat, judge, look, run gates and end by the rules of `aop.adapters.fleet.rules`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import Struct

from aop.adapters.fleet.rules import (
    BEAT_SECONDS,
    RECONNECT_SECONDS,
    SHORTEST_PAUSE,
    WATCH_SECONDS,
    is_dead,
    pause_after_look,
    wait_for_notice,
)
from bench.virtual.database import Gate
from bench.virtual.flaws import Flaw, FlawedContact
from bench.virtual.hosts import Host
from bench.virtual.tallies import Tallies

SENT_AGAIN_SECONDS = 1.0
"""An answer that did not reach the database is sent again so often."""
MOST_LEADS = 20
"""How many repositories a worker takes at a beat, so that no worker leads them all."""


class Execution(Struct):
    """A gate run on a worker."""

    gate: Gate
    token: int
    attempt: int = 0
    """Counts how often it was begun here: it is broken off when the database is away and it reaches the network."""


class Worker:
    """One worker on a host; another one with another id follows when it has ended."""

    def __init__(
        self,
        name: str,
        host: Host,
        *,
        places: int,
        tallies: Tallies,
        lead: Callable[[int, int], None],
        ended: Callable[[], None],
    ) -> None:
        self.name = name
        self._host = host
        self._database = host.database
        self._places = places
        self._tallies = tallies
        self._lead = lead
        self._ended = ended
        self._life = host.life
        self.running: dict[Gate, Execution] = {}
        self._contact = FlawedContact(self._now, self._database.flaws)
        self._workers = 1
        self._is_told = False
        self._waits = 0
        """The number of the present wait for a notice; 0 for none."""
        self._looks = 0
        self._has_lost_claim = False
        self._led: set[int] = set()
        self._has_lost_leads = False
        """Whether it asked for repositories and got no answer."""

    def start(self) -> None:
        self._host.ask(
            lambda: self._database.enter(self.name, self._hear),
            lambda _: self._begin(),
            partial(self._retry, self.start),
        )

    def _begin(self) -> None:
        self._contact = FlawedContact(self._now, self._database.flaws)
        self._beat()
        self._watch()
        self._pause()

    @property
    def _now(self) -> float:
        return self._host.agenda.now

    def _retry(self, act: Callable[[], None]) -> None:
        self._host.after(RECONNECT_SECONDS, act)

    # -- beats and judgement

    def _beat(self) -> None:
        sent = self._now
        self._host.ask(lambda: self._database.beat(self.name), partial(self._beaten, sent), self._reconnect)

    def _beaten(self, sent: float, workers: int | None) -> None:
        if workers is None:
            self._end()
            return
        self._contact.beat(sent)
        self._workers = workers
        self._host.after(max(0.0, sent + BEAT_SECONDS - self._now), self._beat)
        if self._database.has_free_leads or self._has_lost_leads:
            self._take_leads()
        if self._contact.may_judge(sent) and Flaw.NO_JUDGE not in self._database.flaws:
            self._host.ask(lambda: self._database.takes_judge(self.name), self._judge, _nothing)

    def _judge(self, *is_judge: bool) -> None:
        if is_judge == (True,):
            self._host.ask(self._database.late, self._declare, _nothing)

    def _declare(self, late: object) -> None:
        assert isinstance(late, list)
        dead = [name for name, silent in late if is_dead(silent, has_free_lock=partial(self._is_free, name))]
        self._host.ask(lambda: self._database.declare(dead), _nothing, _nothing)

    def _is_free(self, worker: str) -> bool:
        return worker not in self._database.locks

    def _reconnect(self) -> None:
        self._retry(lambda: self._host.ask(self._connect, self._connected, self._reconnect))

    def _connect(self) -> None:
        self._database.connect(self.name, self._hear)

    def _connected(self, _: None) -> None:
        self._contact.connected_again(self._now)
        self._hear()
        self._beat()

    def _watch(self) -> None:
        if self._contact.is_over(self._now):
            self._end()
            return
        if self._contact.is_cut_off(self._now):
            for execution in self.running.values():
                if execution.gate.reaches_network and self.name in execution.gate.running_on:
                    self._break_off(execution)
        self._host.after(WATCH_SECONDS, self._watch)

    def _end(self) -> None:
        self._ended()

    def stop(self) -> None:
        """Be gone, with all that runs here."""
        self.freeze()
        self.running.clear()

    def freeze(self) -> None:
        """Have nothing run here for now."""
        for gate in self.running:
            gate.running_on.discard(self.name)

    # -- claims

    def _pause(self) -> None:
        pause = pause_after_look(self._workers, 1)
        self._host.after(pause, partial(self._await_notice, pause))

    def _await_notice(self, pause: float) -> None:
        wait = wait_for_notice(pause)
        if self._is_told or wait == 0.0:
            self._look()
            return
        self._looks += 1
        self._waits = self._looks
        self._host.after(wait, partial(self._look_unasked, self._waits))

    def _look_unasked(self, wait: int) -> None:
        if wait == self._waits:
            self._look()

    def _hear(self) -> None:
        """Be told that a run waits; a notice reaches nobody who is cut off, and a frozen one later."""
        if self._host.is_cut or self._is_told or self._life != self._host.life:
            return
        self._is_told = True
        if self._waits:
            self._host.after(0.005, partial(self._look_unasked, self._waits))

    def _look(self) -> None:
        self._waits, self._is_told = 0, False
        free = self._places - len(self.running)
        if free <= 0:
            self._pause()
            return
        if self._has_lost_claim and Flaw.FORGOTTEN_CLAIMS not in self._database.flaws:
            self._host.ask(self._give_back, self._given_back, self._missed)
            return
        self._tallies.looked(self._now)
        self._host.ask(lambda: self._database.claim(self.name, free), self._claimed, self._lose_claim)

    def _claimed(self, claimed: tuple[int, list[Gate]]) -> None:
        token, gates = claimed
        for gate in gates:
            execution = self.running[gate] = Execution(gate=gate, token=token)
            self._tallies.begun(gate, self._now, self._database.back)
            self._execute(execution)
        self._pause()

    def _lose_claim(self) -> None:
        self._has_lost_claim = True
        self._missed()

    def _missed(self) -> None:
        self._host.after(SHORTEST_PAUSE, self._pause)

    def _give_back(self) -> None:
        self._database.give_back(self.name, self.running)

    def _given_back(self, _: None) -> None:
        self._has_lost_claim = False
        self._look()

    # -- gates

    def _execute(self, execution: Execution) -> None:
        gate = execution.gate
        if gate.reaches_network and self._contact.is_cut_off(self._now):
            self._break_off(execution)
            return
        if gate.reaches_network and gate.running_on:
            self._tallies.overlapped()
        gate.running_on.add(self.name)
        execution.attempt += 1
        self._host.after(gate.seconds, partial(self._finish, execution, execution.attempt))

    def _break_off(self, execution: Execution) -> None:
        """End a step that reaches the network; it is begun again when the database is back."""
        execution.gate.running_on.discard(self.name)
        execution.attempt += 1
        self._host.after(0.1, partial(self._begin_again, execution, execution.attempt))

    def _begin_again(self, execution: Execution, attempt: int) -> None:
        if execution.attempt != attempt or execution.gate not in self.running:
            return
        if self._contact.is_cut_off(self._now):
            self._host.after(0.1, partial(self._begin_again, execution, attempt))
        else:
            self._execute(execution)

    def _finish(self, execution: Execution, attempt: int) -> None:
        if execution.attempt != attempt or self.running.get(execution.gate) is not execution:
            return
        execution.gate.running_on.discard(self.name)
        self._send(execution)

    def _send(self, execution: Execution) -> None:
        self._host.ask(
            lambda: self._database.answer(execution.gate, execution.token),
            lambda _taken: self._forget(execution),
            lambda: self._host.after(SENT_AGAIN_SECONDS, partial(self._send, execution)),
        )

    def _forget(self, execution: Execution) -> None:
        if self.running.get(execution.gate) is execution:
            del self.running[execution.gate]
            self._hear()

    # -- leads

    def _take_leads(self) -> None:
        self._has_lost_leads = True
        known = set(self._led)
        self._host.ask(lambda: self._database.takes_leads(self.name, MOST_LEADS, known), self._lead_all, _nothing)

    def _lead_all(self, taken: list[tuple[int, int]]) -> None:
        self._has_lost_leads = False
        for repository, epoch in taken:
            if repository not in self._led:
                self._led.add(repository)
                self._lead(repository, epoch)


def _nothing(*_: object) -> None:
    pass
