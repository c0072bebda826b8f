"""`aop demo`: five features from specs to merged commits, with recorded agents."""

from __future__ import annotations

import argparse
import os
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from aop.adapters.agents.workers.replay import ReplayStaff, ReplayWorker, read_transcript, shipped_transcript
from aop.adapters.config.locations import FOLDER
from aop.adapters.files.own_folders import remove_folder
from aop.adapters.git.repository import Repository, open_repository
from aop.adapters.projects.placement import place_new_files
from aop.adapters.projects.sample_repository import SampleRepository, sample_environment, sample_files
from aop.adapters.projects.starter import propose
from aop.cli.shell.repository import call_tool
from aop.cli.shell.terminal import CallRefused, Terminal
from aop.core.errors import Fault, InvalidCliArgs, Json, ReplayDiverged
from aop.core.ids import CommitId, FeatureId
from aop.kernel.record.documents.features import Status
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.supervisor.feature_run import limits_of
from aop.supervisor.workers import Worker
from aop.wiring.build import App, Settings, build
from aop.wiring.supervision import Supervision, build_supervision

FEATURES: Mapping[FeatureId, str] = {
    FeatureId("gift_wrap"): "A fee for wrapping an order as a gift",
    FeatureId("order_number"): "Order numbers that begin with the year",
    FeatureId("receipt"): "Carts as receipts",
    FeatureId("stock"): "A stock that counts pieces",
    FeatureId("volume_discount"): "A tenth off from ten pieces of one article on",
}
"""In the order of their merges, with their commit messages."""
OTHER_DEMOS: Mapping[str, str] = {"tickets": "demo_tickets", "forge": "demo_contracts"}
QUESTION = "What does it cost to wrap an order?"
ANSWER = "150 cents for each order."
LONGEST_WAIT_SECONDS = 60.0

WHAT_NEXT = """\
What to try next:
  aop demo --web     the same in your browser, where you decide
  aop demo --keep    the same, and keep the repository
  aop init           in your own repository: propose its gates, and try them
  aop fix TEXT       in your own repository: let an agent change something"""


class MergedFeature(Struct, frozen=True, kw_only=True):
    """One merged feature, read back from git and the record."""

    feature_id: FeatureId
    status: str
    tree: str
    merge_commit: str
    gates: Mapping[str, str]


