"""Blocks in descriptions: found in each form that trackers send, or refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from aop.core.errors import MissionAmbiguous, MissionInvalid, MissionMalformed, MissionMissing, Refusal
from aop.tickets.mission.blocks import (
    Parameters,
    ReviewParams,
    ScaffoldingMission,
    Target,
    review_params,
    review_params_block,
    scaffolding_mission,
)

BLOCK = """\
scaffolding:
  version: "1.0"
  technology_stack: python-fastapi
  target: {gitlab_project_path: group/orders, branch_slug: feature/SHOP-12-orders}
  parameters: {service_name: orders, description: Takes orders., owner_team: payments}"""
MISSION = ScaffoldingMission(
    version="1.0",
    technology_stack="python-fastapi",
    target=Target(gitlab_project_path="group/orders", branch_slug="feature/SHOP-12-orders"),
    parameters=Parameters(service_name="orders", description="Takes orders.", owner_team="payments"),
)
PARAMS = ReviewParams(
    gitlab_project_id="7",
    source_branch_name="feature/SHOP-12-orders",
    review_request_url="https://git.example/group/orders/-/merge_requests/3",
    generated_at="2026-01-02T03:04:05.678Z",
)


def fenced(text: str, label: str = "yaml") -> str:
    return f"```{label}\n{text}\n```"


def document(*content: Any) -> dict[str, Any]:
    return {"type": "doc", "version": 1, "content": list(content)}


def code_block(text: str, **attributes: str) -> dict[str, Any]:
    return {"type": "codeBlock", "attrs": attributes, "content": [{"type": "text", "text": text}]}


def paragraph(text: str) -> dict[str, Any]:
    return {"type": "paragraph", "content": [{"type": "text", "text": text}]}


@pytest.mark.req("SCAF-18")
@pytest.mark.parametrize(
    "description",
    [
        fenced(BLOCK),
        fenced(BLOCK, "yml"),
        fenced(BLOCK, "scaffolding"),
        fenced(BLOCK.partition("\n")[2].replace("\n  ", "\n").removeprefix("  "), "scaffolding"),
        "Please.\n\n" + fenced("a: 1") + "\n" + fenced("{broken", "json") + "\nand\n" + fenced(BLOCK) + "\nThanks",
        "{code:yaml}\n" + BLOCK + "\n{code}",
        "{code:title=a|yaml}\nnothing\n{code}\n{code:yaml|title=b}" + BLOCK + "{code} end",
        fenced(BLOCK.replace("  ", "\u00a0\u00a0").replace(": ", ":\u00a0")),
        fenced(BLOCK).replace("\n", "\r\n"),
        fenced(BLOCK) + "\n" + fenced(BLOCK),
        "````yaml\n" + BLOCK + "\n````",
        "```yaml\n" + BLOCK,
        document(paragraph("Please"), code_block(BLOCK, language="yaml"), paragraph("Thanks")),
        document(code_block(BLOCK)),
        document(*(paragraph(line) for line in fenced(BLOCK).replace("  ", "\u00a0\u00a0").split("\n"))),
        fenced(BLOCK) + "\n\n" + review_params_block(PARAMS),
    ],
)
def test_the_block_is_found_in_every_form(description: Any) -> None:
    assert scaffolding_mission(description) == MISSION


@pytest.mark.req("SCAF-65", "REV-12", "REV-13", "REV-14", "REV-15")
def test_the_reviewer_reads_the_block_that_the_scaffolder_appends() -> None:
    read = review_params(fenced(BLOCK) + "\n\n" + review_params_block(PARAMS))
    assert (read, read.merge_request_id) == (PARAMS, "3")


@pytest.mark.req("SCAF-19")
def test_the_version_may_be_written_as_a_number() -> None:
    assert scaffolding_mission(fenced(BLOCK.replace('"1.0"', "1"))).version == "1"


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        pytest.param('"1.0"', '"2"', "scaffolding.version", marks=pytest.mark.req("SCAF-19")),
        pytest.param('  version: "1.0"\n', "", "scaffolding", marks=pytest.mark.req("SCAF-19")),
        pytest.param("python-fastapi", '" "', "scaffolding.technology_stack", marks=pytest.mark.req("SCAF-20")),
        pytest.param("gitlab_project_path: group/orders, ", "", "scaffolding.target", marks=pytest.mark.req("SCAF-21")),
        pytest.param("group/orders", "../orders", "scaffolding.target.gitlab_project_path"),
        pytest.param("group/orders", "-orders", "scaffolding.target.gitlab_project_path"),
        pytest.param("feature/SHOP-12-orders", '"--force"', "scaffolding.target.branch_slug"),
        pytest.param(
            "feature/SHOP-12-orders", '"a b"', "scaffolding.target.branch_slug", marks=pytest.mark.req("SCAF-22")
        ),
        pytest.param("feature/SHOP-12-orders", "a..b", "scaffolding.target.branch_slug"),
        pytest.param("feature/SHOP-12-orders", "a/-b", "scaffolding.target.branch_slug"),
        pytest.param("feature/SHOP-12-orders", "a.lock", "scaffolding.target.branch_slug"),
        pytest.param("service_name: orders, ", "", "scaffolding.parameters", marks=pytest.mark.req("SCAF-23")),
        pytest.param("description: Takes orders., ", "", "scaffolding.parameters", marks=pytest.mark.req("SCAF-24")),
        pytest.param(", owner_team: payments", "", "scaffolding.parameters", marks=pytest.mark.req("SCAF-25")),
        pytest.param(BLOCK, "scaffolding: yes", "scaffolding"),
        pytest.param("parameters:", "surprise: 1\n  parameters:", "scaffolding"),
    ],
)
def test_a_wrong_field_is_named(old: str, new: str, field: str) -> None:
    with pytest.raises(MissionInvalid) as refused:
        scaffolding_mission(fenced(BLOCK.replace(old, new)))
    assert refused.value.facts["field"] == field


@pytest.mark.parametrize(
    ("description", "refusal"),
    [
        (None, MissionMissing),
        ("", MissionMissing),
        ("scaffolding: in words only", MissionMissing),
        (fenced("other: 1"), MissionMissing),
        (fenced(BLOCK, "python"), MissionMissing),
        (fenced(BLOCK) + "\n" + fenced(BLOCK.replace("payments", "other")), MissionAmbiguous),
        (fenced("scaffolding: [unclosed"), MissionMalformed),
        (fenced("scaffolding: &a [1]\nmore: *a"), MissionMalformed),
        (fenced("scaffolding: !!python/object:os.system x"), MissionMalformed),
        (fenced("scaffolding: " + "[" * 500), MissionMalformed),
        (fenced("scaffolding: 1\n" + "x" * 100_000), MissionMalformed),
        ("x" * 300_000, MissionMalformed),
        (7, MissionMalformed),
        (document("text"), MissionMalformed),
    ],
)
def test_what_cannot_be_read_is_refused_by_name_and_with_a_next_step(description: Any, refusal: type[Refusal]) -> None:
    with pytest.raises(refusal) as refused:
        scaffolding_mission(description)
    assert refused.value.next_action.endswith(".")


def test_a_document_that_is_nested_too_deep_is_refused() -> None:
    node = paragraph("x")
    for _ in range(80):
        node = {"type": "blockquote", "content": [node]}
    with pytest.raises(MissionMalformed):
        scaffolding_mission(document(node))


def test_broken_yaml_is_told_with_its_line_in_the_description() -> None:
    with pytest.raises(MissionMalformed) as refused:
        scaffolding_mission("Hello\n\n" + fenced("scaffolding:\n  version: 1\n  version: 2"))
    assert refused.value.facts["line"] == 6


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        pytest.param(PARAMS.generated_at, "yesterday", "generated_at", marks=pytest.mark.req("REV-16")),
        pytest.param("/merge_requests/3", "/issues/3", "review_request_url", marks=pytest.mark.req("REV-15")),
        pytest.param("feature/SHOP-12-orders", "-x", "source_branch_name", marks=pytest.mark.req("REV-14")),
    ],
)
def test_wrong_params_of_a_review_are_named(old: str, new: str, field: str) -> None:
    with pytest.raises(MissionInvalid) as refused:
        review_params(review_params_block(PARAMS).replace(old, new))
    assert refused.value.facts["field"] == f"code_review_params.{field}"
