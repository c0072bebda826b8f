"""Resume: a person's answer to an agent's request for help."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from aop.core.errors import AlreadyAnswered, NoWorkflow, OutOfStep, Refusal
from aop.core.ids import FeatureId
from aop.gated.machine.state import PersonGuided
from aop.gated.machine.step import step
from aop.gated.session.documents import GatedWorkflow
from aop.gated.session.session import put_workflow, rules_for
from aop.kernel.features.worktree_hold import held_worktree
from aop.kernel.gateway.calls import Call, ChangeArguments, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.documents.base import revise
from aop.kernel.record.documents.questions import Question
from aop.kernel.record.port import Transaction


class Resume(ChangeArguments, frozen=True, kw_only=True):
    guidance: Annotated[str, Meta(min_length=1, max_length=16_000)]
    """A text for the agent, shown with its next step."""


class ResumedWorkflow(Struct, frozen=True, kw_only=True):
    feature_id: str
    status: str
    """The phase of the workflow."""
    question_id: str
    """The question of the agent."""
    guidance: str
    """A text for the agent, shown with its next step."""


def resume(call: Call, arguments: Resume) -> Outcome:
    """Continue a workflow with a person's guidance, which also answers the open question."""
    kernel, name = call.kernel, FeatureId(arguments.feature_id)
    guidance = kernel.redact(arguments.guidance)
    with held_worktree(kernel, name):

        def decide(tx: Transaction) -> Outcome:
            if arguments.expected_version is not None:
                the_feature(tx, arguments)
            known = tx.get(GatedWorkflow, name)
            if known is None:
                raise NoWorkflow(f"There is no workflow `{name}`.")
            after, answer = step(known.workflow, PersonGuided(guidance=guidance), rules_for(kernel.config(), known))
            if isinstance(answer, Refusal):
                raise OutOfStep(
                    f"The workflow `{name}` does not wait for guidance.", hint="Look with `aop gated status`."
                ) from answer
            _answer_question(tx, call, known.question, guidance)
            put_workflow(tx, revise(known, workflow=after, question=""))
            tx.append(call.event("workflow_resumed", name, question_id=known.question, guidance=guidance))
            return ResumedWorkflow(feature_id=name, status=after.status, question_id=known.question, guidance=guidance)

        return call.commit(decide)


def _answer_question(tx: Transaction, call: Call, question_id: str, guidance: str) -> None:
    """Answer the question if it is open; one that was closed by its time limit stays closed."""
    question = tx.get(Question, question_id)
    if question is None or question.closed_because:
        return
    if question.answer is not None:
        raise AlreadyAnswered(
            f"The question `{question_id}` was answered by {question.answered_by}.",
            hint="The agent continues with its next `get_task`.",
        )
    answered = revise(
        question,
        answer=guidance,
        answered_by=call.principal.actor,
        answered_at=call.kernel.now(),
    )
    tx.put(answered, question_id)
    facts = {"question_id": question_id, "answer": guidance}
    tx.append(call.event("question_answered", question.feature_id, **facts))


TOOLS = (
    Tool(
        name="gated.resume",
        summary="Answer the call for help of a gated workflow; it goes on with this guidance.",
        arguments=Resume,
        output=ResumedWorkflow,
        roles=COORDINATORS,
        run=resume,
        mutates=True,
        person_only=True,
    ),
)
