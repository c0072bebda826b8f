"""Reference pages: docs/tools.md and docs/refusals.md, made from the code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from aop.core.errors import Move, Refusal, all_refusals
from aop.kernel.contracts.schemas import Schema, tool_schemas
from aop.kernel.gateway.calls import Tool

GENERATED = "<!-- Written by `aop tools write`; a change made here by hand is lost. -->"

_COMMON = """\
Every tool answers `{"ok": true, "data": {...}, "evidence": {...}}` (`evidence` only where there is some), or
`{"ok": false, "error": {...}}`. Which refusals a single tool can answer is not listed: any call can be refused before
its tool is reached, and the list of codes, with what to do next, is the same for all tools.

Every tool also takes `actor_type` and `actor_id`; who may call what is decided by the caller's token, never by these.
A tool that changes something also takes `operation_id` (your own name for the call: sent again, it does nothing
twice), and, where it changes a feature, `expected_version` (refused with `version_conflict` once the feature is
further)."""

_EVERYWHERE = frozenset({"actor_type", "actor_id", "operation_id", "expected_version"})


def tools_text(tools: Mapping[str, Tool]) -> str:
    """Return the reference of all tools (AOP-329)."""
    parts = [f"{GENERATED}\n\n# Tools\n\n{_COMMON}\n", _overview(tools)]
    parts += [_section(tools[name]) for name in sorted(tools)]
    return "\n".join(parts)


def _overview(tools: Mapping[str, Tool]) -> str:
    rows = [
        f"| [`{name}`](#{name.replace('.', '')}) | {_roles(tool)} | {'changes' if tool.mutates else 'reads'} |\n"
        for name, tool in sorted(tools.items())
    ]
    return f"| tool | who | what it does |\n|---|---|---|\n{''.join(rows)}"


def _section(tool: Tool) -> str:
    taken, answered = tool_schemas(tool)
    who = "Only a person, and never with a token." if tool.person_only else f"Roles: {_roles(tool)}."
    what = "It changes something." if tool.mutates else "It changes nothing."
    return (
        f"## {tool.name}\n\n{tool.summary} {what} {who}\n\n"
        f"{_properties('Takes', taken, leaving_out=_EVERYWHERE)}\n"
        f"{_properties('Answers, in `data`', answered['properties']['data'])}"
    )


def _roles(tool: Tool) -> str:
    return "a person" if tool.person_only else ", ".join(sorted(tool.roles))


def _properties(title: str, schema: Schema, *, leaving_out: frozenset[str] = frozenset()) -> str:
    shown = {name: each for name, each in schema["properties"].items() if name not in leaving_out}
    if not shown:
        return f"{title}: none beside the common ones.\n"
    rows = []
    for name, each in shown.items():
        kind = type_name(each) + ("" if name in schema["required"] else ", optional")
        rows.append(f"| `{name}` | {kind} | {each.get('description', '')} |\n")
    return f"{title}:\n\n| name | type | meaning |\n|---|---|---|\n{''.join(rows)}"


def type_name(schema: Schema) -> str:
    """Return the type of a property in a few words."""
    if "anyOf" in schema:
        return " or ".join(type_name(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " \\| ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {type_name(schema['items'])}"
    return str(schema.get("type", "anything"))


_REFUSALS = """\
A refusal is an answer: a stable code, a sentence that names what was refused, and what to do next. A call that was
refused changed nothing, but for the verdict of a gate run, which is recorded. The codes fall into groups by the
caller's next move, and each group has its own exit code of `aop`."""

_MOVES: Mapping[Move, str] = {
    Move.ADAPT: "Send something else.",
    Move.CORRECT_USAGE: "The call itself was malformed: correct it.",
    Move.PROVE: "Nothing was done, or what is asked for is not proven yet: prove it.",
    Move.ASK_PERSON: "Only a person can go on.",
    Move.WAIT: "Another feature or process holds what is needed, and will release it.",
    Move.RETRY: "Send the same again.",
    Move.ESCALATE: "The work was handed to a person.",
    Move.CONTINUE: "The caller stopped the command, and can continue.",
}


def refusals_text(exit_codes: Mapping[Move, int]) -> str:
    """Return the list of every refusal, by the caller's next move."""
    return "\n".join([f"{GENERATED}\n\n# Refusals\n\n{_REFUSALS}\n", *_groups(exit_codes)])


def _groups(exit_codes: Mapping[Move, int]) -> Iterator[str]:
    for move, meaning in _MOVES.items():
        rows = [
            f"| `{each.code}` | {each.__doc__} | {each.hint} |\n"
            for each in sorted(all_refusals(), key=lambda refusal: refusal.code)
            if each.move is move and each is not Refusal
        ]
        table = f"| code | meaning | next |\n|---|---|---|\n{''.join(rows)}"
        yield f"## {move}: exit code {exit_codes[move]}\n\n{meaning}\n\n{table}"
