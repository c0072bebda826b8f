"""LOCAL in this process with one failing call, and four ways to work on its ticket."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from aop.adapters.machine.clock import SystemClock, new_id
from aop.adapters.storage.run_files import RunFiles
from aop.adapters.tickets.ledger import TicketLedger
from aop.adapters.tickets.mcp.failures import refusal
from aop.adapters.tickets.mcp.upstream import Upstream
from aop.adapters.tickets.systems.local.database import LocalAnswer
from aop.adapters.tickets.systems.local.repositories import PushedFile
from aop.adapters.tickets.systems.local.server import Local
from aop.adapters.tickets.systems.local_ports import LocalDocs, LocalTracker, LocalVcs
from aop.brains.budgets import CallLimits
from aop.brains.conversation import Observation, Offer, Reply, Request
from aop.brains.model_brain import ModelBrain
from aop.brains.prices import Price, Prices
from aop.core.errors import Json, RemoteUnavailable
from aop.core.redaction.redactor import Redactor
from aop.reviews.report import ReviewVerdict
from aop.testing.scripted_model import NAME, answers, calls
from aop.tickets.mission.blocks import ReviewParams, review_params_block
from aop.tickets.review.answer import TicketReview
from aop.tickets.runs.runner import TicketRunner
from aop.tickets.steps import Desk, TicketSettings
from tests.tickets.local_worlds import BRANCH, KEY, PAGE, PROJECT, local_world, plain_ids
from tests.tickets.mission.test_blocks import BLOCK, fenced
from tests.tickets.recorded_plans import PLAN
from tests.tickets.review.test_pipeline import finding

MARKS = "AOP-Run: "
SETTINGS = TicketSettings(state_initial="To Do", state_success="In Review", architecture_page_id=PAGE)
TWO_FINDINGS = TicketReview(
    verdict=ReviewVerdict.COMMENT,
    summary="Looked at it.",
    findings=(finding("src/a.py", 1), finding("src/a.py", None)),
)


class Killed(BaseException):
    """The process ends here: nothing of it may run any more."""


class Trouble(Struct, frozen=True, kw_only=True):
    """What happens at one call."""

    at: int
    what: str
    """A status; `lost`: no answer; `killed`: the end of the process."""
    after: bool = False
    """Whether the call had its effect all the same."""


class ShakenUpstream(Upstream):
    """LOCAL's tools without a process; notes each call."""

    def __init__(self, local: Local, trouble: Trouble | None) -> None:
        self._tools = local.tools()
        self._trouble = trouble
        self.calls: list[str] = []

    async def tools(self) -> Sequence[Offer]:
        await self._shaken("tools/list", dict)
        return [Offer(name=name, description="", schema={}) for name in self._tools]

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Json:
        takes = self._tools[tool].takes

        def carry_out() -> Json:
            return self._tools[tool].do(
                **{name: msgspec.convert(arguments.get(name), type=kind, strict=False) for name, kind in takes.items()}
            )

        return await self._shaken(tool, carry_out)

    async def _shaken(self, tool: str, carry_out: Callable[[], Json]) -> Json:
        trouble = self._trouble if self._trouble and self._trouble.at == len(self.calls) else None
        self.calls.append(tool)
        if trouble and not trouble.after:
            raise _happening(tool, trouble.what)
        value: Json = None
        no: BaseException | None = None
        try:
            value = msgspec.json.decode(msgspec.json.encode(carry_out()))
        except LocalAnswer as said:
            no = refusal("local", tool, str(said), token="", redact=Redactor())
        if trouble:
            raise _happening(tool, trouble.what)
        if no is not None:
            raise no
        return value


def _happening(tool: str, what: str) -> BaseException:
    if what == "killed":
        return Killed()
    if what == "lost":
        return RemoteUnavailable(f"The MCP server `local` was lost at `{tool}`.")
    return refusal("local", tool, f"{what}: it said no", token="LOCAL_TOKEN", redact=Redactor())


class DiligentModel:
    """Does what is not done yet, by what it was shown: so it knows nothing that a restart could lose."""

    names = (NAME,)

    def __init__(self, way: Way) -> None:
        self._way = way

    async def reply(self, request: Request) -> Reply:
        done = {turn.name for turn in request.turns if isinstance(turn, Observation) and turn.ok}
        for tool, arguments in self._way.wanted.items():
            if request.tools and tool not in done:
                return calls((tool, arguments))(request)
        handed_in = self._way.handed_in is not None and request.tools
        step = answers(self._way.handed_in if handed_in else self._way.answer)
        assert callable(step)
        return step(request)


class Way(Struct, frozen=True, kw_only=True):
    """A kind of work, in one of the two modes."""

    kind: str
    description: str
    wanted: Mapping[str, Mapping[str, Any]] = {}
    answer: Any
    handed_in: Any = None
    """What ends a loop, where it is something else."""


