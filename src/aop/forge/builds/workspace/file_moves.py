"""File moves: `rm` and `mv`, the commands by which a build loses a file.

They run like every command, and the tree that they leave is judged like a write; here their words are judged before,
because without a sandbox nothing else keeps them in the worktree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aop.core.errors import CommandNotAllowed, FileNotFound, InvalidArguments
from aop.core.ids import TreeId
from aop.core.paths.names import Area, exact_path
from aop.core.text.counts import list_some
from aop.kernel.features.trees import is_free_in
from aop.kernel.ports.git import FileMode, GitObjects

OPTIONS: Mapping[str, frozenset[str]] = {"rm": frozenset({"-r", "-f", "-rf", "-fr"}), "mv": frozenset({"-f", "-n"})}
"""The programs, each with the options that it may have."""


def refuse_strange_move(objects: GitObjects, tree: TreeId, argv: Sequence[str], links: Sequence[str] = ()) -> None:
    """Refuse words of `rm` and `mv` that do not name files of the build; `links` lead into the user's checkout.

    Raises: CommandNotAllowed, InvalidArguments, PathOutOfBounds, FileNotFound.
    """
    program, words = argv[0], argv[1:]
    if program not in OPTIONS:
        return
    strange = [word for word in words if word.startswith("-") and word not in OPTIONS[program]]
    if strange:
        known = list_some(sorted(OPTIONS[program]), 5)
        raise CommandNotAllowed(f"`{program}` has no option `{strange[0]}` here, only {known}.", commands=[program])
    paths = [exact_path(word.removesuffix("/")) for word in words if not word.startswith("-")]
    moved, target = (paths[:-1], paths[-1:]) if program == "mv" else (paths, [])
    if not moved:
        raise InvalidArguments(f"`{program}` names no file.")
    for path in moved:
        # What lies below a link is not in the tree, so no link leads out of the worktree.
        if objects.entry(tree, path) is None:
            raise FileNotFound(f"There is no file `{path}`.", path=path)
    for path in target:
        entry = objects.entry(tree, path)
        is_place = is_free_in(objects, tree, path) if entry is None else entry.mode is not FileMode.SYMLINK
        if not is_place or any(Area(link).covers(path, fold=True) for link in links):
            raise InvalidArguments(f"`{path}` is a link, or lies below a file or a link.")
