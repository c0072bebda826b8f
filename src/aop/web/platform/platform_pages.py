"""Pages of a platform: inbox, board, repositories, tickets, cost and workers."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from aop.core.errors import UnknownRoute
from aop.kernel.gateway.page_sessions import PageSession
from aop.kernel.record.documents.features import Status
from aop.kernel.record.spending import tokens_of, total_of
from aop.kernel.tools.report.dashboard import DashboardRow
from aop.kernel.tools.report.standings import answer_command
from aop.web.pages.now.board import COLUMNS, FOLDED, Card, card_of
from aop.web.pages.now.inbox import Kind
from aop.web.platform.overview import Overview, RepositoryFacts

MOST_CARDS = 200
"""So many features of one column are shown; the others are counted."""
MOST_RUNS = 200


class PlatformFrame(Struct, frozen=True, kw_only=True):
    """The facts around the content of every page."""

    is_platform: ClassVar[bool] = True
    repository: str
    """The name in the title: that of the database."""
    waiting: int
    """How many things wait for a person."""
    leading: int
    """How many repositories have a supervisor."""
    seq: int
    """The number of changes when the page was drawn."""
    now: datetime
    form_token: str


class Home(Struct, frozen=True, kw_only=True):
    """The machine and the folder in which commands for a repository are given."""

    machine: str
    folder: str

    def command(self, words: str) -> str:
        """Return a command for that folder."""
        return f"{words} --repo {shlex.quote(self.folder)}" if words else ""


class WaitingRow(Struct, frozen=True, kw_only=True):
    """One thing that waits for a person in one repository."""

    repository: str
    home: Home
    kind: Kind
    feature_id: str
    text: str
    since: str
    commands: tuple[str, ...]
    key: str
    """What tells it apart from others of its repository."""


class PlatformCard(Struct, frozen=True, kw_only=True):
    """One feature on the board of all."""

    repository: str
    home: Home
    title: str
    card: Card


class PlatformColumn(Struct, frozen=True, kw_only=True):
    """The features of all repositories in one state."""

    name: str
    cards: tuple[PlatformCard, ...]
    total: int
    is_folded: bool


class PlatformVisit(Struct, frozen=True, kw_only=True):
    """One request of a person for a page of the platform."""

    overview: Overview
    session: PageSession
    repositories: tuple[RepositoryFacts, ...]
    """All that the session opens."""
    chosen: str
    """The one repository that the address names; empty for all."""

    @property
    def shown(self) -> tuple[RepositoryFacts, ...]:
        """Return the repositories to show. Raises: UnknownRoute, also for one that the session does not open."""
        if not self.chosen:
            return self.repositories
        found = tuple(each for each in self.repositories if each.name == self.chosen)
        if not found:
            raise UnknownRoute("There is no such repository, or this session does not open it.")
        return found


class PlatformPage(Struct, frozen=True, kw_only=True):
    """One page: its address, its template, and what it shows."""

    path: str
    menu: str
    template: str
    facts: Callable[[PlatformVisit], dict[str, Any]]
    key: str


def home_of(facts: RepositoryFacts) -> Home:
    """Return where commands for a repository are given."""
    machine, _, folder = facts.standing.home.partition(":")
    return Home(machine=machine, folder=folder)


def waiting_rows(repositories: Sequence[RepositoryFacts]) -> list[WaitingRow]:
    """Return what waits for a person in all repositories, oldest first."""
    rows = [row for each in repositories for row in _waiting_in(each)]
    return sorted(rows, key=lambda row: (row.since, row.repository, row.feature_id))


def _waiting_in(facts: RepositoryFacts) -> Iterator[WaitingRow]:
    home = home_of(facts)

    def row(kind: Kind, feature_id: str, text: str, since: str, *commands: str, key: str = "") -> WaitingRow:
        return WaitingRow(
            repository=facts.name,
            home=home,
            kind=kind,
            feature_id=feature_id,
            text=text,
            since=since,
            commands=tuple(home.command(each) for each in commands),
            key=key or f"{kind}-{feature_id}",
        )

    for asked in facts.questions:
        command = answer_command(asked.question_id, asked.choices)
        yield row("question", asked.feature_id, asked.text, asked.asked_at, command, key=asked.question_id)
    for each in facts.rows:
        if each.out_of_time:
            text = f"{each.question} ({each.waits})"
            yield row("late", each.feature_id, text, each.changed_at, each.next_command)
        elif each.next_command and not each.asks and not each.paused and _needs_decision(each):
            yield row(*_decision(each, is_approved=each.feature_id in facts.approved))


def _needs_decision(row: DashboardRow) -> bool:
    return row.status is Status.READY_TO_MERGE or row.next_command.startswith("aop retry")


def _decision(row: DashboardRow, *, is_approved: bool) -> tuple[Any, ...]:
    name, since = row.feature_id, row.changed_at
    if row.status is not Status.READY_TO_MERGE:
        return ("stuck", name, row.waits, since, row.next_command)
    if row.conflicts:
        files = ", ".join(row.conflicts)
        return ("conflict", name, f"Conflicts with the base branch: {files}", since, row.next_command)
    if is_approved:
        return ("approval", name, "Approved: it can be merged.", since, f"aop merge {name}")
    return ("approval", name, "Ready to merge.", since, f"aop review {name}", f"aop merge {name}")


def _inbox(visit: PlatformVisit) -> dict[str, Any]:
    return {"rows": waiting_rows(visit.shown)}


def _board(visit: PlatformVisit) -> dict[str, Any]:
    cards = [card for facts in visit.shown for card in _cards(facts)]
    columns = [
        PlatformColumn(
            name=name,
            cards=tuple(found[:MOST_CARDS]),
            total=len(found),
            is_folded=name in FOLDED,
        )
        for name in COLUMNS
        for found in [sorted((c for c in cards if c.card.column == name), key=_newest_first, reverse=True)]
    ]
    return {
        "columns": columns,
        "total": len(cards),
        "merged": sum(each.card.column == "merged" for each in cards),
        "at_work": sum(each.card.works for each in cards),
        "spent": total_of(facts.spent for facts in visit.shown),
    }


def _newest_first(each: PlatformCard) -> tuple[str, str, str]:
    return each.card.row["changed_at"], each.repository, each.card.row["feature_id"]


def _cards(facts: RepositoryFacts) -> Iterator[PlatformCard]:
    ready = {row.feature_id for row in facts.rows if row.status is Status.READY_TO_MERGE}
    for row in facts.rows:
        card = card_of(msgspec.to_builtins(row), {}, ready - facts.approved, supervised=bool(facts.standing.leader))
        yield PlatformCard(
            repository=facts.name, home=home_of(facts), title=facts.titles.get(row.feature_id, ""), card=card
        )


def _repositories(visit: PlatformVisit) -> dict[str, Any]:
    def statuses(facts: RepositoryFacts) -> Mapping[str, int]:
        return {status.value: number for status in Status if (number := facts.count(status))}

    return {"repositories": [(each, home_of(each), statuses(each)) for each in visit.shown]}


def _cost(visit: PlatformVisit) -> dict[str, Any]:
    return {
        "repositories": visit.shown,
        "total": total_of(each.spent for each in visit.shown),
        "tokens_of": tokens_of,
    }


def _workers(visit: PlatformVisit) -> dict[str, Any]:
    return {"fleet": visit.overview.fleet(visit.session.reach)}


def _tickets(visit: PlatformVisit) -> dict[str, Any]:
    # A run belongs to a ticket, and to no repository: a session for some repositories shows none.
    is_open = visit.session.reach.everything
    runs = visit.overview.tickets() if is_open else ()
    return {"runs": runs[:MOST_RUNS], "total": len(runs), "is_open": is_open}


PLATFORM_PAGES: tuple[PlatformPage, ...] = (
    PlatformPage(path="/", menu="Inbox", template="platform/inbox.html", facts=_inbox, key="i"),
    PlatformPage(path="/board", menu="Board", template="platform/board.html", facts=_board, key="b"),
    PlatformPage(
        path="/repositories", menu="Repositories", template="platform/repositories.html", facts=_repositories, key="r"
    ),
    PlatformPage(path="/tickets", menu="Tickets", template="platform/tickets.html", facts=_tickets, key="t"),
    PlatformPage(path="/cost", menu="Cost", template="platform/costs.html", facts=_cost, key="c"),
    PlatformPage(path="/workers", menu="Workers", template="platform/workers.html", facts=_workers, key="w"),
)
PLATFORM_MENU = (("now", "Now", PLATFORM_PAGES[:3]), ("platform", "Platform", PLATFORM_PAGES[3:]))
"""The groups of the menu; on a phone the first stands in the bar, the other behind its button."""
