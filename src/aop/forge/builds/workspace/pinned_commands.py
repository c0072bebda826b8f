"""Pinned commands: the verification that the directive of a build names."""

from __future__ import annotations

from aop.forge.contracts.shapes.directive import read_directive
from aop.forge.contracts.shapes.problems import Problems
from aop.forge.contracts.types import ContractType
from aop.forge.projects.batches import batch_of, contract_in
from aop.forge.projects.documents import ForgeBuild, ForgeProject
from aop.kernel.record.port import Snapshot


def pinned_commands(view: Snapshot, build: ForgeBuild) -> tuple[tuple[str, ...], ...]:
    """Return the verification commands of a build's pinned directive, as argument lists."""
    batch, project = batch_of(view, build.project_id, build.batch), view.get(ForgeProject, build.project_id)
    text = contract_in(view, batch, ContractType.BUILDER_DIRECTIVE).content
    return read_directive(text, "full" if project is None else project.mode, Problems()).settings.verify
