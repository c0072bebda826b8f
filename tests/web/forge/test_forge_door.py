"""The door of the forge routes, in process: names of the server, one key in one form, its scope, and how often."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.datastructures import Headers

from aop.core import errors
from aop.web.forge.forge_door import ForgeDoor, KeyHolder
from aop.web.forge.rate_limits import Rate
from tests.web.forge.forge_servers import KEY, put_key
from tests.world import World, make_repository

ORIGIN = "http://127.0.0.1:8765"
TWICE = Rate(at_once=2, a_second=0.001)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(make_repository(tmp_path_factory.mktemp("door") / "repo"))
    put_key(made, KEY, scopes=("read",))
    yield made
    made.close()


def door_of(world: World) -> ForgeDoor:
    return ForgeDoor(world.app.gateway.kernel, ORIGIN, lambda _line: None, per_key=TWICE, per_build=TWICE)


def headers(*pairs: tuple[str, str]) -> Headers:
    return Headers(raw=[(name.encode(), value.encode()) for name, value in pairs])


def held(door: ForgeDoor, *authorizations: str, scope: str = "read") -> KeyHolder:
    with door.kernel.record.read() as view:
        return door.holder(view, headers(*(("authorization", each) for each in authorizations)), scope)


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765"])
def test_this_server_has_two_names(world: World, host: str) -> None:
    door_of(world).check_address(headers(("host", host), ("origin", f"http://{host}")))


@pytest.mark.parametrize("hosts", [(), ("evil.example",), ("127.0.0.1",), ("localhost:8765", "localhost:8765")])
def test_a_request_under_another_name_is_refused(world: World, hosts: tuple[str, ...]) -> None:
    with pytest.raises(errors.HostNotAllowed):
        door_of(world).check_address(headers(*(("host", host) for host in hosts)))


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://localhost:8765"])
def test_a_request_of_a_page_of_another_site_is_refused(world: World, origin: str) -> None:
    with pytest.raises(errors.OriginNotAllowed):
        door_of(world).check_address(headers(("host", "localhost:8765"), ("origin", origin)))


@pytest.mark.req("FORGE-096")
@pytest.mark.parametrize(
    "offered",
    [(), (f"Basic {KEY}",), (f"Bearer {KEY}", f"Bearer {KEY}"), (KEY,), ("Bearer ",), (f"Bearer {KEY[:-1]}x",)],
    ids=["none", "basic", "two", "bare", "empty", "wrong end"],
)
def test_a_request_without_one_right_key_as_a_bearer_is_refused(world: World, offered: tuple[str, ...]) -> None:
    with pytest.raises(errors.ForgeKeyInvalid):
        held(door_of(world), *offered)


def test_a_key_opens_its_scopes_and_no_others(world: World) -> None:
    door = door_of(world)
    assert held(door, f"Bearer {KEY}").key.scopes == ("read",)
    with pytest.raises(errors.ForgeKeyScopeMissing):
        held(door, f"Bearer {KEY}", scope="write")


@pytest.mark.req("FORGE-116")
def test_a_key_that_asks_too_often_is_told_when_to_come_again(world: World) -> None:
    door = door_of(world)
    for _ in range(2):
        held(door, f"Bearer {KEY}")
    with pytest.raises(errors.TooManyRequests):
        held(door, f"Bearer {KEY}")


@pytest.mark.req("FORGE-116")
def test_a_build_that_is_asked_for_too_often_is_told_when_to_come_again(world: World) -> None:
    door = door_of(world)
    for _ in range(2):
        door.count_build("build-1")
    with pytest.raises(errors.TooManyRequests):
        door.count_build("build-1")
