"""Relayed tools: those of an agent on a worker that the leader answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from aop.adapters.agents.orders.turn_orders import FIRST
from aop.core.errors import Json, Refusal, SecretDetected, VersionConflict
from aop.core.redaction.redactor import mask_json
from aop.kernel.gateway.calls import Envelope, Kernel, Tool, refusal_envelope
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import Principal
from aop.kernel.ports.handed_in import Report

Relay = Callable[[str, Json], Any]
"""Has the leader answer a call, as the role and the feature of its own order. Raises: LeaderSilent."""


class RelayingGateway(Gateway):
    """Takes what an agent proposes in its turn; all else it may call is read, and the leader reads it."""

    def __init__(self, kernel: Kernel, tools: Mapping[str, Tool], relay: Relay, *, version: int) -> None:
        """Take the version that the feature has in the leader's record."""
        # The record here is a copy that nothing shows in files and worktrees.
        super().__init__(kernel, tools, settles=False)
        self._relay = relay
        self._version = version

    def call(
        self,
        principal: Principal,
        tool_name: str,
        arguments: Json,
        *,
        operation_id: str | None = None,
        report: Report = lambda _line: None,
    ) -> Envelope:
        """Take a proposal here, and have the leader answer the rest, which checks the caller again."""
        tool = self.tools.get(tool_name)
        try:
            if tool is not None and not tool.mutates:
                self._refuse_secrets(tool_name, arguments)
                return msgspec.convert(self._relay(tool_name, arguments), Envelope)
            own = self._with_own_version(arguments)
        except Refusal as refusal:
            return refusal_envelope(refusal)
        return super().call(principal, tool_name, own, operation_id=operation_id, report=report)

    def _refuse_secrets(self, tool_name: str, arguments: Json) -> None:
        """Refuse to send a secret: masked, the call would be another one. Raises: SecretDetected."""
        if mask_json(arguments, self.kernel.redact.mask_secrets) != arguments:
            raise SecretDetected(
                f"The arguments of `{tool_name}` hold a secret, and cannot be sent to the leader.",
                hint="Ask without it.",
                tool=tool_name,
            )

    def _with_own_version(self, arguments: Json) -> Json:
        """Return arguments whose expected version is that of the feature in the record here."""
        expected = arguments.get("expected_version") if isinstance(arguments, Mapping) else None
        if not isinstance(arguments, Mapping) or not isinstance(expected, int):
            return arguments
        if expected != self._version:
            raise VersionConflict("The feature", expected=expected, current=self._version)
        return {**arguments, "expected_version": FIRST}
