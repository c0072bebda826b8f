"""Questionnaire: the sections, their questions, and the check of answers to them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from aop.core.errors import AnswersRefused, Json
from aop.core.text.json import canonical_json
from aop.core.text.suggestions import did_you_mean
from aop.core.text.visible import visible
from aop.forge.contracts.shapes.directive import MOST_COMMANDS, flaw_in_command
from aop.forge.contracts.types import BuildMode

LONGEST_ANSWER = 4_000
LONGEST_ITEM = 500
MOST_ITEMS = 100
MOST_BYTES = 64 * 1024

Answers = Mapping[str, Mapping[str, Json]]
"""The answers by section and field."""
FieldKind = Literal["text", "list", "commands"]

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
# Words that no description of a product needs, and that try to steer the model which reads it.
_INSTRUCTION = re.compile(
    r"(?:ignore|disregard|forget|override)\s+(?:all\s+|any\s+)?(?:of\s+)?(?:the\s+|your\s+|these\s+|my\s+)?"
    r"(?:previous|prior|above|earlier|system|former)\s+(?:instruction|rule|prompt|message|direction)s?"
    r"|you\s+are\s+now\s+(?:a|an|in)\b|<\|[a-z_]{2,30}\|>|</?(?:system|assistant|instructions?|tool_result)>"
    r"|^\s*(?:system|assistant)\s*:",
    re.IGNORECASE | re.MULTILINE,
)


class Field(Struct, frozen=True, kw_only=True):
    """One question."""

    name: str
    question: str
    kind: FieldKind = "text"
    required: bool = True


class QuestionSection(Struct, frozen=True, kw_only=True):
    """A group of questions."""

    name: str
    title: str
    fields: tuple[Field, ...]


def _optional(name: str, question: str, kind: FieldKind = "text") -> Field:
    return Field(name=name, question=question, kind=kind, required=False)


SECTIONS: tuple[QuestionSection, ...] = (
    QuestionSection(
        name="product_intent",
        title="The product",
        fields=(
            Field(name="summary", question="In one or two sentences: what is it, and what problem does it solve?"),
            Field(name="users", question="Who uses it?", kind="list"),
            Field(name="features", question="The features that it must have", kind="list"),
            _optional("user_stories", "User stories, as in `A member corrects a count`", "list"),
            _optional("success", "How will you know that it works well?"),
            _optional("non_goals", "What it will not do", "list"),
        ),
    ),
    QuestionSection(
        name="tech_stack",
        title="Technology",
        fields=(
            Field(name="backend", question="Backend: language and framework, or `none`"),
            Field(name="frontend", question="Frontend: framework, or `none`"),
            Field(name="auth", question="How do people sign in? For example `session cookie`, `OAuth`, `none`"),
            _optional("testing", "Test frameworks"),
            _optional("libraries", "Libraries that must be used", "list"),
        ),
    ),
    QuestionSection(
        name="database_schema",
        title="Data",
        fields=(
            Field(name="database", question="Database, or `none`"),
            Field(name="entities", question="The things that are stored, each with its important fields", kind="list"),
            _optional("retention", "What must be kept, and for how long?"),
        ),
    ),
    QuestionSection(
        name="api_endpoints",
        title="Interface for programs",
        fields=(
            Field(name="endpoints", question="The operations of the HTTP API, or `none`", kind="list"),
            _optional("consumers", "Other programs that call it", "list"),
        ),
    ),
    QuestionSection(
        name="ui_requirements",
        title="Interface for people",
        fields=(
            Field(name="pages", question="The pages or screens, each with its purpose, or `none`", kind="list"),
            _optional("design", "Look and feel"),
            _optional("accessibility", "Who must be able to use it, and how?"),
        ),
    ),
    QuestionSection(
        name="architectural_boundaries",
        title="Architecture",
        fields=(
            Field(name="layers", question="The layers or modules, from the outside to the inside", kind="list"),
            _optional("rules", "What one part must never do", "list"),
        ),
    ),
    QuestionSection(
        name="deployment_target",
        title="Operation",
        fields=(
            Field(name="deployment", question="Where does it run? For example `one container on a small server`"),
            _optional("scale", "How many users or requests?"),
        ),
    ),
    QuestionSection(
        name="dev_platform",
        title="Development",
        fields=(
            Field(name="platform", question="Operating system and tools of the developers"),
            Field(
                name="verify",
                question="The commands that prove that it works, as in `python -m pytest -q`",
                kind="commands",
            ),
            _optional("style", "Formatters, linters, conventions"),
        ),
    ),
)
MINI_SECTIONS = ("product_intent", "ui_requirements", "dev_platform")


def sections_for(mode: BuildMode) -> tuple[QuestionSection, ...]:
    """Return the sections that a project of this mode is asked."""
    return tuple(each for each in SECTIONS if mode == "full" or each.name in MINI_SECTIONS)


def open_questions(mode: BuildMode, answers: Answers) -> tuple[tuple[QuestionSection, Field], ...]:
    """Return the required questions that have no answer yet, in order."""
    return tuple(
        (section, field)
        for section in sections_for(mode)
        for field in section.fields
        if field.required and field.name not in answers.get(section.name, {})
    )


def complete_sections(mode: BuildMode, answers: Answers) -> tuple[str, ...]:
    """Return the sections whose required questions are all answered, in order."""
    unfinished = {section.name for section, _ in open_questions(mode, answers)}
    return tuple(each.name for each in sections_for(mode) if each.name not in unfinished)


def verification_commands(answers: Answers) -> tuple[tuple[str, ...], ...]:
    """Return the commands that prove a build, as argument lists; none before that question is answered."""
    given = answers.get("dev_platform", {}).get("verify")
    commands = given if isinstance(given, list) else []
    return tuple(tuple(str(word) for word in command) for command in commands if isinstance(command, list))


def with_answers(
    mode: BuildMode, stored: Answers, given: Mapping[str, Json], secret_rules: Callable[[str], Sequence[str]]
) -> Answers:
    """Return the stored answers with the given ones; null removes one. Raises: AnswersRefused, with every problem."""
    known = {section.name: {field.name: field for field in section.fields} for section in sections_for(mode)}
    merged = {name: dict(fields) for name, fields in stored.items()}
    problems: list[str] = []
    for name, fields in given.items():
        if name not in known:
            problems.append(f"`{visible(name[:60])}` is not a section.{did_you_mean(name, known)}")
        elif not isinstance(fields, Mapping):
            problems.append(f"`{name}` is not a mapping from questions to answers.")
        else:
            merged[name] = {**merged.get(name, {}), **_checked(name, known[name], fields, secret_rules, problems)}
    kept = {
        name: {field: value for field, value in fields.items() if value is not None} for name, fields in merged.items()
    }
    answers = {each: kept[each] for each in known if kept.get(each)}
    if not problems and len(canonical_json(answers)) > MOST_BYTES:
        problems.append(f"Together the answers have more than {MOST_BYTES} bytes.")
    if problems:
        raise AnswersRefused(f"Nothing was stored. {' '.join(problems[:50])}", problems=problems[:50])
    return answers


def _checked(
    section: str,
    fields: Mapping[str, Field],
    given: Mapping[str, Json],
    secret_rules: Callable[[str], Sequence[str]],
    problems: list[str],
) -> dict[str, Json]:
    checked: dict[str, Json] = {}
    for name, value in given.items():
        where = f"{section}.{name[:60]}"
        if name not in fields:
            problems.append(f"`{visible(where)}` is not a question.{did_you_mean(name, fields)}")
        elif value is None:
            checked[name] = None
        else:
            read, found = _read(fields[name], value)
            found = found or next((flaw for text in _texts(read) if (flaw := _flaw(text, secret_rules))), "")
            checked[name] = read
            if found:
                problems.append(f"`{where}` {found}.")
    return checked


def _read(field: Field, value: Json) -> tuple[Json, str]:
    """Return an answer in the shape of its question, and its flaw."""
    if field.kind == "text":
        text = _scalar(value)
        return text, "is not a text" if text is None else _length(text, LONGEST_ANSWER)
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    if not items or len(items) > MOST_ITEMS:
        return [], f"needs 1 to {MOST_ITEMS} entries"
    return _commands(items) if field.kind == "commands" else _list(items)


def _list(items: Sequence[Json]) -> tuple[Json, str]:
    texts = [text for item in items if (text := _scalar(item)) is not None]
    if len(texts) < len(items):
        return [], "has an entry that is not a text"
    return texts, next((flaw for text in texts if (flaw := _length(text, LONGEST_ITEM))), "")


def _commands(items: Sequence[Json]) -> tuple[Json, str]:
    commands: list[list[str]] = []
    for item in items[: MOST_COMMANDS + 1]:
        words = _command(item)
        if words is None:
            return [], "has a command that is neither a text with balanced quotes nor a list of texts"
        if flaw := flaw_in_command(words):
            return [], f"has a command that cannot be run: {flaw}"
        commands.append(words)
    if len(commands) > MOST_COMMANDS:
        return [], f"has more than {MOST_COMMANDS} commands"
    return list(commands), next((flaw for words in commands if (flaw := _length(" ".join(words), LONGEST_ITEM))), "")


def _command(item: Json) -> list[str] | None:
    if isinstance(item, str):
        try:
            return shlex.split(item)
        except ValueError:
            return None
    if isinstance(item, (list, tuple)) and all(isinstance(word, str) for word in item):
        return [str(word) for word in item]
    return None


def _scalar(value: Json) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return str(value).replace("\r\n", "\n").strip()


def _length(text: str, longest: int) -> str:
    if not text:
        return "is empty"
    return f"has {len(text)} characters; at most {longest} are taken" if len(text) > longest else ""


def _flaw(text: str, secret_rules: Callable[[str], Sequence[str]]) -> str:
    if unprintable := _UNPRINTABLE.search(text):
        return f"holds the character U+{ord(unprintable.group()):04X}"
    if rules := secret_rules(text):
        return f"contains what looks like a secret ({', '.join(rules)})"
    if found := _INSTRUCTION.search(text):
        return f"has words that instruct a model ({found.group().strip()[:60]!a}); describe the product instead"
    return ""


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)
