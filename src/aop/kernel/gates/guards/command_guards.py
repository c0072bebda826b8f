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


def command_guard(config: Config, objects: GitObjects, base: TreeId | None) -> CommandGuard:
    """Return the guard of what the commands of a configuration run, and what their scripts on the base run in turn."""
    commands, tests = commands_of(config), config.policy.gates.test_files
    if base is None:
        return guard_of_commands(commands, frozenset())
    called = called_files(objects, base, commands, lambda path: any(globs.matches(each, path) for each in tests))
    run = named_files([each for command in commands for each in simple_commands(command)]) | called
    links = config.policy.patch_policy.allow_symlinks
    shadows = shadow_guard(objects, base, import_folders(config, run), has_links=links)
    return guard_of_commands(commands, called, shadows)
