"""Gateway: who, may, well-formed, once, decide, perform, commit, show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from aop.core import errors
from aop.core.digests import sha256_hex
from aop.core.errors import InvalidArguments, Json, Refusal
from aop.core.ids import feature_id, is_feature_id, is_operation_id
from aop.core.ids import operation_id as operation_id_of
from aop.core.roles import Role
from aop.core.text.json import MalformedText, canonical_json
from aop.core.text.suggestions import did_you_mean
from aop.kernel.config.policy import Policy
from aop.kernel.gateway.calls import (
    Arguments,
    Call,
    Envelope,
    FeatureArguments,
    Kernel,
    Outcome,
    Tool,
    envelope,
    refusal_envelope,
)
from aop.kernel.gateway.epochs import begin_epoch, newest_epoch, refuse_old_epoch
from aop.kernel.gateway.principals import Principal, refuse_agent
from aop.kernel.gateway.show import MovedPath, doubt_after_restart, show
from aop.kernel.ports.call_log import LoggedCall
from aop.kernel.ports.handed_in import Report
from aop.kernel.record.port import Operation, Transaction
from aop.kernel.record.repeats import repeated

WAIT_FOR_TWIN_SECONDS = 600.0
"""How long a second caller of the same operation waits for the first one's answer."""


class ToolRequest(Struct, frozen=True, kw_only=True):
    """A call as it arrives."""

    principal: Principal
    tool: str
    arguments: Json
    operation_id: str


class _AdmittedCall(Struct, frozen=True, kw_only=True):
    """A call that passed who, may and well-formed, with the hash of its request."""

    call: Call
    arguments: Arguments
    payload: str


