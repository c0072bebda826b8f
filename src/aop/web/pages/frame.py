"""Frame of a page: the repository, its supervisor, what waits, and how new it is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from msgspec import Struct
from starlette.datastructures import QueryParams
from starlette.requests import Request

from aop.core.errors import Json
from aop.web.pages.page_door import PageDoor, Visitor
from aop.wiring.supervisor_lease import lease_holder


class ToolRefused(Exception):
    """A tool refused a call; the page shows why."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(error["message"])
        self.error = error


class Visit(Struct, frozen=True, kw_only=True):
    """One request of a person for a page."""

    door: PageDoor
    visitor: Visitor
    path: Mapping[str, str]
    """The parts of the address that have a name."""
    query: QueryParams

    def ask(self, tool: str, arguments: Mapping[str, Json] | None = None) -> Any:
        """Return the data of a tool's answer. Raises: ToolRefused."""
        answer = self.door.ask(self.visitor, tool, arguments)
        if answer.error is not None:
            raise ToolRefused(answer.error)
        return answer.data


class Frame(Struct, frozen=True, kw_only=True):
    """The facts around the content of every page."""

    is_platform: ClassVar[bool] = False
    repository: str
    base_branch: str
    supervisor: int
    """The process that supervises; 0 if there is none."""
    supervised_since: str
    can_start: bool
    """Whether a run can be started from the page; otherwise it names the command."""
    waiting: int
    """The number of features that wait for a person."""
    checkout: str
    """A warning while the checkout shows older files than the base branch; empty otherwise."""
    seq: int
    """The number of the newest entry of the journal when the page was drawn."""
    now: datetime
    form_token: str


def read_frame(visit: Visit, dashboard: Mapping[str, Any], seq: int) -> Frame:
    """Return the frame; its number is read before all else, so that a page is never older than it says."""
    door = visit.door
    holder = lease_holder(door.root, door.kernel.record)
    return Frame(
        repository=door.root.name,
        base_branch=door.kernel.config().policy.worktree.base_branch,
        supervisor=holder.pid if holder else 0,
        supervised_since=holder.since if holder else "",
        can_start=door.run_command is not None,
        waiting=sum(needs_person(row) for row in dashboard["features"]),
        checkout=dashboard["checkout"],
        seq=seq,
        now=door.kernel.clock.now(),
        form_token=visit.visitor.session.form_token,
    )


def needs_person(row: Mapping[str, Any]) -> bool:
    """Tell whether a feature waits for a person."""
    return bool(row["next_command"]) and not row["paused"]


def wants_part(request: Request) -> bool:
    """Tell whether a page that is open asks only for what it shows inside its frame."""
    return request.headers.get("aop-part") == "main"


def parts_at_hand(request: Request) -> frozenset[str]:
    """Return the digests of the parts that a page which is open has already."""
    return frozenset(request.headers.get("aop-have", "").split())
