"""Suggestions: answers that a model proposes and a person judges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from aop.brains.ports import Answer, Brain
from aop.brains.prompts import Data, build_prompt
from aop.core.errors import AnswersRefused, Json
from aop.forge.contracts.types import BuildMode
from aop.forge.generation.texts import prompt_text, shown_value
from aop.forge.projects.questionnaire import Answers, Field, QuestionSection, sections_for, with_answers

IDEA = ("product_intent", "summary")
"""The question that a person answers before a model can propose anything."""

SecretRules = Callable[[str], Sequence[str]]


class SuggestedAnswer(Struct, frozen=True, kw_only=True):
    """An answer to one question, as a model proposes it."""

    section: str
    field: str
    entries: tuple[str, ...]


class SuggestedAnswers(Struct, frozen=True, kw_only=True):
    """All that a model proposes."""

    answers: tuple[SuggestedAnswer, ...]


async def suggest_answers(
    brain: Brain, *, name: str, mode: BuildMode, answers: Answers, fence: str
) -> Answer[SuggestedAnswers]:
    """Ask a model for answers to the questions that have none. Raises: refusals of asking a model."""
    unanswered = [
        f"- section `{section.name}`, field `{field.name}` ({field.kind}): {field.question}"
        for section, field in _unanswered(mode, answers)
    ]
    task = "\n".join(["The open questions:", *unanswered])
    known = Data(source="the project", text=shown_value({"name": name, "answers": {**answers}}))
    prompt = build_prompt(prompt_text("answer_helper.md"), task, (known,), fence)
    return await brain.generate_structured(prompt, SuggestedAnswers, repairs=1)


def fitting_answers(
    suggested: SuggestedAnswers, *, mode: BuildMode, answers: Answers, secret_rules: SecretRules
) -> dict[str, dict[str, Any]]:
    """Return the proposals by section and field; one that the questionnaire would refuse is left out."""
    wanted: Mapping[tuple[str, str], Field] = {
        (section.name, field.name): field for section, field in _unanswered(mode, answers)
    }
    fitting: dict[str, dict[str, Any]] = {}
    for each in suggested.answers:
        field = wanted.get((each.section, each.field))
        if field is None or not each.entries:
            continue
        value: Json = "\n".join(each.entries) if field.kind == "text" else [*each.entries]
        try:
            read = with_answers(mode, {}, {each.section: {each.field: value}}, secret_rules)
        except AnswersRefused:
            continue
        fitting.setdefault(each.section, {})[each.field] = read[each.section][each.field]
    return fitting


def _unanswered(mode: BuildMode, answers: Answers) -> list[tuple[QuestionSection, Field]]:
    return [
        (section, field)
        for section in sections_for(mode)
        for field in section.fields
        if field.name not in answers.get(section.name, {})
    ]
