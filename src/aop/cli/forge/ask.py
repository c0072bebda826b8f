"""`aop forge ask`: answer the questionnaire of a project, one question at a time."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import join
from typing import Any

from aop.cli.forge.action import Action, declare_project
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import CallRefused, Terminal
from aop.core.errors import AnswersIncomplete, AnswersRefused, InputPathNotFound, InvalidCliArgs, Json
from aop.core.text.counts import count
from aop.core.text.json import MalformedText
from aop.core.text.suggestions import did_you_mean
from aop.core.text.visible import visible
from aop.core.text.yaml import MAX_YAML_BYTES, dump_yaml, parse_yaml
from aop.forge.projects.questionnaire import SECTIONS
from aop.kernel.gateway.calls import Envelope
from aop.wiring.build import App

CLEAR = "-"
_FORMS = {"text": "...", "list": "[..., ...]", "commands": "[python -m pytest -q]"}
"""An answer of each kind, as a file has it."""


def _declare(parser: argparse.ArgumentParser) -> None:
    declare_project(parser)
    parser.add_argument(
        "--from",
        dest="file",
        metavar="FILE",
        help="take the answers from a YAML file; if one does not fit, none is stored",
    )
    parser.add_argument("--section", metavar="SECTION", help="ask all questions of this section, answered ones too")
    parser.add_argument(
        "--suggest",
        action="store_true",
        help="let a model propose answers to the open questions; each is stored only if you say yes"
        " (without a terminal: print them as a file for --from)",
    )
    parser.add_argument(
        "--model", metavar="MODEL", help="with --suggest: as `provider:model` (default: as for `aop forge generate`)"
    )


def ask(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Store answers of a file or of a person, and show how far the questionnaire is."""
    _check_section(arguments.section)
    if arguments.suggest:
        return _suggest(arguments, terminal)
    given = None if arguments.file is None else _answers_in(arguments.file, terminal)
    with open_app(arguments, to_read=given is None and not terminal.is_interactive) as app:
        if given is not None:
            answer = _store(app, arguments.project, given)
        else:
            answer = call_tool(app, "forge.ask", {"project_id": arguments.project})
            if terminal.is_interactive:
                answer = _interview(app, answer, arguments.section, terminal)
    return terminal.answer(answer, lambda data: _show(data, arguments.section, terminal))


def _check_section(section: str | None) -> None:
    names = [each.name for each in SECTIONS]
    if section is not None and section not in names:
        raise InvalidCliArgs(
            f"`{section[:60]}` is not a section.{did_you_mean(section, names)}", hint=f"Sections: {', '.join(names)}"
        )


def _answers_in(file: str, terminal: Terminal) -> Mapping[str, Json]:
    """Return the answers of a YAML file. Raises: InputPathNotFound, AnswersRefused."""
    try:
        if file == "-":
            raw = terminal.read_all().encode()
        else:
            with Path(file).open("rb") as stream:
                raw = stream.read(MAX_YAML_BYTES + 1)
        value = parse_yaml(raw).value
    except OSError as error:
        raise InputPathNotFound(f"`{file}` cannot be read: {error.strerror}.") from error
    except MalformedText as problem:
        where = "" if problem.line is None else f" (line {problem.line})"
        message = f"`{file}` cannot be read as YAML{where}: {problem.reason}."
        raise AnswersRefused(f"Nothing was stored. {message}", problems=[message]) from problem
    if not isinstance(value, Mapping) or not all(isinstance(each, Mapping) for each in value.values()):
        message = f"`{file}` is not a mapping from sections to questions and answers."
        raise AnswersRefused(f"Nothing was stored. {message}", problems=[message])
    return value


def _store(app: App, project: str, answers: Mapping[str, Json]) -> Envelope:
    return call_tool(app, "forge.answer", {"project_id": project, "answers": answers})


