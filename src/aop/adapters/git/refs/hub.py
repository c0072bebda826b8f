"""Hub: the git repository through which commits reach other machines.

It is any git URL. AOP writes nothing there but refs below `refs/aop/`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from aop.adapters.git.process.output import object_id
from aop.adapters.git.process.program import ANY_CODE, GitDir, GitProgram, GitResult
from aop.adapters.git.refs.remotes import FETCH_SECONDS, ONLY_THIS, network_settings, reach
from aop.core.errors import Fault, HubUnavailable
from aop.core.ids import CommitId
from aop.kernel.features.tree.hub_refs import GATES

HUB = "AOP_HUB"
_SCHEMES = ("file", "https", "ssh")


def hub_address(environ: Mapping[str, str]) -> str:
    """Return the address of the hub; empty if none is set. Raises: HubUnavailable for one that cannot be used."""
    url = environ.get(HUB, "")
    return checked_address(url, HUB) if url else ""


def checked_address(url: str, named: str) -> str:
    """Return an address as git takes it. Raises: HubUnavailable for one that cannot be used, by what names it."""
    if os.path.isabs(url):
        return f"file://{url}"
    is_short = "://" not in url and "@" in url.partition(":")[0] and not url.startswith("-")
    if not is_short and url.partition("://")[0] not in _SCHEMES:
        raise HubUnavailable(f"{named} is not an address of git: it begins with file://, https:// or ssh://.")
    if not is_short and urlsplit(url).password:
        # Orders name the hub, and are rows of a database.
        raise HubUnavailable(f"{named} holds a password.", hint="Leave it to git's credential helper, or use ssh.")
    return url


def default_branch(url: str, environ: Mapping[str, str], folder: Path) -> str:
    """Return the branch that a clone of a hub checks out. Raises: HubUnavailable if it cannot be read, or has none."""
    options, own = network_settings(environ)
    words = [*options, "ls-remote", "--symref", "--", url, "HEAD"]
    try:
        ran = GitProgram(environ).run(words, cwd=folder, environment=own, seconds=FETCH_SECONDS)
    except Fault as fault:
        raise HubUnavailable(f"The hub cannot be read: {fault}") from fault
    if ran.code:
        said = ran.err.replace(url, "the hub").strip()
        raise HubUnavailable(f"The hub cannot be read: {said[:500] or f'git ended with {ran.code}'}")
    for line in ran.out.decode(errors="replace").splitlines():
        if line.startswith("ref: refs/heads/"):
            return line.removeprefix("ref: refs/heads/").partition("\t")[0]
    raise HubUnavailable("The hub has no branch to begin with.", hint="Push the base branch there: git push URL main")


class Hub:
    """One hub, as seen from one repository."""

    def __init__(self, git: GitDir, environ: Mapping[str, str], url: str, flush_objects: Callable[[], None]) -> None:
        self._git = git
        self._environ = environ
        self.url = url
        self._flush_objects = flush_objects

    def push(self, commit: CommitId, name: str) -> str:
        """Have a commit at the hub, under a ref of that name; return the ref. Raises: HubUnavailable."""
        ref = f"{GATES}/{name}"
        settings = [word for setting in ONLY_THIS for word in ("-c", setting)]
        words = ("push", "--quiet", "--no-follow-tags", "--no-signed", "--recurse-submodules=no", "--no-verify")
        self._reach("be written", *settings, *words, "--", self.url, f"+{object_id(commit)}:{ref}")
        return ref

    def fetch(self, commit: CommitId, ref: str) -> None:
        """Have a commit here that the hub has: by its ref, or by its id where that was forced elsewhere.

        Raises: HubUnavailable if the hub is out of reach or has no such commit.
        """
        if self.has(commit):
            return
        words = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--")
        # Under a name of its own, so that no run takes it from another one.
        own = f"refs/aop/ordered/{object_id(commit)}"
        try:
            self._reach("be read", *words, self.url, f"+{ref}:{own}")
        except HubUnavailable:
            self._reach("be read", *words, self.url, f"+{commit}:{own}")
        if not self.has(commit):
            self._reach("be read", *words, self.url, f"+{commit}:{own}")
        self._flush_objects()

    def has(self, commit: CommitId) -> bool:
        """Tell whether a commit is here."""
        return self._git.run("cat-file", "-e", f"{object_id(commit)}^{{commit}}", fine=ANY_CODE).code == 0

    def _reach(self, what: str, *words: str) -> GitResult:
        ran = self._run(what, *words)
        if ran.code:
            raise self._unavailable(what, ran)
        return ran

    def _run(self, what: str, *words: str) -> GitResult:
        """Run a git that reaches the hub, with any exit code. Raises: HubUnavailable if it does not end."""
        try:
            return reach(self._git, self._environ, *words)
        except Fault as fault:
            raise HubUnavailable(f"The hub cannot {what}: {fault}") from fault

    def _unavailable(self, what: str, ran: GitResult) -> HubUnavailable:
        said = self._git.clean_message(ran.err.replace(self.url, "the hub"))
        return HubUnavailable(f"The hub cannot {what}: {said or f'git ended with {ran.code}'}")
