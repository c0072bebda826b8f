"""Feature runs: the engine's pipelines that carry out what the policy decides.

    feature   waits for people and other features, without a place
      leg     an active feature, from one such wait to the next
        turn  an agent's turn
        gate  a gate run

After a kill the next process makes the same decisions, because every answer that they depend on is recorded.
A tool call that is repeated after a crash has the same operation id, so it takes effect once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from aop.core.errors import InternalError, Json, VersionConflict
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.core.run import Kind, Run, RunBroke, Steps
from aop.kernel.config.gates import Mode
from aop.kernel.config.policy import CollisionStrategy, QaTurns, SupervisorRules
from aop.kernel.features.opened_paths import YES
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import SUPERVISOR
from aop.kernel.plans.prerequisites import still_waited_for
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.questions import Question
from aop.kernel.record.port import newest_seq
from aop.kernel.record.repeats import in_thread, repeated
from aop.supervisor.advice import Adviser, NoAdviser
from aop.supervisor.board import NOBODY, Board, BoardEntry
from aop.supervisor.policy import state
from aop.supervisor.policy.state import Event, FeatureRun
from aop.supervisor.policy.step import step
from aop.supervisor.turns import HELD_BACK, Gate, Staff, Turn, Work, plain
from aop.supervisor.workers import ToolResult

PRIORITY = 100
TURN_PRIORITY, GATE_PRIORITY = 50, 50
WAY = "way"
"""The prefix of topics on which a feature waits for other features."""
AGAIN = "again"
"""The answer to a waiting feature that a person restarts."""


TurnEvent: TypeAlias = (
    state.WorkerAnswered | state.WorkerFailed | state.TurnWithheld | state.TurnPostponed | state.ToolAnswered
)
"""The end of a turn; a tool's answer if the feature conflicts with the base branch, and the turn did not begin."""


class RunLimits(Struct, frozen=True, kw_only=True):
    """How much runs at the same time."""

    active_features: int
    agent_turns: int
    gate_runs: int
    turns_a_phase: int


def limits_of(rules: SupervisorRules, *, active_features: int | None = None) -> RunLimits:
    """Return the limits that the policy sets."""
    return RunLimits(
        active_features=active_features or rules.max_active_features,
        agent_turns=rules.max_parallel_agent_turns,
        gate_runs=rules.max_parallel_gate_runs,
        turns_a_phase=rules.max_iterations_per_phase,
    )


class FeatureOrder(Struct, frozen=True, kw_only=True):
    """The payload of a feature's run."""

    feature_id: FeatureId
    depends_on: tuple[FeatureId, ...] = ()
    """The features that must be merged before it starts."""
    again: bool = False
    """Whether this run fulfils a person's request to start over."""
    run_name: str = ""
    """The run that first requested it; its cost counts there."""
    collision_strategy: CollisionStrategy = CollisionStrategy.REVISE
    qa: QaTurns = QaTurns.ON_FAILURE
    qa_after: Mode = Mode.FAST


class _LegStart(Struct, frozen=True, kw_only=True):
    """The payload of a leg."""

    feature: FeatureRun
    event: Event


class _LegEnd(Struct, frozen=True, kw_only=True):
    """The result of a leg: an action that waits without a place, or the end."""

    feature: FeatureRun
    action: state.LegEnding


