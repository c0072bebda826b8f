"""The strict readers: what they accept, and the problems that they name."""

from __future__ import annotations

from time import process_time

import pytest

from aop.core.errors import ContractRefused
from aop.forge.contracts.readers import MAX_CONTRACT_BYTES, ReadContract, read_contract
from aop.forge.contracts.shapes.boundaries import Boundaries
from aop.forge.contracts.shapes.directive import Directive, Settings, with_settings
from aop.forge.contracts.shapes.phases import Phase, Phases
from aop.forge.contracts.shapes.physics import Endpoint, Physics
from aop.forge.contracts.shapes.schema import Schema
from aop.forge.contracts.types import CONTRACT_TYPES, BuildMode, ContractType
from tests.forge import sample_contracts as sample

T = ContractType


def problems(contract_type: ContractType, text: str, mode: BuildMode = "full") -> tuple[str, ...]:
    with pytest.raises(ContractRefused) as refused:
        read_contract(contract_type, text, mode)
    assert refused.value.facts["contract_type"] == contract_type
    listed = refused.value.facts["problems"]
    assert isinstance(listed, list)
    return tuple(str(each) for each in listed)


@pytest.mark.parametrize("contract_type", CONTRACT_TYPES)
def test_each_type_of_a_whole_project_is_accepted(contract_type: ContractType) -> None:
    text = sample.CONTRACTS[contract_type]
    read = read_contract(contract_type, text, "full")
    assert (read.contract_type, read.text) == (contract_type, text)


@pytest.mark.parametrize("contract_type", CONTRACT_TYPES)
@pytest.mark.parametrize("other", CONTRACT_TYPES)
def test_the_text_of_another_type_is_refused_and_its_type_is_named(
    contract_type: ContractType, other: ContractType
) -> None:
    if contract_type != other:
        assert problems(contract_type, sample.CONTRACTS[other])[0] == f"This is a {other} contract."


@pytest.mark.parametrize("contract_type", CONTRACT_TYPES)
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "It is empty."),
        (" \n\t\n", "It is empty."),
        ("x" * (2 * 1024 * 1024), f"It has 2097152 bytes; a contract has at most {MAX_CONTRACT_BYTES}."),
        ("# \ud800", "It is not text: it holds a lone surrogate."),
    ],
)
def test_what_is_no_text_of_a_contract_is_refused_for_every_type(
    contract_type: ContractType, text: str, problem: str
) -> None:
    assert problems(contract_type, text) == (problem,)


@pytest.mark.parametrize(
    "said",
    ["I'm sorry, but I can't help with that.", "I cannot write this.", "Unfortunately, there is too little to go on.",
     "As an AI model, I have no files.", "# Sorry\n\nI was not able to finish."],
)  # fmt: skip
@pytest.mark.parametrize("contract_type", CONTRACT_TYPES)
def test_an_apology_is_no_contract(contract_type: ContractType, said: str) -> None:
    (problem,) = problems(contract_type, said)
    assert problem.startswith(f"It is an apology, not a {contract_type} contract: ")


def test_words_before_the_title_are_refused() -> None:
    (problem,) = problems(T.STACK, f"Here is the stack:\n\n{sample.STACK}")
    assert problem == (
        "It begins with `Here is the stack:`; the first line is the title, `# ...`, without words or a fence before it."
    )


@pytest.mark.parametrize(
    ("line", "shown"),
    [("- Cache: TBD", "TBD"), ("- TODO: choose", "TODO"), ("- <your cache>", "<your cache>"), ("- <...>", "<...>"),
     ("- [insert cache]", "[insert cache]"), ("- Lorem ipsum dolor", "Lorem ipsum"), ("- {{cache}}", "{{cache}}")],
)  # fmt: skip
def test_a_placeholder_is_refused_with_its_line(line: str, shown: str) -> None:
    assert problems(T.STACK, f"{sample.STACK}{line}\n") == (f"Line 18 has the placeholder `{shown}`.",)


