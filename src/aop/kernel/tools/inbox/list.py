"""Tool `inbox.list`: open questions, and features that wait for an approval."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from aop.core.structs import copy_fields
from aop.kernel.features.questions import QuestionFacts, question_facts
from aop.kernel.gateway.calls import Arguments, Call, Kernel, Outcome, Tool
from aop.kernel.gateway.role_sets import READERS
from aop.kernel.merges.base_moves import conflict_before_merge, conflict_paths
from aop.kernel.merges.merge import unapproved_features
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.questions import Question, question_at
from aop.kernel.record.documents.runs import ProviderWait


class ListQuestionsArguments(Arguments, frozen=True, kw_only=True):
    answered: bool = False
    """Whether questions that were answered are listed too."""


class WaitingApproval(Struct, frozen=True, kw_only=True):
    """A feature that waits for a person's approval; only `aop approve` or `aop merge` clears it."""

    feature_id: str
    tree: str
    since: str
    """When the feature was last changed."""
    commands: tuple[str, ...]
    """The commands to review and to merge it, in this order."""


class WaitingConflict(Struct, frozen=True, kw_only=True):
    """A ready feature that conflicts with the base branch as it is now."""

    feature_id: str
    paths: tuple[str, ...]
    """The files in conflict."""
    since: str
    """When the feature was last changed."""
    commands: tuple[str, ...]
    """The commands that show the conflict, and hand it to a builder, in this order."""


class WaitingForProvider(Struct, frozen=True, kw_only=True):
    """Features that wait for one provider of models; they share the wait."""

    provider: str
    """The provider of models."""
    features: tuple[str, ...]
    """The features that wait."""
    until: str
    """When they continue, in UTC."""
    reason: str
    """The reason, for a person to read."""


class Inbox(Struct, frozen=True, kw_only=True):
    questions: tuple[QuestionFacts, ...]
    approvals: tuple[WaitingApproval, ...]
    """The features that wait for an approval."""
    conflicts: tuple[WaitingConflict, ...]
    """The ready features that conflict with the base branch, and cannot be approved."""
    waits: tuple[WaitingForProvider, ...] = ()
    """The waits for providers of models, one for each; their features continue by themselves."""


def list_questions(call: Call, arguments: ListQuestionsArguments) -> Outcome:
    """Return the open questions, oldest first, and the features that wait for an approval."""
    with call.kernel.record.read() as view:
        now = call.kernel.clock.now()
        found = [question_at(each, now) for each in view.all(Question) if call.principal.reaches(each.feature_id)]
        ready = [each for each in unapproved_features(call.kernel, view) if call.principal.reaches(each.feature_id)]
        conflicts = tuple(_conflicts(call.kernel, ready))
        unfit = {each.feature_id for each in conflicts}
        approvals = tuple(
            WaitingApproval(
                feature_id=state.feature_id,
                tree=state.tree,
                since=state.last_updated,
                commands=(f"aop review {state.feature_id}", f"aop merge {state.feature_id}"),
            )
            for state in ready
            if state.feature_id not in unfit
        )
        waits = tuple(_waits(call, view.all(ProviderWait)))
    wanted = [_facts(call, each) for each in sorted(found, key=_number) if arguments.answered or each.is_open]
    return Inbox(questions=tuple(wanted), approvals=approvals, conflicts=conflicts, waits=waits)


def _facts(call: Call, question: Question) -> QuestionFacts:
    """Return a question, with those of its features that the caller reaches."""
    features = tuple(name for name in question.features if call.principal.reaches(name))
    return msgspec.structs.replace(question_facts(question), features=features)


def _waits(call: Call, waits: Iterable[ProviderWait]) -> Iterator[WaitingForProvider]:
    for wait in waits:
        features = tuple(name for name in wait.features if call.principal.reaches(name))
        if features:
            reason = wait.reason(call.kernel.clock.now())
            yield copy_fields(WaitingForProvider, wait, features=features, reason=reason)


def _conflicts(kernel: Kernel, ready: Sequence[FeatureState]) -> Iterator[WaitingConflict]:
    for state in ready:
        conflict = conflict_before_merge(kernel, state)
        if conflict is not None:
            yield WaitingConflict(
                feature_id=state.feature_id,
                paths=conflict_paths(conflict),
                since=state.last_updated,
                commands=(f"aop review {state.feature_id}", f"aop rebase {state.feature_id} --resolve"),
            )


def _number(question: Question) -> int:
    return int(question.question_id.removeprefix("q"))


TOOLS = (
    Tool(
        name="inbox.list",
        summary="List the open questions, and the features that wait for an approval.",
        arguments=ListQuestionsArguments,
        output=Inbox,
        roles=READERS,
        run=list_questions,
    ),
)
