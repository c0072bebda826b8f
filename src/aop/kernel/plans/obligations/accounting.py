"""Accounting: a plan's statement on each obligation, and later the proof."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from aop.core.errors import ObligationsUnaccounted
from aop.core.structs import copy_fields
from aop.kernel.config.policy import Policy
from aop.kernel.plans.checks import Violation, refuse_violations
from aop.kernel.plans.obligations.spec_scan import SpecScan, scan_spec
from aop.kernel.record.documents.obligations import (
    Accounting,
    Deferred,
    InScope,
    Obligation,
    ObligationLedger,
    assign_numbers,
)
from aop.kernel.record.documents.plans import Plan


class ScannedSpec(Struct, frozen=True, kw_only=True):
    """A scanned spec, with the hash of its text."""

    sha256: str
    scanned: SpecScan


def scan_spec_text(text: str | None) -> ScannedSpec | None:
    """Scan the text of a spec; None without one."""
    if text is None:
        return None
    return ScannedSpec(sha256=hashlib.sha256(text.encode()).hexdigest(), scanned=scan_spec(text))


def account_for_plan(
    spec: ScannedSpec | None,
    given: Sequence[InScope | Deferred] | None,
    plan: Plan,
    before: ObligationLedger | None,
    policy: Policy,
) -> Accounting | None:
    """Return a plan's account of its spec; a revision without one keeps the account before it."""
    if spec is None:
        refuse_violations([Violation(field="obligations", reason="the feature has no spec")] if given else [])
        return None
    made = number_obligations(spec, before.accounting if before else None, plan.plan_version)
    if given is None:
        given = [each for each in made.mapped if _is_known(each, made) and not _unplanned_paths(each, plan)]
    else:
        refuse_violations([*_flaws(given, made, plan)])
    order = {each.id: number for number, each in enumerate(made.found)}
    made = replace(made, mapped=tuple(sorted(given, key=lambda each: order[each.obligation])))
    if policy.planning.require_obligations:
        _refuse_gaps(made)
    return made


def number_obligations(spec: ScannedSpec, before: Accounting | None, plan_version: int) -> Accounting:
    """Number the obligations of a spec, and keep the earlier mappings."""
    known, last = (before.found, before.last_number) if before else ((), 0)
    found = assign_numbers(spec.scanned.found, known, last)
    return Accounting(
        plan_version=plan_version,
        spec_sha256=spec.sha256,
        found=found,
        left_out=spec.scanned.left_out,
        last_number=max([last, *(int(each.id[1:]) for each in found)]),
        mapped=before.mapped if before else (),
    )


def unaccounted(accounting: Accounting) -> tuple[Obligation, ...]:
    """Return the obligations that the plan does not mention."""
    return tuple(each for each in accounting.found if each.id not in accounting.by_id)


def _is_known(mapped: InScope | Deferred, accounting: Accounting) -> bool:
    return any(each.id == mapped.obligation for each in accounting.found)


def _unplanned_paths(mapped: InScope | Deferred, plan: Plan) -> list[str]:
    planned = {*plan.files.create, *plan.files.modify, *plan.files.delete}
    return [path for path in mapped.paths if path not in planned] if isinstance(mapped, InScope) else []


def _flaws(given: Sequence[InScope | Deferred], accounting: Accounting, plan: Plan) -> Iterator[Violation]:
    times = Counter(each.obligation for each in given)
    for number, each in enumerate(given):
        field = f"obligations[{number}]"
        if not _is_known(each, accounting):
            yield Violation(field=field, reason=f"the spec has no obligation `{each.obligation}`")
        if times[each.obligation] > 1:
            yield Violation(field=field, reason=f"`{each.obligation}` is mapped more than once")
        for path in _unplanned_paths(each, plan):
            yield Violation(field=field, reason=f"`{path[:200]}` is not in the plan's `files`")


def _refuse_gaps(accounting: Accounting) -> None:
    gaps = unaccounted(accounting)
    if accounting.left_out:
        raise ObligationsUnaccounted(
            f"The spec has too many obligations: {accounting.left_out} of them are beyond the limit.",
            hint="Ask a person to split the spec into several features.",
            left_out=accounting.left_out,
        )
    if gaps:
        raise ObligationsUnaccounted(
            f"The plan does not account for {len(gaps)} of the spec's {len(accounting.found)} obligations:"
            f" {', '.join(f'`{each.id}`' for each in gaps[:20])}.",
            obligations=[{"id": each.id, "line": each.line, "text": each.text} for each in gaps],
        )


ObligationState = Literal["met", "claimed", "missing", "deferred", "unaccounted"]
OBLIGATION_STATES: tuple[ObligationState, ...] = ("unaccounted", "missing", "claimed", "deferred", "met")
"""In the order of a reviewer's attention."""


class AccountedObligation(Obligation, frozen=True, kw_only=True):
    """One demand of the spec, with its state."""

    standing: ObligationState
    """`met`: every test that is named for it passed. `claimed`: in scope, and not proven. `missing`: a named test did
    not pass, or no report has it. `deferred`: left out, with a reason. `unaccounted`: the plan says nothing of it."""
    why: str
    """The tests that show it, what is not proven, or the planner's reason."""
    paths: tuple[str, ...]
    tests: tuple[str, ...]


class ReportedTests(Struct, frozen=True, kw_only=True):
    """The outcome of named tests in a gate run that is still current."""

    run_id: str
    mode: str
    named_tests: Mapping[str, str]


def obligation_states(accounting: Accounting, runs: Sequence[ReportedTests]) -> tuple[AccountedObligation, ...]:
    """Return each obligation with its state."""
    mappings = accounting.by_id
    return tuple(_with_state(each, mappings.get(each.id), runs) for each in accounting.found)


def _with_state(
    obligation: Obligation, mapping: InScope | Deferred | None, runs: Sequence[ReportedTests]
) -> AccountedObligation:
    standing, why = _state_and_reason(mapping, runs)
    paths, tests = (mapping.paths, mapping.tests) if isinstance(mapping, InScope) else ((), ())
    return copy_fields(AccountedObligation, obligation, standing=standing, why=why, paths=paths, tests=tests)


def _state_and_reason(mapping: InScope | Deferred | None, runs: Sequence[ReportedTests]) -> tuple[ObligationState, str]:
    if mapping is None:
        return "unaccounted", "The plan does not mention it."
    if isinstance(mapping, Deferred):
        return "deferred", mapping.reason
    if not mapping.tests:
        return "claimed", "Claimed, not proven: no test is named for it."
    fates = {name: [run.named_tests[name] for run in runs if name in run.named_tests] for name in mapping.tests}
    unproven = {name: reported for name, reported in fates.items() if "passed" not in reported}
    if not unproven:
        modes = sorted({run.mode for run in runs if run.named_tests.keys() & set(mapping.tests)})
        return "met", f"Passed in the {' and '.join(modes)} gates: {', '.join(mapping.tests)}."
    if not any(unproven.values()):
        return "claimed", "Claimed, not proven: no gate run of this tree reports its tests by name."
    words = {"absent": "is in no report", "not_passed": "did not pass"}
    problems = [f"`{name}` {words.get(fates[-1], fates[-1])}" for name, fates in unproven.items() if fates]
    return "missing", f"{'; '.join(problems)}."