@pytest.mark.parametrize(
    "line", ["- A TODO list is shown", "- `<input disabled>`", "- List<Bird>", "- [add a bird](/new)"]
)
def test_words_that_only_resemble_a_placeholder_are_accepted(line: str) -> None:
    assert read_contract(T.STACK, f"{sample.STACK}{line}\n", "full").contract_type is T.STACK


def test_missing_double_and_empty_sections_are_all_named_at_once() -> None:
    text = sample.STACK.replace("## Backend", "## Server").replace("## Development tools", "## Frontend")
    assert problems(T.STACK, text) == (
        "The section `## Backend` is missing.",
        "The section `## Frontend` is there 2 times.",
        "The section `## Development tools` is missing.",
    )
    assert problems(T.MANIFESTO, "# M\n\n## Purpose\nx\n\n## Principles\n- one of the principles\n" + "\n" * 300) == (
        "The section `## Purpose` is nearly empty.",
        "`## Principles` needs at least 3 list items or subheadings.",
    )


def test_phases_are_read_with_their_four_parts() -> None:
    content = read_contract(T.PHASES, sample.PHASES, "full").content
    assert isinstance(content, Phases)
    assert content.phases[2] == Phase(
        number=2,
        name="Sightings",
        line=19,
        objective="Sightings are stored.",
        deliverables=("`/sightings` to write",),
        schema_coverage=("sightings",),
        exit_criteria=("a count below 1 is refused",),
    )
    assert [len(phase.schema_coverage) for phase in content.phases] == [0, 1, 1, 1, 0, 0]


def test_parts_of_a_phase_may_be_headings() -> None:
    text = sample.PHASES
    for part in ("Objective", "Deliverables", "Schema coverage", "Exit criteria"):
        text = text.replace(f"**{part}:**", f"### {part}\n")
    read, plain = read_contract(T.PHASES, text, "full").content, read_contract(T.PHASES, sample.PHASES, "full").content
    assert isinstance(read, Phases)
    assert isinstance(plain, Phases)
    assert [(each.objective, each.schema_coverage) for each in read.phases] == [
        (each.objective, each.schema_coverage) for each in plain.phases
    ]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("## Phase 3 — Year", "## Phase 3 - Year", (
            "Line 27: `Phase 3 - Year` must read `## Phase N — Name`, with an em dash.",
            "Phase 3 is missing.", "It has 5 phases; a full build has 6 to 12.")),
        ("## Phase 3 — Year", "## Phase 2 — Year", ("Phase 2 is there 2 times.", "Phase 3 is missing.")),
        ("## Phase 0 — Genesis", "## Phase 0 — Start", ("Phase 0 is called `Genesis`, not `Start`.",)),
        ("`README.md`, ", "", ("The deliverables of the last phase, 5, lack `README.md`.",)),
        ("**Objective:** A year is shown.\n", "", ("Phase 3 has no Objective.",)),
        ("**Schema coverage:** members\n", "", ("Phase 1 has no Schema coverage.",)),
        ("## Phase 3 — Year", "## Phase 900 — Year", ()),
    ],
)  # fmt: skip
def test_a_phase_that_is_missing_double_or_incomplete_is_named(
    before: str, after: str, expected: tuple[str, ...]
) -> None:
    found = problems(T.PHASES, sample.PHASES.replace(before, after))
    assert found == expected or (expected == () and "Phase 3 is missing." in found)


@pytest.mark.req("FORGE-017")
def test_a_mini_build_has_exactly_two_phases() -> None:
    assert isinstance(read_contract(T.PHASES, sample.MINI_PHASES, "mini"), ReadContract)
    assert problems(T.PHASES, sample.PHASES, "mini") == ("It has 6 phases; a mini build has exactly 2.",)
    assert problems(T.PHASES, sample.MINI_PHASES) == ("It has 2 phases; a full build has 6 to 12.",)


