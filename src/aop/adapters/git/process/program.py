"""Program `git`, run so that only its arguments decide what it does."""

from __future__ import annotations

import os
import select
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from aop.core.errors import Fault

if TYPE_CHECKING:
    # Most commands start no git.
    import subprocess

GIT_SECONDS = 120.0
CHECKOUT_SECONDS = 600.0
# A negative code is the signal that ended git.
ANY_CODE = range(-64, 256)

_TERMINATION_SECONDS = 2.0
_MESSAGE_CHARACTERS = 2000

_ENVIRONMENT = {
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "AOP",
    "GIT_AUTHOR_EMAIL": "aop@localhost",
    "GIT_COMMITTER_NAME": "AOP",
    "GIT_COMMITTER_EMAIL": "aop@localhost",
    "LC_ALL": "C",
}

# Settings that no config can win against: what would start a program or reach out.
_SAFETY = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.sshCommand=false",
    "gpg.program=false",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "safe.bareRepository=explicit",
    "protocol.allow=never",
    "advice.graftFileDeprecated=false",
    "core.filesRefLockTimeout=2000",
    # Git flushes refs but not loose objects; after a power cut a branch would name a commit that is not there.
    "core.fsync=committed",
    "core.quotePath=false",
    "merge.conflictStyle=diff3",
    "submodule.recurse=false",
    "worktree.useRelativePaths=false",
)
# Settings of taste, which a control plane must not depend on; the user's own checkout is written with the user's.
_TASTE = (
    "core.attributesFile=/dev/null",
    "core.autocrlf=false",
    "core.splitIndex=false",
    "core.untrackedCache=false",
)
_NOT_PERSONAL = ("GIT_ATTR_NOSYSTEM", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM")


class GitResult(Struct, frozen=True, kw_only=True):
    """Exit code and output of a git command."""

    code: int
    out: bytes
    err: str


class GitProgram:
    """The `git` of this process: its absolute path, found once, and its search path."""

    def __init__(self, environ: Mapping[str, str], *, personal: bool = False) -> None:
        # A relative entry would find programs in the folder that git works in.
        folders = [folder for folder in environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(folder)]
        self._environment = {**_ENVIRONMENT, "PATH": os.pathsep.join(folders)}
        self._executable = _executable_in(folders)
        self._settings = (*_SAFETY, *(() if personal else _TASTE))
        self._environ = environ
        if personal:
            self._environment |= {name: environ[name] for name in ("HOME", "XDG_CONFIG_HOME") if name in environ}
            for name in _NOT_PERSONAL:
                del self._environment[name]

    def personal(self) -> GitProgram:
        """Return the same git with the person's own settings; what would start a program stays off."""
        return GitProgram(self._environ, personal=True)

    def run(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        stdin: bytes = b"",
        seconds: float = GIT_SECONDS,
        holding: tuple[int, ...] = (),
    ) -> GitResult:
        """Run git to its end and return any exit code; git inherits the descriptors of locks in `holding`."""
        import subprocess

        # Files in memory instead of pipes, which would have to be filled and emptied while git runs.
        with _memory(stdin) as given, _memory() as out, _memory() as err:
            process = subprocess.Popen(
                [*self._command(), *arguments],
                cwd=cwd,
                env={**self._environment, **environment},
                stdin=given,
                stdout=out,
                stderr=err,
                pass_fds=holding,
            )
            with process:
                if not _ends_within(process, seconds):
                    _end(process)
                    name = next(word for word in arguments if not word.startswith("-"))
                    raise Fault(f"`git {name}` did not end within {seconds:.0f} seconds.")
            out.seek(0)
            err.seek(0)
            return GitResult(code=process.returncode, out=out.read(), err=err.read().decode("utf-8", "replace"))

    def start(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        stdin: bytes | None = None,
        holding: tuple[int, ...] = (),
    ) -> subprocess.Popen[bytes]:
        """Start a git that answers over pipes until its input ends, and inherits the locks in `holding`.

        With `stdin`, its whole input is given at once, and it has no pipe for more.
        """
        import subprocess

        with _memory(stdin or b"") as given:
            return subprocess.Popen(
                [*self._command(), *arguments],
                cwd=cwd,
                env={**self._environment, **environment},
                stdin=subprocess.PIPE if stdin is None else given,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                pass_fds=holding,
            )

    def _command(self) -> list[str]:
        return [self._executable, *(word for setting in self._settings for word in ("-c", setting))]


class GitDir:
    """One git directory, always named explicitly, with its work tree."""

    def __init__(
        self, program: GitProgram, *, git_dir: Path, work_tree: Path, environment: Mapping[str, str], root: Path
    ) -> None:
        self._program = program
        self.work_tree = work_tree
        self._git_dir = git_dir
        self._environment = environment
        self._root = root

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        git_dir: Path | None = None,
        work_tree: Path | None = None,
        index: Path | None = None,
        environment: Mapping[str, str] | None = None,
        fine: Container[int] = (0,),
        seconds: float = GIT_SECONDS,
        holding: tuple[int, ...] = (),
    ) -> GitResult:
        """Run git here; an exit code that is not in `fine` is a fault."""
        folder = work_tree or self.work_tree
        more = {**self._environment, **(environment or {})}
        if index is not None:
            more["GIT_INDEX_FILE"] = str(index)
        ran = self._program.run(
            [f"--git-dir={git_dir or self._git_dir}", f"--work-tree={folder}", *arguments],
            cwd=folder,
            environment=more,
            stdin=stdin,
            seconds=seconds,
            holding=holding,
        )
        if ran.code not in fine:
            raise Fault(f"`git {arguments[0]}` ended with {ran.code}: {self.clean_message(ran.err)}")
        return ran

    def start(
        self, *arguments: str, stdin: bytes | None = None, holding: tuple[int, ...] = ()
    ) -> subprocess.Popen[bytes]:
        """Start a git here that answers over pipes until its input ends."""
        return self._program.start(
            [f"--git-dir={self._git_dir}", f"--work-tree={self.work_tree}", *arguments],
            cwd=self.work_tree,
            environment=self._environment,
            stdin=stdin,
            holding=holding,
        )

    def clean_message(self, message: str) -> str:
        """Return a short message of git, without paths of this machine or control characters."""
        text = message.replace(str(self._git_dir), ".git").replace(f"{self._root}/", "").replace(str(self._root), ".")
        printable = "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)
        return printable.strip()[:_MESSAGE_CHARACTERS]


def _executable_in(folders: Sequence[str]) -> str:
    for folder in folders:
        candidate = os.path.join(folder, "git")
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    raise Fault("`git` is not on the PATH.")


@contextmanager
def _memory(content: bytes = b"") -> Iterator[IO[bytes]]:
    with open(os.memfd_create("git"), "r+b") as file:
        file.write(content)
        file.seek(0)
        yield file


def _ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    # `Popen.wait` with a timeout sleeps between looks, for half as long as git runs.
    ended = os.pidfd_open(process.pid)
    # `select.select` takes no descriptor above 1,023.
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    try:
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(ended)


def _end(process: subprocess.Popen[bytes]) -> None:
    # Git removes its lock files on SIGTERM, and leaves them on SIGKILL.
    process.terminate()
    if not _ends_within(process, _TERMINATION_SECONDS):
        process.kill()
