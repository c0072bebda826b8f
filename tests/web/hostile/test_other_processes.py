"""Other users and other processes of the machine at the pages: what they reach, and what they are told."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.mcpserver.clients import served
from tests.web.hostile.crowded_world import addresses
from tests.web.pages.page_visits import browser_at, link_to, visit
from tests.world import World, run_aop

SECONDS = 60


@pytest.mark.hostile("B13")
def test_another_user_of_the_machine_reaches_the_port_and_nothing_behind_it(world: World) -> None:
    world.ready("one")
    with served(world.root) as server, visit(world.root, server) as inside:
        form = inside.get("/features/one").form("approve")
        with browser_at(world.root, server) as stranger:
            before = world.fingerprint()
            assert {stranger.get(path).status for path in addresses()} == {401}
            assert "news" not in stranger.get("/events?after=0").text
            assert stranger.post("/do/approve", form).status == 401
            assert world.fingerprint() == before
            link = stranger.link
        # The link of a person has been used by the time that somebody else finds it.
        with browser_at(world.root, server) as person, browser_at(world.root, server) as thief:
            person.link = thief.link = link
            assert (person.enter().status, thief.enter().status, thief.get("/").status) == (303, 403, 401)


@pytest.mark.hostile("B13")
def test_what_lets_a_person_in_stands_in_no_file_that_others_can_read(world: World) -> None:
    with served(world.root) as server, visit(world.root, server) as inside:
        secrets = [inside.cookie.partition("=")[2], link_to(world.root).partition("link=")[2].partition("&")[0]]
        kept = [path for path in (world.root / ".aop").rglob("*") if path.is_file()]
        assert [path for path in kept if any(text.encode() in path.read_bytes() for text in secrets)] == []
    keys = [path for path in kept if "keys" in path.parts]
    assert keys
    assert {path.stat().st_mode & 0o077 for path in keys} == {0}


@pytest.mark.hostile("B19")
def test_a_port_of_another_process_is_refused_and_gets_no_link(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ran = run_aop(world.root, "web", "--print", "--json", "--port", str(port))
        assert ran.code != 0
        assert f"Port {port} cannot be used." in ran.out + ran.err
        assert "link=" not in ran.out + ran.err
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.accept()


@pytest.mark.hostile("B19")
def test_the_port_of_a_server_that_was_killed_is_not_trusted_when_another_process_has_it(world: World) -> None:
    with served(world.root) as server:
        port = urlsplit(server.origin).port
        assert port is not None
        server.process.kill()
        server.process.wait(timeout=SECONDS)
        with socket.create_server(("127.0.0.1", port)) as other:
            try:
                link = urlsplit(link_to(world.root))
                assert link.port not in (None, port)
                assert httpx2.get(f"http://127.0.0.1:{link.port}/", timeout=SECONDS).status_code in (401, 421)
                other.setblocking(False)
                with pytest.raises(BlockingIOError):
                    other.accept()
            finally:
                assert run_aop(world.root, "web", "--stop").code == 0
