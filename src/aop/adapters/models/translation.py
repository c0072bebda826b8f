"""Translation between AOP's conversation and the messages of `pydantic-ai`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import Literal

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition

from aop.brains.conversation import Observation, Offer, Reply, Request, TokenCounts, ToolCall, Turn, UserText

ONLY_CALLS = "\n\nReply only by calling tools; other text is not read."


def parameters(request: Request, *, native: bool) -> ModelRequestParameters:
    """Return the request parameters; with `native`, the endpoint itself enforces the schema of the answer."""
    tools = [_definition(tool, "function") for tool in request.tools]
    answer = request.answer
    if answer is None:
        return ModelRequestParameters(function_tools=tools)
    if native:
        shape = OutputObjectDefinition(json_schema=dict(answer.schema), name=answer.name, strict=None)
        return ModelRequestParameters(function_tools=tools, output_mode="native", output_object=shape)
    return ModelRequestParameters(
        function_tools=tools,
        output_mode="tool",
        output_tools=[_definition(answer, "output")],
        allow_text_output=request.text_allowed,
    )


def messages(request: Request, *, native: bool) -> list[ModelMessage]:
    """Return the conversation as messages; all turns between two replies are one message."""
    history: list[ModelMessage] = []
    # Some models cannot be forced to call a tool, so the prompt says it too.
    rule = "" if native or request.text_allowed or request.answer is None else ONLY_CALLS
    for reply, shown in _replies_with_context(request.turns):
        response = None if reply is None else _response(reply)
        history += [] if response is None else [response]
        made = set() if response is None else {call.tool_call_id for call in response.tool_calls}
        parts = [_message_part(turn, made) for turn in shown]
        history += [ModelRequest(parts=parts, instructions=request.instructions + rule)] if parts else []
    return history


def reply_of(response: ModelResponse, request: Request, model: str, *, native: bool) -> Reply:
    """Return the reply; with `native`, its text is the answer."""
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    calls = tuple(
        ToolCall(call_id=part.tool_call_id, name=part.tool_name, arguments=part.args_as_json_str())
        for part in response.parts
        if isinstance(part, ToolCallPart)
    )
    if native and request.answer is not None and text and not calls:
        calls, text = (ToolCall(call_id="answer", name=request.answer.name, arguments=text),), ""
    kept = ModelMessagesTypeAdapter.dump_json([response]).decode()
    cut_off = response.finish_reason == "length"
    return Reply(model=model, text=text, calls=calls, cut_off=cut_off, usage=_usage(response), kept=kept)


def _replies_with_context(turns: Iterable[Turn]) -> Iterator[tuple[Reply | None, list[UserText | Observation]]]:
    """Yield each reply with the turns after it; the turns before the first reply come with None."""
    reply: Reply | None = None
    shown: list[UserText | Observation] = []
    for turn in turns:
        if isinstance(turn, Reply):
            yield reply, shown
            reply, shown = turn, []
        else:
            shown.append(turn)
    yield reply, shown


def _definition(offer: Offer, kind: Literal["function", "output"]) -> ToolDefinition:
    schema = dict(offer.schema)
    return ToolDefinition(name=offer.name, description=offer.description, parameters_json_schema=schema, kind=kind)


def _message_part(turn: UserText | Observation, calls_made: Set[str]) -> UserPromptPart | ToolReturnPart:
    """Return a turn as a message part; the result of a call that is not in the history becomes user text."""
    if isinstance(turn, UserText) or turn.call_id not in calls_made:
        return UserPromptPart(content=turn.text)
    outcome: Literal["success", "failed"] = "success" if turn.ok else "failed"
    return ToolReturnPart(tool_name=turn.name, content=turn.text, tool_call_id=turn.call_id, outcome=outcome)


def _response(reply: Reply) -> ModelResponse:
    """Return a reply as it was received, or rebuilt from text and calls if another adapter received it."""
    if reply.kept:
        (kept,) = ModelMessagesTypeAdapter.validate_json(reply.kept)
        if isinstance(kept, ModelResponse):
            return kept
    text = [TextPart(content=reply.text)] if reply.text else []
    calls = [ToolCallPart(tool_name=call.name, args=call.arguments, tool_call_id=call.call_id) for call in reply.calls]
    return ModelResponse(parts=[*text, *calls])


def _usage(response: ModelResponse) -> TokenCounts:
    """Return the reported tokens; no input tokens means that nothing was reported."""
    used = response.usage
    if not used.input_tokens:
        return TokenCounts()
    return TokenCounts(
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cache_read_tokens=used.cache_read_tokens,
        cache_write_tokens=used.cache_write_tokens,
    )
