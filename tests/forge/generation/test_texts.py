"""Texts of a generation: fences, the snowball, tools of both flows, requests counted."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from aop.brains.conversation import Observation, Offer, Reply, Request, ToolCall, Turn, UserText
from aop.core.errors import ForgeSupportMissing, InvalidArguments
from aop.core.redaction.redactor import Redactor
from aop.forge.contracts.types import CONTRACT_TYPES, ContractType
from aop.forge.generation.acceptance import Acceptance, SubmittedText
from aop.forge.generation.flows.flow_tools import FlowTools
from aop.forge.generation.flows.snowball import prior_context
from aop.forge.generation.inputs import GenerationInputs
from aop.forge.generation.sent_tokens import RequestMeter, SentTokens
from aop.forge.generation.texts import instructions, strip_code_fences, task_of
from tests.forge.generation.writers import PLAN, SCAN, SECRET, contract_of

GREENFIELD = GenerationInputs(
    project_id="p",
    name="Seed Library",
    mode="full",
    flow="greenfield",
    answers={
        "product_intent": {"summary": "Lends seed."},
        "tech_stack": {"backend": "Python"},
        "ui_requirements": {"pages": ["catalogue"]},
        "api_endpoints": {"endpoints": ["list varieties"]},
    },
)
SCOUT = GenerationInputs(project_id="p", name="Parcel Desk", mode="full", flow="scout", scan=SCAN, plan=PLAN)


def shown(inputs: GenerationInputs, tool: str, prior: dict[ContractType, str] | None = None, **arguments: Any) -> str:
    return asyncio.run(FlowTools(inputs, prior or {}).execute(tool, arguments))


@pytest.mark.req("FORGE-138", "FORGE-143")
@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("# A\n", "# A\n"),
        ("```markdown\n# A\n```", "# A\n"),
        ("~~~~\n# A\n~~~~\n", "# A\n"),
        ("\r\n```yaml\r\na: 1\r\n```\r\n", "a: 1\n"),
        ("# A\n```\ncode\n```\n", "# A\n```\ncode\n```\n"),
        ("```\none\n```\nbetween\n```\ntwo\n```", "```\none\n```\nbetween\n```\ntwo\n```\n"),
        ("", ""),
        ("```\n\n```", ""),
    ],
)
def test_only_a_fence_around_the_whole_text_is_taken_off(text: str, bare: str) -> None:
    assert strip_code_fences(text) == bare


@pytest.mark.req("FORGE-136")
def test_the_greenfield_flow_shows_intent_preferences_and_stories() -> None:
    names = [offer.name for offer in FlowTools(GREENFIELD, {}).offers]
    assert names == ["get_project_intent", "get_technical_preferences", "get_user_stories", "get_prior_contract"]
    assert shown(GREENFIELD, "get_project_intent") == 'name: "Seed Library"\nsize: full\nsummary: "Lends seed."\n'
    assert shown(GREENFIELD, "get_technical_preferences") == "tech_stack:\n  backend: Python\n"
    assert shown(GREENFIELD, "get_user_stories") == (
        'ui_requirements:\n  pages:\n    - catalogue\napi_endpoints:\n  endpoints:\n    - "list varieties"\n'
    )


@pytest.mark.req("FORGE-128", "FORGE-129", "FORGE-130", "FORGE-131", "FORGE-132", "FORGE-133")
@pytest.mark.parametrize(
    ("tool", "has"),
    [
        ("get_stack_profile", "primary_language: python"),
        ("get_renovation_priorities", 'automation_note: "Two tasks can be automated."'),
        ("get_migration_tasks", 'from_state: "Flask 1.1.4"'),
        ("get_migration_tasks", "automatable: true"),
        ("get_migration_tasks", "outdated:"),
        ("get_project_dossier", "strengths:"),
        ("get_compliance_checks", "parcels/web/app.py:32 opens the database"),
        ("get_architecture_map", "path: parcels/db"),
    ],
)
def test_the_scout_flow_shows_the_scan_and_its_plan_without_our_own_words(tool: str, has: str) -> None:
    text = shown(SCOUT, tool)
    assert has in text
    assert "forge" not in text


def test_a_path_shows_the_modules_below_it_and_nothing_else() -> None:
    whole, part = shown(SCOUT, "get_architecture_map"), shown(SCOUT, "get_architecture_map", path="parcels/web/")
    assert ("app.py\n" in whole, "parcels/db/models.py:7" in whole) == (False, True)
    assert ("app.py" in part, "GET /parcels parcels/web/app.py:15" in part, "parcels/db/models.py" in part) == (
        True, True, False,
    )  # fmt: skip


@pytest.mark.req("FORGE-134")
def test_an_earlier_contract_comes_whole_or_by_section_and_a_later_one_is_named() -> None:
    prior = {ContractType.MANIFESTO: "# A\n\n## Purpose\nOne.\n\n## Principles\nTwo.\n"}
    whole = shown(GREENFIELD, "get_prior_contract", prior, contract_type="manifesto")
    part = shown(GREENFIELD, "get_prior_contract", prior, contract_type="manifesto", section="Principles")
    assert (whole, part) == (prior[ContractType.MANIFESTO], "## Principles\nTwo.\n")
    later = shown(GREENFIELD, "get_prior_contract", prior, contract_type="stack")
    assert later == "Contract 'stack' not yet generated."
    with pytest.raises(InvalidArguments, match="`passwd` is not a contract"):
        shown(GREENFIELD, "get_prior_contract", prior, contract_type="passwd")


@pytest.mark.req("FORGE-018", "FORGE-019")
def test_the_snowball_keeps_the_newest_contracts_and_cuts_the_oldest_first() -> None:
    prior = {each: f"{each} ".ljust(13_000 if each == "ui" else 5_000, "x") for each in CONTRACT_TYPES[:-1]}
    full, mini = prior_context(prior, "full"), prior_context(prior, "mini")
    sizes = {data.source.split()[1]: len(data.text) for data in full}
    assert sizes == {"physics": 2_000, "boundaries": 5_000, "ui": 12_000, "phases": 5_000}
    assert full[0].text.endswith("\n[cut]\n")
    assert {data.source.split()[1]: len(data.text) for data in mini} == {"ui": 7_000, "phases": 5_000}


@pytest.mark.req("FORGE-001", "FORGE-021")
def test_no_prompt_names_our_own_product() -> None:
    texts = [*(task_of(each) for each in CONTRACT_TYPES), instructions(tools=True), instructions(tools=False)]
    offers = [
        f"{offer.name} {offer.description}" for inputs in (GREENFIELD, SCOUT) for offer in FlowTools(inputs, {}).offers
    ]
    assert not [text for text in [*texts, *offers] if re.search(r"aop|forge|orchestrator|gateway", text, re.IGNORECASE)]


class Letters:
    """A tokenizer that counts letters."""

    name = "letters"

    def count(self, text: str) -> int:
        return len(text)


def asked(*texts: str) -> Request:
    turns: tuple[Turn, ...] = (
        UserText(text=texts[0]),
        *(Observation(call_id="c", name="n", text=text, ok=True) for text in texts[1:]),
    )
    return Request(instructions="12345", turns=turns, max_output_tokens=1, timeout_seconds=1.0)


def test_what_is_sent_again_counts_again_and_what_a_cache_may_hold_stands_apart() -> None:
    meter = RequestMeter(Letters())
    meter.watch(asked("abc"))
    meter.watch(asked("abc", "de"))
    assert meter.total == SentTokens(requests=2, sent=8 + 10, cached=8)


def test_tools_and_the_models_own_replies_are_sent_too() -> None:
    meter, offer = RequestMeter(Letters()), Offer(name="n", description="d", schema={})
    reply = Reply(model="m", text="hi", calls=(ToolCall(call_id="c", name="n", arguments="{}"),))
    request = Request(
        instructions="12345", turns=(UserText(text="abc"), reply), tools=(offer,), answer=offer, max_output_tokens=1,
        timeout_seconds=1.0,
    )  # fmt: skip
    meter.watch(request)
    definition = len('{"name":"n","description":"d","schema":{}}')
    assert meter.total.sent == 5 + 3 + len("hi\nn {}") + 2 * definition


def test_an_installation_without_a_tokenizer_counts_requests_alone() -> None:
    class Missing(Letters):
        def count(self, text: str) -> int:
            raise ForgeSupportMissing("No tokenizer.")

    meter = RequestMeter(Missing())
    meter.watch(asked("abc"))
    meter.watch(asked("abc"))
    assert meter.total == SentTokens(requests=2, sent=None, cached=None)


def test_a_secret_in_a_contract_is_masked_before_it_is_kept() -> None:
    judge = Acceptance(
        contract_type=ContractType.MANIFESTO, inputs=GREENFIELD, prior={}, mask_secrets=Redactor().mask_secrets
    )
    text = contract_of("greenfield", ContractType.MANIFESTO)
    kept = judge.accepted(SubmittedText(content=f"{text}\nSign in with {SECRET}.\n"))
    assert (SECRET in kept, kept.startswith(text)) == (False, True)