class DemoEnding(Struct, frozen=True, kw_only=True):
    """The result of the demo."""

    features: tuple[MergedFeature, ...]
    notice: str
    history: str


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "what",
        nargs="?",
        choices=[*OTHER_DEMOS],
        help="instead: `tickets`, from a ticket to a reviewed merge request; `forge`, contracts for an idea and for an"
        " old repository, and a small build",
    )
    parser.add_argument("--keep", action="store_true", help="keep the repository, to look around in")
    parser.add_argument("--web", action="store_true", help="show it on the pages, where you answer, approve and merge")
    parser.add_argument("--print", action="store_true", help="with --web: print the link instead of opening a browser")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Play the demo; it succeeds only if all features are merged."""
    if arguments.web and arguments.what:
        raise InvalidCliArgs("Only the demo of features has pages.", hint="Run `aop demo --web`.")
    if arguments.what:
        module = import_module(f"aop.cli.begin.{OTHER_DEMOS[arguments.what]}")
        with _folder(keep=arguments.keep) as folder:
            code: int = module.play(arguments, terminal, folder)
            return code
    began = time.monotonic()
    environ = sample_environment(os.environ)
    with _folder(keep=arguments.keep) as folder:
        story = Story(SampleRepository(folder / "shop", environ), environ, terminal, began)
        ending = story.play(_on_pages(arguments) if arguments.web else decide_for_person)
    seconds = round(time.monotonic() - began, 2)
    root = str(folder / "shop")
    if arguments.keep:
        terminal.say(ending.notice)
    else:
        terminal.say("The repository was removed. Keep it with: aop demo --keep")
    next_steps = _next_steps_in(shlex.quote(root)) if arguments.keep else WHAT_NEXT
    text = f"\nDone in {seconds} s. `main` is now:\n\n{ending.history}\n{next_steps}"
    return terminal.result(_as_json(ending, root, seconds), text)


def _on_pages(arguments: argparse.Namespace) -> Decide:
    from aop.cli.begin.demo_pages import decide_on_pages

    return partial(decide_on_pages, prints=arguments.print)


@contextmanager
def _folder(*, keep: bool) -> Iterator[Path]:
    # The real path: git and the tools show that one.
    folder = Path(tempfile.mkdtemp(prefix="aop-demo-")).resolve()
    try:
        yield folder
    finally:
        if not keep:
            remove_folder(folder)


class Story:
    """The acts of the demo, in order."""

    def __init__(self, sample: SampleRepository, environ: Mapping[str, str], terminal: Terminal, began: float) -> None:
        self._sample = sample
        self.environ = environ
        self.terminal = terminal
        self._began = began

    def play(self, decide: Decide) -> DemoEnding:
        """Take all features from their specs to `main`."""
        self._make()
        with build(self._sample.root, Settings.from_env(self.environ)) as app:
            branch = app.gateway.kernel.config().policy.worktree.base_branch
            before = app.repository.branches.head(branch)
            merges = decide(self, app)
            return self._read_back(app.repository, branch, before, merges)

    def _make(self) -> None:
        self._sample.make(sample_files(Path(__file__).with_name("demo_repository")))
        self.say(f"made a small shop with {len(FEATURES)} specs: {self._sample.root}")
        proposal = propose(open_repository(self._sample.root, self.environ))
        place_new_files(self._sample.root, FOLDER, proposal.files)
        self._sample.commit("Let AOP manage this repository")
        self.say(f"aop init: found {proposal.language} and its tests, made them the gates, committed")

    def begin(self, app: App, pace: Callable[[Worker], Worker] = lambda worker: worker) -> Supervision:
        """Let the recorded agents begin with all features."""
        staff = ReplayStaff({name: pace(self._worker(app, name)) for name in FEATURES})
        limits = limits_of(app.gateway.kernel.config().policy.supervisor)
        made = build_supervision(app, staff, limits, lambda name, line: self.say(f"{name}: {line}"))
        made.engine.start(made.feature_runs.kinds())
        made.supervisor.submit(list(FEATURES))
        return made

    def _worker(self, app: App, feature_id: FeatureId) -> ReplayWorker:
        def await_plan(other: FeatureId) -> None:
            deadline = time.monotonic() + LONGEST_WAIT_SECONDS
            while time.monotonic() < deadline:
                with app.record.read() as view:
                    if view.get(AcceptedPlan, other) is not None:
                        return
                app.gateway.kernel.clock.pause(0.02)
            raise ReplayDiverged(f"The recorded `{feature_id}` needs the plan of `{other}`, which is missing here.")

        return ReplayWorker(read_transcript(shipped_transcript(feature_id)), await_plan)

    def _read_back(
        self, repository: Repository, branch: str, before: CommitId | None, answers: Sequence[Mapping[str, Any]]
    ) -> DemoEnding:
        """Read the merges back from git, which may not hold what was reported."""
        last, head = answers[-1]["merge_commit"] if answers else before, repository.branches.head(branch)
        if before is None or last is None or head != last:
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
        # One notice for all merges: each merge printed its own.
        notice = repository.worktrees.checkout_behind(branch, old=before, new=last) or ""
        return DemoEnding(features=features, notice=notice, history=self._sample.history(branch))

    def say(self, line: str) -> None:
        """Tell what happens, with the time."""
        self.terminal.say(f"{time.monotonic() - self._began:6.2f} s  {line}")


Merge = Mapping[str, Any]
"""The answer to a merge."""
Decide = Callable[[Story, App], Sequence[Merge]]
"""Brings all features to `main`; returns the merges in their order."""


def decide_for_person(story: Story, app: App) -> list[Merge]:
    """Bring all features to `ready_to_merge`, answer the question of one of them, then approve and merge each."""
    made = story.begin(app)
    made.supervisor.supervise(until="settled", stopped=lambda: False)
    if _answer(story, app):
        made.supervisor.supervise(until="settled", stopped=lambda: False)
    made.engine.close()
    for name, entry in sorted(made.board.entries().items()):
        if entry.outcome.get("error"):
            raise CallRefused(entry.outcome["error"], {})
        if entry.outcome.get("status") != Status.READY_TO_MERGE:
            raise ReplayDiverged(f"The recorded `{name}` does not pass its gates on this machine: it {entry.does}.")
    return [_merge(story, app, feature_id, message) for feature_id, message in FEATURES.items()]


def _answer(story: Story, app: App) -> bool:
    """Answer the demo's question; tell whether it was asked."""
    listed = _call(app, "inbox.list")["questions"]
    found = [each for each in listed if each["text"] == QUESTION]
    for each in found:
        story.say(f"the demo answers {each['question_id']} for you: aop answer {each['question_id']} '{ANSWER}'")
        which = {"feature_id": each["feature_id"], "question_id": each["question_id"]}
        _call(app, "inbox.answer", answer=ANSWER, **which)
    return bool(found)


def _merge(story: Story, app: App, feature_id: FeatureId, message: str) -> Merge:
    token = _approve(story, app, feature_id)
    given = {"user_approval_token": token, "commit_message": message}
    answer: Merge = _call(app, "feature.ready_to_merge", feature_id=feature_id, **given)
    story.say(f"{feature_id}: merged into {answer['base_branch']}: {answer['merge_commit'][:12]}")
    return answer


def _approve(story: Story, app: App, feature_id: FeatureId) -> str:
    status = _call(app, "repo.status", feature_id=feature_id)
    story.say(f"{feature_id}: ready to merge. In real use, you decide here: aop approve {feature_id}")
    seen = {"tree": status["tree"], "base": status["base_head"]}
    granted = _call(app, "feature.approve", feature_id=feature_id, **seen)
    story.say(f"{feature_id}: the demo approves for you: tree {granted['tree'][:12]}, for one merge")
    return str(granted["token"])


def _call(app: App, tool: str, **arguments: Json) -> Any:
    return call_tool(app, tool, arguments).data


def _as_json(ending: DemoEnding, root: str, seconds: float) -> dict[str, Json]:
    features: list[Json] = [msgspec.to_builtins(feature) for feature in ending.features]
    return {"features": features, "repository": root, "seconds": seconds}


def _next_steps_in(root: str) -> str:
    feature_id = list(FEATURES)[-1]
    return f"""\
Where to look:
  {root}/agentic/features/{feature_id}   state, plan, decisions, and gate logs
  {root}/.worktrees/{feature_id}         its worktree
What to try next:
  aop status --repo {root}
  aop review --repo {root} {feature_id}
  git -C {root} show --stat main"""
