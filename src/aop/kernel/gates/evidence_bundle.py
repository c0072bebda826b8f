"""Evidence bundle: the files that prove a feature to a reviewer, without secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from aop.core.errors import VersionConflict
from aop.core.ids import FeatureId
from aop.core.text.json import canonical_json, pretty_json
from aop.kernel.gateway.calls import Kernel
from aop.kernel.record.documents.approvals import Approval
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.gate_runs import GateRun
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.port import Snapshot

LARGEST_LOG = 64 * 1024 * 1024

ABOUT = """\
The evidence on the feature {feature}, as AOP recorded it. Secrets are masked.

state.json, plan.json   the feature's state, and the plan that its patches were checked against
summary.json            what a merge still needs, the approvals, and where the evidence is
review.html             the same for people, with the whole diff: open it in a browser
diff.patch              everything that the feature changes
gates/, logs/           every gate run, and the output of its steps
approvals.json          who approved which tree on which base
journal.jsonl           the feature's events, with their places in the journal's chain
verified.json           the result of `aop evidence verify`. Keep `head_seq` and `head_hash` elsewhere: they show
                        later that nothing was cut off (aop evidence verify --anchor SEQ:HASH)
SHA256SUMS              sha256sum -c SHA256SUMS
"""


def evidence_files(kernel: Kernel, name: FeatureId, version: int, reports: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files of a bundle: the reports on this version of the feature, and what the record and git hold."""
    with kernel.record.read() as view:
        state = view.get(FeatureState, name)
        if state is None or state.version != version:
            raise VersionConflict(f"The feature `{name}`", expected=version, current=state.version if state else 0)
        files = {**reports, **_recorded(view, state), **_gate_files(kernel, view, name)}
    files["diff.patch"] = kernel.git.objects.diff(kernel.git.objects.tree_of(state.base_commit), state.tree)
    files["README.txt"] = ABOUT.format(feature=name).encode()
    return {path: _masked(kernel, content) for path, content in files.items()}


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


def _gate_files(kernel: Kernel, view: Snapshot, name: FeatureId) -> dict[str, bytes]:
    runs = [run for run in view.all(GateRun) if run.feature_id == name]
    files = {f"gates/{run.run_id}.json": pretty_json(msgspec.to_builtins(run)) for run in runs}
    return {**files, **dict(log for run in runs for log in _logs(kernel, run))}


def _logs(kernel: Kernel, run: GateRun) -> Iterator[tuple[str, bytes]]:
    for step in run.steps:
        content = kernel.files.read(step.log_path, limit=LARGEST_LOG)
        if content is not None:
            yield f"logs/{step.log_path.rpartition('/')[2]}", content


def _masked(kernel: Kernel, content: bytes) -> bytes:
    text = content.decode("utf-8", "surrogateescape")
    return kernel.redact.mask_secrets(text).encode("utf-8", "surrogateescape")