def test_physics_is_read_with_the_line_of_each_method() -> None:
    content = read_contract(T.PHYSICS, sample.PHYSICS, "full").content
    assert isinstance(content, Physics)
    assert content.endpoints[1] == Endpoint(
        path="/sightings",
        method="get",
        summary="Sightings of a year",
        auth="session",
        shapes=("SightingList",),
        line=12,
    )
    assert content.schemas == ("Invitation", "Member", "SightingDraft", "Sighting", "SightingList")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: &x [1]\nb: *x\n", "It cannot be read as YAML (line 1): it uses an anchor or an alias."),
        ("info: !!python/object/apply:os.system [ls]\n", "It cannot be read as YAML (line 1): it uses a tag."),
        ("- 1\n", "It is not a mapping with `info`, `paths` and `schemas`."),
        ("info: {title: X}\npaths: {}\nschemas: {}\n",
         "`paths` is empty; a project without an HTTP interface says `api: none` in `info`."),
        ("info: {title: X}\npaths: {tasks: {get: {summary: a, auth: b, response: c}}}\nschemas: {}\n",
         "The path `tasks` does not begin with `/`, or holds a space."),
        ("info: {title: X}\npaths: {/a: {fetch: {summary: a}}}\nschemas: {}\n",
         "`fetch` of `/a` is not a method; write get, post, put, patch, delete in small letters."),
        ("info: {title: X}\npaths: {/a: {get: {summary: a, auth: none}}}\nschemas: {}\n", "get `/a` has no"),
        ("info: {title: X}\npaths: {/a: {}}\nschemas: {}\nservers: []\n",
         "`servers` is not a part of this contract; it has `info`, `paths` and `schemas`."),
        ("[" * 100_000, "It cannot be read as YAML"),
    ],
)  # fmt: skip
@pytest.mark.hostile("Y01", "Y03", "Y05")
def test_physics_that_is_wrong_or_hostile_is_refused(text: str, expected: str) -> None:
    assert any(problem.startswith(expected) for problem in problems(T.PHYSICS, text))


def test_a_project_without_an_interface_says_so() -> None:
    read = read_contract(T.PHYSICS, "info: {title: X, api: none}\npaths: {}\nschemas: {}\n", "full")
    assert read.content == Physics(title="X", endpoints=(), schemas=())


def _boundaries(**layer: object) -> str:
    import json

    whole = {"name": "web", "glob": "src/**/*.py", "forbidden": [{"pattern": "x", "reason": "y"}], **layer}
    return json.dumps({"description": "d", "layers": [whole], "known_violations": []})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "It cannot be read as JSON (line 1): it is not JSON: Expecting property name enclosed in double quotes."),
        ("[]", "It is JSON, but not an object with `description` and `layers`."),
        ('{"description": "d", "layers": [], "rules": []}',
         "Its shape is wrong: Object contains unknown field `rules`."),
        ('{"description": "d", "layers": []}', "`layers` is empty."),
        (_boundaries(glob="src/**.py"), "The glob `src/**.py` of the layer `web` is not one: `**` must"),
        (_boundaries(glob="src/*.{ts,tsx}"), "The glob `src/*.{ts,tsx}` of the layer `web` is not one: only"),
        (_boundaries(glob="../x"), "The glob `../x` of the layer `web` is not one: it is a path from the root"),
        (_boundaries(forbidden=[{"pattern": "(?<=a)b", "reason": "y"}]), "The pattern `(?<=a)b` of the layer `web`"),
        (_boundaries(forbidden=[{"pattern": "a{1001}", "reason": "y"}]), "The pattern `a{1001}` of the layer `web`"),
        (_boundaries(forbidden=[{"pattern": "a" * 501, "reason": "y"}]), "The pattern `aaaa"),
        (_boundaries(forbidden=[{"pattern": "a*", "reason": "y"}]),
         "The pattern `a*` of the layer `web` is refused: it matches an empty line, so it would forbid every line."),
        (_boundaries(may_import=["data"]), "The layer `web` may import `data`, which is not a layer."),
        (_boundaries(forbidden=[]), "No layer forbids anything"),
        ("[" * 100_000, "It cannot be read as JSON: it is nested more than 100 levels deep."),
    ],
)  # fmt: skip
@pytest.mark.hostile("Y14", "Y25")
def test_boundaries_that_are_wrong_or_hostile_are_refused(text: str, expected: str) -> None:
    assert any(problem.startswith(expected) for problem in problems(T.BOUNDARIES, text))


