"""The page of the doctor, through a real `aop serve`: a check that hangs keeps nobody waiting."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.mcpserver.clients import served
from tests.web.pages.page_visits import visit
from tests.world import World


@pytest.mark.slow
def test_a_check_that_hangs_is_named_and_the_checks_before_it_are_shown(world: World, tmp_path: Path) -> None:
    hang, pid = tmp_path / "hang", tmp_path / "pid"
    program = tmp_path / "bin/git"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nfor word; do [ "$word" = version ] && [ -e {hang} ] && echo $$ > {pid} && exec sleep 600; done\n'
        f'exec {shutil.which("git")} "$@"\n'
    )
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    with served(world.root, PATH=path) as server, visit(world.root, server) as browser:
        hang.touch()
        try:
            page = browser.get("/doctor")
            assert (page.status, "It has not answered within 20 seconds" in page.text) == (200, True), page.text
            assert "failure git It has not answered" in page.text
            assert "ok python" in page.text
            assert browser.get("/board").status == 200
        finally:
            os.kill(int(pid.read_text()), signal.SIGTERM)
