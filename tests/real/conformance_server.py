"""AOP's MCP server as the conformance suite needs it: one fixed caller, since the suite has no token, and its fixtures.

The suite calls tools by names of its own (`test_simple_text`, ...). They stand beside the catalogue here, and nowhere
else; everything around them (the protocol, the transport, its guards) is what `aop serve` runs.
"""

from __future__ import annotations

import base64
import sys
import tempfile
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import (
    AudioContent,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    TextResourceContents,
    Tool,
)

from aop.adapters.machine.sockets import LOOPBACK, loopback_socket
from aop.core.roles import Role
from aop.kernel.gateway.principals import Principal
from aop.mcpserver.http import PATH, mcp_app
from aop.mcpserver.tool_server import ToolServer
from tests.world import World, make_repository

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
WAV = base64.b64encode(b"RIFF\x24\0\0\0WAVE").decode()


def resource(uri: str, kind: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=kind, text=text))


IMAGE = ImageContent(data=PNG, mime_type="image/png")
FIXTURES: dict[str, list[ContentBlock]] = {
    "test_simple_text": [TextContent(text="This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [AudioContent(data=WAV, mime_type="audio/wav")],
    "test_embedded_resource": [
        resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ],
    "test_multiple_content_types": [
        TextContent(text="Multiple content types test:"),
        IMAGE,
        resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
    "test_error_handling": [TextContent(text="This tool intentionally returns an error for testing")],
    "test_tool_with_progress": [TextContent(text="done")],
    "json_schema_2020_12_tool": [TextContent(text="done")],
    "test_x_mcp_header": [TextContent(text="done")],
}

SCHEMAS: dict[str, dict[str, Any]] = {
    "json_schema_2020_12_tool": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
    "test_x_mcp_header": {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "query": {"type": "string"}},
        "required": ["region"],
    },
}
"""Two more fixtures, which are about their schemas."""

Context = ServerRequestContext[Any, Any]


def fixture(name: str) -> Tool:
    return Tool(name=name, description="A fixture.", input_schema=SCHEMAS.get(name, {"type": "object"}))


def with_fixtures(server: Server[Any]) -> Server[Any]:
    """Put the fixtures beside the tools of a server."""
    listed, called = server.get_request_handler("tools/list"), server.get_request_handler("tools/call")
    assert listed is not None
    assert called is not None

    async def list_tools(context: Context, params: PaginatedRequestParams) -> ListToolsResult:
        own = await listed.handler(context, params)
        assert isinstance(own, ListToolsResult)
        return ListToolsResult(tools=[*own.tools, *(fixture(name) for name in FIXTURES)])

    async def call_tool(context: Context, params: CallToolRequestParams) -> Any:
        if params.name not in FIXTURES:
            return await called.handler(context, params)
        if params.name == "test_tool_with_progress":
            for reached in (0, 50, 100):
                await context.session.report_progress(reached, 100, f"Completed step {reached} of 100")
        return CallToolResult(content=FIXTURES[params.name], is_error=params.name == "test_error_handling")

    server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", CallToolRequestParams, call_tool)
    server.get_tool_input_schema = SCHEMAS.get
    return server


def main() -> None:
    """Serve a throw-away repository; the address is the first line on stdout."""
    with tempfile.TemporaryDirectory() as folder, loopback_socket(0) as listening:
        world = World(make_repository(Path(folder) / "repo"))
        world.init("one")
        fixed = Principal(role=Role.ORCHESTRATOR, actor="orchestrator:conformance")
        server = ToolServer(world.app.gateway, lambda: fixed, lambda line: print(line, file=sys.stderr))
        origin = f"http://{LOOPBACK}:{listening.getsockname()[1]}"
        app = mcp_app(with_fixtures(server.mcp_server()), origin)
        sys.stdout.write(f"{origin}{PATH}\n")
        sys.stdout.flush()
        uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listening])
        server.close()
        world.close()


if __name__ == "__main__":
    main()
