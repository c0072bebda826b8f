"""Messages to a team: the first one of each role, with what it needs and no more.

No contract is in them (FORGE-107): each role fetches what it needs, and the fixer gets the findings alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from aop.brains.prompts import Data, Prompt, build_prompt
from aop.core.roles import Role
from aop.core.text.counts import count
from aop.core.text.visible import visible
from aop.forge.broker.role_briefs import role_brief
from aop.forge.builds.context.listings import change_listing, workspace_listing
from aop.forge.builds.context.messages import LONGEST_DESCRIPTION, LONGEST_NOTES
from aop.forge.builds.documents import PhaseProgress
from aop.kernel.ports.git import TreeChange

LONGEST_DIFF = 60_000
"""A longer diff is read by files."""


class PhaseView(Struct, frozen=True, kw_only=True):
    """A phase as its team sees it."""

    build_id: str
    project: str
    description: str
    notes: str
    questions: str
    """The questions that are left, in words."""
    phase_name: str
    progress: PhaseProgress
    paths: tuple[str, ...]
    """The files of the workspace."""
    changes: tuple[TreeChange, ...]
    """The changes of the phase so far."""
    diff: str
    pad: Mapping[str, str] = {}
    """The notes of the coder that its auditor should know."""


def role_prompt_for(role: Role, view: PhaseView, fence: str) -> Prompt:
    """Return what a role of a team is sent at first."""
    task, data = {
        Role.SCOUT: _for_scout,
        Role.CODER: _for_coder,
        Role.AUDITOR: _for_auditor,
        Role.FIXER: _for_fixer,
    }[role](view)
    return build_prompt(role_brief(role), task, data, fence)


def _for_scout(view: PhaseView) -> tuple[str, Sequence[Data]]:
    wanted = f"Look at phase {view.progress.number}, and hand in your report for its coder."
    return "\n\n".join(filter(None, [_heading(view), wanted, view.questions])), (*_notes(view), _files(view))


def _for_coder(view: PhaseView) -> tuple[str, Sequence[Data]]:
    progress = view.progress
    number, report = progress.number, progress.crew.scout_report
    lines = [_heading(view)]
    if progress.plan:
        lines.append(f"The plan of phase {number}:")
        lines += [
            f"- {'done' if task.number in progress.done else 'open'}: {task.number}. {visible(task.text)}"
            for task in progress.plan
        ]
        lines.append("Go on with it.")
    else:
        lines.append(f"Begin phase {number}: call `forge_get_phase_window({number})`, fetch the contracts, and plan.")
    if progress.crew.told:
        lines.append("Your sign-off did not count: see what is missing.")
    lines += [view.questions] if view.questions else []
    data = [*_notes(view), _files(view)]
    data += [Data(source="the report of the scout", text=report)] if report else []
    data += [Data(source="what is missing", text=progress.crew.told)] if progress.crew.told else []
    return "\n".join(lines), data


def _for_auditor(view: PhaseView) -> tuple[str, Sequence[Data]]:
    progress = view.progress
    task = f"{_heading(view)}\n\nAudit phase {progress.number}. Fetch the contracts that its files fall under."
    data = [Data(source="the files that the phase changed", text=change_listing(view.changes))]
    if len(view.diff) <= LONGEST_DIFF:
        data.append(Data(source="the diff of the phase", text=view.diff, max_chars=LONGEST_DIFF))
    else:
        task += " The diff is too long to be shown: read the files."
    data += [Data(source=f"{name} of the coder", text=text) for name, text in view.pad.items()]
    if progress.crew.findings:
        data.append(Data(source="your earlier findings", text=_findings(progress)))
    if progress.crew.told:
        data.append(Data(source="what happened since", text=progress.crew.told))
    return task, data


def _for_fixer(view: PhaseView) -> tuple[str, Sequence[Data]]:
    progress = view.progress
    found = count(len(progress.crew.findings), "finding")
    task = f"Build `{view.build_id}`, phase {progress.number}: {found}. Repair them, and hand in `fix_summary`."
    return task, (Data(source="the findings", text=_findings(progress)),)


def _heading(view: PhaseView) -> str:
    parts = [f"# Project: {visible(view.project)}", visible(view.description)[:LONGEST_DESCRIPTION]]
    parts.append(f"## Phase {view.progress.number} — {visible(view.phase_name)}")
    return "\n\n".join(part for part in parts if part)


def _notes(view: PhaseView) -> list[Data]:
    return [Data(source="notes of the user", text=view.notes, max_chars=LONGEST_NOTES)] if view.notes else []


def _files(view: PhaseView) -> Data:
    return Data(source="the files of the workspace", text=workspace_listing(view.paths))


def _findings(progress: PhaseProgress) -> str:
    return msgspec.json.format(msgspec.json.encode(progress.crew.findings), indent=1).decode()
