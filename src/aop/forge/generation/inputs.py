"""Inputs of a generation: the answers, or the scan and its renovation plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from aop.core.digests import sha256_hex
from aop.core.errors import AnswersIncomplete, Json, RenovationPlanMissing, ScanNotCompleted, ScanNotDeep
from aop.core.text.json import canonical_json
from aop.forge.contracts.types import BuildMode, ContractType
from aop.forge.projects.documents import Flow, ForgeAnswers, ForgeProject, ScoutRun
from aop.forge.projects.questionnaire import complete_sections, sections_for
from aop.kernel.record.port import Snapshot


class GenerationInputs(Struct, frozen=True, kw_only=True):
    """All that a model may learn about a project, beside the contracts it has written."""

    project_id: str
    name: str
    mode: BuildMode
    flow: Flow
    answers: Mapping[str, Mapping[str, Any]] = {}
    """The answers by section; a scanned project may have some too."""
    scan: Mapping[str, Any] = {}
    plan: Mapping[str, Any] = {}
    contracts: Mapping[ContractType, str] = {}
    """The contracts of the newest batch: read where only one of them is written again."""

    def digest(self) -> str:
        """Return the digest over answers, scan and plan, which must not change while contracts are written."""
        return sha256_hex(canonical_json(msgspec.to_builtins(msgspec.structs.replace(self, contracts={}))))

    def own_words(self) -> str:
        """Return the project's own words, which a contract may repeat."""
        return "\n".join([self.name, *_texts(self.answers), *_texts(self.scan), *_texts(self.plan)])


def inputs_of(view: Snapshot, project: ForgeProject) -> GenerationInputs:
    """Return the inputs of a project.

    Raises: AnswersIncomplete; ScanNotCompleted, ScanNotDeep or RenovationPlanMissing for a scanned one.
    """
    known = view.get(ForgeAnswers, project.project_id)
    answers = {} if known is None else known.sections
    scan, plan = dict[str, Json](), dict[str, Json]()
    if project.flow == "greenfield":
        _refuse_missing(project, answers)
    else:
        scan, plan = _scanned(view.get(ScoutRun, project.scan_run) if project.scan_run else None, project)
    return GenerationInputs(
        project_id=project.project_id,
        name=project.name,
        mode=project.mode,
        flow=project.flow,
        answers=answers,
        scan=scan,
        plan=plan,
    )


def _refuse_missing(project: ForgeProject, answers: Mapping[str, Mapping[str, Json]]) -> None:
    complete = complete_sections(project.mode, answers)
    missing = [section.name for section in sections_for(project.mode) if section.name not in complete]
    if missing:
        raise AnswersIncomplete(
            f"The project `{project.project_id}` has no complete answers to: {', '.join(missing)}.",
            hint=f"Answer them with `aop forge ask {project.project_id}`, then generate again.",
            project_id=project.project_id,
            sections=[*missing],
        )


def _scanned(run: ScoutRun | None, project: ForgeProject) -> tuple[dict[str, Json], dict[str, Json]]:
    scan_again = f"Scan it with `aop forge scan {project.project_id}`, then generate again."
    facts: dict[str, Json] = {"project_id": project.project_id, "run_id": project.scan_run}
    if run is None or run.status != "completed":
        state = "no scan" if run is None else f"a scan that is {run.status}"
        message = f"The project `{project.project_id}` has {state}; a completed one is needed."
        raise ScanNotCompleted(message, hint=scan_again, **facts)
    if run.scan_type != "deep":
        message = f"The scan `{run.run_id}` is `{run.scan_type}`; a deep one is needed."
        raise ScanNotDeep(message, hint=scan_again, **facts)
    if run.plan is None:
        raise RenovationPlanMissing(
            f"The scan `{run.run_id}` has no renovation plan.",
            hint=f"Make it with `aop forge plan {project.project_id}`, then generate again.",
            **facts,
        )
    return {**run.results, "head_sha": run.head_sha}, dict(run.plan)


def _texts(value: Json) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for name, part in value.items() for text in (str(name), *_texts(part))]
    if isinstance(value, list | tuple):
        return [text for part in value for text in _texts(part)]
    return []
