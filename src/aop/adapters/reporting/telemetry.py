"""Telemetry: OpenTelemetry spans for turns, tool calls and gate steps.

Spans carry names, figures and outcomes; never a prompt, an argument, an answer or a log line.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import msgspec

from aop.adapters.agents.vendors.catalogue import shipped_rows
from aop.adapters.processes.run_override import with_run
from aop.core.errors import Refusal
from aop.core.version import VERSION
from aop.kernel.gateway.calls import Kernel
from aop.kernel.ports.call_log import CallLog, LoggedCall
from aop.kernel.ports.processes import Command, CommandResult, Ending, Processes
from aop.supervisor.workers import Worker, WorkerInput, WorkerOutput

if TYPE_CHECKING:  # it takes most of a second, and few have it
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

T = TypeVar("T")

_EXPORT_SECONDS = 3
"""How long a silent endpoint may delay the end of a command."""
_PROVIDERS = {"anthropic": "anthropic", "openai": "openai", "google": "gcp.gemini"}
_GATE_LOG = re.compile(r"(gate-\d+-[0-9a-f]+)-(.+?)(?:-\d+)?\.log")
_OK = "ok"

Attributes = Mapping[str, str | int | float]


def telemetry(environ: Mapping[str, str]) -> Telemetry | None:
    """Return the telemetry, if the library is installed; the library reads its own variables."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError:
        return None

    resource = Resource.create({"service.name": environ.get("OTEL_SERVICE_NAME") or "aop", "service.version": VERSION})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    seconds = None if "OTEL_EXPORTER_OTLP_TIMEOUT" in environ else _EXPORT_SECONDS
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=seconds)))
    return Telemetry(provider)


class Telemetry:
    """Makes spans, from any thread."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("aop", VERSION)
        self._turns: dict[tuple[str, str], Span] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Send the remaining spans."""
        self._provider.shutdown()

    def trace_kernel(self, kernel: Kernel) -> Kernel:
        """Return a kernel with a span for each call and each gate step."""
        calls, processes = _SpannedCalls(self, kernel.calls), _spanned_processes(self, kernel.processes)
        return msgspec.structs.replace(kernel, calls=calls, processes=processes)

    def trace_worker(self, inner: Worker) -> Worker:
        """Return a worker with a span for each turn."""
        return _SpannedWorker(self, inner)

    def add(
        self, name: str, attributes: Attributes, *, began_ns: int, error: str, within: tuple[str, str] | None
    ) -> None:
        """Add a finished span, below the turn that it belongs to."""
        from opentelemetry.trace import set_span_in_context

        with self._lock:
            turn = self._turns.get(within) if within else None
        context = set_span_in_context(turn) if turn is not None else None
        span = self._tracer.start_span(name, context=context, start_time=began_ns, attributes=attributes)
        _fail(span, error)
        span.end()

    @contextmanager
    def turn(self, name: str, key: tuple[str, str], attributes: Attributes) -> Iterator[Span]:
        """Open a span for a turn."""
        span = self._tracer.start_span(name, attributes=attributes)
        with self._lock:
            self._turns[key] = span
        try:
            yield span
        except Refusal as refusal:
            _fail(span, refusal.code)
            raise
        finally:
            with self._lock:
                self._turns.pop(key, None)
            span.end()


def _fail(span: Span, error: str) -> None:
    if error:
        from opentelemetry.trace import Status, StatusCode

        span.set_status(Status(StatusCode.ERROR))
        span.set_attribute("error.type", error)


class _SpannedCalls:
    def __init__(self, spans: Telemetry, inner: CallLog) -> None:
        self._spans = spans
        self._inner = inner

    def note(self, call: LoggedCall) -> None:
        self._inner.note(call)
        feature = call.feature_id or ""
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.tool,
            "gen_ai.tool.type": "function",
            "aop.role": call.role,
            "aop.outcome": call.outcome,
            **({"aop.feature_id": feature} if feature else {}),
        }
        self._spans.add(
            f"execute_tool {call.tool}",
            attributes,
            began_ns=time.time_ns() - int(call.milliseconds * 1_000_000),
            error="" if call.outcome == _OK else call.outcome,
            within=(call.role, call.actor.partition(":")[2]),
        )


def _spanned_processes(spans: Telemetry, inner: Processes) -> Processes:
    def run(command: Command) -> CommandResult:
        began_ns, ended = time.time_ns(), inner.run(command)
        step, folder = _GATE_LOG.fullmatch(command.log_path.name), command.log_path.parents[1]
        if step is not None:
            spans.add(
                f"gate {step[2]}",
                {
                    "aop.gate_run_id": step[1],
                    "aop.gate_step": step[2],
                    # Gates of the base branch belong to no feature, and log elsewhere.
                    **({"aop.feature_id": folder.name} if folder.parent.name == "features" else {}),
                    "aop.sandbox": ended.sandbox_level,
                    "aop.ending": ended.ending,
                    **({} if ended.exit_code is None else {"process.exit.code": ended.exit_code}),
                },
                began_ns=began_ns,
                error="" if (ended.ending, ended.exit_code) == (Ending.EXITED, 0) else str(ended.ending),
                within=None,
            )
        return ended

    return with_run(inner, run)


class _SpannedWorker:
    def __init__(self, spans: Telemetry, inner: Worker) -> None:
        self._spans = spans
        self._inner = inner

    def turn(self, given: WorkerInput) -> WorkerOutput:
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": str(given.role),
            "gen_ai.provider.name": _provider_of(given),
            "aop.feature_id": given.feature_id,
            **({"gen_ai.request.model": given.model} if given.model else {}),
        }
        key = (str(given.role), str(given.feature_id))
        with self._spans.turn(f"invoke_agent {given.role}", key, attributes) as span:
            output = self._inner.turn(given)
            span.set_attribute("aop.answer", type(output).__struct_config__.tag)
            if output.usage is not None:
                figures = {"input": output.usage.input_tokens, "output": output.usage.output_tokens}
                for name, tokens in figures.items():
                    if tokens is not None:
                        span.set_attribute(f"gen_ai.usage.{name}_tokens", tokens)
        return output


def _provider_of(given: WorkerInput) -> str:
    row = shipped_rows().get(given.provider)
    family = (given.model or "").partition(":")[0] if given.provider == "model" else ""
    if row is not None and row.endpoint is not None:
        family = row.endpoint.family
    return _PROVIDERS.get(family, given.provider)
