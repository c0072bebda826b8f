"""Scan of a repository: its base branch and the few files that guesses depend on."""

from __future__ import annotations

from aop.adapters.git.repository import Repository
from aop.adapters.projects.guesses import Language, Project
from aop.adapters.projects.languages import golang, gradle, maven, node, python, rust
from aop.adapters.projects.trials import test_commands
from aop.core.errors import BaseBranchUnusable
from aop.core.ids import TreeId
from aop.kernel.ports.git import FileMode, GitBranches, GitObjects

_NODE_SUFFIXES = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".vue", ".svelte")
LANGUAGES: tuple[Language, ...] = (
    Language(name="Python", profile="python", suffixes=(".py",), rules=python),
    Language(name="Node", profile="node", suffixes=_NODE_SUFFIXES, rules=node),
    Language(name="Java (Maven)", profile="maven", suffixes=(".java", ".kt", ".scala"), rules=maven),
    Language(name="Java (Gradle)", profile="gradle", suffixes=(".java", ".kt", ".groovy"), rules=gradle),
    Language(name="Rust", profile="rust", suffixes=(".rs",), rules=rust),
    Language(name="Go", profile="go", suffixes=(".go",), rules=golang),
)

MOST_TEXTS = 40
LARGEST_TEXT = 256 * 1024
ATTRIBUTES = ".gitattributes"
USUAL_BASES = ("main", "master")


def read_project(objects: GitObjects, tree: TreeId) -> Project:
    """Read the names of all files of a tree, and the few texts that guesses depend on."""
    every = objects.entries(tree)
    entries = {entry.path: entry for entry in every if entry.mode in (FileMode.FILE, FileMode.EXECUTABLE)}
    chosen = sorted(filter(_is_read, entries), key=_rank)[:MOST_TEXTS]
    small = [path for path in chosen if objects.blob_size(entries[path].oid) <= LARGEST_TEXT]
    texts = {path: objects.blob(entries[path].oid).decode("utf-8", "replace") for path in small}
    submodules = tuple(entry.path for entry in every if entry.mode is FileMode.GITLINK)
    return Project(paths=frozenset(entries), texts=texts, submodules=submodules)


def _is_read(path: str) -> bool:
    """Tell whether a language reads a file, for a project in any folder above it."""
    names = path.split("/")
    tails = ["/".join(names[depth:]) for depth in range(len(names))]
    if path == ATTRIBUTES:
        return True
    by_language = any(language.rules.reads(tail) for language in LANGUAGES for tail in tails)
    return by_language or any(map(test_commands.reads, tails))


def _rank(path: str) -> tuple[bool, int, str]:
    """Return the sort key: manifests and files that name test commands first, then files near the root."""
    name = path.rpartition("/")[2]
    is_manifest = any(language.rules.marks(name) for language in LANGUAGES)
    marked = path == ATTRIBUTES or test_commands.reads(path) or is_manifest
    return (not marked, path.count("/"), path)


def checked_out_branch(repository: Repository) -> str | None:
    """Return the branch of the user's checkout, even one without a commit; None if HEAD is detached."""
    out = repository.git.run("symbolic-ref", "--quiet", "HEAD", fine=(0, 1)).out
    ref = out.decode("utf-8", "replace").strip()
    return ref.removeprefix("refs/heads/") if ref.startswith("refs/heads/") else None


def guess_base_branch(branches: GitBranches, checked_out: str | None) -> str:
    """Return main or master, the checked out one first; else what is checked out. Raises: BaseBranchUnusable."""
    candidates = sorted(USUAL_BASES, key=lambda branch: branch != checked_out)
    if checked_out is not None:
        candidates.append(checked_out)
    for branch in candidates:
        if branches.head(branch):
            return branch
    if checked_out is None:
        raise BaseBranchUnusable(
            "The checkout is on no branch, and neither `main` nor `master` exists.",
            hint="Check out the branch that features are merged into, then run: aop init",
        )
    raise BaseBranchUnusable(
        f"The branch `{checked_out}` has no commit yet, so no feature can start from it.",
        hint="Make a first commit, then run: aop init",
        base_branch=checked_out,
    )
