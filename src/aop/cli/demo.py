"""`aop demo`: one feature from a spec to a merged commit, in a throw-away repository, with a recorded agent."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from aop.adapters.agents.replay import ReplayStaff, ReplayWorker, read_transcript, shipped_transcript
from aop.adapters.git.folders import remove_folder
from aop.adapters.git.repository import open_repository
from aop.adapters.projects.starter import place_new_file, propose
from aop.adapters.sample_repository import SampleRepository, sample_files
from aop.cli.exits import Exit
from aop.cli.terminal import Terminal
from aop.core.errors import Fault, Json, ReplayDiverged
from aop.core.ids import FeatureId
from aop.kernel.calls import Envelope
from aop.kernel.documents import Status
from aop.supervisor.life import limits_of
from aop.wiring import App, Settings, build, build_supervision

FEATURE = FeatureId("volume_discount")
MESSAGE = "A tenth off from ten pieces of one article on"

WHAT_NEXT = """\
What to try next:
  aop demo --keep    the same, and the repository stays
  aop init           in a repository of yours: guesses its gates, shows them, asks
  aop call feature.init '{"feature_id": "my_feature"}'"""


class Merged(Struct, frozen=True, kw_only=True):
    """What the demo ends with, each fact read back from git or from the record."""

    status: str
    tree: str
    merge_commit: str
    gates: Mapping[str, str]
    notice: str
    history: str


class Stopped(Exception):
    """A tool said no where the story goes on only after a yes."""

    def __init__(self, error: Mapping[str, Json], evidence: Mapping[str, Json]) -> None:
        super().__init__(str(error["message"]))
        self.error = error
        self.evidence = evidence


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument("--keep", action="store_true", help="leave the repository for you to look around in")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Play the story; only a feature that is really merged is a success."""
    began = time.monotonic()
    environ = _environment(os.environ)
    try:
        with _folder(keep=arguments.keep) as folder:
            story = _Story(SampleRepository(folder / "shop", environ), environ, terminal, began)
            merged = story.play()
    except Stopped as stop:
        return terminal.refuse(stop.error, stop.evidence)
    seconds = round(time.monotonic() - began, 2)
    root = str(folder / "shop")
    if arguments.keep:
        terminal.say(merged.notice)
    else:
        terminal.say("The repository was removed; `aop demo --keep` leaves it for you to look around in.")
    if terminal.json:
        terminal.object(_as_json(merged, root, seconds))
    else:
        next_steps = _around_in(shlex.quote(root)) if arguments.keep else WHAT_NEXT
        terminal.text(f"\nDone in {seconds} s. `main` is now:\n\n{merged.history}\n{next_steps}")
    return Exit.OK