class Gateway:
    """Takes calls, and answers each with an envelope; only faults leave it as exceptions."""

    def __init__(self, kernel: Kernel, tools: Mapping[str, Tool], *, settles: bool = True) -> None:
        """Say whether operations that died half-way are settled here; a read-only process leaves them to others."""
        self.kernel = kernel
        self.tools = tools
        self._settled = not settles

    def call(
        self,
        principal: Principal,
        tool_name: str,
        arguments: Json,
        *,
        operation_id: str | None = None,
        report: Report = lambda _line: None,
    ) -> Envelope:
        """Take one call through all stations; log caller, tool, duration and outcome, unless a person only looks."""
        began = self.kernel.clock.boot_seconds()
        own_id = self.kernel.new_id("op") if operation_id is None else operation_id
        request = ToolRequest(principal=principal, tool=tool_name, arguments=arguments, operation_id=own_id)
        outcome = errors.InternalError.code
        try:
            # Of a change whose end was not heard, the operation id tells whether it happened.
            answer = repeated(self._call, request, report)
            outcome = _outcome_of(answer)
            return answer
        except Refusal as refusal:
            outcome = refusal.code
            return refusal_envelope(refusal)
        finally:
            self._note(request, began=began, outcome=outcome)

    def lead(self) -> None:
        """Make all further changes as the newest supervisor; changes of the earlier one are refused from now on."""
        self.kernel = msgspec.structs.replace(self.kernel, epoch=begin_epoch(self.kernel.record))

    def is_replaced(self) -> bool:
        """Tell whether a newer supervisor leads."""
        with self.kernel.record.read() as view:
            return self.kernel.epoch not in (None, newest_epoch(view))

    def call_together(self, calls: Sequence[ToolRequest], *, report: Report = lambda _line: None) -> list[Envelope]:
        """Take calls of brief tools through all stations, with one durable change for all. Raises: as `show`.

        What breaks in one of them breaks all. Each may be sent again alone: with its operation id it is done once.
        """
        began = self.kernel.clock.boot_seconds()
        set_aside = self._settle_dead_operations(report)
        # All of them were sent before now, so the configuration of now is that of each.
        config = self.kernel.config()
        kernel = msgspec.structs.replace(self.kernel, config=lambda: config)
        with kernel.record.write():
            decided = [self._decide_or_refuse(kernel, request, report) for request in calls]
        answers = self._show(decided)
        for request, answer in zip(calls, answers, strict=True):
            self._note(request, began=began, outcome=_outcome_of(answer))
        return [_with_set_aside(set_aside, answer) for answer in answers]

    def tools_for(self, principal: Principal) -> tuple[Tool, ...]:
        """Return the tools that this caller may use, by name."""
        policy = self.kernel.config().policy
        return tuple(tool for _name, tool in sorted(self.tools.items()) if may_use(tool, principal, policy))

    def _call(self, request: ToolRequest, report: Report) -> Envelope:
        admitted = self._admit(self.kernel, request, report)
        set_aside = self._settle_dead_operations(report)
        (answer,) = self._show([(admitted, self._decide(admitted))])
        return _with_set_aside(set_aside, answer)

    def _admit(self, kernel: Kernel, request: ToolRequest, report: Report) -> _AdmittedCall:
        tool = self._permitted_tool(kernel, request)
        # Of a question without any words there is nothing to tell apart.
        payload = payload_hash(tool, request) if tool.mutates or request.arguments else ""
        parsed = parse_arguments(tool, request.arguments)
        check_caller(request.principal, parsed)
        own_id = operation_id_of(request.operation_id) if tool.mutates else None
        call = Call(kernel=kernel, principal=request.principal, tool=tool, operation_id=own_id, report=report)
        return _AdmittedCall(call=call, arguments=parsed, payload=payload)

    def _decide(self, admitted: _AdmittedCall) -> Envelope:
        tool = admitted.call.tool
        if not tool.mutates:
            return envelope(tool, tool.run(admitted.call, admitted.arguments))
        return self._once_in_one_change(admitted) if tool.brief else self._once(admitted)

    def _decide_or_refuse(
        self, kernel: Kernel, request: ToolRequest, report: Report
    ) -> tuple[_AdmittedCall | None, Envelope]:
        try:
            admitted = self._admit(kernel, request, report)
            return admitted, self._decide(admitted)
        except Refusal as refusal:
            return None, refusal_envelope(refusal)

    def _show(self, decided: Sequence[tuple[_AdmittedCall | None, Envelope]]) -> list[Envelope]:
        """Show what calls changed, all at once; the first answer tells what foreign content was moved."""
        changes = [admitted for admitted, _ in decided if admitted is not None and admitted.call.tool.mutates]
        if not changes:
            return [answer for _, answer in decided]
        named = [each.arguments.feature_id for each in changes if isinstance(each.arguments, FeatureArguments)]
        set_aside = show(self.kernel, named or None)
        answers = list[Envelope]()
        for admitted, answer in decided:
            if admitted is None or not admitted.call.tool.mutates:
                answers.append(answer)
                continue
            answers.append(_with_set_aside(set_aside, self._with_revealed_data(admitted.call.tool, answer)))
            set_aside = ()
        return answers

    def _note(self, request: ToolRequest, *, began: float, outcome: str) -> None:
        tool = self.tools.get(request.tool)
        # A person who looks leaves no trace: a screen that is open all day would fill the log.
        if request.principal.person and tool is not None and not tool.mutates:
            return
        # An unknown name may be anything, also a secret: it is not logged.
        named = request.arguments.get("feature_id") if isinstance(request.arguments, Mapping) else None
        self.kernel.calls.note(
            LoggedCall(
                at=self.kernel.now(),
                actor=request.principal.actor,
                role=request.principal.role,
                tool=request.tool if tool is not None else "?",
                feature_id=named if isinstance(named, str) and is_feature_id(named) else None,
                operation_id=request.operation_id if is_operation_id(request.operation_id) else "?",
                milliseconds=round((self.kernel.clock.boot_seconds() - began) * 1000, 3),
                outcome=outcome,
            )
        )

    def _permitted_tool(self, kernel: Kernel, request: ToolRequest) -> Tool:
        principal, tool = request.principal, self.tools.get(request.tool)
        if tool is None:
            shown = ascii(request.tool[:80])[1:-1]
            meant = did_you_mean(request.tool, self.tools)
            raise errors.UnknownTool(f"There is no tool `{shown}`.{meant}", tool=shown)
        if tool.person_only:
            refuse_agent(f"`{tool.name}`", principal)
        if not may_use(tool, principal, kernel.config().policy):
            raise errors.ForbiddenToolForRole(
                f"The role `{principal.role}` may not call `{tool.name}`"
                + (" with a token: it is for a person." if tool.person_only and not principal.person else "."),
                role=principal.role,
                tool=tool.name,
            )
        return tool

    def _once(self, admitted: _AdmittedCall) -> Envelope:
        call = admitted.call
        with self.kernel.locks.operation(call.operation(), wait_seconds=WAIT_FOR_TWIN_SECONDS):
            # Nothing has happened yet: if a power cut takes it back, the call was never made.
            with self.kernel.record.write(durable=False) as tx:
                known = _enter_operation(tx, admitted)
            if known is not None and known.answer is not None:
                return msgspec.convert(known.answer, Envelope)
            # Pending while its lock is ours: an earlier caller died half-way.
            finished = None if known is None else _resolve_intent(call, known)
            if finished is not None:
                return envelope(call.tool, finished)
            try:
                return envelope(call.tool, call.tool.run(call, admitted.arguments))
            except Refusal:
                with self.kernel.record.write(durable=False) as tx:
                    tx.withdraw_operation(call.operation())
                raise

    def _once_in_one_change(self, admitted: _AdmittedCall) -> Envelope:
        """Enter the operation, decide and answer in one transaction: it is never seen pending."""
        call = admitted.call
        with self.kernel.record.write() as tx:
            known = _enter_operation(tx, admitted)
            if known is not None and known.answer is not None:
                return msgspec.convert(known.answer, Envelope)
            return envelope(call.tool, call.tool.run(call, admitted.arguments))

    def _settle_dead_operations(self, report: Report) -> tuple[MovedPath, ...]:
        """Finish or undo interrupted operations, once in the life of this process; return the moved paths."""
        if self._settled:
            return ()
        self._settled = True
        with self.kernel.record.read() as view:
            pending = view.pending_operations()
        for operation in pending:
            tool = self.tools.get(operation.tool)
            if tool is not None:
                self._settle(operation, tool, report)
        doubt_after_restart(self.kernel)
        return show(self.kernel)

    def _settle(self, operation: Operation, tool: Tool, report: Report) -> None:
        call = Call(
            kernel=self.kernel,
            principal=Principal(role=Role.SYSTEM, actor=operation.actor),
            tool=tool,
            operation_id=operation.operation_id,
            report=report,
        )
        try:
            with self.kernel.locks.operation(operation.operation_id, wait_seconds=0.0):
                with self.kernel.record.read() as view:
                    now = view.operation(operation.operation_id)
                if now is not None and now.answer is None and _resolve_intent(call, now) is None:
                    with self.kernel.record.write() as tx:
                        tx.withdraw_operation(operation.operation_id)
        except errors.OperationInProgress:
            # Its caller is alive.
            return
        except Refusal as refusal:
            # It stays pending, and its next sender gets this refusal; the present call goes on.
            what = f"The operation `{operation.operation_id}` was interrupted and cannot be finished or undone"
            report(f"{what}: {refusal.message}")

    def _with_revealed_data(self, tool: Tool, answer: Envelope) -> Envelope:
        if not answer.ok or tool.reveal is None:
            return answer
        shown = tool.reveal(self.kernel, msgspec.convert(answer.data, tool.output))
        return msgspec.structs.replace(answer, data=msgspec.to_builtins(shown))