_PARAMS = ReviewParams(
    gitlab_project_id="1",
    source_branch_name=BRANCH,
    review_request_url=f"local://{PROJECT}/-/merge_requests/1",
    generated_at="2026-01-02T03:04:05.678Z",
)
_HANDED_OVER = f"{fenced(BLOCK)}\n\n{review_params_block(_PARAMS)}"
WAYS = {
    "linear scaffold": Way(kind="scaffold", description=fenced(BLOCK), answer=PLAN),
    "agentic scaffold": Way(
        kind="scaffold",
        description=fenced(f"{BLOCK}\n  mode: agentic"),
        wanted={
            "tracker_tracker_add_comment": {"text": "At it."},
            "vcs_vcs_create_branch": {},
            "vcs_vcs_push_files": {"files": msgspec.to_builtins(PLAN.files)},
            "vcs_vcs_create_merge_request": {"text": "Made orders."},
        },
        answer={"summary": "Done."},
    ),
    "linear review": Way(kind="review", description=_HANDED_OVER, answer=TWO_FINDINGS),
    "agentic review": Way(
        kind="review",
        description=_HANDED_OVER.replace("code_review_params:\n", "code_review_params:\n  mode: agentic\n"),
        wanted={"vcs_vcs_read_file": {"ref": BRANCH, "path": "src/a.py"}},
        answer=TWO_FINDINGS,
    ),
}


RECOVERY = Way(
    kind="scaffold",
    description=fenced(BLOCK),
    wanted=WAYS["agentic scaffold"].wanted,
    answer=PLAN,
    handed_in=WAYS["agentic scaffold"].answer,
)


def made_world(folder: Path, way: Way) -> Local:
    """Make a LOCAL for a way; for a review, with what is to be reviewed."""
    local = local_world(folder, way.description)
    if way.kind == "review":
        local.repositories.create_branch(PROJECT, BRANCH, "main")
        local.repositories.push_files(PROJECT, BRANCH, "Add", [PushedFile(path="src/a.py", content="a = eval(b)\n")])
        local.repositories.create_merge_request(PROJECT, BRANCH, "main", "Orders", "Text")
        local.tickets.transition(KEY, 2)
    return local


def worked(
    folder: Path, way: Way, trouble: Trouble | None = None, settings: TicketSettings = SETTINGS
) -> tuple[Any, list[str]]:
    """Work on the ticket until the run ends; return how it ended, and the calls that were made.

    Raises: Killed.
    """
    upstream = ShakenUpstream(Local(folder, os.environ), trouble)
    ledger = TicketLedger(folder / "ledger" / "ledger.db")
    model = DiligentModel(way)
    prices = Prices({NAME: Price(input=1.0, output=1.0)})
    desk = Desk(
        tracker=LocalTracker(upstream),
        vcs=LocalVcs(upstream),
        docs=LocalDocs(upstream),
        brain=ModelBrain(model, prices, SystemClock(), Redactor(), CallLimits()),
        ledger=ledger,
        clock=SystemClock(),
        redact=Redactor(),
        new_fence=lambda: new_id("data"),
        settings=settings,
    )

    async def work() -> Any:
        runner = TicketRunner(way.kind, desk, ledger, RunFiles(ledger.working_folder))
        run_id, ticket = await runner.start(KEY)
        return await runner.carry_out(run_id, KEY, ticket)

    return asyncio.run(work()), upstream.calls


class Effects(Struct, frozen=True, kw_only=True):
    """Everything that a run leaves where others see it, without times and ids."""

    status: str
    comments: tuple[str, ...]
    """The marks of the comments."""
    blocks: int
    commits: tuple[str, ...]
    merge_requests: int
    notes: tuple[tuple[str | None, int | None, str], ...]


def effects(folder: Path) -> Effects:
    """Look at LOCAL."""
    local = Local(folder, os.environ)
    ticket: Any = local.tickets.get(KEY)
    requests: Any = local.repositories.merge_requests(PROJECT, BRANCH)
    notes: Any = local.repositories.notes(PROJECT, 1) if requests else ()
    return Effects(
        status=ticket["status"],
        comments=tuple(plain_ids(comment.rpartition(MARKS)[2]) for comment in ticket["comments"]),
        blocks=ticket["description"].count("code_review_params:"),
        commits=tuple(commits_of(local)),
        merge_requests=len(requests),
        notes=tuple((note["path"], note["line"], note["body"].partition("\n")[0]) for note in notes),
    )


def commits_of(local: Local) -> list[str]:
    """Return the subjects of the branch's commits, the newest first."""
    _, git = local.repositories._opened(PROJECT)
    ran = git.run("log", "--format=%s", BRANCH, fine=(0, 128))
    return ran.out.decode().splitlines() if ran.code == 0 else []
