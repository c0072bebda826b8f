"""Compares what an MCP server lists with the committed contract: `contract_check.py ROLE COMMAND [WORD ...]`.

The command is started as a server on standard streams; the token is in its environment.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp_types import Tool

from aop.kernel.contracts.lean_schemas import lean_input, lean_output
from aop.wiring.catalogue import CATALOGUE

CONTRACT = Path(__file__).parents[2] / "agentic/orchestrator/tools"


def main(words: Sequence[str]) -> int:
    role, command, *arguments = words
    server = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    listed = anyio.run(_listed, server)
    wrong = list(differences(role, listed))
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(listed)} tools for the role `{role}`; {len(wrong)} differences from the contract.")
    return 1 if wrong else 0


async def _listed(server: StdioServerParameters) -> list[Tool]:
    async with Client(server) as client:
        return list((await client.list_tools()).tools)


def differences(role: str, listed: Sequence[Tool]) -> Iterator[str]:
    rows = {row["name"]: row for row in _read("catalog.json")["tools"]}
    promised = {name for name, row in rows.items() if role in row["roles"] and not row["person_only"]}
    found = {tool.name: tool for tool in listed}
    yield from (f"{name}: promised, and not listed" for name in sorted(promised - found.keys()))
    yield from (f"{name}: listed, and not promised" for name in sorted(found.keys() - promised))
    for name in sorted(promised & found.keys()):
        served = (found[name].description, found[name].input_schema, found[name].output_schema)
        row = rows[name]
        taken, answered = _read(row["input_schema"]), _read(row["output_schema"])
        if CATALOGUE[name].lean:
            taken, answered = lean_input(taken), lean_output(answered)
        if served != (row["summary"], taken, answered):
            yield f"{name}: served otherwise than the contract says"


def _read(path: str) -> Any:
    return json.loads((CONTRACT / path).read_bytes())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
