"""Reader of policy.yaml, gates.yaml and agents.yaml on the base branch (C-56).

AOP's defaults fill the gaps. A feature's own tree is never a source; an uncommitted file is, with a warning.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from aop.adapters.config.locations import FOLDER, NAMES, bundled_content
from aop.adapters.files.repository_files import RepositoryFiles
from aop.core.errors import BaseBranchUnreadable, Fault, FileNotFound, InvalidConfiguration
from aop.core.ids import CommitId, ObjectId, TreeId
from aop.core.text.yaml import MAX_YAML_BYTES
from aop.kernel.config.in_force import Config
from aop.kernel.config.loader import ConfigText, ConfigTexts, base_branch_named_in, load_config
from aop.kernel.ports.git import FileMode, TreeEntry

if TYPE_CHECKING:
    from aop.kernel.contracts.config_keys import ConfigKey

Heads: TypeAlias = dict[str, CommitId | None]
"""The commit of each branch that was looked at, None for one that does not exist."""
HeadOf: TypeAlias = Callable[[str], CommitId | None]
"""Returns the commit of a local branch, or None: see `aop.kernel.ports.git.GitBranches.head`."""


class Trees(Protocol):
    """The part of `aop.kernel.ports.git.GitObjects` that is read here."""

    def tree_of(self, commit: CommitId) -> TreeId:
        """Return the tree of a commit."""

    def entry(self, tree: TreeId, path: str) -> TreeEntry | None:
        """Return the entry of a tree at a path, or None."""

    def blob(self, oid: ObjectId) -> bytes:
        """Return the bytes of a blob."""


def read_config(head_of: HeadOf, trees: Trees, root: Path, *, base_branch: str | None = None) -> Config:
    """Return the configuration of a repository.

    Raises: InvalidConfiguration, InvalidWorkspaceImplementation, BaseBranchUnreadable.
    """
    return read_with_heads(head_of, trees, root, base_branch=base_branch)[0]


def read_with_heads(
    head_of: HeadOf, trees: Trees, root: Path, *, base_branch: str | None = None
) -> tuple[Config, Heads]:
    """Return the configuration, and the heads of the branches that it depends on. Raises: as `read_config`."""
    sources = _Sources(head_of, trees, RepositoryFiles(root))
    texts, named = _texts_in_force(sources, base_branch)
    return load_config(texts, bundled_texts(), base_branch=named), sources.heads


def read_config_keys(head_of: HeadOf, trees: Trees, root: Path) -> tuple[ConfigKey, ...]:
    """Return every key of the configuration, each with its value and source. Raises: as `read_config`."""
    # The schemas take longer than the configuration itself.
    from aop.kernel.contracts.config_keys import config_keys

    texts, named = _texts_in_force(_Sources(head_of, trees, RepositoryFiles(root)), None)
    config = load_config(texts, bundled_texts(), base_branch=named)
    return config_keys(config, texts, bundled_texts())


def _texts_in_force(sources: _Sources, base_branch: str | None) -> tuple[ConfigTexts, str]:
    """Return the files that count, and the base branch."""
    branch = sources.branch_named_in_checkout() or base_branch or sources.usual_branch
    texts = sources.texts(branch)
    named = base_branch_named_in(texts.policy) or base_branch or sources.usual_branch
    if named != branch:
        texts = sources.texts(named)
        other = base_branch_named_in(texts.policy) or base_branch or sources.usual_branch
        if other != named:
            raise InvalidConfiguration(
                f"The policy on `{branch}` names the base branch `{named}`, and the policy there names `{other}`.",
                file=texts.policy.source if texts.policy else f"{named}:{FOLDER}/policy.yaml",
                line=1,
                key="worktree.base_branch",
            )
    return texts, named


@cache
def bundled_texts() -> ConfigTexts:
    """Return the defaults that AOP ships."""
    policy, gates, agents = (ConfigText(source=f"bundled {name}.yaml", content=bundled_content(name)) for name in NAMES)
    return ConfigTexts(policy=policy, gates=gates, agents=agents)


class _Sources:
    """The places where configuration files are searched."""

    def __init__(self, head_of: HeadOf, trees: Trees, files: RepositoryFiles) -> None:
        self._head_of = head_of
        self._trees = trees
        self._files = files
        self.heads: Heads = {}

    def head_of(self, branch: str) -> CommitId | None:
        """Return the commit of a branch; git is asked once, so that all is read from one moment."""
        if branch not in self.heads:
            self.heads[branch] = self._head_of(branch)
        return self.heads[branch]

    @cached_property
    def usual_branch(self) -> str:
        """Return the base branch of a repository that names none."""
        return "main" if self.head_of("main") or not self.head_of("master") else "master"

    def branch_named_in_checkout(self) -> str | None:
        """Return the base branch that the policy in the checkout names; it may be overruled later."""
        try:
            return base_branch_named_in(self._loose_text(f"{FOLDER}/policy.yaml"))
        except InvalidConfiguration:
            return None

    def texts(self, branch: str) -> ConfigTexts:
        """Return the files of a branch, or those of the checkout where it has none."""
        try:
            return self._texts(branch)
        except Fault as fault:
            raise BaseBranchUnreadable(f"The files of `{branch}` cannot be read: {fault}", branch=branch) from fault

    def _texts(self, branch: str) -> ConfigTexts:
        head = self.head_of(branch)
        tree = self._trees.tree_of(head) if head else None
        warnings: list[str] = []
        files: list[ConfigText | None] = []
        for path in (f"{FOLDER}/{name}.yaml" for name in NAMES):
            committed, loose = self._committed_text(branch, tree, path), self._loose_text(path)
            files.append(committed or loose)
            if loose and not committed:
                warnings.append(f"`{path}` is not committed on `{branch}`: the checkout's file is used.")
            elif loose and committed and loose.content != committed.content:
                warnings.append(f"`{path}` in the checkout differs from the one on `{branch}`, which is used.")
        policy, gates, agents = files
        return ConfigTexts(policy=policy, gates=gates, agents=agents, warnings=tuple(warnings))

    def _committed_text(self, branch: str, tree: TreeId | None, path: str) -> ConfigText | None:
        entry = self._trees.entry(tree, path) if tree else None
        if entry is None:
            return None
        source = f"{branch}:{path}"
        if entry.mode not in (FileMode.FILE, FileMode.EXECUTABLE):
            raise InvalidConfiguration(f"`{source}` is not a plain file.", file=source, line=1, key="")
        return ConfigText(source=source, content=self._trees.blob(entry.oid))

    def _loose_text(self, path: str) -> ConfigText | None:
        source = f"checkout:{path}"
        try:
            content = self._files.read(path, limit=MAX_YAML_BYTES)
        except FileNotFound as refusal:
            raise InvalidConfiguration(refusal.message, file=source, line=1, key="") from refusal
        return None if content is None else ConfigText(source=source, content=content)
