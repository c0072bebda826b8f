"""Workflow tools: `get_task`, `submit_work`, scope reduction and escalation."""

from __future__ import annotations

from datetime import datetime

from aop.core.errors import Refusal
from aop.gated.machine import state
from aop.gated.machine.active_pr import ActivePr
from aop.gated.machine.master_plan import is_done, title_problem
from aop.gated.machine.position import GET_TASK
from aop.gated.machine.state import Brief, Judge, SubmissionVerdict
from aop.gated.session.actions import run_to_answer
from aop.gated.session.base_branch import follow_base
from aop.gated.session.session import PendingQuestion, Session, session_of
from aop.gated.session.workspace import workspace_in
from aop.gated.tools.answers import SWE, Escalate, Escalated, Judgement, SubmitWork, Task
from aop.gated.tools.auto_merge import merge_if_permitted
from aop.kernel.gateway.calls import Arguments, Call, Outcome, Tool
from aop.kernel.gateway.tokens import IssuedToken
from aop.kernel.merges.branch_moves import undo_move
from aop.kernel.record.documents.questions import Question

NOT_APPROVED = "The reviewer did not approve within the rounds that the policy allows; a person has to decide."


def get_task(call: Call, _arguments: Arguments) -> Outcome:
    """Return the current task, after the actions that come first."""
    merge_if_permitted(call)
    with session_of(call) as session:
        _take_person_answer(session)
        follow_base(session)
        asked = state.TaskAsked(draft=session.known.drafted(), is_plan_done=is_done(_master_plan(session)))
        answer = run_to_answer(session, asked)
        problem = session.workflow.last_error
        _call_person(session, f"{NOT_APPROVED}\n\n{problem}" if problem else NOT_APPROVED)
        session.notes += _other_agent_notes(session)
        return session.finish(_task_answer(session, answer))


def submit_work(call: Call, arguments: SubmitWork) -> Outcome:
    """Judge the agent's work."""
    with session_of(call) as session:
        if session.notes:
            answer = run_to_answer(session, state.RefsMoved(what="\n".join(session.notes)))
        else:
            draft = session.known.drafted()
            answer = run_to_answer(
                session,
                state.Submitted(
                    summary=arguments.summary,
                    test_command=arguments.test_command,
                    expectation=arguments.expectation,
                    analysis_decision=arguments.analysis_decision,
                    commit_hash=arguments.commit_hash,
                    draft=draft,
                    title_problem=_title_problem(session, draft),
                ),
            )
        return session.finish(_judgement(session, answer))


def request_scope_reduction(call: Call, _arguments: Arguments) -> Outcome:
    """Go back to the last checkpoint and ask for smaller steps."""
    with session_of(call) as session:
        answer = run_to_answer(session, state.ReductionAsked())
        return session.finish(_task_answer(session, answer))


def escalate(call: Call, arguments: Escalate) -> Outcome:
    """Call a person, and stop until one answers."""
    report = call.kernel.redact(arguments.markdown_report)
    with session_of(call) as session:
        answer = run_to_answer(session, state.EscalationAsked(report=report))
        _call_person(session, report)
        told = _task_answer(session, answer)
        call.report(report)
        return session.finish_with(
            lambda: Escalated(
                task=told.task,
                status=told.status,
                next_call=told.next_call,
                notes=told.notes,
                markdown_report=report,
                question_id=session.known.question,
            )
        )


def _title_problem(session: Session, draft: ActivePr | Refusal | None) -> str:
    return title_problem(_master_plan(session), draft.pr_title) if isinstance(draft, ActivePr) else ""


def _master_plan(session: Session) -> str:
    plan = workspace_in(session.known).content(session.kernel.git.objects, session.known.master_plan)
    return (plan or b"").decode(errors="replace")


def _task_answer(session: Session, answer: Brief | Judge) -> Task:
    text = answer.text if isinstance(answer, Brief) else answer.output
    notes = tuple(session.notes)
    return Task(task=text, status=session.workflow.status, next_call=answer.next_call, notes=notes)


def _judgement(session: Session, answer: Brief | Judge) -> Judgement:
    verdict, output = (
        (SubmissionVerdict.FAILURE, answer.text) if isinstance(answer, Brief) else (answer.verdict, answer.output)
    )
    return Judgement(status=verdict, output=output, next_call=answer.next_call, notes=tuple(session.notes))


def _call_person(session: Session, report: str) -> None:
    """Put the report into the inbox if a person is asked for help now."""
    if session.workflow.escalated and not session.before.workflow.escalated:
        session.asking = PendingQuestion(gate="escalation", text=session.kernel.redact(report))


def _other_agent_notes(session: Session) -> list[str]:
    """Warn of another agent on the same plan: its token was used last and is still valid."""
    known, own, kernel = session.known, session.call.principal.token, session.kernel
    with kernel.record.read() as view:
        last = view.get(IssuedToken, known.agent)
    if last is None or not own or known.agent == own or last.revoked_at:
        return []
    if datetime.fromisoformat(last.expires_at) <= kernel.clock.now():
        return []
    return [f"Another agent works on this plan, with the token `{known.agent}`. One of you must stop."]


def _take_person_answer(session: Session) -> None:
    """Continue with a person's answer (GATED-85)."""
    if not session.workflow.escalated:
        return
    with session.kernel.record.read() as view:
        question = view.get(Question, session.known.question)
    if question is not None and question.answer is not None:
        run_to_answer(session, state.PersonGuided(guidance=question.answer))
        session.learn(question="")


TOOLS = (
    Tool(
        name=GET_TASK,
        summary="Call this to get your goal: what to do now, and which call comes next.",
        arguments=Arguments,
        output=Task,
        roles=SWE,
        run=get_task,
        mutates=True,
        resolve=undo_move,
    ),
    Tool(
        name="submit_work",
        summary="Hand in your work: the only way to run tests. With `test_command`, or with `analysis_decision` alone.",
        arguments=SubmitWork,
        output=Judgement,
        roles=SWE,
        run=submit_work,
        mutates=True,
        resolve=undo_move,
    ),
    Tool(
        name="request_scope_reduction",
        summary="Go back to the last checkpoint and plan smaller steps; locked until several attempts have failed.",
        arguments=Arguments,
        output=Task,
        roles=SWE,
        run=request_scope_reduction,
        mutates=True,
        resolve=undo_move,
    ),
    Tool(
        name="escalate_for_external_help",
        summary="Pause and show a person your report: the problem, what was tried, the errors.",
        arguments=Escalate,
        output=Escalated,
        roles=SWE,
        run=escalate,
        mutates=True,
        resolve=undo_move,
    ),
)
