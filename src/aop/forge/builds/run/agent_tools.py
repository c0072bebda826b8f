"""Agent tools: the catalogue rows of one role, called for a model of one build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from aop.brains.conversation import Offer
from aop.core.errors import Refusal
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.forge.builds.documents import BuildCycle
from aop.kernel.contracts.lean_schemas import lean_input
from aop.kernel.contracts.schemas import tool_schemas
from aop.kernel.gateway.calls import Tool
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import Principal

ASK = "forge_ask_clarification"
LEFT_OUT = frozenset({"forge_get_branch_status", "forge_list_branch_commits", "forge_report_progress"})
"""Tools that a model in a loop does not need, so that it does not pay for them: it says its progress in markers."""


def principal_of(cycle: BuildCycle, role: Role) -> Principal:
    """Return the caller that a model of a build is: it reaches this build and nothing else."""
    return Principal(
        role=role,
        actor=f"{role}:{cycle.build_id}",
        features=frozenset({FeatureId(cycle.build_id)}),
        user=cycle.owner,
        project=cycle.project_id,
        build=cycle.build_id,
    )


class AgentTools:
    """Implements `aop.brains.ports.Tools` through the gateway.

    Each call has the operation id of its step, so a call that was interrupted takes effect once.
    """

    def __init__(self, gateway: Gateway, who: Principal) -> None:
        self._gateway = gateway
        self._who = who
        self.operation = ""
        """The operation id of the next call; its run sets it."""

    @property
    def offers(self) -> Sequence[Offer]:
        """Return the tools of the role, in few words."""
        return tuple(_offer(tool) for tool in self._gateway.tools_for(self._who) if tool.name not in LEFT_OUT)

    async def execute(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool; a question to a person is waited for."""
        data = self._call(name, arguments, self.operation)
        waits = 0
        while name == ASK and data.get("status") == "asked":
            waits += 1
            data = self._call(name, {"question_id": data["question_id"]}, f"{self.operation}-w{waits}")
        return msgspec.json.encode(data).decode()

    def _call(self, name: str, arguments: Mapping[str, Any], operation: str) -> Mapping[str, Any]:
        mutates = self._gateway.tools[name].mutates
        answer = self._gateway.call(self._who, name, dict(arguments), operation_id=operation if mutates else None)
        if answer.error is not None:
            error = answer.error
            hint = error["details"]["suggested_next_actions"][0]
            raise Refusal(f"`{name}` refuses ({error['code']}): {error['message']}", hint=hint)
        data: Mapping[str, Any] = answer.data
        return data


def _offer(tool: Tool) -> Offer:
    taken, _ = tool_schemas(tool)
    schema = lean_input(taken) if tool.lean else taken
    return Offer(
        name=tool.name, description=tool.summary, schema={key: schema[key] for key in schema if key != "$schema"}
    )
