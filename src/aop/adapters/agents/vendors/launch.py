"""Launch of an agent: the command line, environment and files of a session."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from aop.core.roles import Role
from aop.kernel.config.agents import PLACEHOLDER, ProviderRow


class AgentSession(Struct, frozen=True, kw_only=True):
    """The settings of one turn of an agent."""

    role: Role
    model: str | None
    home: Path
    tree: Path
    mcp_url: str
    token: str
    model_url: str
    model_key: str
    """A placeholder: the agent never sees the key itself."""
    sandboxed: bool
    """Whether a sandbox is in force: only then the agent gets a shell."""
    resumed: str = ""
    """The id of the session that goes on; empty for a new one."""

    @property
    def edits(self) -> bool:
        """Tell whether the role changes files."""
        return self.role not in (Role.PLANNER, Role.SWE)

    @property
    def reads_files(self) -> bool:
        """Tell whether the role reads files with the agent's own tools; a gated agent has only AOP's tools."""
        return self.role is not Role.SWE


class Launch(Struct, frozen=True, kw_only=True):
    """The command line, environment and files of one session."""

    words: tuple[str, ...]
    env: Mapping[str, str]
    files: Mapping[str, str] = {}
    """Files to write into its home first."""


def session_folder_of(row: ProviderRow, tree: Path) -> str:
    """Return the folder of its home that has a program's sessions in a tree; empty if it cannot go on with one."""
    return _filled(row.session_folder, {"tree_slug": _slug(tree)})


def _slug(tree: Path) -> str:
    # Claude Code names a folder after its working directory in this way.
    return re.sub("[^A-Za-z0-9]", "-", str(tree))


def _given(session: AgentSession) -> dict[str, str]:
    return {
        "home": str(session.home),
        "tree": str(session.tree),
        "tree_slug": _slug(session.tree),
        "mcp_url": session.mcp_url,
        "model": session.model or "",
        "model_url": session.model_url,
        "model_key": session.model_key,
        "session": session.resumed,
    }


def launch_of(row: ProviderRow, session: AgentSession) -> Launch:
    """Return how the program of a row is started for a session, without the program itself."""
    holds, given = _Conditions(session), _given(session)
    values = _values(row, given, holds)
    # In a file, a value of the session stands inside a string of JSON, TOML or YAML.
    quoted = _values(row, {name: msgspec.json.encode(value).decode()[1:-1] for name, value in given.items()}, holds)
    words: list[str] = list((row.command or row.acp)[1:])
    for word in row.words:
        group = (word,) if isinstance(word, str) else word.words if holds(word.when) else ()
        words += [_filled(text, values) for text in group]
    return Launch(
        words=tuple(words),
        env={name: _filled(text, values) for name, text in row.environment.items()},
        files={name: _filled(text, quoted) for name, text in row.files.items()},
    )


class _Conditions:
    """Tells whether conditions hold in a session."""

    def __init__(self, session: AgentSession) -> None:
        self._facts = {
            "model": bool(session.model),
            "reads": session.reads_files,
            "edits": session.edits,
            "shell": session.edits and session.sandboxed,
            "sandbox": session.sandboxed,
            "resumes": bool(session.resumed),
        }

    def __call__(self, conditions: tuple[str, ...]) -> bool:
        return all(self._facts[each.removeprefix("not ")] is not each.startswith("not ") for each in conditions)


def _values(row: ProviderRow, given: Mapping[str, str], holds: _Conditions) -> Mapping[str, str]:
    """Return the values of a session and those of a row, each of which may use those before it."""
    values = dict(given)
    for name, choices in row.values.items():
        values[name] = _filled(next((choice.text for choice in choices if holds(choice.when)), ""), values)
    return values


def _filled(text: str, values: Mapping[str, str]) -> str:
    return PLACEHOLDER.sub(lambda gap: values[gap[1]], text)
