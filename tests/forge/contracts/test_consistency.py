"""Contradictions between contracts and to the anchor, and the scores of the rubric."""

from __future__ import annotations

import pytest

from aop.forge.contracts.anchor import anchor_of
from aop.forge.contracts.consistency import Contradiction, contradictions_in
from aop.forge.contracts.rubric import Quality, quality_of
from aop.forge.contracts.types import ContractType
from tests.forge import sample_contracts as sample

T = ContractType
ANCHOR = anchor_of(sample.ANSWERS)  # type: ignore[arg-type]  # plain values, as YAML has them


def found(
    contract_type: ContractType, before: str, after: str, **anchor: str
) -> list[tuple[str, tuple[str, ...], str]]:
    text = sample.CONTRACTS[contract_type]
    assert before in text
    changed = {**sample.CONTRACTS, contract_type: text.replace(before, after)}
    return [
        (each.severity, each.contracts, each.description)
        for each in contradictions_in(changed, "full", {**ANCHOR, **anchor})
    ]


def test_contracts_that_agree_have_no_contradiction() -> None:
    assert contradictions_in(sample.CONTRACTS, "full", ANCHOR) == ()


@pytest.mark.parametrize(
    ("contract_type", "before", "after", "contracts", "said"),
    [
        (T.STACK, "SQLite, one file", "PostgreSQL 16", ("answers", "stack"),
         "The answers chose SQLite (database); stack does not name it; it names PostgreSQL."),
        (T.STACK, "FastAPI", "Flask", ("answers", "stack"),
         "The answers chose FastAPI (backend); stack does not name it; it names Flask."),
        (T.BLUEPRINT, "one SQLite file", "one PostgreSQL server", ("answers", "blueprint"),
         "The answers chose SQLite (database); blueprint names PostgreSQL."),
        (T.PHASES, "**Schema coverage:** members", "**Schema coverage:** people", ("schema", "phases"),
         "Phase 1 covers the table `people`, which schema does not have."),
        (T.SCHEMA, "references members(id)", "references people(id)", ("schema",),
         "The table `sightings` refers to `people`, which does not exist."),
        (T.PHYSICS, "request_body: Invitation", "request_body: Invite", ("physics",),
         "post `/members` uses `Invite`, which `schemas` does not have."),
        (T.UI, "reads `/sightings`", "reads `/birds`", ("ui", "physics"),
         "The UI uses `/birds`, which physics does not have."),
        (T.BOUNDARIES, "birdlog/repos/**/*.py", "birdlog/repos/**/*.go", ("boundaries", "stack"),
         "The layer `repos` holds `birdlog/repos/**/*.go`; stack names Python."),
        (T.BOUNDARIES, '"may_import": []', '"may_import": ["services"]', ("boundaries",),
         "The layers `repos` and `services` may import each other."),
        (T.BUILDER_DIRECTIVE, "[0, 1, 2, 3, 4, 5]", "[0, 1, 2, 3, 4]", ("builder_directive", "phases"),
         "The builder directive orders 5 phases; phases has 6."),
    ],
)  # fmt: skip
def test_a_contradiction_is_an_error_that_names_its_contracts(
    contract_type: ContractType, before: str, after: str, contracts: tuple[str, ...], said: str
) -> None:
    assert found(contract_type, before, after)[0] == ("error", contracts, said)


@pytest.mark.parametrize(
    ("contract_type", "before", "after", "said"),
    [
        (T.PHASES, "**Schema coverage:** members", "**Schema coverage:** none", "No phase covers the table `members`."),
        (T.PHYSICS, "  /members:", "  /invoices:", "No phase delivers `/invoices`."),
        (
            T.BUILDER_DIRECTIVE,
            "[python, -m, pytest, -q]",
            "[npm, test]",
            "`npm test` verifies a phase; stack names Python.",
        ),
        (T.STACK, "write-ahead log", "or MySQL later", "The answers chose SQLite (database); stack names MySQL."),
        (T.UI, "# Bird Log —", "# Tree Log —", "The contracts name the project differently: `bird log`, `tree log`."),
    ],
)
def test_what_a_person_should_look_at_is_a_warning(
    contract_type: ContractType, before: str, after: str, said: str
) -> None:
    assert [(severity, text) for severity, _, text in found(contract_type, before, after)] == [("warning", said)]


@pytest.mark.parametrize(
    ("anchor", "said"),
    [
        ({"auth": "none"}, "The answers chose no sign-in; post `/members` demands `session`."),
        ({"database": "none"}, "The answers chose no database; stack names SQLite."),
        ({"frontend": "Delphi"}, "The answers chose `Delphi` (frontend); stack is silent."),
        (
            {"deployment": "Kubernetes"},
            "The answers chose Kubernetes (deployment); stack does not name it; it names Docker, systemd.",
        ),
    ],
)
def test_other_answers_contradict_the_same_contracts(anchor: dict[str, str], said: str) -> None:
    assert said in [each.description for each in contradictions_in(sample.CONTRACTS, "full", {**ANCHOR, **anchor})]


def test_a_contract_that_cannot_be_read_is_an_error_and_the_others_are_still_compared() -> None:
    broken = {**sample.CONTRACTS, T.SCHEMA: "nothing", T.UI: sample.UI.replace("reads `/sightings`", "reads `/birds`")}
    assert [each.contracts for each in contradictions_in(broken, "full", ANCHOR)] == [("schema",), ("ui", "physics")]


@pytest.mark.req("FORGE-149")
def test_each_scale_of_the_rubric_is_computed_from_the_text() -> None:
    aims = ["members", "sightings", "yearly export"]
    assert quality_of(T.BLUEPRINT, sample.BLUEPRINT, "full", (), aims) == Quality(
        completeness=100, accuracy=100, depth=68, no_placeholders=100, plan_alignment=100
    )
    against = (
        Contradiction(severity="error", contracts=("answers", "blueprint"), description="a"),
        Contradiction(severity="warning", contracts=("blueprint",), description="b"),
        Contradiction(severity="error", contracts=("stack",), description="c"),
    )
    worse = sample.BLUEPRINT.replace("## Architecture", "## Shape") + "- TBD\n"
    assert quality_of(T.BLUEPRINT, worse, "full", against, [*aims, "invoices for sponsors"]) == Quality(
        completeness=60, accuracy=65, depth=68, no_placeholders=0, plan_alignment=75
    )