def _outcome_of(answer: Envelope) -> str:
    return "ok" if answer.error is None else str(answer.error["code"])


def _enter_operation(tx: Transaction, admitted: _AdmittedCall) -> Operation | None:
    """Enter the operation as pending, or return its known entry. Raises: IdempotencyMismatch, SupervisorReplaced."""
    refuse_old_epoch(tx, admitted.call.kernel.epoch)
    call, operation_id = admitted.call, admitted.call.operation()
    known = tx.operation(operation_id)
    if known is None:
        tx.enter_operation(
            Operation(
                operation_id=operation_id,
                tool=call.tool.name,
                payload_hash=admitted.payload,
                actor=call.principal.actor,
            )
        )
    elif known.payload_hash != admitted.payload:
        raise errors.IdempotencyMismatch(
            f"The operation id `{operation_id}` was used for another request.", operation_id=operation_id
        )
    return known


def _with_set_aside(set_aside: tuple[MovedPath, ...], answer: Envelope) -> Envelope:
    """Add to an answer which foreign files were moved out of the way of AOP's own."""
    if not set_aside:
        return answer
    moved: dict[str, list[str]] = {}
    for name, path in set_aside:
        moved.setdefault(name, []).append(path)
    return msgspec.structs.replace(answer, evidence={**answer.evidence, **moved})


