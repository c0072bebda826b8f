"""Request shapes: the parts that a request of each provider family may have.

A part that is not listed here could carry a tool that the provider runs, so a request with one is not forwarded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TypeAlias

from msgspec import Struct


class Leaf(Enum):
    """A value that has no further parts."""

    DATA = "data"
    """Text, settings or the data of a tool call; not looked into."""
    ADDRESS = "address"
    """The address of a file, which the provider would fetch unless it is a `data:` address."""
    FILE = "file"
    """The content of a file in base64, or an address in its place."""
    TOOLS = "tools"
    """A list of tools."""


class Members(Struct, frozen=True, kw_only=True):
    """An object, or a list of objects, with known members; their names are in plain form."""

    known: Mapping[str, Shape]
    text: Leaf = Leaf.DATA
    """The meaning of a plain text in its place."""


class Kinds(Struct, frozen=True, kw_only=True):
    """An object, or a list of objects, with the members of its `type`."""

    known: Mapping[str, Members]
    untyped: Members | None = None
    """The members of an object without a type; None if each must have one."""


Shape: TypeAlias = Leaf | Members | Kinds


def plain_name(name: str) -> str:
    """Return a name without case and underscores: some providers accept `google_search` and `googleSearch`."""
    return name.replace("_", "").lower()


def _members(words: str = "", inner: Mapping[str, Shape] | None = None, *, text: Leaf = Leaf.DATA) -> Members:
    known: dict[str, Shape] = dict.fromkeys(map(plain_name, words.split()), Leaf.DATA)
    known |= {plain_name(name): shape for name, shape in (inner or {}).items()}
    return Members(known=known, text=text)


def _kinds(rows: Mapping[str, str], inner: Iterable[tuple[str, Members]] = (), untyped: str | None = None) -> Kinds:
    known = {kind: _members(f"type {words}") for kind, words in rows.items()} | dict(inner)
    return Kinds(known=known, untyped=None if untyped is None else known[untyped])


# --- Anthropic: messages and counting their tokens ---------------------------------------------------

_TEXT = "text cache_control citations"
_ANTHROPIC_SOURCE = _kinds(
    {"base64": "media_type data", "text": "media_type data"},
    [
        ("content", _members("type", {"content": _kinds({"text": _TEXT})})),
        ("url", _members("type", {"url": Leaf.ADDRESS})),
    ],
)
_ANTHROPIC_FILES = [
    ("image", _members("type cache_control", {"source": _ANTHROPIC_SOURCE})),
    ("document", _members("type title context citations cache_control", {"source": _ANTHROPIC_SOURCE})),
]
_ANTHROPIC_RESULT = _kinds(
    {
        "text": _TEXT,
        "search_result": "source title content citations cache_control",
        "tool_reference": "tool_name cache_control",
    },
    _ANTHROPIC_FILES,
)
_ANTHROPIC_CONTENT = _kinds(
    {
        "text": _TEXT,
        "thinking": "thinking signature cache_control",
        "redacted_thinking": "data cache_control",
        "compaction": "content encrypted_content signature cache_control",
        "search_result": "source title content citations cache_control",
        "tool_use": "id name input caller cache_control",
        # Tool search, the only tool of the provider that is forwarded.
        "server_tool_use": "id name input caller cache_control",
        "tool_search_tool_result": "tool_use_id content cache_control",
    },
    [
        *_ANTHROPIC_FILES,
        ("tool_result", _members("type tool_use_id is_error cache_control", {"content": _ANTHROPIC_RESULT})),
    ],
)
MESSAGES = _members(
    "model system tool_choice max_tokens metadata stop_sequences stream temperature top_k top_p thinking"
    " context_management output_config output_format service_tier speed inference_geo cache_control betas",
    {
        "messages": _members("id role output_config cache_control", {"content": _ANTHROPIC_CONTENT}),
        "tools": Leaf.TOOLS,
    },
)

# --- OpenAI: responses and chat completions -----------------------------------------------------------

_RESPONSES_CONTENT = _kinds(
    {
        "text": "text",
        "input_text": "text prompt_cache_breakpoint",
        "output_text": "text annotations logprobs",
        "summary_text": "text",
        "reasoning_text": "text",
        "refusal": "refusal",
        "input_audio": "input_audio",
        "encrypted_content": "encrypted_content",
    },
    [
        ("input_image", _members("type detail prompt_cache_breakpoint", {"image_url": Leaf.ADDRESS})),
        (
            "input_file",
            _members(
                "type filename detail prompt_cache_breakpoint", {"file_data": Leaf.FILE, "file_url": Leaf.ADDRESS}
            ),
        ),
    ],
)
_OF_CODEX = "internal_chat_message_metadata_passthrough"
_CALL = f"id call_id name namespace status caller {_OF_CODEX}"
_RESPONSES_OUTPUT = _members(f"type {_CALL} success execution", {"output": _RESPONSES_CONTENT})
_RESPONSES_INPUT = _kinds(
    {
        "reasoning": f"id summary content encrypted_content status {_OF_CODEX}",
        "function_call": f"{_CALL} arguments encrypted_function_args",
        "custom_tool_call": f"{_CALL} input",
        "local_shell_call": f"{_CALL} action",
        "local_shell_call_output": f"{_CALL} output",
        "apply_patch_call": f"{_CALL} operation",
        "apply_patch_call_output": f"{_CALL} output",
        "tool_search_call": f"{_CALL} execution arguments",
        "item_reference": "id",
        "compaction": f"id encrypted_content {_OF_CODEX}",
        "compaction_summary": f"id encrypted_content {_OF_CODEX}",
        "compaction_trigger": "id",
        "context_compaction": f"id encrypted_content {_OF_CODEX}",
    },
    [
        ("message", _members(f"type id role status phase end_turn {_OF_CODEX}", {"content": _RESPONSES_CONTENT})),
        ("agent_message", _members(f"type id author recipient {_OF_CODEX}", {"content": _RESPONSES_CONTENT})),
        ("function_call_output", _RESPONSES_OUTPUT),
        ("custom_tool_call_output", _RESPONSES_OUTPUT),
        ("additional_tools", _members(f"type id role {_OF_CODEX}", {"tools": Leaf.TOOLS})),
        ("tool_search_output", _members(f"type {_CALL} execution", {"tools": Leaf.TOOLS})),
    ],
    untyped="message",
)
RESPONSES = _members(
    "model instructions tool_choice parallel_tool_calls reasoning store include prompt_cache_key prompt_cache_retention"
    " prompt_cache_options text client_metadata metadata stream stream_options temperature top_p top_logprobs"
    " max_output_tokens max_tool_calls truncation user safety_identifier service_tier previous_response_id"
    " context_management",
    {"input": _RESPONSES_INPUT, "tools": Leaf.TOOLS},
)
_CHAT_URL = _members("detail", {"url": Leaf.ADDRESS}, text=Leaf.ADDRESS)
_CHAT_CONTENT = _kinds(
    {
        "text": "text cache_control",
        "refusal": "refusal",
        "thinking": "thinking signature",
        "input_audio": "input_audio cache_control",
    },
    [
        ("image_url", _members("type cache_control", {"image_url": _CHAT_URL})),
        ("video_url", _members("type cache_control", {"video_url": _CHAT_URL})),
        (
            "file",
            _members("type cache_control", {"file": _members("filename", {"file_data": Leaf.FILE})}),
        ),
    ],
)
CHAT = _members(
    "model tool_choice functions function_call parallel_tool_calls stream stream_options temperature top_p top_k min_p"
    " n max_tokens max_completion_tokens stop seed frequency_penalty presence_penalty repetition_penalty logit_bias"
    " logprobs top_logprobs response_format reasoning_effort reasoning thinking verbosity user safety_identifier"
    " metadata store service_tier prompt_cache_key prompt_cache_retention modalities audio prediction enable_thinking"
    " thinking_budget preserve_thinking chat_template_kwargs usage keep_alive",
    {
        "messages": _members(
            "role name tool_calls tool_call_id function_call refusal audio reasoning_content reasoning"
            " reasoning_details cache_control",
            {"content": _CHAT_CONTENT},
        ),
        "tools": Leaf.TOOLS,
    },
)

# --- Google: content, and counting its tokens ---------------------------------------------------------

_FILE = {"file_data": _members("mime_type display_name", {"file_uri": Leaf.ADDRESS})}
_ANSWERED = _members("id name response will_continue scheduling", {"parts": _members("inline_data", _FILE)})
_GOOGLE_PART = _members(
    "text thought thought_signature inline_data function_call video_metadata media_resolution part_metadata",
    {"function_response": _ANSWERED, **_FILE},
)
_GOOGLE_CONTENT = _members("role", {"parts": _GOOGLE_PART})
_CONTENTS: Mapping[str, Shape] = {
    "contents": _GOOGLE_CONTENT,
    "system_instruction": _GOOGLE_CONTENT,
    "tools": Leaf.TOOLS,
}
_GENERATION = "model tool_config safety_settings generation_config labels service_tier store"
CONTENTS = _members(_GENERATION, {**_CONTENTS, "generate_content_request": _members(_GENERATION, _CONTENTS)})
