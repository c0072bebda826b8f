"""Remotes: with the hub, the one place where AOP's git uses the network.

It fetches; and it pushes the branches of builds, by an allow-list of its own: no caller and no setting gets past it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

from aop.adapters.git.process.output import object_id
from aop.adapters.git.process.program import ANY_CODE, GitDir, GitResult
from aop.core.errors import Fault
from aop.core.ids import CommitId, ObjectId
from aop.kernel.ports.remotes import Publication, RemoteBranch, require_build_branch

FETCH_SECONDS = 60.0
_ALLOWED = (
    *(f"protocol.{name}.allow=always" for name in ("file", "https", "ssh")),
    "core.sshCommand=ssh -oBatchMode=yes",
)
"""Settings that are off elsewhere; ssh must not ask for a password."""
ONLY_THIS = ("push.followTags=false", "push.gpgSign=false", "push.recurseSubmodules=no", "push.default=nothing")
"""Settings with which a push does nothing besides what its refspec says."""


class GitRemotes:
    """Implements `aop.kernel.ports.remotes.Remotes`, with the credentials of the user's git."""

    def __init__(self, git: GitDir, environ: Mapping[str, str], *, flush_objects: Callable[[], None]) -> None:
        self._git = git
        self._environ = environ
        self._flush_objects = flush_objects

    def latest(self, branch: str, head: CommitId) -> RemoteBranch:
        remote = self._output_of("config", "--get", f"branch.{branch}.remote") or self._origin()
        if remote in ("", "."):
            return RemoteBranch(state="no_remote")
        theirs = self._output_of("config", "--get", f"branch.{branch}.merge") or f"refs/heads/{branch}"
        ours = f"refs/aop/fetched/{branch}"
        problem = self._fetch(remote, f"+{theirs}:{ours}")
        if problem:
            return RemoteBranch(state="unreachable", remote=remote, problem=problem)
        commit = CommitId(ObjectId(self._output_of("rev-parse", "--verify", f"{ours}^{{commit}}")))
        if commit == head:
            return RemoteBranch(state="same", remote=remote, commit=commit)
        if self._is_ancestor(head, commit):
            return RemoteBranch(state="newer", remote=remote, commit=commit)
        is_older = self._is_ancestor(commit, head)
        return RemoteBranch(state="older" if is_older else "diverged", remote=remote, commit=commit)

    def _origin(self) -> str:
        return "origin" if "origin" in self._output_of("remote").splitlines() else ""

    def default_branch(self) -> str:
        remote = self._origin()
        named = self._output_of("symbolic-ref", "--quiet", f"refs/remotes/{remote}/HEAD") if remote else ""
        return named.removeprefix(f"refs/remotes/{remote}/")

    def publish(self, branch: str, commit: CommitId, *, never: Collection[str] = ()) -> Publication:
        require_build_branch(branch, {*never, self.default_branch()})
        remote = self._origin()
        if not remote:
            return Publication(state="no_remote")
        for url in self._output_of("remote", "get-url", "--push", "--all", remote).splitlines():
            try:
                listed = self._reach("ls-remote", "--symref", "--", url, "HEAD", "refs/heads/*")
            except Fault as fault:
                return Publication(state="unreachable", remote=remote, problem=str(fault))
            if listed.code:
                return Publication(state="unreachable", remote=remote, problem=self._problem(listed, remote, url))
            heads = listed.out.decode(errors="replace").splitlines()
            if not any("refs/heads/" in line and not line.startswith("ref:") for line in heads):
                # The first branch of an empty repository becomes its default branch at most hosts.
                problem = f"The remote `{remote}` has no branch yet; push your default branch first."
                return Publication(state="empty_remote", remote=remote, problem=problem)
            require_build_branch(branch, _symbolic_heads(heads))
        return self._push(remote, commit, f"refs/heads/{branch}")

    def _push(self, remote: str, commit: CommitId, ref: str) -> Publication:
        """Push one commit to one ref; what the user's git would push besides is switched off."""
        settings = [word for setting in (f"remote.{remote}.mirror=false", *ONLY_THIS) for word in ("-c", setting)]
        words = ("push", "--quiet", "--no-follow-tags", "--no-signed", "--recurse-submodules=no", "--no-force")
        try:
            ran = self._reach(*settings, *words, "--", remote, f"{object_id(commit)}:{ref}")
        except Fault as fault:
            return Publication(state="unreachable", remote=remote, problem=str(fault))
        if ran.code == 0:
            return Publication(state="pushed", remote=remote)
        state: Literal["rejected", "unreachable"] = "rejected" if "rejected]" in ran.err else "unreachable"
        url = self._output_of("remote", "get-url", "--push", remote)
        return Publication(state=state, remote=remote, problem=self._problem(ran, remote, url))

    def _fetch(self, remote: str, refspec: str) -> str:
        """Fetch; return why it failed, or an empty text."""
        words = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
        try:
            ran = self._reach(*words, "--", remote, refspec)
        except Fault as fault:
            return str(fault)
        if ran.code == 0:
            self._flush_objects()
            return ""
        url = self._output_of("config", "--get", f"remote.{remote}.url") or remote
        return self._problem(ran, remote, url)

    def _reach(self, *words: str) -> GitResult:
        return reach(self._git, self._environ, *words)

    def _problem(self, ran: GitResult, remote: str, url: str) -> str:
        # The URL may be a path of this machine, or hold a password.
        return self._git.clean_message(ran.err.replace(url, remote)) or f"Git ended with {ran.code}."

    def _is_ancestor(self, old: CommitId, new: CommitId) -> bool:
        return self._git.run("merge-base", "--is-ancestor", old, new, fine=(0, 1)).code == 0

    def _output_of(self, *words: str) -> str:
        return self._git.run(*words, fine=ANY_CODE).out.decode(errors="replace").strip()


def reach(git: GitDir, environ: Mapping[str, str], *words: str) -> GitResult:
    """Run a git that may use the network, with the user's credentials. Raises: Fault after some time."""
    options, own = network_settings(environ)
    return git.run(*options, *words, environment=own, fine=ANY_CODE, seconds=FETCH_SECONDS)


def network_settings(environ: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return the options and variables of a git that may use the network, with the user's credentials."""
    home = environ.get("HOME", "")
    own = {name: environ[name] for name in ("HOME", "SSH_AUTH_SOCK") if name in environ}
    own |= {"GIT_CONFIG_GLOBAL": os.path.join(home, ".gitconfig")} if home else {}
    return [word for setting in _ALLOWED for word in ("-c", setting)], own


def _symbolic_heads(lines: Sequence[str]) -> set[str]:
    """Return the branches that HEAD of a remote names, as `git ls-remote --symref` lists them."""
    named = (line.removeprefix("ref: ").partition("\t")[0] for line in lines if line.startswith("ref: "))
    return {each.removeprefix("refs/heads/") for each in named}
