"""Tape of an MCP server's answers: `record TAPE PROGRAM ...` records, `play TAPE` answers from it.

A tape is played in order: another request than the recorded one gets an error. A tape has neither the descriptions of
tools nor the ports of this machine.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

_HERE = re.compile(r"http://127\.0\.0\.1:[0-9]+")


def record(tape: Path, words: list[str]) -> None:
    asked: dict[Any, Any] = {}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None

        def answers() -> None:
            assert server.stdout is not None
            for line in server.stdout:
                message = json.loads(line)
                if message.get("id") in asked and "method" not in message:
                    _write(tape, asked.pop(message["id"]), message)
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()

        reader = threading.Thread(target=answers)
        reader.start()
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "id" in message and "method" in message:
                asked[message["id"]] = message
            server.stdin.write(line)
            server.stdin.flush()
        server.stdin.close()
        reader.join()


def play(tape: Path) -> None:
    left = [json.loads(line) for line in tape.read_text().splitlines()]
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        found = next((entry for entry in left if entry["method"] == message["method"]), None)
        if found is None or (found["method"] == "tools/call" and found["params"] != message["params"]):
            wanted = found["params"] if found else "nothing more"
            answer: Any = {"error": {"code": -32603, "message": f"the tape has here: {wanted}"}}
        else:
            left.remove(found)
            answer = found["answer"]
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) + "\n")
        sys.stdout.flush()


def _taken(tool: Any) -> list[str]:
    return sorted(tool["inputSchema"]["properties"])


def _write(tape: Path, request: Any, answer: Any) -> None:
    kept = {name: answer[name] for name in ("result", "error") if name in answer}
    if request["method"] == "tools/list":
        tools = [
            {"name": tool["name"], "inputSchema": {"properties": {name: {} for name in _taken(tool)}}}
            for tool in kept["result"]["tools"]
        ]
        kept = {"result": {"tools": tools}}
    entry = {"method": request["method"], "params": request.get("params"), "answer": kept}
    if request["method"] != "tools/call":
        del entry["params"]
    with tape.open("a") as end:
        end.write(_HERE.sub("https://x.example", json.dumps(entry)) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "record":
        record(Path(sys.argv[2]), sys.argv[3:])
    else:
        play(Path(sys.argv[2]))
