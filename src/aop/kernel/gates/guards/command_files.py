"""Command files: what the commands of gates and reviewers run, or are steered by."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct

from aop.core.paths import globs
from aop.core.paths.names import fold_path
from aop.kernel.config.gates import Mode, Step
from aop.kernel.config.in_force import Config
from aop.kernel.gates.guards.shadowed_modules import NO_SHADOWS, SHADOWS_MODULE, ShadowGuard

RUN_BY_GATES = "a gate runs it"
SHADOWS_RUNNER = "it would take the place of a program that a gate runs"

LOOK_AT_FILES = frozenset(
    (
        *("pytest", "py.test", "unittest", "jest", "vitest", "mocha", "go", "cargo", "phpunit", "rspec", "playwright"),
        *("ruff", "mypy", "flake8", "pylint", "pyright", "black", "isort", "py_compile", "compileall", "shellcheck"),
        *("eslint", "prettier", "biome", "tsc", "golangci-lint", "gofmt"),
    )
)
"""Programs whose arguments are files to look at, which a feature may change: it is compared test by test."""
INTERPRETER = re.compile(
    r"(python[\d.]*|pypy[\d.]*|\w*sh|node|nodejs|deno|bun|tsx|ts-node|ruby[\d.]*|perl|php[\d.]*|lua[\d.]*|Rscript|java|pwsh"
    r"|source|\.|npx|uv|poetry|pdm|hatch|rye|pipenv|coverage|env|time|timeout|xvfb-run|nohup|docker|podman)"
)
"""Programs that run what one of their arguments names."""
SETTINGS_OPTIONS = frozenset(
    (
        *("-c", "-f", "-p", "-r", "--file", "--config", "--config-file", "--rcfile", "--rootdir", "--confcutdir"),
        *("--require", "--import", "--loader", "--setup-file", "--makefile"),
    )
)

SETTINGS: dict[str, tuple[str, ...]] = {
    "ruff": ("**/ruff.toml", "**/.ruff.toml"),
    "mypy": ("**/mypy.ini", "**/.mypy.ini"),
    "flake8": ("**/.flake8",),
    "pylint": ("**/.pylintrc", "**/pylintrc", "**/pylintrc.toml"),
    "pyright": ("**/pyrightconfig.json",),
    "eslint": ("**/eslint.config.*", "**/.eslintrc", "**/.eslintrc.*", "**/.eslintignore"),
    "biome": ("**/biome.json", "**/biome.jsonc"),
    "tsc": ("**/tsconfig.json", "**/tsconfig.*.json"),
    "mocha": ("**/.mocharc.*",),
    "ava": ("**/ava.config.*",),
    "nyc": ("**/.nycrc", "**/.nycrc.*"),
    "c8": ("**/.c8rc", "**/.c8rc.*"),
    "golangci-lint": ("**/.golangci.*",),
    "cargo": ("**/rust-toolchain", "**/rust-toolchain.toml", "**/clippy.toml", "**/.clippy.toml", "**/nextest.toml"),
    "phpunit": ("**/phpunit.xml", "**/phpunit.xml.dist"),
    "rspec": ("**/.rspec",),
    "rake": ("**/Rakefile",),
    "gradle": ("**/settings.gradle", "**/settings.gradle.kts", "**/gradle.properties", "**/init.gradle"),
    "dotnet": ("**/*.runsettings", "**/Directory.Build.*", "**/nuget.config"),
    "just": ("**/justfile", "**/.justfile"),
    "task": ("**/Taskfile.*",),
    "invoke": ("**/tasks.py",),
    "nox": ("**/noxfile.py",),
    "tox": ("**/tox.ini", "**/tox.toml"),
}
"""The files by which a program is steered when nothing names them."""

_OF_PYTEST = ("pytest", "_pytest", "pluggy", "iniconfig", "pytest_cov", "xdist", "pytest_asyncio", "pytest_timeout")
BESIDE: dict[str, tuple[str, ...]] = {
    "pytest": _OF_PYTEST,
    "py.test": _OF_PYTEST,
    "coverage": ("coverage",),
    "unittest": ("unittest",),
    "mypy": ("mypy",),
    "ruff": ("ruff",),
}
"""Modules that a runner of Python imports; one of the same name in the repository would come first."""


Command = tuple[str, tuple[str, ...]]
"""The folder in which a command runs, and its words."""


class CommandGuard(Struct, frozen=True, kw_only=True):
    """The paths that commands name, and those that would change what they do; all in folded letters."""

    files: frozenset[str]
    patterns: tuple[str, ...]
    modules: frozenset[str]
    """Modules that the commands run; the repository has them at most as its own code."""
    shadows: ShadowGuard

    def guard_of(self, path: str) -> str | None:
        """Return why a path may not be changed, or None."""
        folded = fold_path(path)
        if folded in self.files or any(globs.matches(pattern, folded) for pattern in self.patterns):
            return RUN_BY_GATES
        names = [name.removesuffix(".py") for name in folded.split("/")]
        is_python = folded.endswith((".py", ".pyc", ".so", ".pyi"))
        if is_python and not self.modules.isdisjoint(names):
            return SHADOWS_RUNNER
        return SHADOWS_MODULE if self.shadows.covers(folded) else None


def commands_of(config: Config) -> tuple[Command, ...]:
    """Return the commands of the gates and of the reviewer of a configuration."""
    commands: list[Command] = [(step.cwd or "", step.cmd) for step in _steps_of(config)]
    if config.policy.gated.review_command:
        commands.append(("", config.policy.gated.review_command))
    return tuple(dict.fromkeys(commands))


def import_folders(config: Config, run: Iterable[str]) -> frozenset[str]:
    """Return the folders in which Python looks first: those of steps, of the scripts that run, and of `PYTHONPATH`."""
    folders = {posixpath.dirname(path) for path in run if path.endswith(".py")}
    for step in _steps_of(config):
        named = step.env.get("PYTHONPATH", "").split(":")
        folders |= {step.cwd or "", *(_path(step.cwd or "", each) for each in named)}
    return frozenset(folders)


def _steps_of(config: Config) -> Iterator[Step]:
    modes = [profile.modes for profile in config.gates.profiles.values()]
    yield from (step for each in modes for mode in Mode for step in each.steps(mode) or ())


@lru_cache(maxsize=16)
def guard_of_commands(
    commands: tuple[Command, ...], called: frozenset[str], shadows: ShadowGuard = NO_SHADOWS
) -> CommandGuard:
    """Return the guard of what commands run, together with files that their scripts call."""
    simple = [each for command in commands for each in simple_commands(command)]
    programs = {posixpath.basename(word) for _, words in simple for word in words}
    patterns = [fold_path(pattern) for name in sorted(programs & SETTINGS.keys()) for pattern in SETTINGS[name]]
    modules = {module for name in programs & BESIDE.keys() for module in BESIDE[name]}
    files = {fold_path(path) for path in (*named_files(simple), *called)}
    return CommandGuard(files=frozenset(files), patterns=tuple(patterns), modules=frozenset(modules), shadows=shadows)


def named_files(simple: Sequence[Command]) -> frozenset[str]:
    """Return the paths that simple commands name as what they run, or are steered by."""
    files: set[str] = set()
    for folder, words in simple:
        named = [*run_words(words), *(word.partition("=")[2] for word in words)]
        files |= {_path(place, word) for word in named for place in (folder, "")}
        files |= {path for option, word in pairwise(words) if option in ("-m", "-p") for path in _module_files(word)}
    return frozenset(files - {""})


def simple_commands(command: Command) -> Iterator[Command]:
    """Yield a command, and each of those in a script that it hands to a shell."""
    folder, words = command
    yield folder, tuple(word for word in words if not _is_script(word))
    for script in filter(_is_script, words):
        for line in re.split(r"[;&|\n]+", script):
            try:
                yield folder, tuple(shlex.split(line))
            except ValueError:
                yield folder, tuple(line.split())


def _is_script(word: str) -> bool:
    return any(map(str.isspace, word))


def run_words(words: Sequence[str]) -> Iterator[str]:
    """Yield the words that name what a command runs, or by what it is steered, and not the files that it looks at."""
    names = [posixpath.basename(word) for word in words]
    if LOOK_AT_FILES.isdisjoint(names) and any(INTERPRETER.fullmatch(name) for name in names):
        yield from words
        return
    yield from words[:1]
    yield from (word for option, word in pairwise(words) if option in SETTINGS_OPTIONS)


def _path(folder: str, word: str) -> str:
    """Return a word as a path in the repository; empty if it cannot be one."""
    path = posixpath.normpath(posixpath.join(folder, word)) if word and not word.startswith(("-", "/")) else ""
    return "" if path.startswith("..") or path == "." else path


def _module_files(word: str) -> Iterator[str]:
    """Yield the files that Python would run for a dotted name."""
    if all(part.isidentifier() for part in word.split(".")):
        place = word.replace(".", "/")
        for root in ("", "src/"):
            yield from (f"{root}{place}.py", f"{root}{place}/__init__.py", f"{root}{place}/__main__.py")
