"""Answer tools: `forge.ask` shows the questions, `forge.answer` stores answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from aop.forge.contracts.anchor import anchor_of
from aop.forge.projects.documents import ForgeAnswers, ForgeProject
from aop.forge.projects.owners import the_project
from aop.forge.projects.questionnaire import (
    Answers,
    FieldKind,
    complete_sections,
    open_questions,
    sections_for,
    with_answers,
)
from aop.forge.tools.projects import ProjectArguments
from aop.kernel.gateway.calls import Call, Outcome, Tool, committed
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.documents.base import revise
from aop.kernel.record.port import Transaction


class AnswerForProject(ProjectArguments, frozen=True, kw_only=True):
    answers: Mapping[str, Mapping[str, Any]]
    """New answers by section and question; null removes one. One that does not fit, and none is stored."""


class QuestionRow(Struct, frozen=True, kw_only=True):
    field: str
    """The question's name."""
    question: str
    """The question itself."""
    kind: FieldKind
    """`text`, `list` for several entries, or `commands` for argument lists."""
    required: bool
    """Whether contracts need the answer."""
    answer: Any
    """The answer; null while there is none."""


class SectionRow(Struct, frozen=True, kw_only=True):
    section: str
    """The section's name."""
    title: str
    """Its subject."""
    complete: bool
    """Whether every required question of it is answered."""
    questions: tuple[QuestionRow, ...]
    """Its questions, in order."""


class NextQuestion(Struct, frozen=True, kw_only=True):
    section: str
    """The section's name."""
    field: str
    """The question's name."""
    question: str
    """The question itself."""


class Questionnaire(Struct, frozen=True, kw_only=True):
    project_id: str
    """The project."""
    mode: str
    """`full`, or `mini` with three of the eight sections."""
    sections: tuple[SectionRow, ...]
    """The sections, in order."""
    open: int
    """The number of required questions without an answer."""
    next: NextQuestion | None
    """The first of those; null when the questionnaire is complete."""
    anchor: Mapping[str, str]
    """The technical choices that every contract has to keep."""


def ask(call: Call, arguments: ProjectArguments) -> Outcome:
    """Return the questions of a project with the answers so far."""
    with call.kernel.record.read() as view:
        project = the_project(view, arguments.project_id, call.principal)
        stored = view.get(ForgeAnswers, project.project_id)
    return _questionnaire(project, {} if stored is None else stored.sections)


def answer(call: Call, arguments: AnswerForProject, tx: Transaction) -> Outcome:
    """Store answers, all of them or none."""
    project = the_project(tx, arguments.project_id, call.principal)
    stored = tx.get(ForgeAnswers, project.project_id)
    before: Answers = {} if stored is None else stored.sections
    after = with_answers(project.mode, before, arguments.answers, lambda text: _secret_rules(call, text))
    if after != before:
        _store(call, tx, project, stored, after)
    return _questionnaire(project, after)


def _store(call: Call, tx: Transaction, project: ForgeProject, stored: ForgeAnswers | None, after: Answers) -> None:
    now = call.kernel.now()
    new = ForgeAnswers(version=1, project_id=project.project_id, sections=after, updated_at=now)
    tx.put(new if stored is None else revise(stored, sections=after, updated_at=now), project.project_id)
    status = "questionnaire" if project.status == "draft" else project.status
    tx.put(revise(project, status=status, updated_at=now), project.project_id)
    before: Answers = {} if stored is None else stored.sections
    changed = {
        name: sorted(each for each in {*old, *new_fields} if old.get(each) != new_fields.get(each))
        for name in sorted({*before, *after})
        if (old := before.get(name, {})) != (new_fields := after.get(name, {}))
    }
    tx.append(call.event("answers_stored", None, project_id=project.project_id, changed=changed))


def _secret_rules(call: Call, text: str) -> list[str]:
    return sorted({finding.rule for finding in call.kernel.redact.secrets_in(text)})


def _questionnaire(project: ForgeProject, answers: Answers) -> Questionnaire:
    complete, unanswered = complete_sections(project.mode, answers), open_questions(project.mode, answers)
    return Questionnaire(
        project_id=project.project_id,
        mode=project.mode,
        sections=tuple(
            SectionRow(
                section=section.name,
                title=section.title,
                complete=section.name in complete,
                questions=tuple(
                    QuestionRow(
                        field=field.name,
                        question=field.question,
                        kind=field.kind,
                        required=field.required,
                        answer=answers.get(section.name, {}).get(field.name),
                    )
                    for field in section.fields
                ),
            )
            for section in sections_for(project.mode)
        ),
        open=len(unanswered),
        next=next(
            (
                NextQuestion(section=section.name, field=field.name, question=field.question)
                for section, field in unanswered
            ),
            None,
        ),
        anchor=anchor_of(answers),
    )


TOOLS = (
    Tool(
        name="forge.ask",
        summary="Return the questionnaire of a project with the answers so far, and the next open question.",
        arguments=ProjectArguments,
        output=Questionnaire,
        roles=COORDINATORS,
        run=ask,
        person_only=True,
    ),
    Tool(
        name="forge.answer",
        summary="Store answers to the questionnaire of a project: all of them, or none with every problem named.",
        arguments=AnswerForProject,
        output=Questionnaire,
        roles=COORDINATORS,
        run=committed(answer),
        mutates=True,
        brief=True,
        person_only=True,
    ),
)