def _resolve_intent(call: Call, operation: Operation) -> Outcome | None:
    """Settle what a dead caller was about to do outside the database; None: it left nothing behind."""
    if call.tool.resolve is None or operation.intent is None:
        return None
    return call.tool.resolve(call, operation.intent)


def may_use(tool: Tool, principal: Principal, policy: Policy) -> bool:
    """Decide by catalogue and policy; what neither names is denied."""
    if principal.scopes is not None:
        return bool(tool.key_scope) and tool.key_scope in principal.scopes
    if tool.person_only and not (principal.person or principal.role is Role.SYSTEM):
        return False
    if principal.turn and tool.mutates and not tool.in_turn:
        return False
    if principal.role is Role.SYSTEM:
        return True
    listed = policy.rbac.get(principal.role)
    if principal.role in tool.roles:
        return listed is None or tool.name in listed
    return tool.expandable and listed is not None and tool.name in listed


def parse_arguments(tool: Tool, arguments: Json) -> Arguments:
    """Read the arguments strictly against the tool's input schema. Raises: InvalidArguments, InvalidFeatureSlug."""
    named = arguments.get("feature_id") if isinstance(arguments, Mapping) else None
    if isinstance(named, str) and issubclass(tool.arguments, FeatureArguments):
        feature_id(named)
    try:
        return msgspec.convert(arguments, tool.arguments)
    except msgspec.ValidationError as error:
        raise InvalidArguments(f"The arguments of `{tool.name}` are not valid: {error}.", tool=tool.name) from error


def check_caller(principal: Principal, arguments: Arguments) -> None:
    """Refuse a caller that names itself wrongly, or a feature out of its scope."""
    if arguments.actor_type not in (None, principal.role) or arguments.actor_id not in (None, principal.actor):
        raise errors.ForbiddenToolForRole(
            "`actor_type` and `actor_id` must name the caller itself.", role=principal.role, actor=principal.actor
        )
    if isinstance(arguments, FeatureArguments) and not principal.reaches(arguments.feature_id):
        raise errors.ForbiddenToolForRole(
            f"This caller may not reach the feature `{arguments.feature_id}`.", feature_id=arguments.feature_id
        )


def payload_hash(tool: Tool, request: ToolRequest) -> str:
    """Return what tells two requests with one operation id apart. Raises: InvalidArguments for what is not JSON."""
    told = {"tool": tool.name, "arguments": request.arguments}
    # Callers that reach different projects or builds ask different things with the same words.
    if reach := [each for each in (request.principal.project, request.principal.build) if each is not None]:
        told["reach"] = reach
    try:
        return sha256_hex(canonical_json(told))
    except MalformedText as error:
        raise InvalidArguments(f"The arguments of `{tool.name}` are not valid: {error}.", tool=tool.name) from error
