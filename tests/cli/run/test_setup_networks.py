"""Set-up commands with a network: closed where a feature changed their inputs, until a person opens it."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.cli.shops import Shop
from tests.world import run_aop

POLICY = """\
version: 1
worktree:
  setup:
    - {{cmd: [python3, -c, "import socket; socket.create_connection(('127.0.0.1', {port}), 5)"],
       inputs: [src], network: host}}
"""


@pytest.mark.slow
def test_a_run_waits_for_the_person_who_opens_the_network_and_then_proves_the_feature(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        shop = Shop(tmp_path, POLICY.format(port=server.getsockname()[1]))
        shop.wants("one")
        asked = shop.all_at_once()
        assert (asked.code, shop.statuses()) == (4, {"one": "building"}), asked.err
        assert "q1 (one): Setting up the worktree of `one` failed without the network" in asked.err
        (question,) = json.loads(run_aop(shop.root, "inbox", "--json").out)["data"]["questions"]
        assert (question["choices"], question["detail"]["paths"]) == (["yes", "no"], ["src/one.txt"])
        assert run_aop(shop.root, "answer", "q1", "yes").code == 0
        proven = shop.all_at_once()
        assert (proven.code, shop.statuses()) == (0, {"one": "ready_to_merge"}), proven.err
        assert [worker for worker, _ in shop.turns()] == ["planner", "builder"]
        merged = run_aop(shop.root, "merge", "one", "--yes")
        assert (merged.code, shop.statuses()) == (0, {"one": "merged"}), merged.err