class FeatureRuns:
    """The pipelines of features and legs."""

    def __init__(
        self,
        gateway: Gateway,
        staff: Staff,
        board: Board,
        limits: RunLimits,
        tell: Callable[[FeatureId, str], None],
        *,
        adviser: Adviser | None = None,
    ) -> None:
        self._gateway = gateway
        self._work = Work(gateway, staff, tell, adviser or NoAdviser())
        self._board = board
        self._limits = limits
        self._tell = tell

    def kinds(self) -> Mapping[str, Kind]:
        """Return the kinds of runs for the engine."""
        return {
            "feature": Kind(pipeline=self._run_feature),
            "leg": Kind(pipeline=self._run_leg, limit=self._limits.active_features),
            "turn": Kind(pipeline=self._work.turn, limit=self._limits.agent_turns),
            "gate": Kind(pipeline=self._work.gate, limit=self._limits.gate_runs),
        }

    async def _run_feature(self, run: Run, payload: Json) -> Json:
        wanted = msgspec.convert(payload, FeatureOrder)
        try:
            return await self._run_legs(run, wanted)
        except Exception as error:
            # The supervisor would otherwise wait for this feature for ever.
            broke = InternalError(f"AOP failed while working on `{wanted.feature_id}`: {type(error).__name__}.")
            outcome = {"status": None, "error": broke.as_error()}
            self._board.put(wanted.feature_id, BoardEntry(does="ended", run_id=run.run_id, outcome=outcome))
            raise

    async def _run_legs(self, run: Run, wanted: FeatureOrder) -> Json:
        await self._await_start(run, wanted)
        feature = FeatureRun(
            feature_id=wanted.feature_id,
            turns_allowed=self._limits.turns_a_phase,
            run_name=wanted.run_name,
            collision_strategy=wanted.collision_strategy,
            qa=wanted.qa,
            qa_after=wanted.qa_after,
        )
        event: Event = state.Began()
        number = 0
        while True:
            self._board.put(feature.feature_id, BoardEntry(does="works", run_id=run.run_id))
            given = plain(_LegStart(feature=feature, event=event))
            child = await run.spawn("leg", given, key=f"leg{number}", priority=PRIORITY)
            try:
                left = msgspec.convert(await run.result(child), _LegEnd)
            except RunBroke as broke:
                return await self._finish(run, feature, _finish_after_break(feature, broke))
            feature, number = left.feature, number + 1
            match left.action:
                case state.AskPerson():
                    event = await self._ask_person(run, feature, left.action, number)
                case state.Await():
                    event = await self._await_clear_way(run, feature, left.action, number)
                case state.AwaitMerged():
                    event = await self._begin_anew(run, feature, left.action, number)
                case state.Rest() | state.WaitUntil():
                    event = await self._rest(run, feature, left.action, number)
                case state.Finish():
                    return await self._finish(run, feature, left.action)

    async def _await_start(self, run: Run, wanted: FeatureOrder) -> None:
        if wanted.again:
            await self._record_request_taken(run, wanted.feature_id, 0)
        if wanted.depends_on:
            await self._await_merged(run, wanted.feature_id, wanted.depends_on)

    async def _record_request_taken(self, run: Steps, feature_id: FeatureId, number: int) -> None:
        """Record, as a step of this run, that its restart request was taken: after a kill it is not taken twice."""

        async def note() -> Json:
            await in_thread(self._gateway.call, SUPERVISOR, "run.took", {"feature_id": feature_id})
            return None

        await run.step(f"took{number}", note)

    async def _await_merged(
        self, run: Run, feature_id: FeatureId, others: tuple[FeatureId, ...], *, again: str = ""
    ) -> None:
        """Wait, without a place, until all dependencies of a feature are merged."""

        async def look() -> Json:
            return await in_thread(self._unmerged, feature_id, others)

        number = 0
        while True:
            found: Any = await run.step(f"{again}look{number}", look)
            if not found["unmerged"]:
                return
            entry = BoardEntry(
                does="waits",
                run_id=run.run_id,
                topic=f"{again}merged{number}",
                others=tuple(found["unmerged"]),
                since=found["since"],
            )
            self._tell(feature_id, f"waits until these are merged: {', '.join(found['unmerged'])}")
            self._board.put(feature_id, entry)
            await run.ask(entry.topic)
            number += 1

    def _unmerged(self, feature_id: FeatureId, features: tuple[FeatureId, ...]) -> Json:
        """Return the features that are not merged, and the number of the newest journal entry."""
        with self._gateway.kernel.record.read() as view:
            since = newest_seq(view)
            own = view.get(FeatureState, feature_id)
            if own is not None and own.waits_for:
                # Leaves out prerequisites that were deleted.
                return {"unmerged": list(still_waited_for(view, own)), "since": since}
            states = {name: view.get(FeatureState, name) for name in features}
        left = [name for name, known in states.items() if known is None or known.status is not Status.MERGED]
        return {"unmerged": left, "since": since}

    async def _ask_person(self, run: Run, feature: FeatureRun, asked: state.AskPerson, number: int) -> Event:
        topic = asked.question_id
        if not topic:
            put = await self._put_question(run, feature, asked, number)
            if not put.ok:
                return state.ToolAnswered(result=put)
            topic = str(put.data["question_id"])
        repeated(self._tell_question, feature.feature_id, asked, topic)
        self._board.put(feature.feature_id, BoardEntry(does="asks", run_id=run.run_id, topic=topic))
        said = await run.ask(topic)
        if said == NOBODY:
            return state.NobodyAnswered(question=asked.question)
        return state.PersonAnswered(question=asked.question, answer=str(said))

    def _tell_question(self, name: FeatureId, asked: state.AskPerson, topic: str) -> None:
        """Tell of an open question: a resumed run passes those that were answered long ago, another feature told it."""
        with self._gateway.kernel.record.read() as view:
            question = view.get(Question, topic)
        if question is not None and question.is_open and question.feature_id != name:
            self._tell(name, f"waits for the answer to {topic} of {question.feature_id}")
        elif question is None or question.is_open:
            choices = asked.choices or ((YES, "TEXT") if asked.prerequisite else ("TEXT",))
            self._tell(name, f"asks: {asked.question} (aop answer {topic} {'|'.join(choices)})")

    async def _put_question(self, run: Steps, feature: FeatureRun, asked: state.AskPerson, number: int) -> ToolResult:
        arguments = {
            "gate": asked.gate,
            "text": asked.question,
            "detail": asked.detail,
            "about": asked.about,
            "since": asked.since or None,
            "choices": list(asked.choices),
            "default": asked.default,
            "prerequisite": plain(asked.prerequisite),
        }
        call = state.CallTool(role=Role.SYSTEM, tool="inbox.ask", arguments=arguments)
        put = await run.step(
            f"ask{number}", lambda: self._work.call_tool(f"{run.run_id}.{number}", feature.feature_id, call)
        )
        return msgspec.convert(put, ToolResult)

    async def _await_clear_way(self, run: Run, feature: FeatureRun, way: state.Await, number: int) -> Event:
        async def block() -> Json:
            return await in_thread(self._change_status, feature.feature_id, Status.BLOCKED, way.reason)

        async def unblock() -> Json:
            return await in_thread(self._unblock, feature, way)

        since: Any = await run.step(f"block{number}", block)
        topic = f"{WAY}{number}"
        entry = BoardEntry(does="waits", run_id=run.run_id, topic=topic, others=way.features, since=since)
        self._tell(feature.feature_id, f"waits: {way.reason}")
        self._board.put(feature.feature_id, entry)
        if await run.ask(topic) == AGAIN:
            # Before the request is removed: a waiting feature without a request would end the supervisor.
            self._board.put(feature.feature_id, BoardEntry(does="works", run_id=run.run_id))
            await self._record_request_taken(run, feature.feature_id, number)
            return state.Began()
        cleared: Any = await run.step(f"unblock{number}", unblock)
        return state.WayCleared(status=Status(cleared["status"]), moved=bool(cleared["moved"]))

    async def _begin_anew(self, run: Run, feature: FeatureRun, way: state.AwaitMerged, number: int) -> Event:
        """Wait for the prerequisites, then start over from the base branch that has them."""
        await self._await_merged(run, feature.feature_id, way.features, again=f"{number}.")
        call = state.CallTool(role=Role.SYSTEM, tool="feature.begin_anew")
        began = await run.step(
            f"anew{number}", lambda: self._work.call_tool(f"{run.run_id}.{number}", feature.feature_id, call)
        )
        result = msgspec.convert(began, ToolResult)
        return state.Began() if result.ok else state.ToolAnswered(result=result)

    async def _rest(self, run: Run, feature: FeatureRun, rest: state.Rest | state.WaitUntil, number: int) -> Event:
        if isinstance(rest, state.WaitUntil):
            return await self._wait_until(run, feature, rest, number)
        self._tell(feature.feature_id, "paused. Continue with: aop resume")
        self._board.put(feature.feature_id, BoardEntry(does="rests", run_id=run.run_id, topic=f"rest{number}"))
        await run.ask(f"rest{number}")
        return state.Resumed()

    async def _wait_until(self, run: Run, feature: FeatureRun, wait: state.WaitUntil, number: int) -> Event:
        """Wait for the model's provider; the record has the time, and the supervisor looks at its clock."""
        given = {"provider": wait.provider, "until": wait.until, "trouble": wait.reason[:2000], "since": wait.since}
        call = state.CallTool(role=Role.SYSTEM, tool="run.wait", arguments=given)
        put = await run.step(
            f"quota{number}", lambda: self._work.call_tool(f"{run.run_id}.{number}", feature.feature_id, call)
        )
        result = msgspec.convert(put, ToolResult)
        if not result.ok:
            return state.ToolAnswered(result=result)
        self._board.put(feature.feature_id, BoardEntry(does="sleeps", run_id=run.run_id, topic=f"quota{number}"))
        await run.ask(f"quota{number}")
        return state.Resumed()

    async def _finish(self, run: Run, feature: FeatureRun, end: state.Finish) -> Json:
        async def settle() -> Json:
            if end.status is not feature.status:
                reason = str((end.error or {}).get("message", "It cannot continue."))
                await in_thread(self._change_status, feature.feature_id, end.status, reason)
            return None

        await run.step("finish", settle)
        outcome = {"status": end.status, "error": end.error}
        self._tell(feature.feature_id, f"ends: {end.status}")
        self._board.put(feature.feature_id, BoardEntry(does="ended", run_id=run.run_id, outcome=outcome))
        return plain(outcome)

    def _unblock(self, feature: FeatureRun, way: state.Await) -> Json:
        """Take a feature out of `blocked`, unless the kernel does so, onto the base branch as it is now."""
        if feature.feature_id not in way.features:
            self._change_status(feature.feature_id, feature.status, "The conflict may be over.")
        moved = self._work.follow_base(feature.feature_id) is not None
        answer = self._gateway.call(SUPERVISOR, "feature.state_get", {"feature_id": feature.feature_id})
        return {"status": answer.data["front_matter"]["status"] if answer.ok else feature.status, "moved": moved}

    def _change_status(self, feature_id: FeatureId, status: Status, reason: str) -> int:
        """Set the status of a feature; return the number of the newest journal entry."""
        while True:
            answer = self._gateway.call(SUPERVISOR, "feature.state_get", {"feature_id": feature_id})
            if not answer.ok or answer.data["front_matter"]["status"] == status:
                break
            patch = {"status": status, "status_reason": reason[:900]}
            arguments = {"feature_id": feature_id, "expected_version": answer.data["version"], "patch": patch}
            error = self._gateway.call(SUPERVISOR, "feature.state_patch", arguments).error
            if error is None:
                break
            # After a concurrent change, read it again.
            if error["code"] != VersionConflict.code:
                self._tell(feature_id, f"cannot become {status}: {error['message']}")
                break
        with self._gateway.kernel.record.read() as view:
            return newest_seq(view)

    async def _run_leg(self, run: Run, payload: Json) -> Json:
        given = msgspec.convert(payload, _LegStart)
        feature, action = step(given.feature, given.event)
        number = 0
        while not isinstance(action, state.LegEnding):
            event = await self._perform(run, feature, action, number)
            feature, action = step(feature, event)
            number += 1
        return plain(_LegEnd(feature=feature, action=action))

    async def _perform(
        self, run: Run, feature: FeatureRun, action: state.CallTool | state.RunGates | state.AskWorker, number: int
    ) -> Event:
        match action:
            case state.CallTool():
                operation = f"{run.run_id}.{number}"
                did = await run.step(
                    f"{number}.{action.tool}",
                    lambda: self._work.call_tool(operation, feature.feature_id, action, feature.run_name),
                )
                return state.ToolAnswered(result=msgspec.convert(did, ToolResult))
            case state.RunGates():
                given = plain(Gate(feature_id=feature.feature_id, role=action.role, mode=action.mode))
                child = await run.spawn("gate", given, key=f"{number}.gate", priority=GATE_PRIORITY)
                ran = await run.result(child)
                if ran == HELD_BACK:
                    return state.HeldBack(action=action)
                return state.ToolAnswered(result=msgspec.convert(ran, ToolResult), mode=action.mode)
            case state.AskWorker():
                given = plain(Turn(feature_id=feature.feature_id, ask=action, run_name=feature.run_name))
                child = await run.spawn("turn", given, key=f"{number}.turn", priority=TURN_PRIORITY)
                said = await run.result(child)
                if said == HELD_BACK:
                    return state.HeldBack(action=action)
                answered: Event = msgspec.convert(said, TurnEvent)
                return answered


def _finish_after_break(feature: FeatureRun, broke: RunBroke) -> state.Finish:
    error = InternalError(f"AOP failed while working on `{feature.feature_id}`: {broke}"[:500]).as_error()
    return state.Finish(status=Status.BLOCKED, error=error)