@pytest.mark.unmeasured
@pytest.mark.series(6)
@pytest.mark.parametrize(
    "line", ["# a\n", "## Phase 1 — a\n", "### Phase 1\n", "```\n", "|", "- ", "{{", "`", "**Objective"]
)
@pytest.mark.parametrize("contract_type", [T.STACK, T.PHASES, T.SCHEMA])
def test_the_time_to_read_a_text_grows_with_its_size_alone(contract_type: ContractType, line: str) -> None:
    began = process_time()
    problems(contract_type, "# T\n" + line * (100_000 // len(line)))
    assert process_time() - began < 3


@pytest.mark.unmeasured
def test_a_heading_with_a_long_gap_is_read_at_once() -> None:
    began = process_time()
    problems(T.STACK, "# T\n## a" + " " * 10_000 + "x\n")
    assert process_time() - began < 3


@pytest.mark.unmeasured
@pytest.mark.hostile("Y22")
def test_a_pattern_that_never_ends_elsewhere_is_harmless() -> None:
    from aop.core.text.search import first_match

    content = read_contract(T.BOUNDARIES, _boundaries(forbidden=[{"pattern": "(a+)+$", "reason": "y"}]), "full").content
    assert isinstance(content, Boundaries)
    began = process_time()
    assert first_match(content.layers[0].forbidden[0].pattern, regex=True, ignore_case=False)("a" * 5000 + "!") is None
    assert process_time() - began < 1


def test_tables_are_read_with_columns_and_references() -> None:
    content = read_contract(T.SCHEMA, sample.SCHEMA, "full").content
    assert isinstance(content, Schema)
    assert [(table.name, table.line, len(table.columns), table.references()) for table in content.tables] == [
        ("members", 8, 3, ()),
        ("sightings", 15, 5, ("members",)),
    ]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("### sightings", "### members", "The table `members` is there 2 times."),
        ("### sightings", "### What was seen", "Line 15: `What was seen` is not the name of a table."),
        ("| species | text |", "| count | text |", "The table `sightings` has the column `count` 2 times."),
        ("| species | text |", "| species | |", "The column `species` of the table `sightings` has no type."),
    ],
)
def test_a_table_that_is_wrong_is_named(before: str, after: str, expected: str) -> None:
    assert problems(T.SCHEMA, sample.SCHEMA.replace(before, after)) == (expected,)


def test_the_settings_block_is_written_by_the_program_and_read_back() -> None:
    settings = Settings(
        mode="full", phase_order=(0, 1, 2, 3, 4, 5), verify=(("make", "lint"), ("pytest", "-k", "a: b"))
    )
    written = with_settings(sample.BUILDER_DIRECTIVE, settings)
    content = read_contract(T.BUILDER_DIRECTIVE, written, "full").content
    assert isinstance(content, Directive)
    assert content.settings == settings
    assert with_settings(written, settings) == written
    assert with_settings(sample.BUILDER_DIRECTIVE.split("## Settings")[0], settings) == written


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("mode: full", "mode: mini", "The settings say `mode: mini`; this is a full build."),
        ("[0, 1, 2", "[1, 0, 2", "`phase_order` does not count up from 0."),
        ("[python, -m, pytest, -q]", "[sh, -c, 'a | b']",
         "`verify` has a command that cannot be run: `sh` has an argument with '|', and no shell reads it."),
        ("[python, -m, pytest, -q]", "pytest",
         "The settings have a wrong shape: Expected `array`, got `str` - at `$.verify[0]`."),
        ("```yaml", "```json", "`## Settings` needs one block fenced by three backticks and `yaml`."),
        ("mode: full", "a: &x 1\nb: *x", "The settings are not YAML: it uses an anchor or an alias."),
    ],
)  # fmt: skip
def test_settings_that_are_wrong_are_named(before: str, after: str, expected: str) -> None:
    assert problems(T.BUILDER_DIRECTIVE, sample.BUILDER_DIRECTIVE.replace(before, after)) == (expected,)
