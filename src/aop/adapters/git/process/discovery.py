"""Discovery of the repository that a folder lies in: without git if it is plain."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from msgspec import Struct

from aop.adapters.files.closed_places import closed_place
from aop.adapters.git.process.output import text_of
from aop.adapters.git.process.program import GitProgram
from aop.core.errors import FilesClosed, NotARepository

# A section, a key whose value needs no unquoting, or a comment.
_PLAIN_LINE = re.compile(r"""\[[A-Za-z0-9.-]+(?: "[^"\\]*")?\]|[A-Za-z][A-Za-z0-9-]*(?: *= *[^"\\#;\0]*)?|[#;].*|""")
_SECTIONS_THAT_SAY_MORE = ("[include", "[extensions")
_KEYS_THAT_SAY_MORE = {"bare": ("false",), "repositoryformatversion": ("0", "1"), "worktree": ()}
"""Keys that change what a repository is, and the values that leave it plain."""
_LARGEST_CONFIG = 64 * 1024


class FoundCheckout(Struct, frozen=True, kw_only=True):
    """The user's own checkout of a repository."""

    root: Path
    git_dir: Path
    object_format: str


def find_checkout(program: GitProgram, path: Path) -> FoundCheckout:
    """Return the main checkout of the repository that a folder lies in. Raises: NotARepository, FilesClosed."""
    plain = _plain_checkout(path)
    if plain is not None:
        return plain
    git_dir, common, object_format, top = _ask(program, path)
    if git_dir != common:
        # A linked worktree. The main one lies around the shared git directory, wherever git keeps a record of it.
        git_dir, main, object_format, top = _ask(program, Path(common).parent)
        if not git_dir == main == common:
            raise NotARepository(f"`{path}` is a worktree of a repository without a checkout.")
    return FoundCheckout(root=Path(top), git_dir=Path(common), object_format=object_format)


def find_top(program: GitProgram, path: Path) -> Path:
    """Return the top of the checkout or linked worktree that a folder lies in. Raises: NotARepository, FilesClosed."""
    plain = _plain_checkout(path)
    return plain.root if plain is not None else Path(_ask(program, path)[3])


def _plain_checkout(path: Path) -> FoundCheckout | None:
    """Return the checkout if git would certainly find the same; None in any doubt."""
    try:
        top = Path(os.path.realpath(path, strict=True))
        device = top.stat().st_dev
        while not os.path.lexists(top / ".git"):
            # Git accepts a folder that looks like a repository, and stops at the end of a file system.
            if os.path.lexists(top / "HEAD") or top.stat().st_dev != device or top == top.parent:
                return None
            top = top.parent
        git_dir = top / ".git"
        is_plain = top.stat().st_dev == device and _is_plain_git_dir(git_dir)
    except (OSError, UnicodeDecodeError):
        return None
    return FoundCheckout(root=top, git_dir=git_dir, object_format="sha1") if is_plain else None


def _is_plain_git_dir(git_dir: Path) -> bool:
    folders, files = (git_dir, git_dir / "objects", git_dir / "refs"), (git_dir / "HEAD", git_dir / "config")
    if not all(stat.S_ISDIR(os.lstat(folder).st_mode) for folder in folders) or (git_dir / "commondir").exists():
        return False
    if not all(stat.S_ISREG(os.lstat(file).st_mode) for file in files):
        return False
    if not (git_dir / "HEAD").read_text(encoding="ascii").startswith("ref: refs/heads/"):
        return False
    with open(git_dir / "config", encoding="utf-8") as file:
        text = file.read(_LARGEST_CONFIG)
    return len(text) < _LARGEST_CONFIG and all(map(_is_plain_line, text.split("\n")))


def _is_plain_line(line: str) -> bool:
    line = line.strip()
    key, _, value = line.lower().partition("=")
    return (
        _PLAIN_LINE.fullmatch(line) is not None
        and not key.startswith(_SECTIONS_THAT_SAY_MORE)
        and value.strip() in _KEYS_THAT_SAY_MORE.get(key.strip(), (value.strip(),))
    )


def _ask(program: GitProgram, path: Path) -> tuple[str, str, str, str]:
    # A mounted repository often belongs to another user. That is safe here: no hook, alias or filter of it is run.
    arguments = (
        *("-c", "safe.directory=*", "rev-parse", "--path-format=absolute"),
        *("--git-dir", "--git-common-dir", "--show-object-format", "--show-toplevel"),
    )
    try:
        ran = program.run(arguments, cwd=path, environment={})
    except PermissionError as error:
        raise FilesClosed(f"The folder `{path}` cannot be opened by you.") from error
    except OSError as error:
        raise NotARepository(f"`{path}` is not a folder.") from error
    lines = text_of(ran.out).splitlines()
    if ran.code != 0 or len(lines) != 4:
        if closed := closed_place(path.absolute()):
            raise FilesClosed(closed)
        raise NotARepository(f"`{path}` is not in a git repository with a work tree.")
    return lines[0], lines[1], lines[2], lines[3]
