"""Sign-off rule: what is missing before a phase counts as done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from aop.core.text.counts import count
from aop.forge.builds.documents import BuildCycle, Evidence, PhaseProgress, SignedOff
from aop.forge.builds.machine.events import TreeProof

README = "README.md"


class Missing(Struct, frozen=True, kw_only=True):
    """One thing that is missing; its key stays the same while its words may change."""

    key: str
    text: str


def missing_for(
    cycle: BuildCycle, said: SignedOff, deliverables: Sequence[str], proof: TreeProof
) -> tuple[Missing, ...]:
    """Return everything that keeps a sign-off from counting; nothing if it counts (FORGE-055).

    `deliverables` are those of the current phase, in their order.
    """
    if said.phase != cycle.current.number:
        told = f"The sign-off names phase {said.phase}, and phase {cycle.current.number} is being built."
        return (Missing(key="phase", text=told),)
    return (
        *_missing_tasks(cycle.current),
        *_missing_words(said),
        *_missing_evidence(said.evidence, deliverables, proof),
        *_missing_proof(proof),
        *_missing_readme(cycle, proof),
    )


def claims_of(said: SignedOff, deliverables: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Return for each deliverable the paths that a sign-off names, and the reason if it has no test."""
    by_number = {each.deliverable: each for each in said.evidence}
    return {
        text: (*each.paths, *((each.no_test_because,) if each.no_test_because else ()))
        for number, text in enumerate(deliverables, start=1)
        if (each := by_number.get(number)) is not None
    }


def _missing_tasks(phase: PhaseProgress) -> Iterator[Missing]:
    if not phase.plan:
        yield Missing(key="plan", text=f"Phase {phase.number} has no plan.")
        return
    undone = [task.number for task in phase.plan if task.number not in phase.done]
    if undone:
        numbers = ", ".join(map(str, undone))
        yield Missing(key="tasks", text=f"{count(len(undone), 'task')} of the plan not said to be done: {numbers}.")


def _missing_words(said: SignedOff) -> Iterator[Missing]:
    if said.tests.strip().rstrip(".").upper() != "PASS":
        yield Missing(key="tests_line", text="The sign-off has no line `Tests: PASS`.")


def _missing_evidence(said: Sequence[Evidence], deliverables: Sequence[str], proof: TreeProof) -> Iterator[Missing]:
    by_number = {each.deliverable: each for each in said}
    for number, text in enumerate(deliverables, start=1):
        each, key = by_number.get(number), f"deliverable_{number}"
        if each is None or not (each.paths or each.no_test_because):
            told = f"Deliverable {number}, `{text[:100]}`, has no evidence: name the files that show it."
            yield Missing(key=key, text=told)
        elif absent := [path for path in each.paths if path not in proof.paths]:
            told = f"Deliverable {number}, `{text[:100]}`: there is no file `{absent[0][:200]}`."
            yield Missing(key=key, text=told)


def _missing_proof(proof: TreeProof) -> Iterator[Missing]:
    if not proof.gate_run_id:
        yield Missing(key="verification", text="The verification has not run on these files.")
    elif proof.failure:
        yield Missing(key="verification", text=f"The verification did not pass: {proof.failure}")
    for code, found in sorted(proof.audit.items()):
        yield Missing(key=f"audit_{code}", text=f"Audit {code}: {found}")


def _missing_readme(cycle: BuildCycle, proof: TreeProof) -> Iterator[Missing]:
    if cycle.current.number >= len(cycle.phases) - 1 and README not in proof.paths:
        yield Missing(key="readme", text=f"The last phase ends with a complete `{README}`, and there is none.")
