"""A coding agent for tests that speaks the Agent Client Protocol: it plans and writes one file, in its own manner."""

from __future__ import annotations

import sys
from pathlib import Path

SCRIPT = '''\
"""acp_agent.py MANNER [CALLS]: how it behaves, and what it calls one step at a time."""
import json, os, sys, time, urllib.request

MANNER = sys.argv[1]
heard = {}
asked = 0


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
    sys.stdout.flush()


def receive():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def update(**fields):
    send({"method": "session/update", "params": {"sessionId": "s1", "update": fields}})


def permission(kind, path, *kinds):
    """Ask, and return what was chosen."""
    global asked
    asked += 1
    options = [{"optionId": each.replace("_", "-"), "name": each, "kind": each} for each in kinds]
    call = {"toolCallId": f"c{asked}", "title": f"{kind} {path}", "kind": kind, "locations": [{"path": path}]}
    send({"id": f"p{asked}", "method": "session/request_permission",
          "params": {"sessionId": "s1", "toolCall": call, "options": options}})
    while True:
        answer = receive()
        if answer.get("id") == f"p{asked}":
            return answer["result"]["outcome"]


def tool(name, arguments):
    """Call one of AOP's tools."""
    server = heard["server"]
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    headers = {each["name"]: each["value"] for each in server["headers"]}
    headers |= {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(server["url"], json.dumps(body).encode(), headers)
    return urllib.request.urlopen(request).read().decode()


PLAN = {
    "feature_id": "good", "plan_version": 1, "summary": "Write a new file", "base_ref": "main",
    "allowed_areas": ["src"], "forbidden_areas": [],
    "files": {"create": ["src/good.txt"], "modify": [], "delete": []},
    "contracts": {"openapi": "none", "events": "none", "db": "none"},
    "acceptance_criteria": ["It is there"], "gate_profile": "default",
}
CHOICES = ("allow_always", "allow_once", "reject_once")


def work(text, tree):
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "I begin, with sk-ant-api03-secret."})
    update(sessionUpdate="usage_update", used=7, size=100, cost={"amount": 0.25, "currency": "USD"})
    if MANNER == "steps":
        permission("edit", tree + "/a.txt", *CHOICES)
        for name, arguments in json.load(open(sys.argv[2])):
            tool(name, arguments)
        return
    if "You are the planner" in text:
        tool("submit_plan", {"feature_id": "good", "plan": PLAN})
        return
    outcomes = {
        "inside": permission("edit", tree + "/src/good.txt", *CHOICES),
        "outside": permission("edit", "/etc/passwd", *CHOICES),
        "around": permission("read", tree + "/../../record.db", *CHOICES),
        "fetch": permission("fetch", tree, *CHOICES),
        "nothing to choose": permission("fetch", tree, "allow_once"),
    }
    with open("src/good.txt", "w") as file:
        json.dump(outcomes, file, sort_keys=True)
        file.write("\\n")


def asks_its_model():
    """Ask as Gemini does, for a search too; return the key that it has."""
    key, tools = os.environ["GEMINI_API_KEY"], [{"functionDeclarations": []}, {"googleSearch": {}}]
    url = os.environ["GOOGLE_GEMINI_BASE_URL"] + "/v1beta/models/m:generateContent"
    asked = urllib.request.Request(url, json.dumps({"tools": tools}).encode(), {"x-goog-api-key": key})
    urllib.request.urlopen(asked).read()
    return key


def prompted(params):
    if MANNER == "dies":
        os._exit(3)
    if MANNER == "floods":
        while True:
            sys.stdout.write("x" * 65536)
    if MANNER == "hangs":
        while receive().get("method") != "session/cancel":
            pass
        return {"stopReason": "cancelled"}
    if MANNER == "spends":
        update(sessionUpdate="usage_update", used=7, size=100, cost={"amount": 9.5, "currency": "USD"})
        while receive().get("method") != "session/cancel":
            pass
        return {"stopReason": "cancelled", "usage": {"inputTokens": 20, "outputTokens": 5, "totalTokens": 25}}
    work(params["prompt"][0]["text"], heard["cwd"])
    if os.path.basename(sys.argv[0]) == "gemini":
        with open("src/good.txt", "w") as file:
            file.write(asks_its_model() + "\\n")
    return {"stopReason": "end_turn", "usage": {"inputTokens": 20, "outputTokens": 5, "totalTokens": 25}}


if MANNER == "mumbles":
    print("I do not speak this.")
    sys.exit(0)
print("A line that is no message.")
while True:
    message = receive()
    method, params = message.get("method"), message.get("params")
    if method == "initialize":
        result = {"protocolVersion": 1, "agentCapabilities": {"mcpCapabilities": {"http": MANNER != "old"}},
                  "authMethods": [{"id": "browser", "name": "B"}, {"id": "api-key", "name": "K"}]}
    elif method == "authenticate":
        heard["authenticated"] = params["methodId"]
        result = {}
    elif method == "session/new":
        if MANNER == "locked" and heard.get("authenticated") != "api-key":
            send({"id": message["id"], "error": {"code": -32000, "message": "Authentication required"}})
            continue
        heard["server"], heard["cwd"] = params["mcpServers"][0], params["cwd"]
        result = {"sessionId": "s1"}
    elif method == "session/set_model":
        with open(os.path.join(os.environ["HOME"], "model"), "w") as file:
            file.write(params["modelId"])
        result = {}
    elif method == "session/prompt":
        result = prompted(params)
    else:
        continue
    send({"id": message["id"], "result": result})
'''


def acp_command(folder: Path, manner: str, name: str = "acp_agent.py") -> str:
    """Write the agent into a folder, and return the command that starts it, as `custom` takes it."""
    folder.mkdir(exist_ok=True)
    script = folder / name
    script.write_text(SCRIPT)
    return f"acp: {sys.executable} {script} {manner}"
