"""Command guards: the files that the gates and the reviewer of a base run."""

from __future__ import annotations

from aop.core.ids import TreeId
from aop.core.paths import globs
from aop.kernel.config.in_force import Config
from aop.kernel.gates.guards.called_files import called_files
from aop.kernel.gates.guards.command_files import (
    CommandGuard,
    commands_of,
    guard_of_commands,
    import_folders,
    named_files,
    simple_commands,
)
from aop.kernel.gates.guards.shadowed_modules import shadow_guard
from aop.kernel.ports.git import GitObjects

_MOST_KEPT = 64
_kept: dict[TreeId, tuple[Config, CommandGuard]] = {}
"""The guard of a base, for the configuration that it was made for: one patch after the other asks for the same."""


def command_guard(config: Config, objects: GitObjects, base: TreeId | None) -> CommandGuard:
    """Return the guard of what the commands of a configuration run, and what their scripts on the base run in turn."""
    if base is None:
        return guard_of_commands(commands_of(config), frozenset())
    known, guard = _kept.get(base, (None, None))
    # The id of a tree stands for its content, but two configurations are only surely the same if they are one object.
    if guard is None or known is not config:
        guard = _guard_on(config, objects, base)
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        _kept[base] = (config, guard)
    return guard


def _guard_on(config: Config, objects: GitObjects, base: TreeId) -> CommandGuard:
    commands, tests = commands_of(config), config.policy.gates.test_files
    called = called_files(objects, base, commands, lambda path: any(globs.matches(each, path) for each in tests))
    run = named_files([each for command in commands for each in simple_commands(command)]) | called
    links = config.policy.patch_policy.allow_symlinks
    shadows = shadow_guard(objects, base, import_folders(config, run), has_links=links)
    return guard_of_commands(commands, called, shadows)
