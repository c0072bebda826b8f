"""A platform's server for tests: repositories of one database, `aop serve --platform`, and browsers at its pages."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.mcpserver.clients import AOP, Served
from tests.web.pages.page_visits import Browser, entered
from tests.world import Ran, make_repository, run_aop

SECONDS = 60.0


class Managed:
    """One repository whose record is in the database."""

    def __init__(self, root: Path, url: str, name: str) -> None:
        self.root = make_repository(root)
        self.name = name
        self.env = {"AOP_DATABASE": url, "AOP_REPOSITORY": name}

    def aop(self, *words: str) -> Ran:
        return run_aop(self.root, *words, env=self.env)

    def call(self, tool: str, **arguments: object) -> Any:
        ran = self.aop("call", tool, json.dumps(arguments))
        assert ran.code == 0, ran.out + ran.err
        return ran.json["data"]

    def feature(self, name: str, question: str = "") -> None:
        self.call("feature.init", feature_id=name)
        if question:
            self.call("inbox.ask", feature_id=name, gate="question", text=question, choices=["yes", "no"])


class PlatformServer:
    """A running `aop serve --platform`, with the home of its user."""

    def __init__(self, folder: Path, url: str, served: Served) -> None:
        self.folder = folder
        self.origin = served.origin
        self.served = served
        self.env = environ_of(folder, url)

    def aop(self, *words: str) -> Ran:
        return run_aop(self.folder, *words, env=self.env)

    def token(self, *words: str) -> str:
        ran = self.aop("token", "reader", "--platform", "--json", *words)
        assert ran.code == 0, ran.out + ran.err
        text: str = ran.json["data"]["token"]
        return text

    def link(self, *words: str) -> str:
        ran = self.aop("web", "--platform", "--print", "--json", *words)
        assert ran.code == 0, ran.out + ran.err
        url: str = ran.json["data"]["url"]
        return url

    @contextmanager
    def browser(self, *words: str) -> Iterator[Browser]:
        with entered(self.link(*words)) as browser:
            yield browser

    def metrics(self, token: str) -> httpx2.Response:
        return httpx2.get(f"{self.origin}/metrics", headers={"authorization": f"Bearer {token}"}, timeout=SECONDS)


def environ_of(folder: Path, url: str) -> Mapping[str, str]:
    return {"AOP_DATABASE": url, "XDG_STATE_HOME": str(folder / "state"), "USER": "ada"}


@contextmanager
def platform_server(folder: Path, url: str, **env: str) -> Iterator[PlatformServer]:
    """Run `aop serve --platform` on a free port, outside of any repository."""
    folder.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [*AOP, "serve", "--platform", "--port", "0", "--json"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environ_of(folder, url), **env},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate(timeout=SECONDS)
        yield PlatformServer(folder, url, Served(url=json.loads(line)["data"]["url"], process=process))
    finally:
        process.kill()
        process.communicate(timeout=SECONDS)
