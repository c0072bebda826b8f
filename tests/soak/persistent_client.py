"""A client that may be killed at any moment: it notes what it sends, and sends again what has no answer.

    python persistent_client.py URL TOKEN NAME FOLDER

It imports nothing of AOP, so that it starts at once. It calls until there is a file `stop` in the folder, and prints a
line for each answer.
"""

from __future__ import annotations

import fcntl
import http.client
import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

REVISION = "2026-07-28"
FEATURE = "one"
DOWN = "down.lock"


class Client:
    """Calls with ids of its own, one call after the other."""

    def __init__(self, url: str, token: str, notes: Path) -> None:
        self._url = urlsplit(url)
        self._token = token
        self._notes = notes
        self.version = 1
        """Which version of the feature it believes in."""

    def settle(self, sent: dict[str, Any]) -> None:
        """Send a call until it is answered, and note the answer; with another version, if it is told of one."""
        while True:
            self._note({"sent": sent})
            result = self._answered(sent)
            error = (result.get("_meta") or {}).get("aop/error", {}).get("error")
            if error is None:
                break
            if error["code"] != "version_conflict":
                raise RuntimeError(f"{sent} was refused: {error}")
            self.version = error["details"]["current_version"]
            sent = {**sent, "arguments": {**sent["arguments"], "expected_version": self.version}}
        data = result["structuredContent"]["data"]
        self.version = data.get("version", self.version)
        self._note({"done": sent["id"], "data": data})
        sys.stdout.write(sent["id"] + "\n")
        sys.stdout.flush()

    def _note(self, line: dict[str, Any]) -> None:
        with open(self._notes, "a") as file:
            file.write(json.dumps(line) + "\n")

    def _answered(self, sent: dict[str, Any]) -> Any:
        while True:
            try:
                return self._sent(sent)
            except (OSError, http.client.HTTPException):
                # The server is dead; whoever starts it again holds the lock until it listens.
                with open(self._notes.with_name(DOWN)) as down:
                    fcntl.flock(down, fcntl.LOCK_SH)

    def _sent(self, sent: dict[str, Any]) -> Any:
        meta = {"io.modelcontextprotocol/protocolVersion": REVISION, "io.modelcontextprotocol/clientCapabilities": {}}
        arguments = {"feature_id": FEATURE, "operation_id": sent["id"], **sent["arguments"]}
        params = {"name": sent["tool"], "arguments": arguments, "_meta": meta}
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": REVISION,
            "Mcp-Method": "tools/call",
            "Mcp-Name": sent["tool"],
        }
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        connection = http.client.HTTPConnection(str(self._url.hostname), self._url.port)
        try:
            connection.request("POST", self._url.path, body, headers)
            return _result(connection.getresponse())
        finally:
            connection.close()


def _result(response: http.client.HTTPResponse) -> Any:
    text = response.read().decode()
    lines = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
    return json.loads(lines[-1] if lines else text)["result"]


def call(name: str, number: int, version: int) -> dict[str, Any]:
    """Return the client's n-th call: three notes, then a change that no other may overwrite."""
    own_id = f"{name}-{number}"
    if number % 4:
        return {"id": own_id, "tool": "feature.log_append", "arguments": {"note": own_id}}
    arguments = {"expected_version": version, "patch": {"status_reason": own_id}}
    return {"id": own_id, "tool": "feature.state_patch", "arguments": arguments}


def main(url: str, token: str, name: str, folder: Path) -> None:
    notes = folder / f"{name}.jsonl"
    # A line that the kill cut was never sent.
    whole = notes.read_bytes().rpartition(b"\n")[0] if notes.exists() else b""
    notes.write_bytes(whole + b"\n" if whole else b"")
    lines = [json.loads(line) for line in whole.splitlines()]
    client = Client(url, token, notes)
    number = sum("done" in line for line in lines) + 1
    if lines and "sent" in lines[-1]:
        client.settle(lines[-1]["sent"])
        number += 1
    while not (folder / "stop").exists():
        client.settle(call(name, number, client.version))
        number += 1


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
