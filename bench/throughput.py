"""How many small changes many clients make in a second, and whether each of them gets its share."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from bench.bare import NOTHING
from bench.effort import Effort
from bench.mcp import AOP, BARE, HERE, serving
from bench.measurements import Budget, Measurement
from bench.scenes import Scene

REVISION = "2026-07-28"
LEAST = 450.0
FAIR = 0.5
"""A client that gets half of what another one gets is not starved; one that waits in no line gets a thousandth."""
SAME = 0.8
"""Two runs of the same seconds differ by as much on a busy machine."""


def throughput(effort: Effort) -> Iterator[Measurement]:
    """Measure `feature.log_append` by clients of one server, and by processes of their own."""
    with closing(Scene(effort.folder, files=20)) as scene:
        for number in range(max(*effort.clients, effort.client_processes)):
            scene.call("feature.init", feature_id=_feature(number))
        yield from _of_one_server(scene, effort)
        yield from _of_processes(scene, effort)


def _of_one_server(scene: Scene, effort: Effort) -> Iterator[Measurement]:
    seconds, most = effort.seconds, max(effort.clients)
    ours = (*AOP, "serve", "--port", "0", "--json", "--repo", str(scene.root))
    reached: list[float] = []
    with serving(ours) as url, serving((*BARE, "http")) as bare_url:
        for clients in effort.clients:
            floor = sum(_counts([ToolClient(bare_url, "none", NOTHING, {})] * clients, seconds)) / seconds
            counts = _counts([_appending(url, scene.token(), number) for number in range(clients)], seconds)
            reached.append(sum(counts) / seconds)
            yield Measurement(
                name=f"feature.log_append, {clients} HTTP clients",
                unit="/s",
                ours=reached[-1],
                floor=floor,
                floor_name="an empty tool",
                budget=Budget("at least", LEAST) if clients == most else None,
            )
            if clients > 1:
                yield _fairness(f"feature.log_append, the slowest of {clients} HTTP clients", counts, seconds)
    yield Measurement(
        name=f"feature.log_append, {most} HTTP clients, again",
        unit="/s",
        ours=reached[-1],
        floor=max(reached[:-1]),
        floor_name="the most that fewer reach",
        budget=Budget("share", SAME),
    )


def _of_processes(scene: Scene, effort: Effort) -> Iterator[Measurement]:
    seconds, processes = effort.seconds, effort.client_processes
    words = (sys.executable, "-m", "bench.appending", str(scene.root))
    children = [
        subprocess.Popen(
            [*words, _feature(number), str(seconds)], cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for number in range(processes)
    ]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()
    for child in children:
        assert child.stdin is not None
        child.stdin.write(b"\n")
        child.stdin.flush()
    counts = [int(child.communicate()[0]) for child in children]
    yield Measurement(name=f"feature.log_append, {processes} processes", unit="/s", ours=sum(counts) / seconds)
    yield _fairness(f"feature.log_append, the slowest of {processes} processes", counts, seconds)


def _fairness(name: str, counts: Sequence[int], seconds: float) -> Measurement:
    return Measurement(
        name=name,
        unit="/s",
        ours=min(counts) / seconds,
        floor=max(counts) / seconds,
        floor_name="the fastest",
        budget=Budget("share", FAIR),
    )


def _feature(number: int) -> str:
    return f"client_{number}"


class ToolClient:
    """Calls one tool again and again, with little work of its own: it shares the machine with the server."""

    def __init__(self, url: str, token: str, tool: str, arguments: dict[str, Any]) -> None:
        self._address = urlsplit(url)
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": REVISION,
            "Mcp-Method": "tools/call",
            "Mcp-Name": tool,
        }
        meta = {"io.modelcontextprotocol/protocolVersion": REVISION, "io.modelcontextprotocol/clientCapabilities": {}}
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        self._body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})

    def calls_until(self, deadline: float) -> int:
        """Call until then; return how often."""
        count = 0
        with closing(HTTPConnection(self._address.hostname or "", self._address.port)) as connection:
            while time.monotonic() < deadline:
                self.call(connection)
                count += 1
        return count

    def call(self, connection: HTTPConnection) -> bytes:
        """Call once over a connection that stays open; return the answer, which must not be a refusal."""
        connection.request("POST", self._address.path, self._body, self._headers)
        response = connection.getresponse()
        answer = response.read()
        if response.status != 200 or b'"structuredContent"' not in answer:
            raise RuntimeError(f"A call was refused: {answer!r}")
        return answer


def _appending(url: str, token: str, number: int) -> ToolClient:
    return ToolClient(url, token, "feature.log_append", {"feature_id": _feature(number), "note": "Measured"})


def _counts(clients: Sequence[ToolClient], seconds: float) -> list[int]:
    """Let all call at once for so long; return how often each did. One that fails has called no more than 0 times."""
    counts = [0] * len(clients)
    deadline = time.monotonic() + seconds

    def call(number: int) -> None:
        counts[number] = clients[number].calls_until(deadline)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counts
