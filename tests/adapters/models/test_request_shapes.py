"""Request shapes: what real agents send passes, what could carry a provider's tool does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aop.adapters.models.metering.dialects import DIALECTS
from aop.adapters.models.metering.requests import AdmittedRequest, IncomingRequest, RejectedRequest, SessionTerms, admit
from aop.adapters.models.metering.tallies import Outcome

RECORDED = Path(__file__).parents[2] / "samples" / "requests"
PATHS = {
    "messages": ("anthropic", "/v1/messages"),
    "count": ("anthropic", "/v1/messages/count_tokens"),
    "responses": ("openai", "/v1/responses"),
    "compact": ("openai", "/v1/responses/compact"),
    "chat": ("compatible", "/v1/chat/completions"),
    "gemini": ("google", "/v1beta/models/m:streamGenerateContent"),
    "tokens": ("google", "/v1beta/models/m:countTokens"),
}
FUNCTION = {"type": "function", "name": "f"}
SEARCH = {"type": "web_search"}


def admitted(family: str, path: str, body: Any, *, provider_tools: bool = False) -> AdmittedRequest | RejectedRequest:
    terms = SessionTerms(dialect=DIALECTS[family], provider=family, key="k", provider_tools=provider_tools)
    plain, _, query = path.partition("?")
    request = IncomingRequest(
        method="POST", path=plain, query=query, headers=(("authorization", "Bearer k"),), body=json.dumps(body).encode()
    )
    return admit(request, terms)


def read(name: str, body: Any) -> AdmittedRequest | RejectedRequest:
    family, path = PATHS[name]
    return admitted(family, path, {"model": "m", **body})


def family_of(path: str) -> str:
    return "google" if "/v1beta/" in path else "anthropic" if "/messages" in path else "openai"


@pytest.mark.parametrize("program", ["claude", "codex", "gemini", "opencode", "qwen-code"])
def test_the_requests_that_real_agents_send_with_their_default_models_pass_unchanged(program: str) -> None:
    recorded = json.loads((RECORDED / f"{program}.json").read_text())
    for sent in recorded:
        passed = admitted(family_of(sent["path"]), sent["path"], sent["body"])
        assert isinstance(passed, AdmittedRequest), (sent["path"], passed)
        assert (json.loads(passed.body), passed.removed) == (sent["body"], ())


def test_the_default_model_of_codex_gets_its_tools_in_its_input() -> None:
    (sent, *_) = json.loads((RECORDED / "codex.json").read_text())
    assert "tools" not in sent["body"]
    sent["body"]["input"][0]["tools"].append(SEARCH)
    passed = admitted("openai", sent["path"], sent["body"])
    assert isinstance(passed, AdmittedRequest)
    assert passed.removed == ("web_search",)
    assert "web_search" not in passed.body.decode()


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("responses", {"input": [{"type": "additional_tools", "tools": [FUNCTION, SEARCH]}]}),
        ("responses", {"input": [{"type": "tool_search_output", "call_id": "c", "tools": [FUNCTION, SEARCH]}]}),
        (
            "responses",
            {"input": [{"type": "additional_tools", "tools": [{"type": "namespace", "tools": [FUNCTION, SEARCH]}]}]},
        ),
        ("compact", {"input": "x", "tools": [FUNCTION, SEARCH]}),
        ("count", {"messages": [], "tools": [{"name": "f"}, SEARCH]}),
        ("tokens", {"generateContentRequest": {"tools": [{"functionDeclarations": [{}], "web_search": {}}]}}),
    ],
)
def test_a_provider_tool_is_removed_wherever_a_request_may_carry_it(name: str, body: Any) -> None:
    passed = read(name, body)
    assert isinstance(passed, AdmittedRequest)
    assert passed.removed == ("web_search",)
    assert "web_search" not in passed.body.decode()


@pytest.mark.parametrize(
    ("name", "body", "named"),
    [
        ("responses", {"input": [{"type": "additional_tools", "tools": [SEARCH]}]}, "web_search"),
        ("responses", {"input": [{"type": "tool_search_output", "tools": [{"type": "mcp"}]}]}, "mcp"),
        ("responses", {"conversation": "conv_1"}, "conversation"),
        ("messages", {"messages": [], "container": {"skills": [{}]}}, "container"),
        ("chat", {"messages": [], "enable_search": True}, "enable_search"),
        ("chat", {"model": "org/m:online", "messages": []}, "org/m:online"),
        ("chat", {"model": "gpt-4o-search-preview", "messages": []}, "gpt-4o-search-preview"),
        ("gemini", {"cached_content": "cachedContents/1"}, "cached_content"),
        (
            "gemini",
            {"contents": [{"parts": [{"functionResponse": {"parts": [{"fileData": {"fileUri": "files/1"}}]}}]}]},
            "an address to fetch",
        ),
        (
            "chat",
            {"messages": [{"content": [{"type": "file", "file": {"file_data": "https://x"}}]}]},
            "an address to fetch",
        ),
        (
            "messages",
            {
                "messages": [
                    {
                        "content": [
                            {
                                "type": "tool_result",
                                "content": [{"type": "document", "source": {"type": "url", "url": "https://x"}}],
                            }
                        ]
                    }
                ]
            },
            "an address to fetch",
        ),
    ],
)
def test_a_request_that_only_reaches_out_is_refused_by_name(name: str, body: Any, named: str) -> None:
    refused = read(name, body)
    assert isinstance(refused, RejectedRequest)
    assert (refused.status, refused.outcome) == (400, Outcome.PROVIDER_TOOL)
    assert refused.why == (
        "provider_tool_refused: The policy (`execution.provider_tools`) does not allow the provider's own tools:"
        f" `{named}`."
    )


@pytest.mark.parametrize(
    ("name", "body", "named"),
    [
        ("responses", {"input": [{"type": "mcp_call", "server_label": "x"}]}, "input[].type=mcp_call"),
        ("responses", {"input": [{"type": "message", "tools": [SEARCH]}]}, "input[].tools"),
        ("responses", {"input": [[{"type": "additional_tools", "tools": [SEARCH]}]]}, "input[][]"),
        ("responses", {"input": {"type": ["additional_tools"], "tools": [SEARCH]}}, "input.type=['additional_tools']"),
        ("responses", {"extra_tools": [SEARCH]}, "extra_tools"),
        ("responses", {"input": [{"content": [{"type": "input_file", "file_id": "f"}]}]}, "input[].content[].file_id"),
        ("messages", {"messages": [{"content": [{"text": "no type"}]}]}, "messages[].content[] without a type"),
        ("messages", {"messages": [{"content": [{"type": "container_upload"}]}]}, "messages[].content[].type=containe"),
        ("count", {"messages": [], "agents": [{}]}, "agents"),
        ("chat", {"messages": [{"content": [{"type": "a\x1b[2Jb"}]}]}, "messages[].content[].type=a\\u{1b}[2Jb"),
        ("gemini", {"contents": [{"parts": [{"toolCall": {"id": "1"}}]}]}, "contents[].parts[].toolCall"),
        ("tokens", {"generate_content_request": {"remote": {"x": 1}}}, "generate_content_request.remote"),
    ],
)
def test_a_part_that_is_not_known_is_refused_by_name(name: str, body: Any, named: str) -> None:
    refused = read(name, body)
    assert isinstance(refused, RejectedRequest)
    assert (refused.status, refused.outcome) == (400, Outcome.UNKNOWN_PART)
    assert refused.why.startswith("request_part_unknown: AOP does not know these parts of the request")
    assert f"`{named}" in refused.why


def test_an_empty_part_is_nothing_and_a_policy_that_allows_provider_tools_forwards_all() -> None:
    assert isinstance(read("messages", {"messages": [], "mcp_servers": [], "unheard_of": None}), AdmittedRequest)
    strange = {"model": "m", "input": [{"type": "mcp_call"}], "tools": [SEARCH]}
    passed = admitted("openai", "/v1/responses", strange, provider_tools=True)
    assert isinstance(passed, AdmittedRequest)
    assert json.loads(passed.body) == strange


def test_a_request_as_deep_as_the_parser_reads_does_not_exhaust_the_reader() -> None:
    deep: Any = SEARCH
    for _ in range(300):
        deep = {"type": "namespace", "tools": [deep]}
    passed = read("responses", {"tools": [FUNCTION, deep]})
    assert isinstance(passed, AdmittedRequest)
    assert (json.loads(passed.body)["tools"], passed.removed) == (
        [FUNCTION, {"type": "namespace", "tools": []}],
        ("namespace",),
    )
