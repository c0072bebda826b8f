"""Command lines: a command resolved to its program, folder and environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from msgspec import Struct

from aop.adapters.machine.own_environment import visible_paths
from aop.adapters.processes.child import MARKER, CannotStart
from aop.adapters.processes.toolchains import is_within, search_path
from aop.kernel.ports.processes import Command

_FIXED = {
    "CI": "true",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    # Compiled files are a change of what a set-up installed, and are undone in the tree.
    "PYTHONDONTWRITEBYTECODE": "1",
    # 1980 is the earliest year that a zip file, and so a wheel or a jar, can hold.
    "SOURCE_DATE_EPOCH": "315532800",
}
# AOP sets these for each step.
_OWN = ("HOME", "TMPDIR", MARKER)


class ResolvedCommand(Struct, frozen=True, kw_only=True):
    """A command that can be run; its first word is a file."""

    argv: tuple[str, ...]
    cwd: str
    path: tuple[str, ...]
    """The folders of programs that the command may read; `PATH` in `env` has no hidden one."""
    env: dict[str, str]


def resolve_program(command: Command, environ: Mapping[str, str], hidden: tuple[str, ...] = ()) -> ResolvedCommand:
    """Resolve a command, with the allowed part of the environment. Raises: CannotStart."""
    worktree, cwd = os.path.realpath(command.worktree), os.path.realpath(command.cwd)
    if not is_within(cwd, worktree) or not os.path.isdir(cwd):
        raise CannotStart(f"The folder `{command.cwd}` is not in the worktree `{command.worktree}`.")
    allowed = {name: environ[name] for name in command.env_allowlist if name in environ and name not in _OWN}
    env = {**_FIXED, **allowed, **dict(command.env)}
    _check_texts(command.argv, env)
    named = env.get("PATH", environ.get("PATH", ""))
    visible = search_path(visible_paths(named, hidden), worktree)
    argv = (_find_program(command.argv[0], cwd, visible), *command.argv[1:])
    return ResolvedCommand(
        argv=argv, cwd=cwd, path=search_path(named, worktree), env={**env, "PATH": os.pathsep.join(visible)}
    )


def _check_texts(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Refuse words and variables that a process cannot get. Raises: CannotStart."""
    if not argv or not argv[0]:
        raise CannotStart("The command is empty.")
    for name in env:
        if not name or "=" in name:
            raise CannotStart(f"{name!a} cannot be the name of a variable.")
    texts = {
        **{f"The argument {text!a}": text for text in argv},
        **{f"The variable {name!a}": name + env[name] for name in env},
    }
    for what, text in texts.items():
        try:
            if b"\0" in os.fsencode(text):
                raise CannotStart(f"{what} holds a NUL character.")
        except UnicodeEncodeError as error:
            raise CannotStart(f"{what} is not text.") from error


def _find_program(name: str, cwd: str, path: Sequence[str]) -> str:
    """Return the program: a plain name is searched in `path`, another is a path from `cwd`. Raises: CannotStart."""
    places = [os.path.normpath(os.path.join(cwd, name))] if "/" in name else [os.path.join(f, name) for f in path]
    for place in places:
        if os.path.isfile(place) and os.access(place, os.X_OK):
            return place
    if "/" in name:
        raise CannotStart(f"`{name}` is not a program in `{cwd}`.")
    raise CannotStart(f"There is no program `{name}` on the PATH `{':'.join(path)}`.")