def _interview(app: App, asked: Envelope, only: str | None, terminal: Terminal) -> Envelope:
    """Ask the open questions, or all of one section; each answer is stored at once."""
    answer = asked
    todo = [
        (section, question)
        for section in asked.data["sections"]
        for question in section["questions"]
        if (section["section"] == only if only else question["answer"] is None)
    ]
    if todo:
        terminal.say("An empty answer skips a question; Ctrl-D ends. Answers are stored one by one.")
    for number, (section, question) in enumerate(todo, start=1):
        while True:
            value = _one_answer(f"[{number}/{len(todo)}] {section['title']}", question, terminal)
            if value is None:
                terminal.say("")
                return answer
            if value == "":
                break
            given: Json = None if value == CLEAR else value
            one = {section["section"]: {question["field"]: given}}
            if stored := _stored(app, asked.data["project_id"], one, terminal):
                answer = stored
                break
    return answer


def _stored(app: App, project: str, one: Mapping[str, Json], terminal: Terminal) -> Envelope | None:
    """Store one answer; None if it does not fit its question, which is said."""
    try:
        return _store(app, project, one)
    except CallRefused as refused:
        if refused.error["code"] != AnswersRefused.code:
            raise
        terminal.say(f"  {visible(str(refused.error['message']))}")
        return None


