"""List of the pages: the address, template and facts of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

from aop.core.errors import UnknownRoute
from aop.web.pages.feature.feature import TABS, feature_facts
from aop.web.pages.frame import Frame, Visit
from aop.web.pages.history.failed import failure_facts
from aop.web.pages.history.journal import journal_facts, past_facts
from aop.web.pages.history.sums import cost_facts, time_facts
from aop.web.pages.now.board import board_facts
from aop.web.pages.now.doctor import doctor_facts
from aop.web.pages.now.found import search_facts
from aop.web.pages.now.inbox import inbox_rows
from aop.web.pages.now.waves import plan_facts
from aop.web.pages.work.builds import build_facts, builds_facts
from aop.web.pages.work.contracts import contract_facts, contracts_facts, drift_facts
from aop.web.pages.work.gated import gated_facts
from aop.web.pages.work.tickets import ticket_run_facts, tickets_facts

Facts = dict[str, Any]
Group = Literal["now", "work", "past"]
GROUPS: Mapping[Group, str] = {"now": "Now", "work": "Work", "past": "Past and health"}
"""The groups of the menu, in their order; on a phone the first stands in the bar, the others behind its button."""


class Page(Struct, frozen=True, kw_only=True):
    """One page: its address, its template, and what it shows."""

    path: str
    title: str
    template: str
    facts: Callable[[Visit, Mapping[str, Any], Frame], Facts]
    """From the visit, the dashboard and the frame: a page is made from what tools answer now, and nothing else."""
    menu: str = ""
    """Its name in the menu; empty for a page that others lead to."""
    group: Group = "now"
    key: str = ""
    """The letter that leads to it after `g`; empty for none."""


def _inbox(visit: Visit, dashboard: Mapping[str, Any], _frame: Frame) -> Facts:
    return {"rows": inbox_rows(visit, dashboard)}


def _board(visit: Visit, dashboard: Mapping[str, Any], frame: Frame) -> Facts:
    return board_facts(visit, dashboard, supervised=bool(frame.supervisor))


def _feature(visit: Visit, _dashboard: Mapping[str, Any], _frame: Frame) -> Facts:
    tab = visit.path.get("tab", TABS[0])
    if tab not in TABS:
        raise UnknownRoute("There is no such page.")
    return feature_facts(visit, tab)


def _errors(visit: Visit, dashboard: Mapping[str, Any], _frame: Frame) -> Facts:
    return failure_facts(visit, dashboard)


def _merge(visit: Visit, _dashboard: Mapping[str, Any], _frame: Frame) -> Facts:
    return {"order": visit.ask("report.merges")}


def _of_visit(facts: Callable[[Visit], Facts]) -> Callable[[Visit, Mapping[str, Any], Frame], Facts]:
    """Return the facts of a page that needs neither the dashboard nor the frame."""
    return lambda visit, _dashboard, _frame: facts(visit)


def _gated(visit: Visit, _dashboard: Mapping[str, Any], _frame: Frame) -> Facts:
    return gated_facts(visit)


def _builds(visit: Visit, _dashboard: Mapping[str, Any], _frame: Frame) -> Facts:
    return builds_facts(visit)


def _build(visit: Visit, _dashboard: Mapping[str, Any], _frame: Frame) -> Facts:
    return build_facts(visit)


def _contracts(visit: Visit, _dashboard: Mapping[str, Any], _frame: Frame) -> Facts:
    return contracts_facts(visit)


def _drift(visit: Visit, _dashboard: Mapping[str, Any], _frame: Frame) -> Facts:
    return drift_facts(visit)


def _contract(visit: Visit, _dashboard: Mapping[str, Any], _frame: Frame) -> Facts:
    return contract_facts(visit)


def _tickets(visit: Visit, _dashboard: Mapping[str, Any], _frame: Frame) -> Facts:
    return tickets_facts(visit)


def _ticket_run(visit: Visit, _dashboard: Mapping[str, Any], _frame: Frame) -> Facts:
    return ticket_run_facts(visit)


def _past(
    path: str, name: str, template: str, facts: Callable[[Visit, Mapping[str, Any], Frame], Facts], key: str
) -> Page:
    return Page(path=path, title=name, template=f"history/{template}", facts=facts, menu=name, group="past", key=key)


PAGES: tuple[Page, ...] = (
    Page(path="/", title="Inbox", template="now/inbox.html", facts=_inbox, menu="Inbox", key="i"),
    Page(path="/board", title="Board", template="now/board.html", facts=_board, menu="Board", key="b"),
    Page(path="/plan", title="Plan", template="now/plan.html", facts=_of_visit(plan_facts), menu="Plan", key="p"),
    Page(path="/merge", title="Merge", template="now/merge.html", facts=_merge, menu="Merge", key="m"),
    Page(path="/features/{feature_id}", title="", template="feature/feature.html", facts=_feature),
    Page(path="/features/{feature_id}/{tab}", title="", template="feature/feature.html", facts=_feature),
    Page(path="/tickets", title="Tickets", template="work/tickets.html", facts=_tickets, menu="Tickets", group="work"),
    Page(path="/tickets/{run_id}", title="", template="work/ticket_run.html", facts=_ticket_run),
    Page(path="/gated", title="Gated", template="work/gated.html", facts=_gated, menu="Gated", group="work"),
    _past("/errors", "Errors", "errors.html", _errors, "e"),
    _past("/cost", "Cost", "costs.html", _of_visit(cost_facts), "c"),
    _past("/time", "Time", "times.html", _of_visit(time_facts), "t"),
    _past("/journal", "Journal", "journal.html", _of_visit(journal_facts), "j"),
    Page(
        path="/contracts",
        title="Contracts",
        template="work/contracts.html",
        facts=_contracts,
        menu="Contracts",
        group="work",
    ),
    Page(path="/contracts/{project_id}", title="", template="work/contracts.html", facts=_contracts),
    Page(path="/contracts/{project_id}/drift", title="Drift", template="work/drift.html", facts=_drift),
    Page(path="/contracts/{project_id}/{contract_type}", title="", template="work/contract.html", facts=_contract),
    Page(path="/builds", title="Builds", template="work/builds.html", facts=_builds, menu="Builds", group="work"),
    Page(path="/builds/{build_id}", title="", template="work/build.html", facts=_build),
    Page(path="/builds/{build_id}/{tab}", title="", template="work/build.html", facts=_build),
    Page(
        path="/search",
        title="Search",
        template="now/search.html",
        facts=_of_visit(search_facts),
        menu="Search",
        group="past",
    ),
    Page(path="/journal/board", title="Past board", template="history/past.html", facts=_of_visit(past_facts)),
    Page(
        path="/doctor",
        title="Doctor",
        template="now/doctor.html",
        facts=_of_visit(doctor_facts),
        menu="Doctor",
        group="past",
        key="d",
    ),
)
MENU = tuple(
    (group, name, rows)
    for group, name in GROUPS.items()
    if (rows := tuple(page for page in PAGES if page.menu and page.group == group))
)
"""Each group of the menu that has pages: its id, its name, its pages."""
