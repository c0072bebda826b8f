"""The outline of a contract, and its sections."""

from __future__ import annotations

import pytest

from aop.core.errors import UnknownSection
from aop.forge.contracts.outline import outline_of, section_of
from aop.forge.contracts.types import ContractType
from tests.forge import sample_contracts as sample

T = ContractType


def test_the_outline_of_markdown_names_its_headings() -> None:
    assert [(row.section, row.level) for row in outline_of(T.STACK, sample.STACK)] == [
        ("Bird Log — Stack", 1),
        ("Backend", 2),
        ("Frontend", 2),
        ("Infrastructure", 2),
        ("Development tools", 2),
    ]


@pytest.mark.parametrize("asked", ["Frontend", "## Frontend", "frontend"])
def test_a_section_of_markdown_is_asked_for_by_its_heading(asked: str) -> None:
    assert section_of(T.STACK, sample.STACK, asked) == (
        "## Frontend\n- Jinja templates rendered by the server, HTMX for the forms\n"
    )


def test_a_heading_that_is_there_twice_is_named_with_the_one_above() -> None:
    text = "# P\n\n## Phase 0 — A\n### Objective\none\n\n## Phase 1 — B\n### Objective\ntwo\n"
    assert [row.section for row in outline_of(T.PHASES, text)] == [
        "P",
        "Phase 0 — A",
        "Phase 0 — A / Objective",
        "Phase 1 — B",
        "Phase 1 — B / Objective",
    ]
    assert section_of(T.PHASES, text, "Phase 1 — B / Objective") == "### Objective\ntwo\n"


def test_a_heading_inside_a_fence_is_no_section() -> None:
    text = "# T\n```\n# not one\n```\n## Last\nx\n"
    assert [row.section for row in outline_of(T.UI, text)] == ["T", "Last"]


def test_parts_of_physics_and_boundaries_are_asked_for_by_pointers() -> None:
    assert [row.section for row in outline_of(T.PHYSICS, sample.PHYSICS)][:6] == [
        "/info",
        "/info/title",
        "/info/version",
        "/paths",
        "/paths/~1members",
        "/paths/~1sightings",
    ]
    assert section_of(T.PHYSICS, sample.PHYSICS, "/schemas/Member") == "id: integer\nemail: string\n"
    assert section_of(T.PHYSICS, sample.PHYSICS, "/paths/~1sightings/get/response") == "SightingList\n"
    assert section_of(T.BOUNDARIES, sample.BOUNDARIES, "/layers/2/may_import") == "[]\n"


@pytest.mark.parametrize(
    ("contract_type", "section"),
    [
        (T.STACK, "Backed"),
        (T.PHYSICS, "/paths/~1birds"),
        (T.BOUNDARIES, "/layers/3"),
        (T.BOUNDARIES, ""),
        (T.STACK, ""),
    ],
)
def test_an_unknown_section_is_refused_with_those_that_exist(contract_type: ContractType, section: str) -> None:
    text = sample.CONTRACTS[contract_type]
    with pytest.raises(UnknownSection) as refused:
        section_of(contract_type, text, section)
    assert refused.value.facts["sections"] == [row.section for row in outline_of(contract_type, text)]
