"""Called files: what the scripts of gates and reviewers run in turn.

Shell scripts, makefiles and the scripts of package.json are read as data from the base; nothing is run. Code of the
application that a script starts, and tests, stay free: they are what is judged.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence

from aop.core.ids import TreeId
from aop.core.text.json import MalformedText, parse_json
from aop.kernel.gates.guards.command_files import (
    INTERPRETER,
    LOOK_AT_FILES,
    Command,
    named_files,
    run_words,
    simple_commands,
)
from aop.kernel.ports.git import FileMode, GitObjects

LARGEST_SCRIPT = 256 * 1024
MOST_FOLLOWED = 200
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_PACKAGE_RUNNERS = ("npm", "pnpm", "yarn", "bun")
_SEVERAL_SCRIPTS = ("npm-run-all", "run-s", "run-p")
_SHELL_ENDINGS = (".sh", ".bash", ".zsh", ".mk")
_CODE_ENDINGS = (".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".rb", ".pl", ".php", ".lua")
_SHELL = re.compile(rb"#!\s*\S*(?:/|env\s+)\w*sh\b")
_VARIABLE = re.compile(r"\$\{[^}]*\}|\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`")
_PLACE = re.compile(r"^\$\w+/")
"""A variable before a path, such as `$(dirname "$0")/`: what follows lies beside the script, or at the root."""
_SEPARATORS = re.compile(r"[;&|\n(){}]+")
_SOURCES = ("src", "lib", "app", "apps", "packages", "pkg", "cmd", "internal", "server", "client")


def called_files(
    objects: GitObjects, base: TreeId, commands: Sequence[Command], is_test: Callable[[str], bool]
) -> frozenset[str]:
    """Return the files of the base that the scripts of some commands run in turn, as far as they can be read."""
    walk = _Walk(objects, base, is_test)
    for folder, words in [each for command in commands for each in simple_commands(command)]:
        walk.follow_programs(folder, words)
        for path in named_files([(folder, words)]):
            walk.follow_script(path, folder)
    return frozenset(walk.found)


class _Walk:
    """The way from script to script; each is read once."""

    def __init__(self, objects: GitObjects, base: TreeId, is_test: Callable[[str], bool]) -> None:
        self._objects = objects
        self._base = base
        self._is_test = is_test
        self._read: set[tuple[str, str]] = set()
        self.found: dict[str, None] = {}

    def follow_programs(self, folder: str, words: Sequence[str]) -> None:
        """Follow a command that runs what a makefile or package.json says."""
        names = [posixpath.basename(word) for word in words]
        if "make" in names or "gmake" in names:
            for name in _MAKEFILES:
                self.follow_script(posixpath.normpath(posixpath.join(folder, name)), folder)
        for script in _package_scripts(names):
            self._follow_package_script(folder, script)

    def follow_script(self, path: str, folder: str) -> None:
        """Follow what a shell script or a makefile runs, from the folder in which it is run."""
        content = self._content(path)
        if content is None or (path, folder) in self._read or len(self._read) >= MOST_FOLLOWED:
            return
        self._read.add((path, folder))
        if _is_shell(path, content):
            self._follow_text(content.decode(errors="replace"), folder, posixpath.dirname(path))

    def _follow_text(self, text: str, folder: str, beside: str) -> None:
        for words in _commands_in(text):
            self.follow_programs(folder, words)
            for word in _called_words(words):
                for place in dict.fromkeys((folder, beside, "")):
                    self._take(posixpath.normpath(posixpath.join(place, word)), folder)

    def _take(self, path: str, folder: str) -> None:
        if path in self.found or path.startswith("..") or self._is_test(path):
            return
        content = self._content(path)
        is_code = (
            content is not None and path.endswith(_CODE_ENDINGS) and path.split("/", maxsplit=1)[0] not in _SOURCES
        )
        # A script that is not there yet would be run once it is: `[ -f local.sh ] && . local.sh`.
        if is_code or _is_shell(path, content or b""):
            self.found[path] = None
            self.follow_script(path, folder)

    def _follow_package_script(self, folder: str, name: str) -> None:
        path = posixpath.normpath(posixpath.join(folder, "package.json"))
        key = (f"{path}:{name}", folder)
        content = self._content(path)
        if content is None or key in self._read or len(self._read) >= MOST_FOLLOWED:
            return
        self._read.add(key)
        try:
            package = parse_json(content)
        except MalformedText:
            return
        scripts = package.get("scripts") if isinstance(package, dict) else None
        for each in (f"pre{name}", name, f"post{name}"):
            text = scripts.get(each) if isinstance(scripts, dict) else None
            if isinstance(text, str):
                self._follow_text(text, folder, folder)

    def _content(self, path: str) -> bytes | None:
        entry = self._objects.entry(self._base, path) if path and not path.startswith(("..", "/")) else None
        if entry is None or entry.mode not in (FileMode.FILE, FileMode.EXECUTABLE):
            return None
        return self._objects.blob(entry.oid) if self._objects.blob_size(entry.oid) <= LARGEST_SCRIPT else b""


def _package_scripts(names: Sequence[str]) -> Iterator[str]:
    """Yield the scripts of package.json that a command runs."""
    if names and names[0] in _SEVERAL_SCRIPTS:
        yield from (name for name in names[1:] if not name.startswith("-"))
    if names and names[0] in _PACKAGE_RUNNERS:
        plain = [name for name in names[1:] if not name.startswith("-")]
        yield from [name for name in plain if name not in ("run", "run-script")][:1]


def _is_shell(path: str, content: bytes) -> bool:
    name = posixpath.basename(path)
    return path.endswith(_SHELL_ENDINGS) or name in _MAKEFILES or _SHELL.match(content) is not None


def _commands_in(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of each simple command of a script, as far as they can be told."""
    for line in _SEPARATORS.split(_VARIABLE.sub("$PLACE", text.replace("\\\n", " "))):
        try:
            words = shlex.split(line.strip().lstrip("@-+"), comments=True)
        except ValueError:
            words = line.split()
        if words:
            yield tuple(words)


def _called_words(words: Sequence[str]) -> Iterable[str]:
    """Return the words of a command that may name what it runs, without a variable before them."""
    names = [posixpath.basename(word) for word in words]
    called = words if LOOK_AT_FILES.isdisjoint(names) else tuple(run_words(words))
    is_run = any(INTERPRETER.fullmatch(name) for name in names)
    plain = [_PLACE.sub("", word) for word in called if not word.startswith(("-", "/"))]
    return [word for word in plain if word and (is_run or not word.endswith(_CODE_ENDINGS) or word == plain[0])]
