"""Spans of a run, as an OTLP receiver gets them; without an endpoint nothing of it is even imported."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shops import Shop
from tests.world import make_repository, run_aop


class Receiver(ThreadingHTTPServer):
    """Takes spans as OpenTelemetry sends them over HTTP."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taking)
        self.bodies: list[bytes] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def spans(self) -> list[Any]:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        batches = [ExportTraceServiceRequest.FromString(body) for body in self.bodies]
        return [
            span
            for batch in batches
            for resource in batch.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class _Taking(BaseHTTPRequestHandler):
    server: Receiver

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()


@contextmanager
def receiver() -> Iterator[Receiver]:
    with Receiver() as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield listening
        finally:
            listening.shutdown()
            thread.join()


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


@pytest.mark.slow
def test_turns_tool_calls_and_gate_steps_become_spans_without_a_word_of_what_was_said(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.wants("good")
    secret = "the-secret-header-of-the-receiver"
    with receiver() as listening:
        shop.env |= {"OTEL_EXPORTER_OTLP_ENDPOINT": listening.url, "OTEL_EXPORTER_OTLP_HEADERS": f"x-key={secret}"}
        shop.env |= {"OTEL_EXPORTER_OTLP_TIMEOUT": "300"}
        ran = shop.all_at_once("--json", "--agent-model", "a-model")
        assert ran.code == 0, (ran.out, ran.err)
        spans = listening.spans()
    names = Counter(span.name for span in spans)
    assert {name: names[name] for name in ("invoke_agent planner", "invoke_agent builder", "gate check")} == {
        "invoke_agent planner": 1,
        "invoke_agent builder": 1,
        "gate check": 3,  # once on the base, before the first turn
    }
    assert names["execute_tool plan.submit"] == names["execute_tool repo.apply_patch"] == 1
    turn = next(span for span in spans if span.name == "invoke_agent planner")
    assert attributes(turn) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "planner",
        "gen_ai.provider.name": "custom",
        "gen_ai.request.model": "a-model",
        "aop.feature_id": "good",
        "aop.answer": "PLAN_SUBMISSION",
    }
    steps = [attributes(span) for span in spans if span.name == "gate check"]
    assert [(step.get("aop.feature_id"), step["aop.ending"], step["process.exit.code"]) for step in steps] == [
        (None, "exited", 0),
        ("good", "exited", 0),
        ("good", "exited", 0),
    ]
    sent = b"".join(listening.bodies)
    assert b"Write good" not in sent
    assert secret.encode() not in sent
    assert str(tmp_path).encode() not in sent


def test_a_refused_call_is_a_span_with_the_code_of_its_refusal(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    with receiver() as listening:
        env = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{listening.url}/v1/traces"}
        ran = run_aop(root, "call", "feature.log_append", '{"feature_id": "nobody", "note": "x"}', env=env)
        spans = listening.spans()
    assert ran.code != 0
    assert [(span.name, attributes(span)["error.type"], span.status.code) for span in spans] == [
        ("execute_tool feature.log_append", "unknown_feature", 2)
    ]


def test_an_endpoint_that_is_not_there_does_not_keep_a_call_from_its_answer(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    ran = run_aop(root, "status", env={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
    assert ran.code == 0, ran.err


def test_without_an_endpoint_nothing_of_it_is_imported(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    code = (
        "import os, sys; from pathlib import Path; from aop.wiring.build import Settings, build;"
        "build(Path(sys.argv[1]), Settings.from_env(os.environ)).close();"
        "print([name for name in sys.modules if 'telemetry' in name])"
    )
    said = subprocess.run([sys.executable, "-c", code, str(root)], check=True, capture_output=True, text=True).stdout
    assert said == "[]\n"