@contextmanager
def _folder(*, keep: bool) -> Iterator[Path]:
    # The real path, since that is what git and the tools show.
    folder = Path(tempfile.mkdtemp(prefix="aop-demo-")).resolve()
    try:
        yield folder
    finally:
        if not keep:
            remove_folder(folder)


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Put the running Python first, for its `python3` surely works; and name the demo, not a person, as approver."""
    path = os.pathsep.join([os.path.dirname(sys.executable), environ.get("PATH", os.defpath)])
    return {**environ, "PATH": path, "AOP_ACTOR": "demo"}


class _Story:
    """The acts of the demo, in their order."""

    def __init__(self, sample: SampleRepository, environ: Mapping[str, str], terminal: Terminal, began: float) -> None:
        self._sample = sample
        self._environ = environ
        self._terminal = terminal
        self._began = began

    def play(self) -> Merged:
        """Take the feature from its spec to `main`.

        Raises: Stopped.
        """
        self._make()
        app = build(self._sample.root, Settings.from_env(self._environ))
        try:
            self._drive(app)
            token = self._approve(app)
            answer = self._call(app, "feature.ready_to_merge", user_approval_token=token, commit_message=MESSAGE)
        finally:
            app.close()
        self._tell(f"merged into {answer['base_branch']}: {answer['merge_commit'][:12]}")
        return self._seen_in_git(answer)

    def _make(self) -> None:
        self._sample.make(sample_files(Path(__file__).with_name("demo_repository")))
        self._tell(f"a small shop, with a spec for `{FEATURE}`: {self._sample.root}")
        proposal = propose(open_repository(self._sample.root, self._environ), self._environ)
        for path, text in proposal.files.items():
            place_new_file(self._sample.root, path, text)
        self._sample.commit("Let AOP manage this repository")
        self._tell(f"aop init: found {proposal.language}, and tests to use as gates; committed")

    def _drive(self, app: App) -> None:
        staff = ReplayStaff({FEATURE: ReplayWorker(read_transcript(shipped_transcript(FEATURE)))})
        limits = limits_of(app.gateway.kernel.config().policy.supervisor)
        made = build_supervision(app, staff, limits, lambda _feature, line: self._tell(line))
        made.engine.start(made.lives.kinds())
        made.supervisor.submit([FEATURE])
        made.supervisor.go_on(until="settled", stopped=lambda: False)
        made.engine.close()
        standing = made.board.standings()[FEATURE]
        if standing.outcome.get("error"):
            raise Stopped(standing.outcome["error"], {})
        if standing.outcome.get("status") != Status.READY_TO_MERGE:
            raise ReplayDiverged(f"The recording does not get `{FEATURE}` through its gates here: it {standing.does}.")

    def _approve(self, app: App) -> str:
        status = self._call(app, "repo.status")
        self._tell("ready to merge. In real use you look at the diff and decide here: aop approve " + FEATURE)
        granted = self._call(app, "feature.approve", tree=status["tree"], base=status["base_head"])
        self._tell(f"the demo approves for you: tree {granted['tree'][:12]}, this base, one merge")
        return str(granted["token"])

    def _seen_in_git(self, answer: Mapping[str, Any]) -> Merged:
        """Read the merge back from the repository itself.

        Raises: Fault if it is not there.
        """
        repository = open_repository(self._sample.root, self._environ)
        head = repository.branch_head(answer["base_branch"])
        if head is None or head != answer["merge_commit"]:
            raise Fault(f"`{answer['base_branch']}` is at `{head}`, not at the merge that was reported.")
        feature = repository.tree_of(answer["commit"])
        if repository.tree_of(head) != feature:
            raise Fault("The merged tree is not the tree that was proven and approved.")
        return Merged(
            status=answer["status"],
            tree=feature,
            merge_commit=head,
            gates=answer["gates"],
            notice=answer["notice"],
            history=self._sample.history(answer["base_branch"]),
        )

    def _call(self, app: App, tool: str, **more: Json) -> Any:
        answer: Envelope = app.gateway.call(app.person, tool, {"feature_id": FEATURE, **more})
        if answer.error is not None:
            raise Stopped(answer.error, answer.evidence)
        return answer.data

    def _tell(self, line: str) -> None:
        self._terminal.say(f"{time.monotonic() - self._began:6.2f} s  {line}")


def _as_json(merged: Merged, root: str, seconds: float) -> dict[str, Json]:
    feature: dict[str, Json] = {
        "feature_id": FEATURE,
        "status": merged.status,
        "tree": merged.tree,
        "merge_commit": merged.merge_commit,
        "gates": merged.gates,
    }
    return {"ok": True, "features": [feature], "repository": root, "seconds": seconds}


def _around_in(root: str) -> str:
    return f"""\
Where to look:
  {root}/agentic/features/{FEATURE}   state, plan, decisions, and the logs of all gates
  {root}/.worktrees/{FEATURE}         the feature's own worktree
What to try next:
  aop status --repo {root}
  aop call --repo {root} evidence.latest '{{"feature_id": "{FEATURE}"}}'
  git -C {root} show --stat main"""
