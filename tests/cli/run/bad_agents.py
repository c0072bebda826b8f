"""A program in the place of a vendor's coding agent: how it behaves is in the first word of the feature's id."""

from __future__ import annotations

import sys
from pathlib import Path

PYTHON = f"{sys.base_prefix}/bin/python3"
"""A Python outside of AOP's own environment, which no agent sees."""
SCRIPT = r'''
import json, os, re, signal, socket, subprocess, sys, time, urllib.error, urllib.request

if sys.argv[1:] == ["--version"]:
    print("1.2.3 (A Test)")
    sys.exit()
prompt = sys.stdin.read()
role, feature = re.search(r"You are the (\w+) of the feature `(\w+)`", prompt).groups()
manner = feature.split("_")[0]
server = json.load(open(os.path.join(os.environ["HOME"], "mcp.json")))["mcpServers"]["aop"]


def call(tool, **arguments):
    """Return the code of the refusal, or `ok`."""
    arguments.setdefault("feature_id", feature)
    said = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2025-11-25",
        "authorization": f"Bearer {os.environ['AOP_TOKEN']}",
    }
    with urllib.request.urlopen(urllib.request.Request(server["url"], json.dumps(said).encode(), headers)) as answer:
        body = answer.read().decode()
    line = next(line for line in body.splitlines() if "jsonrpc" in line)
    result = json.loads(line.removeprefix("data:"))["result"]
    return result["content"][0]["text"].split(":")[0] if result.get("isError") else "ok"


def attempt(do, *words):
    try:
        do(*words)
        return "done"
    except OSError as error:
        return type(error).__name__


def write(path):
    with open(path, "w") as file:
        file.write("written")


def plan():
    return {
        "feature_id": feature, "plan_version": 1, "summary": "Write a new file", "base_ref": "main",
        "allowed_areas": ["src"], "forbidden_areas": [],
        "contracts": {"openapi": "none", "events": "none", "db": "none"},
        "files": {"create": [f"src/{feature}.txt"], "modify": [], "delete": []},
        "acceptance_criteria": ["It is there"], "gate_profile": "default"}


def ask_model():
    """Ask the model through the meter; a limited request ends the program, as it ends a real one."""
    asked = {"model": "claude-sonnet-4-5", "max_tokens": 10, "messages": [{"role": "user", "content": "Hello"}]}
    headers = {"content-type": "application/json", "x-api-key": os.environ["ANTHROPIC_API_KEY"]}
    address = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
    try:
        urllib.request.urlopen(urllib.request.Request(address, json.dumps(asked).encode(), headers)).read()
    except urllib.error.HTTPError as error:
        sys.exit(f"The request was refused: {error.code}")


if manner == "odd":
    print(json.dumps({"kind": "usage", "format": 9, "tokens": {"in": 10, "out": 5}}))
wanted = re.search(r"Call the tool `submit_note` with the note `([^`]+)`", prompt)
if wanted:
    call("submit_note", note=wanted[1])
elif manner == "nonsense":
    print("I would rather talk about the weather.")
elif manner == "endless":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen([sys.executable, __file__ + ".child", "-c", "x"], start_new_session=True)
    time.sleep(600)
elif manner == "flood":
    while True:
        sys.stdout.write("flood " * 10000)
elif manner == "dies":
    os.kill(os.getpid(), signal.SIGKILL)
elif manner == "fails":
    print("There is no room on this device.")
    sys.exit(3)
elif manner in ("hearsay", "limited"):
    print("Rate limit exceeded: try again in 2 hours")
    sys.exit(manner == "limited")
elif manner == "forks":
    for _ in range(20):
        subprocess.Popen([sys.executable, __file__ + ".child", "-c", "x"], start_new_session=True)
elif manner == "stranger":
    sys.exit("Invalid API key - Please run /login")
elif manner == "terminal":
    try:
        open("/dev/tty").readline()
    except OSError:
        sys.exit("May I go on? There is no terminal to answer on.")
elif manner == "updates":
    import pwd
    home = pwd.getpwuid(os.getuid()).pw_dir
    places = [__file__, os.path.join(os.path.dirname(__file__), "newer"), os.path.join(home, "written-by-an-agent")]
    call("submit_note", note=json.dumps([attempt(write, place) for place in places]))
elif manner == "ignores":
    print(json.dumps({"type": "PLAN_SUBMISSION", "plan": plan()}))
elif manner == "same":
    call("submit_request", request="context")
elif manner == "outside":
    root = os.path.realpath(os.path.join(os.getcwd(), "..", "..", ".."))
    places = [os.path.join(root, "outside.txt"), os.path.join(root, ".aop", "outside.txt"), "/usr/outside.txt"]
    call("submit_note", note=json.dumps([attempt(write, place) for place in places]))
elif manner == "git":
    own = open(".git").read().split()[1]
    common = os.path.dirname(os.path.dirname(own))
    places = [".git", os.path.join(common, "config"), os.path.join(common, "hooks", "post-checkout")]
    call("submit_note", note=json.dumps([attempt(write, place) for place in places]))
elif manner == "network":
    places = [("127.0.0.1", 9), ("93.184.215.14", 443)]
    proxies = [name for name in os.environ if name.lower().endswith("_proxy")]
    call("submit_note", note=json.dumps([*(attempt(socket.create_connection, place, 5) for place in places), *proxies]))
elif manner == "environ":
    seen = dict(os.environ).__repr__()
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            seen += open(f"/proc/{number}/environ", errors="replace").read()
        except OSError:
            pass
    call("submit_note", note=json.dumps({"key": KEY in seen, "names": sorted(os.environ)}))
elif manner == "others":
    call("submit_note", note=json.dumps([
        call("submit_patch", unified_diff="x"), call("plan.submit", plan_json=plan()), call("gates.run", mode="fast"),
        call("feature.state_get", feature_id="good_one"), call("submit_note", feature_id="good_one", note="x"),
        call("feature.state_get")]))
elif manner == "tells":
    call("submit_note", note=json.dumps([call("repo.search", query=KEY), call("repo.search", query="two"), KEY]))
elif role == "planner":
    if manner in ("metered", "lingers"):
        ask_model()
    if manner == "lingers":
        own, asked = os.urandom(8).hex(), 1
        print(f"begun as {own}", flush=True)
        while not os.path.exists(f"{os.path.dirname(__file__)}/go"):
            if os.path.exists(f"{os.path.dirname(__file__)}/{own}.{asked}"):
                asked += 1
                ask_model()
            time.sleep(0.01)
    call("submit_plan", plan=plan())
else:
    os.makedirs("src", exist_ok=True)
    write(f"src/{feature}.txt")
'''


def bad_agent(folder: Path, name: str, key: str = "sk-none") -> Path:
    """Write the program, which looks for a key that it must not see, and return the folder for the PATH."""
    folder.mkdir()
    program = folder / name
    program.write_text(f"#!{PYTHON}\nKEY = {key!r}\n{SCRIPT}")
    program.chmod(0o755)
    (folder / f"{name}.child").write_text("import time\ntime.sleep(600)\n")
    return folder
