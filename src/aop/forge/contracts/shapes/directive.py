"""Builder directive: prose for the builder, and a settings block that AOP writes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from aop.core.text.json import MalformedText, utf8_bytes
from aop.core.text.yaml import parse_yaml
from aop.forge.contracts.shapes.markdown import fenced_blocks, plain_title, sections_of
from aop.forge.contracts.shapes.problems import Problems
from aop.forge.contracts.shapes.prose import Prose, read_prose
from aop.forge.contracts.types import BuildMode, ContractType

HEADING = "Settings"
MOST_COMMANDS = 20
_SHELL = frozenset("|&;<>$`\n\r\0")


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The facts of a build that no model decides."""

    mode: BuildMode
    phase_order: tuple[int, ...]
    verify: tuple[tuple[str, ...], ...]
    """The commands that prove a phase, as argument lists; no shell reads them."""


class Directive(Struct, frozen=True, kw_only=True):
    """The builder directive of a project."""

    prose: Prose
    settings: Settings


def read_directive(text: str, mode: BuildMode, problems: Problems) -> Directive:
    """Read the headings and the settings block."""
    prose = read_prose(ContractType.BUILDER_DIRECTIVE, text, problems)
    settings = _settings(prose, problems)
    if settings is None:
        return Directive(prose=prose, settings=Settings(mode=mode, phase_order=(), verify=()))
    if settings.mode != mode:
        problems.add(f"The settings say `mode: {settings.mode}`; this is a {mode} build.")
    if settings.phase_order != tuple(range(len(settings.phase_order))) or not settings.phase_order:
        problems.add("`phase_order` does not count up from 0.")
    for command in settings.verify:
        if flaw := flaw_in_command(command):
            problems.add(f"`verify` has a command that cannot be run: {flaw}.")
    if not settings.verify or len(settings.verify) > MOST_COMMANDS:
        problems.add(f"`verify` needs 1 to {MOST_COMMANDS} commands.")
    return Directive(prose=prose, settings=settings)


def with_settings(text: str, settings: Settings) -> str:
    """Return the directive with this settings block in place of any it has."""
    lines = text.rstrip("\n").split("\n")
    for section in reversed(
        [each for each in sections_of(text) if each.level == 2 and plain_title(each.title) == "settings"]
    ):
        del lines[section.line - 1 : section.end]
    kept = "\n".join(lines).rstrip("\n")
    return f"{kept}\n\n## {HEADING}\n```yaml\n{_block(settings)}```\n"


def flaw_in_command(command: Sequence[str]) -> str | None:
    """Return why an argument list cannot be a verification command, or None."""
    if not command or not command[0].strip():
        return "it is empty"
    for argument in command:
        if found := sorted(_SHELL.intersection(argument)):
            return f"`{command[0]}` has an argument with {found[0]!a}, and no shell reads it"
    return None


def _block(settings: Settings) -> str:
    commands = "".join(f"  - {_flow(command)}\n" for command in settings.verify)
    return f"mode: {settings.mode}\nphase_order: {_flow(settings.phase_order)}\nverify:\n{commands}"


def _flow(items: Sequence[str | int]) -> str:
    return msgspec.json.format(msgspec.json.encode(items), indent=0).decode()


def _settings(prose: Prose, problems: Problems) -> Settings | None:
    blocks = [body for language, body in fenced_blocks(prose.lines_below(HEADING)) if language in ("yaml", "yml")]
    if len(blocks) != 1:
        problems.add(f"`## {HEADING}` needs one block fenced by three backticks and `yaml`.")
        return None
    try:
        return msgspec.convert(parse_yaml(utf8_bytes(blocks[0])).value, Settings)
    except MalformedText as problem:
        problems.add(f"The settings are not YAML: {problem.reason}.")
    except msgspec.ValidationError as problem:
        problems.add(f"The settings have a wrong shape: {problem}.")
    return None
