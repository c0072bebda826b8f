"""Node projects: gates from package.json and the lock file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from aop.adapters.projects.guesses import ChosenStep, Guess, Project, caches_note, guess_of, junit_report, monorepo_note
from aop.core.text.counts import count
from aop.kernel.config.gates import Parsers, Step

MANIFEST = "package.json"
PNPM_WORKSPACE = "pnpm-workspace.yaml"
REPORT = "junit.xml"
CHECKS = ("lint", "typecheck", "build")

# Part of the test script that `npm init` writes.
_NO_TEST_SCRIPT = "no test specified"
# A script with one of these needs a shell.
_SHELL_CHARACTERS = frozenset("&|;<>$`()'\"\\\n")
_GLOB_CHARACTERS = frozenset("*?[{~")
_NODE_REPORTERS = (
    *("--test-reporter=spec", "--test-reporter-destination=stdout"),
    *("--test-reporter=junit", f"--test-reporter-destination={REPORT}"),
)
_VITEST_REPORTERS = ("--reporter=default", "--reporter=junit", f"--outputFile.junit={REPORT}")
_JEST_REPORTERS = ("--reporters=default", "--reporters=jest-junit")


class Manager(Struct, frozen=True, kw_only=True):
    """A package manager and its commands for offline use."""

    name: str
    locks: tuple[str, ...]
    install: tuple[str, ...]
    install_env: Mapping[str, str] = {}
    passes_on_after: tuple[str, ...] = ()
    """The words before the arguments of a script."""
    in_every_package: tuple[str, ...] = ()
    """The command that runs a script in each package of a monorepo that has it."""
    sandbox_read: tuple[str, ...] = ()
    sandbox_write: tuple[str, ...] = ()

    def run(self, script: str, *arguments: str) -> tuple[str, ...]:
        """Return the command that runs a script."""
        return (self.name, "run", script, *(self.passes_on_after if arguments else ()), *arguments)


NPM = Manager(
    name="npm",
    locks=("package-lock.json", "npm-shrinkwrap.json"),
    install=("npm", "ci", "--offline", "--no-audit", "--no-fund"),
    passes_on_after=("--",),
    in_every_package=("npm", "run", "--workspaces", "--if-present"),
    sandbox_read=("~/.npm/_cacache",),
)
MANAGERS = (
    Manager(
        name="pnpm",
        locks=("pnpm-lock.yaml",),
        install=("pnpm", "install", "--offline", "--frozen-lockfile"),
        in_every_package=("pnpm", "--recursive", "--if-present", "run"),
        sandbox_read=("~/.local/share/pnpm/store",),
    ),
    Manager(
        name="bun",
        locks=("bun.lock", "bun.lockb"),
        install=("bun", "install", "--frozen-lockfile"),
        in_every_package=("bun", "run", "--filter", "*"),
        sandbox_read=("~/.bun/install/cache",),
    ),
    Manager(
        name="yarn",
        locks=("yarn.lock",),
        install=("yarn", "install", "--offline", "--frozen-lockfile"),
        sandbox_write=("~/.cache/yarn",),
    ),
    NPM,
)
"""The first one whose lock file exists is the project's."""

YARN_SETTINGS = ".yarnrc.yml"
NEWER_YARN = Manager(
    name="yarn",
    locks=("yarn.lock",),
    install=("yarn", "install", "--immutable"),
    install_env={"YARN_ENABLE_NETWORK": "0"},
    sandbox_write=("~/.yarn/berry",),
)


class _Package(Struct, frozen=True, kw_only=True, rename="camel"):
    scripts: dict[str, str] = {}
    dependencies: dict[str, str] = {}
    dev_dependencies: dict[str, str] = {}
    workspaces: Any = None

    @property
    def needs(self) -> set[str]:
        return {*self.dependencies, *self.dev_dependencies}

    @property
    def members(self) -> tuple[str, ...]:
        """Return the folders of a monorepo's packages, as globs."""
        listed = self.workspaces.get("packages") if isinstance(self.workspaces, dict) else self.workspaces
        return tuple(member for member in listed if isinstance(member, str)) if isinstance(listed, list) else ()


def marks(name: str) -> bool:
    """Tell whether a file of this name makes its folder a Node project."""
    return name == MANIFEST


def reads(path: str) -> bool:
    """Tell whether the guess depends on the text of a file."""
    return path.rpartition("/")[2] == MANIFEST