def _suggest(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Let a model propose answers, and store those that the person takes; without a terminal, store none."""
    if arguments.file is not None or arguments.section is not None:
        raise InvalidCliArgs("`--suggest` is about all open questions.", hint="Leave out `--from` and `--section`.")
    with open_app(arguments, to_read=not terminal.is_interactive) as app:
        answer = call_tool(app, "forge.ask", {"project_id": arguments.project})
        proposed = _proposals(app, answer.data, arguments.model, terminal)
        if not terminal.is_interactive:
            return _print_proposals(answer.data["project_id"], proposed, terminal)
        answer = _judge_proposals(app, answer, proposed, terminal)
    return terminal.answer(answer, lambda data: _show(data, None, terminal))


def _proposals(app: App, asked: Mapping[str, Any], model: str | None, terminal: Terminal) -> dict[str, dict[str, Any]]:
    """Return what a model proposes. Raises: AnswersIncomplete before the idea is known, refusals of asking a model."""
    import asyncio

    from aop.forge.generation.suggestions import IDEA, fitting_answers, suggest_answers
    from aop.wiring.forge.generation import PRODUCT
    from aop.wiring.models import build_brain

    project, mode = asked["project_id"], asked["mode"]
    answers = {
        section["section"]: {each["field"]: each["answer"] for each in section["questions"] if each["answer"]}
        for section in asked["sections"]
    }
    if not answers[IDEA[0]].get(IDEA[1]):
        raise AnswersIncomplete(
            f"A model has nothing to go by before `{'.'.join(IDEA)}` is answered.",
            hint=f"Say in one or two sentences what it is: `aop forge ask {project} --section {IDEA[0]}`.",
        )
    brain, kernel = build_brain(app.settings, chosen=model, product=PRODUCT), app.gateway.kernel
    name = call_tool(app, "forge.project_show", {"project_id": project}).data["name"]
    terminal.say("Asking the model")
    fence = kernel.new_id("fence")
    given = asyncio.run(suggest_answers(brain, name=name, mode=mode, answers=answers, fence=fence))
    terminal.say(f"{given.model} proposes {count(len(given.value.answers), 'answer')}.")

    def secret_rules(text: str) -> list[str]:
        return sorted({finding.rule for finding in kernel.redact.secrets_in(text)})

    return fitting_answers(given.value, mode=mode, answers=answers, secret_rules=secret_rules)


def _print_proposals(project: str, proposed: Mapping[str, Json], terminal: Terminal) -> int:
    terminal.say(f"Nothing was stored. Read and correct them in a file, then: aop forge ask {project} --from FILE.yaml")
    text = dump_yaml(proposed).removesuffix("\n") if proposed else ""
    return terminal.result({"project_id": project, "stored": False, "answers": proposed}, text)


def _judge_proposals(
    app: App, asked: Envelope, proposed: Mapping[str, Mapping[str, Any]], terminal: Terminal
) -> Envelope:
    """Show each proposal, and store it if the person says yes."""
    answer = asked
    todo = [
        (section, question)
        for section in asked.data["sections"]
        for question in section["questions"]
        if question["field"] in proposed.get(section["section"], {})
    ]
    for number, (section, question) in enumerate(todo, start=1):
        value = proposed[section["section"]][question["field"]]
        terminal.say(f"[{number}/{len(todo)}] {section['title']}: {question['question']}")
        lines = [value] if isinstance(value, str) else [each if isinstance(each, str) else join(each) for each in value]
        terminal.say("\n".join(f"  proposed: {visible(line)}" for text in lines for line in text.splitlines()))
        if terminal.confirm("Take it?"):
            one = {section["section"]: {question["field"]: value}}
            answer = _stored(app, asked.data["project_id"], one, terminal) or answer
    return answer


def _one_answer(place: str, question: Mapping[str, Any], terminal: Terminal) -> str | list[str] | None:
    """Return what a person types: a text, or the lines of a list; None at the end of the input."""
    need = "" if question["required"] else " (optional)"
    terminal.say(f"{place}: {question['question']}{need}")
    if question["kind"] != "text":
        terminal.say("  One on each line; an empty line ends the list.")
    if question["answer"] is not None:
        terminal.say(f"  now: {visible(_short(question['answer']))} (`{CLEAR}` removes it)")
    first = terminal.ask("> ")
    if question["kind"] == "text" or not first or first == CLEAR:
        return first
    lines = [first]
    while line := terminal.ask("> "):
        lines.append(line)
    return lines


def _show(data: Mapping[str, Any], only: str | None, terminal: Terminal) -> None:
    terminal.text("\n".join(_lines(data, only)))
    project = data["project_id"]
    if data["next"] is None:
        terminal.say(f"Every required question is answered. Generate the contracts with: aop forge generate {project}")
        return
    unanswered = f"{count(data['open'], 'required question')} open (*)."
    if terminal.is_interactive:
        terminal.say(f"{unanswered} Continue with: aop forge ask {project}")
    else:
        terminal.say(f"{unanswered} Write the answers into a file, then: aop forge ask {project} --from FILE.yaml")
        terminal.say("\n".join(["Such a file, with the open questions:", "", *_example(data)]))


def _example(data: Mapping[str, Any]) -> Iterator[str]:
    """Return a YAML file that asks the required questions which are open."""
    for section in data["sections"]:
        unanswered = [each for each in section["questions"] if each["required"] and each["answer"] is None]
        if unanswered:
            yield f"{section['section']}:"
        yield from (f"  {each['field']}: {_FORMS[each['kind']]}  # {each['question']}" for each in unanswered)


def _lines(data: Mapping[str, Any], only: str | None) -> Iterator[str]:
    for section in data["sections"]:
        if only in (None, section["section"]):
            answered = sum(each["answer"] is not None for each in section["questions"])
            state = "complete" if section["complete"] else "open"
            yield f"{section['section']} ({answered} of {len(section['questions'])} answered, {state})"
            for question in section["questions"]:
                mark = " *" if question["required"] and question["answer"] is None else ""
                value = "-" if question["answer"] is None else visible(_short(question["answer"]))
                yield f"  {question['field']}{mark}: {value}"


def _short(answer: str | Sequence[str] | Sequence[Sequence[str]]) -> str:
    """Return an answer in one line of at most 100 characters."""
    if isinstance(answer, str):
        text = answer
    else:
        text = "; ".join(each if isinstance(each, str) else " ".join(each) for each in answer)
    line = " ".join(text.split())
    return line if len(line) <= 100 else f"{line[:97]}..."


ACTIONS: Mapping[str, Action] = {"ask": Action(_declare, ask)}
