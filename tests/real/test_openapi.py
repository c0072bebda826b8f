"""schemathesis over the OpenAPI of `aop serve`: no request gets an answer that the document does not describe."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forge.projects import stored
from tests.mcpserver.clients import served
from tests.real.conftest import REAL, alone_with
from tests.web.forge.forge_servers import KEY, put_key, put_project
from tests.world import World, run_aop

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

SCHEMATHESIS = "schemathesis==4.32.5"
KNOWN = """\
[parameters]
"path.project_id" = "shop"
"path.build_id" = "shop-b1"
"path.error_id" = "e1"
"path.batch" = 1
"path.run_id" = "shop-s1"
"path.prefix" = "fg_sparespar"
"""


@pytest.fixture(scope="module")
def schemathesis() -> Path:
    """Install it from PyPI, into an environment of its own."""
    with alone_with(REAL / "schemathesis") as home:
        program = home / "bin" / "schemathesis"
        if not program.exists():
            subprocess.run([f"{sys.base_prefix}/bin/python3", "-m", "venv", str(home)], check=True)
            subprocess.run([str(home / "bin" / "python"), "-m", "pip", "install", "-q", SCHEMATHESIS], check=True)
    return program


@pytest.mark.parametrize("values", ["", KNOWN], ids=["any ids", "known ids"])
def test_every_answer_is_one_that_the_document_describes(
    schemathesis: Path, world: World, tmp_path: Path, values: str
) -> None:
    (tmp_path / "schemathesis.toml").write_text(values)
    put_key(world, KEY, scopes=("read", "write", "keys"))
    put_key(world, "fg_" + "spare" * 8)
    put_project(world, "shop")
    assert run_aop(world.root, "forge", "scan", "shop").code == 0
    stored(world, "shop")
    assert world.ok("forge.build_begin", project_id="shop")["build_id"] == "shop-b1"
    world.ok("forge.error_track", build_id="shop-b1", errors=[{"message": "src/a.py:3: no name x"}])
    with served(world.root) as running:
        done = subprocess.run(
            [
                str(schemathesis),
                *("run", f"{running.origin}/api/openapi.json"),
                *("--header", f"Authorization: Bearer {KEY}"),
                *("--exclude-path", "/api/events"),  # a stream does not end
                *("--checks", "all", "--exclude-checks", "positive_data_acceptance"),  # most ids are unknown
                *("--rate-limit", "80/s", "--max-examples", "40", "--seed", "1", "--no-color"),
            ],
            cwd=tmp_path,
            env={**os.environ, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )
        assert (done.returncode, running.process.poll()) == (0, None), done.stdout[-8000:]
        # The build is not sealed.
        unknown = ["GET /api/build-cycles/{build_id}/seal"]
        listed = done.stdout.partition("Missing test data")[2].partition("\n\n\N{ELECTRIC LIGHT BULB}")[0]
        assert (re.findall("(?m)^  - (.+)$", listed) == unknown) == bool(values)