def guess(project: Project) -> Guess | None:
    """Return the gates of a Node project; None for another project."""
    if MANIFEST not in project.paths:
        return None
    package = _parse_manifest(project.texts.get(MANIFEST, ""))
    if package is None:
        return guess_of(tests=(), notes=[f"`{MANIFEST}` is not a valid package manifest."])
    manager = _manager(project)
    lock = project.first_of(*manager.locks)
    installs = bool(package.needs) or _is_monorepo(project, package)
    setup = [_install(manager, lock)] if installs and lock else []
    test = _test(project, package, manager)
    reporting = _reporting_step(package, manager)
    caches = bool(setup) and not project.any_below(".yarn/cache")
    guessed = guess_of(
        setup=setup,
        checks=[_script_step(manager, name) for name in CHECKS if name in package.scripts],
        tests=[test] if test else (),
        reporting=[reporting] if reporting else None,
        parsers=Parsers(tests=junit_report(REPORT) if reporting else None),
        notes=tuple(_notes(project, package, manager)),
        sandbox_read=manager.sandbox_read if caches else (),
        sandbox_write=manager.sandbox_write if caches else (),
    )
    hints = tuple(_hints(manager, has_caches=caches, lacks_lock=installs and not lock))
    return msgspec.structs.replace(guessed, hints=hints)


def _parse_manifest(text: str) -> _Package | None:
    try:
        return msgspec.json.decode(text.removeprefix("\ufeff"), type=_Package)
    except msgspec.MsgspecError:
        return None


def _manager(project: Project) -> Manager:
    found = next((manager for manager in MANAGERS if project.first_of(*manager.locks)), NPM)
    return NEWER_YARN if found.name == "yarn" and YARN_SETTINGS in project.paths else found


def _is_monorepo(project: Project, package: _Package) -> bool:
    return bool(package.members) or PNPM_WORKSPACE in project.paths


def _install(manager: Manager, lock: str) -> ChosenStep:
    step = Step(name="install", cmd=manager.install, env=dict(manager.install_env))
    return ChosenStep(step=step, why=f"a new worktree has no `node_modules`; `{lock}` lists the packages")


def _script_step(manager: Manager, script: str) -> ChosenStep:
    return ChosenStep(step=Step(name=script, cmd=manager.run(script)), why=f"`{MANIFEST}` has the script `{script}`")


def _test(project: Project, package: _Package, manager: Manager) -> ChosenStep | None:
    if _has_tests(package):
        return _script_step(manager, "test")
    if not _is_monorepo(project, package) or not manager.in_every_package:
        return None
    tested = [path for path, text in project.texts.items() if path.endswith(f"/{MANIFEST}") and _tests_in(text)]
    step = Step(name="test", cmd=(*manager.in_every_package, "test"))
    why = f"{count(len(tested), 'package')} of the monorepo {'has' if len(tested) == 1 else 'have'} the script `test`"
    return ChosenStep(step=step, why=why) if tested else None


def _tests_in(text: str) -> bool:
    package = _parse_manifest(text)
    return package is not None and _has_tests(package)


def _has_tests(package: _Package) -> bool:
    return "test" in package.scripts and _NO_TEST_SCRIPT not in package.scripts["test"]


def _reporting_step(package: _Package, manager: Manager) -> ChosenStep | None:
    """Return the tests with a JUnit report, if the test runner can write one."""
    script = package.scripts.get("test", "")
    words = script.split()
    if not words or not _has_tests(package) or _SHELL_CHARACTERS.intersection(script) or "reporter" in script:
        return None
    if words[0] == "node" and "--test" in words:
        # Run without npm, and so without a shell: options of node must come before file names.
        is_plain = not _GLOB_CHARACTERS.intersection(script) and not {"pretest", "posttest"} & package.scripts.keys()
        step = Step(name="test", cmd=("node", *_NODE_REPORTERS, *words[1:]))
        return ChosenStep(step=step, why=f"the script `test` of `{MANIFEST}` is `{script}`") if is_plain else None
    if words[0] == "vitest" and "vitest" in package.needs:
        return ChosenStep(
            step=Step(name="test", cmd=manager.run("test", *_VITEST_REPORTERS)),
            why=f"`{MANIFEST}` has the script `test`, and Vitest can write a JUnit report",
        )
    if words[0] == "jest" and "jest-junit" in package.needs:
        env = {"JEST_JUNIT_OUTPUT_FILE": REPORT}
        return ChosenStep(
            step=Step(name="test", cmd=manager.run("test", *_JEST_REPORTERS), env=env),
            why=f"`{MANIFEST}` has the script `test`, and `jest-junit` writes a JUnit report",
        )
    return None


def _notes(project: Project, package: _Package, manager: Manager) -> Iterator[str]:
    if PNPM_WORKSPACE in project.paths:
        yield monorepo_note("pnpm workspaces")
    elif package.members:
        yield monorepo_note(f"{manager.name} workspaces", package.members)


def _hints(manager: Manager, *, has_caches: bool, lacks_lock: bool) -> Iterator[str]:
    if lacks_lock:
        yield (
            f"`{MANIFEST}` has dependencies but no lock file, so new worktrees have no packages. Commit a lock file and"
            " run `aop init` again, or write an install step into gates.yaml."
        )
    if has_caches:
        yield caches_note(f"`{manager.name} install`", read=manager.sandbox_read, write=manager.sandbox_write)
