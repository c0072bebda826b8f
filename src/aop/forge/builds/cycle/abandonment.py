"""Abandonment: a person ends a build; its branch and its record stay."""

from __future__ import annotations

from aop.core.errors import BuildEnded
from aop.core.text.counts import count
from aop.forge.builds.cycle.cycle_facts import cycle_facts
from aop.forge.builds.cycle.lookup import the_living_cycle
from aop.forge.builds.documents import BuildCycle
from aop.forge.builds.people.clarifications import close_questions
from aop.forge.builds.people.pauses import pause_is_over
from aop.forge.projects.documents import ProjectStatus
from aop.forge.projects.owners import the_build, the_project
from aop.kernel.features.worktree_extras import release_ports
from aop.kernel.gateway.calls import Call, Outcome, feature_named
from aop.kernel.record.documents.base import revise
from aop.kernel.record.port import Transaction


def abandon(call: Call, tx: Transaction, build_id: str, reason: str) -> Outcome:
    """Abandon a build: branch, worktree and locked scan stay, and the project may begin another (FORGE-207).

    Raises: UnknownForgeBuild, BuildNotBegun, BuildEnded.
    """
    cycle, now = the_living_cycle(tx, build_id, call.principal), call.kernel.now()
    state, why = feature_named(tx, cycle.build_id), " ".join(call.kernel.redact(reason).split())
    ended = revise(cycle, status="abandoned", reason=why, hold="", hold_reason="", stop=None, updated_at=now)
    tx.put(ended, cycle.build_id)
    closed = end_work(call, tx, ended, "contracts_generated")
    facts = {"project_id": cycle.project_id, "build_id": cycle.build_id, "branch": cycle.branch, "head": cycle.head}
    questions = count(closed, "question")
    tx.append(call.event("build_abandoned", state.feature_id, **facts, reason=why, closed=questions))
    tx.mark_unshown("feature", state.feature_id)
    return cycle_facts(ended, state, the_build(tx, cycle.build_id, call.principal))


def given_up(call: Call, tx: Transaction, cycle: BuildCycle) -> BuildEnded | None:
    """Abandon a build whose pause has lasted too long, and return what its caller is told; None for any other."""
    rules = call.kernel.config().policy.forge.build
    if not pause_is_over(tx, cycle, rules, call.kernel.clock.now()):
        return None
    why = f"It was on hold for more than {count(rules.pause_minutes, 'minute')}: {cycle.hold_reason or cycle.hold}"
    abandon(call, tx, cycle.build_id, why)
    return BuildEnded(f"The build `{cycle.build_id}` is abandoned. {why}", build_id=cycle.build_id)


def end_work(call: Call, tx: Transaction, cycle: BuildCycle, status: ProjectStatus) -> int:
    """Free what an ended build held, close its questions, and give its project a status; return how many were open."""
    project = the_project(tx, cycle.project_id, call.principal)
    tx.put(revise(project, status=status, updated_at=call.kernel.now()), project.project_id)
    release_ports(tx, feature_named(tx, cycle.build_id).feature_id)
    return close_questions(tx, call, cycle, f"Its build was {cycle.status}.")
