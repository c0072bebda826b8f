"""Remotes: the one place where AOP's git uses the network, and only to fetch."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from aop.adapters.git.process.program import ANY_CODE, GitDir
from aop.core.errors import Fault
from aop.core.ids import CommitId, ObjectId
from aop.kernel.ports.remotes import RemoteBranch

FETCH_SECONDS = 60.0
_ALLOWED = (
    *(f"protocol.{name}.allow=always" for name in ("file", "https", "ssh")),
    "core.sshCommand=ssh -oBatchMode=yes",
)
"""Settings that are off elsewhere; ssh must not ask for a password."""


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

    def _fetch(self, remote: str, refspec: str) -> str:
        """Fetch; return why it failed, or an empty text."""
        home = self._environ.get("HOME", "")
        own = {name: self._environ[name] for name in ("HOME", "SSH_AUTH_SOCK") if name in self._environ}
        own |= {"GIT_CONFIG_GLOBAL": os.path.join(home, ".gitconfig")} if home else {}
        options = [word for setting in _ALLOWED for word in ("-c", setting)]
        words = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
        try:
            ran = self._git.run(
                *options, *words, "--", remote, refspec, environment=own, fine=ANY_CODE, seconds=FETCH_SECONDS
            )
        except Fault as fault:
            return str(fault)
        if ran.code == 0:
            self._flush_objects()
            return ""
        # The URL may be a path of this machine, or hold a password.
        url = self._output_of("config", "--get", f"remote.{remote}.url") or remote
        return self._git.clean_message(ran.err.replace(url, remote)) or f"`git fetch` ended with {ran.code}."

    def _is_ancestor(self, old: CommitId, new: CommitId) -> bool:
        return self._git.run("merge-base", "--is-ancestor", old, new, fine=(0, 1)).code == 0

    def _output_of(self, *words: str) -> str:
        return self._git.run(*words, fine=ANY_CODE).out.decode(errors="replace").strip()
