"""Review of obligations: a spec's demands with the state of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from aop.kernel.gates.summaries import RunSummary
from aop.kernel.plans.obligations.accounting import (
    OBLIGATION_STATES,
    AccountedObligation,
    ReportedTests,
    number_obligations,
    obligation_states,
    scan_spec_text,
)
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.gate_runs import Verdict
from aop.kernel.record.documents.obligations import ObligationLedger


class ObligationReview(Struct, frozen=True, kw_only=True):
    """The obligations of the spec now, with the accepted plan's statement on each."""

    spec_changed: bool
    """Whether the spec changed since the plan was made."""
    left_out: int
    """The number of further obligations that are not listed."""
    counts: Mapping[str, int]
    """The number of obligations of each standing."""
    rows: tuple[AccountedObligation, ...]
    """In the order of the spec."""


def review_obligations(
    spec: str | None, ledger: ObligationLedger | None, runs: Sequence[ReportedTests], mask: Callable[[str], str]
) -> ObligationReview | None:
    """Return the state of each obligation of the current spec; None if there never was a spec."""
    before = ledger.accounting if ledger else None
    scanned = scan_spec_text(spec)
    if scanned is not None:
        accounting = number_obligations(scanned, before, before.plan_version if before else 0)
    elif before is not None:
        accounting = before
    else:
        return None
    rows = obligation_states(accounting, runs)
    return ObligationReview(
        spec_changed=before is not None and accounting.spec_sha256 != before.spec_sha256,
        left_out=accounting.left_out,
        counts={standing: sum(row.standing == standing for row in rows) for standing in OBLIGATION_STATES},
        rows=tuple(
            replace(row, text=mask(row.text), why=mask(row.why), tests=tuple(map(mask, row.tests))) for row in rows
        ),
    )


def reported_tests(runs: Iterable[RunSummary], state: FeatureState) -> tuple[ReportedTests, ...]:
    """Return the outcome of the plan's named tests in runs that passed and are current."""
    return tuple(
        ReportedTests(run_id=run.run_id, mode=run.mode, named_tests=run.tests.get("named", {}))
        for run in runs
        if run.verdict is Verdict.PASS and (run.current or state.status is Status.MERGED)
    )
