"""Anchor: the technical choices of the answers, which every contract has to keep."""

from __future__ import annotations

from collections.abc import Mapping

from aop.core.errors import Json

ANCHOR_FIELDS: Mapping[str, tuple[str, str]] = {
    "backend": ("tech_stack", "backend"),
    "database": ("database_schema", "database"),
    "auth": ("tech_stack", "auth"),
    "frontend": ("tech_stack", "frontend"),
    "deployment": ("deployment_target", "deployment"),
}
"""Each choice: the section and the field of the questionnaire that hold it."""


def anchor_of(sections: Mapping[str, Mapping[str, Json]]) -> Mapping[str, str]:
    """Return the choices that were made; a mini project, which is not asked, may have none."""
    found = {name: sections.get(section, {}).get(field) for name, (section, field) in ANCHOR_FIELDS.items()}
    return {name: value for name, value in found.items() if isinstance(value, str)}
