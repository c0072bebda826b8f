"""Users of the example platform: made by the command of its Compose file, each with the rights of its role."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from tests.adapters.storage.postgres_clusters import PASSWORD, programs
from tests.fleet.platform_servers import platform_server
from tests.fleet.platforms import Platform

pytestmark = pytest.mark.fleet
COMPOSE = yaml.safe_load((Path(__file__).parents[2] / "examples/platform/compose.yaml").read_text(encoding="utf-8"))
PASSWORDS = {"WORKER_PASSWORD": "one1", "LEADER_PASSWORD": "two2", "READER_PASSWORD": "three3"}


def test_the_users_of_the_example_take_runs_lead_and_show_the_pages(platform: Platform) -> None:
    users = COMPOSE["services"]["users"]
    folder, parts = programs(), urlsplit(platform.url)
    assert folder is not None
    place = {
        "PGHOST": str(parts.hostname),
        "PGPORT": str(parts.port),
        "PGDATABASE": parts.path[1:],
        "PGUSER": "aop",
    }
    path = {"PATH": f"{folder}:{os.environ['PATH']}", "PGPASSWORD": PASSWORD}
    for _again in range(2):
        words = [*users["entrypoint"], *users["command"]]
        subprocess.run(words, env={**os.environ, **place, **path, **PASSWORDS}, check=True)
    address = {
        name: platform.url.replace(f"//aop:{PASSWORD}@", f"//{name}:{PASSWORDS[password]}@")
        for name, password in (
            ("build", "WORKER_PASSWORD"), ("lead", "LEADER_PASSWORD"), ("look", "READER_PASSWORD"),
        )
    }  # fmt: skip
    assert platform.aop("platform", "add", platform.env["AOP_HUB"], env={"AOP_DATABASE": address["lead"]}).code == 0
    platform.worker("leads", "--queues", "leads", url=address["lead"])
    platform.worker("gates", "--queues", "gates", url=address["build"])
    with platform_server(platform.folder / "pages", address["look"]) as server:
        token = server.token("--all-repositories")
        with server.browser() as browser:
            shown = browser.get("/workers").text
    assert [name in shown for name in ("leads", "gates")] == [True, True]
    # The folder of the pages is what is on a volume: another container with it knows the same tokens.
    with platform_server(platform.folder / "pages", address["look"]) as server:
        assert server.metrics(token).status_code == 200
