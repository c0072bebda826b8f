"""Everything that a reviewer of a feature needs, collected from the record and from git, without secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from aop.adapters.files.archives import with_sums
from aop.core.errors import VersionConflict
from aop.core.ids import FeatureId
from aop.core.text.json import canonical_json, pretty_json
from aop.kernel.gateway.calls import Envelope
from aop.kernel.record.documents.approvals import Approval
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.gate_runs import GateRun
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.port import Snapshot
from aop.kernel.tools.report.review import DiffBundle, FeatureSummary
from aop.web.review_page import review_page
from aop.wiring.build import App

LARGEST_LOG = 64 * 1024 * 1024

ABOUT = """\
The evidence on the feature {feature}, as AOP recorded it. Secrets are masked.

state.json, plan.json   where the feature is, and the plan that its patches were judged by
summary.json            what is missing before a merge, approvals, and where the proof lies
review.html             the same for people, with the whole diff: open it in a browser
diff.patch              everything that the feature changes
gates/, logs/           every gate run, and what its steps printed
approvals.json          who approved which tree on which base
journal.jsonl           the feature's events, with their places in the journal's chain
verified.json           what `aop evidence verify` said; `head_seq` and `head_hash`, kept elsewhere, show later that
                        nothing was cut off (aop evidence verify --anchor SEQ:HASH)
SHA256SUMS              sha256sum -c SHA256SUMS
"""


def bundle_of(app: App, feature: str) -> dict[str, bytes] | Envelope:
    """Return the files of a bundle by name, or the answer that refused one.

    Raises: VersionConflict if the feature was changed while it was read.
    """
    which = {"feature_id": feature}
    calls = {"report.feature_summary": which, "repo.diff_bundle": which, "evidence.verify": which}
    answers = {tool: app.gateway.call(app.person, tool, arguments) for tool, arguments in calls.items()}
    refused = next((answer for answer in answers.values() if answer.error is not None), None)
    if refused is not None:
        return refused
    data = {tool: answer.data for tool, answer in answers.items()}
    with app.record.read() as view:
        state = view.get(FeatureState, feature)
        versions = {data["report.feature_summary"]["state"]["version"], data["repo.diff_bundle"]["version"]}
        if state is None or versions != {state.version}:
            current = 0 if state is None else state.version
            raise VersionConflict(f"The feature `{feature}`", expected=min(versions), current=current)
        files = {**_told(data), **_recorded(view, state), **_diff(app, state)}
        files |= _gates(app, view, state.feature_id)
    files["README.txt"] = ABOUT.format(feature=feature).encode()
    return with_sums({name: _masked(app, content) for name, content in files.items()})


def _told(data: Mapping[str, Any]) -> dict[str, bytes]:
    summary = msgspec.convert(data["report.feature_summary"], FeatureSummary)
    page = review_page(summary, msgspec.convert(data["repo.diff_bundle"], DiffBundle))
    return {
        "summary.json": pretty_json(data["report.feature_summary"]),
        "verified.json": pretty_json(data["evidence.verify"]),
        "review.html": page.encode(errors="backslashreplace"),
    }


def _recorded(view: Snapshot, state: FeatureState) -> dict[str, bytes]:
    name = state.feature_id
    plan = view.get(AcceptedPlan, name)
    approvals = [approval for approval in view.all(Approval) if approval.feature_id == name]
    events = [canonical_json(msgspec.to_builtins(entry)) + b"\n" for entry in view.journal(feature_id=name)]
    return {
        "state.json": pretty_json(msgspec.to_builtins(state)),
        "plan.json": pretty_json(None if plan is None else msgspec.to_builtins(plan.plan)),
        "approvals.json": pretty_json(msgspec.to_builtins(approvals)),
        "journal.jsonl": b"".join(events),
    }


def _diff(app: App, state: FeatureState) -> dict[str, bytes]:
    git = app.repository
    return {"diff.patch": git.diff(git.tree_of(state.base_commit), state.tree)}


def _gates(app: App, view: Snapshot, name: FeatureId) -> dict[str, bytes]:
    runs = [run for run in view.all(GateRun) if run.feature_id == name]
    files = {f"gates/{run.run_id}.json": pretty_json(msgspec.to_builtins(run)) for run in runs}
    return {**files, **dict(log for run in runs for log in _logs(app, run))}


def _logs(app: App, run: GateRun) -> Iterator[tuple[str, bytes]]:
    for step in run.steps:
        content = app.gateway.kernel.files.read(step.log_path, limit=LARGEST_LOG)
        if content is not None:
            yield f"logs/{step.log_path.rpartition('/')[2]}", content


def _masked(app: App, content: bytes) -> bytes:
    text = content.decode("utf-8", "surrogateescape")
    return app.gateway.kernel.redact.mask_secrets(text).encode("utf-8", "surrogateescape")
