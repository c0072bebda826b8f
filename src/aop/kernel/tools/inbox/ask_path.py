"""Tool `inbox.ask_path`: a request to open one guarded path for a feature."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from aop.core.errors import InvalidArguments, ProtectedPath
from aop.core.paths.names import exact_path
from aop.kernel.config.guarded_areas import STEERS_TESTS, guarded_areas_of
from aop.kernel.features.lifecycle import LIVING, require_status
from aop.kernel.features.opened_paths import NO, YES, current_path_answer
from aop.kernel.features.questions import put_question
from aop.kernel.gates.guards.command_guards import command_guard
from aop.kernel.gateway.calls import Call, ChangeArguments, Kernel, Outcome, Tool, committed, the_feature
from aop.kernel.gateway.role_sets import READERS
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.questions import Question
from aop.kernel.record.port import Transaction

LONGEST_REASON = 2000
OWN_HINT = "No answer opens it: do without this path."


class AskPathArguments(ChangeArguments, frozen=True, kw_only=True):
    path: Annotated[str, Meta(min_length=1, max_length=1000)]
    """The guarded file that the feature needs to change: one file, no pattern."""
    reason: Annotated[str, Meta(min_length=1, max_length=LONGEST_REASON)]
    """The reason, for the person who answers."""


class AskPathResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    path: str
    question_id: str
    """The authorisation in the inbox, open or answered."""
    text: str
    """The question to the person; empty when the path is already open."""
    is_open: bool
    """Whether the feature may already change the path."""


@committed
def ask_path(call: Call, arguments: AskPathArguments, tx: Transaction) -> Outcome:
    """Ask a person to open a path for the feature, unless it is already open."""
    path, reason = exact_path(arguments.path), call.kernel.redact(arguments.reason)
    state = the_feature(tx, arguments)
    require_status(state, *LIVING, to="ask for a path")
    guard = _guard_of(call.kernel, state, path)
    said = current_path_answer(tx, state.feature_id, path)
    if said is not None and said.answer == NO:
        raise ProtectedPath(
            f"`{path}` may not be changed: a person was asked, and answered no.",
            hint="Do without this path, or change the plan.",
            path=path,
            reason=guard,
            question_id=said.question_id,
        )
    if said is not None:
        return _result(state, path, said.question_id)
    waiting = next((each for each in tx.all(Question) if _asks_for(each, state, path)), None)
    question = waiting or put_question(
        tx,
        call,
        state.feature_id,
        "authorisation",
        f"The {call.principal.role} of `{state.feature_id}` needs to change `{path}`, although {guard}. `{YES}`"
        f" opens this path for this feature until it ends. Its reason: {reason}",
        detail={"path": path, "guard": guard, "reason": reason},
        choices=(YES, NO),
        opens=path,
    )
    return _result(state, path, question.question_id, question.text)


def _guard_of(kernel: Kernel, state: FeatureState, path: str) -> str:
    """Return why a path is guarded. Raises: InvalidArguments if it is not, ProtectedPath if no answer can open it."""
    config, objects = kernel.config(), kernel.git.objects
    areas = guarded_areas_of(config.policy)
    guard = areas.guard_of(path) or (STEERS_TESTS if areas.holds_test_settings(path) else None)
    if guard is None and not areas.permits(path):
        guard = command_guard(config, objects, objects.tree_of(state.base_commit)).guard_of(path)
    if guard is None:
        raise InvalidArguments(
            f"`{path}` is not guarded, so it needs no permission.",
            hint="Name it in the plan; a protected area that has a lock needs that lock.",
            tool="inbox.ask_path",
        )
    if guarded_areas_of(config.policy, frozenset({path})).guard_of(path) is not None:
        raise ProtectedPath(f"`{path}` may not be changed: {guard}.", hint=OWN_HINT, path=path, reason=guard)
    return guard


def _asks_for(question: Question, state: FeatureState, path: str) -> bool:
    return question.is_open and question.opens == path and question.feature_id == state.feature_id


def _result(state: FeatureState, path: str, question_id: str, text: str = "") -> AskPathResult:
    return AskPathResult(feature_id=state.feature_id, path=path, question_id=question_id, text=text, is_open=not text)


TOOLS = (
    Tool(
        name="inbox.ask_path",
        summary="Ask a person to open one guarded path for this feature.",
        arguments=AskPathArguments,
        output=AskPathResult,
        roles=READERS,
        run=ask_path,
        mutates=True,
        brief=True,
    ),
)
