"""`aop demo`: five features at once, from specs to merged commits, in a throw-away repository, with recorded agents."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from aop.adapters.agents.workers.replay import ReplayStaff, ReplayWorker, read_transcript, shipped_transcript
from aop.adapters.files.own_folders import remove_folder
from aop.adapters.git.repository import Repository, open_repository
from aop.adapters.projects.sample_repository import SampleRepository, sample_files
from aop.adapters.projects.starter import place_new_file, propose
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import call_tool
from aop.cli.shell.terminal import CallRefused, Terminal
from aop.core.errors import Fault, Json, ReplayDiverged
from aop.core.ids import CommitId, FeatureId
from aop.kernel.record.documents.features import Status
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.supervisor.feature_run import limits_of
from aop.wiring.build import App, Settings, build, build_supervision

FEATURES: Mapping[FeatureId, str] = {
    FeatureId("gift_wrap"): "A fee for wrapping an order as a gift",
    FeatureId("order_number"): "Order numbers that begin with the year",
    FeatureId("receipt"): "Carts as receipts",
    FeatureId("stock"): "A stock that counts pieces",
    FeatureId("volume_discount"): "A tenth off from ten pieces of one article on",
}
"""In the order in which they are merged, with the messages of their commits."""
QUESTION = "What does it cost to wrap an order?"
ANSWER = "150 cents for each order."
LONGEST_WAIT_SECONDS = 60.0

WHAT_NEXT = """\
What to try next:
  aop demo --keep    the same, and the repository stays
  aop init           in a repository of yours: guesses its gates, shows them, asks
  aop call feature.init '{"feature_id": "my_feature"}'"""


class MergedFeature(Struct, frozen=True, kw_only=True):
    """One feature as it ends, each fact read back from git or from the record."""

    feature_id: FeatureId
    status: str
    tree: str
    merge_commit: str
    gates: Mapping[str, str]


class DemoEnding(Struct, frozen=True, kw_only=True):
    """What the demo ends with."""

    features: tuple[MergedFeature, ...]
    notice: str
    history: str


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument(
        "what", nargs="?", choices=["tickets"], help="a ticket that becomes a merge request and its review, instead"
    )
    parser.add_argument("--keep", action="store_true", help="leave the repository for you to look around in")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Play the story; only features that are really merged are a success."""
    if arguments.what:
        from aop.cli.begin import demo_tickets

        with _folder(keep=arguments.keep) as folder:
            return demo_tickets.play(arguments, terminal, folder)
    began = time.monotonic()
    environ = _environment(os.environ)
    with _folder(keep=arguments.keep) as folder:
        story = _Story(SampleRepository(folder / "shop", environ), environ, terminal, began)
        ending = story.play()
    seconds = round(time.monotonic() - began, 2)
    root = str(folder / "shop")
    if arguments.keep:
        terminal.say(ending.notice)
    else:
        terminal.say("The repository was removed; `aop demo --keep` leaves it for you to look around in.")
    if terminal.json:
        terminal.object(_as_json(ending, root, seconds))
    else:
        next_steps = _around_in(shlex.quote(root)) if arguments.keep else WHAT_NEXT
        terminal.text(f"\nDone in {seconds} s. `main` is now:\n\n{ending.history}\n{next_steps}")
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
        self._telling = threading.Lock()

    def play(self) -> DemoEnding:
        """Take all features from their specs to `main`.

        Raises: CallRefused.
        """
        self._make()
        with build(self._sample.root, Settings.from_env(self._environ)) as app:
            self._drive(app)
            branch = app.gateway.kernel.config().policy.worktree.base_branch
            before = app.repository.branches.head(branch)
            answers = [self._merge(app, feature_id, message) for feature_id, message in FEATURES.items()]
            return self._seen_in_git(app.repository, branch, before, answers)

    def _make(self) -> None:
        self._sample.make(sample_files(Path(__file__).with_name("demo_repository")))
        self._tell(f"a small shop, with {len(FEATURES)} specs: {self._sample.root}")
        proposal = propose(open_repository(self._sample.root, self._environ), self._environ)
        for path, text in proposal.files.items():
            place_new_file(self._sample.root, path, text)
        self._sample.commit("Let AOP manage this repository")
        self._tell(f"aop init: found {proposal.language}, and tests to use as gates; committed")

    def _drive(self, app: App) -> None:
        """Bring all features to `ready_to_merge`; the question of one of them is answered meanwhile."""
        staff = ReplayStaff({name: self._worker(app, name) for name in FEATURES})
        limits = limits_of(app.gateway.kernel.config().policy.supervisor)
        made = build_supervision(app, staff, limits, lambda name, line: self._tell(f"{name}: {line}"))
        made.engine.start(made.feature_runs.kinds())
        made.supervisor.submit(list(FEATURES))
        made.supervisor.go_on(until="settled", stopped=lambda: False)
        if self._answer(app):
            made.supervisor.go_on(until="settled", stopped=lambda: False)
        made.engine.close()
        for name, entry in sorted(made.board.entries().items()):
            if entry.outcome.get("error"):
                raise CallRefused(entry.outcome["error"], {})
            if entry.outcome.get("status") != Status.READY_TO_MERGE:
                raise ReplayDiverged(f"The recording does not get `{name}` through its gates here: it {entry.does}.")

    def _worker(self, app: App, feature_id: FeatureId) -> ReplayWorker:
        def await_plan(other: FeatureId) -> None:
            deadline = time.monotonic() + LONGEST_WAIT_SECONDS
            while time.monotonic() < deadline:
                with app.record.read() as view:
                    if view.get(AcceptedPlan, other) is not None:
                        return
                app.gateway.kernel.clock.pause(0.02)
            raise ReplayDiverged(f"`{feature_id}` was planned after `{other}`, which has no plan here.")

        return ReplayWorker(read_transcript(shipped_transcript(feature_id)), await_plan)

    def _answer(self, app: App) -> bool:
        """Answer the question that belongs to the story; tell whether there was one."""
        listed = self._called(app, "inbox.list")["questions"]
        found = [each for each in listed if each["text"] == QUESTION]
        for each in found:
            self._tell(f"the demo answers {each['question_id']} for you: aop answer {each['question_id']} '{ANSWER}'")
            which = {"feature_id": each["feature_id"], "question_id": each["question_id"]}
            self._called(app, "inbox.answer", answer=ANSWER, **which)
        return bool(found)

    def _merge(self, app: App, feature_id: FeatureId, message: str) -> Mapping[str, Any]:
        token = self._approve(app, feature_id)
        given = {"user_approval_token": token, "commit_message": message}
        answer: Mapping[str, Any] = self._called(app, "feature.ready_to_merge", feature_id=feature_id, **given)
        self._tell(f"{feature_id}: merged into {answer['base_branch']}: {answer['merge_commit'][:12]}")
        return answer

    def _approve(self, app: App, feature_id: FeatureId) -> str:
        status = self._called(app, "repo.status", feature_id=feature_id)
        self._tell(f"{feature_id}: ready to merge. In real use you look and decide here: aop approve {feature_id}")
        seen = {"tree": status["tree"], "base": status["base_head"]}
        granted = self._called(app, "feature.approve", feature_id=feature_id, **seen)
        self._tell(f"{feature_id}: the demo approves for you: tree {granted['tree'][:12]}, this base, one merge")
        return str(granted["token"])

    def _seen_in_git(
        self, repository: Repository, branch: str, before: CommitId | None, answers: Sequence[Mapping[str, Any]]
    ) -> DemoEnding:
        """Read the merges back from the repository itself.

        Raises: Fault if they are not there.
        """
        last, head = answers[-1]["merge_commit"], repository.branches.head(branch)
        if before is None or head != last:
            raise Fault(f"`{branch}` is at `{head}`, not at the merge that was reported last.")
        if not all(repository.objects.is_ancestor(answer["merge_commit"], last) for answer in answers):
            raise Fault(f"`{branch}` does not hold every merge that was reported.")
        features = tuple(
            MergedFeature(
                feature_id=answer["feature_id"],
                status=answer["status"],
                tree=repository.objects.tree_of(answer["commit"]),
                merge_commit=answer["merge_commit"],
                gates=answer["gates"],
            )
            for answer in answers
        )
        # Each merge told how to follow it; a person who follows once wants to know how to follow all of them.
        notice = repository.worktrees.checkout_behind(branch, old=before, new=last) or ""
        return DemoEnding(features=features, notice=notice, history=self._sample.history(branch))

    def _called(self, app: App, tool: str, **arguments: Json) -> Any:
        return call_tool(app, tool, arguments).data

    def _tell(self, line: str) -> None:
        # Five features tell at once.
        with self._telling:
            self._terminal.say(f"{time.monotonic() - self._began:6.2f} s  {line}")


def _as_json(ending: DemoEnding, root: str, seconds: float) -> dict[str, Json]:
    features: list[Json] = [msgspec.to_builtins(feature) for feature in ending.features]
    return {"ok": True, "features": features, "repository": root, "seconds": seconds}


def _around_in(root: str) -> str:
    feature_id = list(FEATURES)[-1]
    return f"""\
Where to look:
  {root}/agentic/features/{feature_id}   state, plan, decisions, and the logs of all gates
  {root}/.worktrees/{feature_id}         the feature's own worktree
What to try next:
  aop status --repo {root}
  aop call --repo {root} evidence.latest '{{"feature_id": "{feature_id}"}}'
  git -C {root} show --stat main"""
