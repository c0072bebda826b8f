"""The pages and metrics of all repositories, through a real `aop serve --platform` on a real PostgreSQL."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psycopg
import pytest

from aop.adapters.fleet.connections import server_identity
from tests.adapters.storage.postgres_clusters import PASSWORD, running_cluster_at
from tests.fleet.platform_servers import Managed, PlatformServer, environ_of, platform_server
from tests.tickets.local_worlds import KEY
from tests.tickets.webhook_worlds import SCAFFOLD, SECRET, delivery, post, signed
from tests.web.pages.page_visits import entered
from tests.world import run_aop

pytestmark = pytest.mark.fleet
PATHS = ("/", "/board", "/repositories", "/tickets", "/cost", "/workers")
HOOKS = {
    "JIRA_WEBHOOK_SECRET": SECRET,
    "SCAFFOLDING_TRIGGER_STATE": "In Progress",
    "JIRA_WEBHOOK_PROJECTS": KEY.rpartition("-")[0],
}


@pytest.fixture(scope="module")
def shop(cluster: str, tmp_path_factory: pytest.TempPathFactory) -> Managed:
    made = Managed(tmp_path_factory.mktemp("one") / "shop", cluster, "shop")
    made.feature("search", question="Which <b>index</b>?")
    return made


@pytest.fixture(scope="module")
def billing(cluster: str, tmp_path_factory: pytest.TempPathFactory) -> Managed:
    made = Managed(tmp_path_factory.mktemp("two") / "billing", cluster, 'bill"ing\\')
    made.feature("invoices", question="Round up?")
    return made


@pytest.fixture(scope="module")
def server(
    cluster: str, shop: Managed, billing: Managed, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PlatformServer]:
    folder = tmp_path_factory.mktemp("server")
    assert run_aop(folder, "platform", "init", env=shop.env).code == 0
    with platform_server(folder, cluster) as running:
        yield running


def test_a_person_sees_what_waits_in_all_repositories_with_its_command_and_machine(
    server: PlatformServer, shop: Managed, billing: Managed
) -> None:
    with server.browser() as browser:
        inbox = browser.get("/")
    assert inbox.status == 200
    for managed, text in ((shop, "Which <b>index</b>?"), (billing, "Round up?")):
        assert managed.name in inbox.text
        assert f"aop answer q1 yes|no --repo {managed.root}" in inbox.text
        assert text in inbox.text
    assert "<b>index</b>" not in inbox.html


def test_board_repositories_cost_and_workers_show_each_row_with_its_repository(
    server: PlatformServer, shop: Managed
) -> None:
    with server.browser() as browser:
        board, listed, cost, workers = (
            browser.get(f"/{each}") for each in ("board", "repositories", "cost", "workers")
        )
        one = browser.get("/board?repository=shop")
        missing = browser.get("/board?repository=elsewhere")
    assert [page.status for page in (board, listed, cost, workers, one, missing)] == [200] * 5 + [404]
    assert "search" in board.text
    assert "invoices" in board.text
    assert f"aop status --repo {shop.root}" in listed.text
    assert "No agent has taken a turn yet." in cost.text
    assert "gates" in workers.text
    assert "search" in one.text
    assert "invoices" not in one.text


def test_a_session_for_one_repository_never_shows_another_one(server: PlatformServer, billing: Managed) -> None:
    with server.browser("--repositories", "shop") as browser:
        pages = [browser.get(path) for path in PATHS]
        refused = [browser.get(f"{path}?repository=bill%22ing%5C") for path in ("/", "/board", "/cost")]
    assert [page.status for page in (*pages, *refused)] == [200] * len(PATHS) + [404] * 3
    for page in (*pages, *refused):
        assert "invoices" not in page.text
        assert "bill" not in page.text
    assert "shop" in pages[0].text


def test_the_stream_tells_of_the_repositories_of_a_session_alone(
    server: PlatformServer, shop: Managed, billing: Managed
) -> None:
    with server.browser("--repositories", "shop") as browser:
        drawn = number_of(browser.get("/board").html)
        billing.feature("taxes")
        assert number_of(browser.get("/board").html) == drawn
        shop.feature("basket")
        with browser.stream("/events?after=" + str(drawn)) as lines:
            news = next(json.loads(line.removeprefix("data: ")) for line in lines if '"seq"' in line)
    assert news["after"] == drawn
    assert news["seq"] > drawn
    assert not news["features"]


def test_metrics_are_in_the_format_of_prometheus_and_open_to_a_token_alone(
    server: PlatformServer, shop: Managed, billing: Managed
) -> None:
    answer = server.metrics(server.token("--all-repositories"))
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    figures = parsed(answer.text)
    assert figures["aop_repositories", ()] == 2
    assert figures["aop_questions_open", (("repository", shop.name),)] == 1
    assert figures["aop_questions_open", (("repository", billing.name),)] == 1
    assert figures["aop_features", (("repository", shop.name), ("status", "planning"))] >= 1
    assert figures["aop_queue_waiting", (("queue", "gates"),)] == 0
    assert figures["aop_workers", (("state", "live"),)] == 0
    assert PASSWORD not in answer.text
    assert httpx2.get(f"{server.origin}/metrics").status_code == 401


def test_metrics_of_a_scoped_token_have_its_repositories_alone(server: PlatformServer) -> None:
    text = server.metrics(server.token("--repositories", "shop")).text
    assert {value for _, labels in parsed(text) for name, value in labels if name == "repository"} == {"shop"}
    assert parsed(text)["aop_repositories", ()] == 1
    assert "bill" not in text


def test_a_revoked_token_a_cookie_and_a_token_of_a_repository_open_no_metrics(
    server: PlatformServer, shop: Managed
) -> None:
    made = server.aop("token", "reader", "--platform", "--all-repositories", "--json").json["data"]
    assert server.metrics(made["token"]).status_code == 200
    assert server.aop("token", "revoke", made["token_id"], "--platform").code == 0
    assert server.metrics(made["token"]).status_code == 401
    agents = shop.aop("token", "orchestrator", "--json").json["data"]["token"]
    assert server.metrics(agents).status_code == 401
    with server.browser() as browser:
        assert server.metrics(browser.cookie.partition("=")[2]).status_code == 401
        assert browser.get("/metrics").status == 401


def test_the_door_is_that_of_the_pages_of_one_repository(server: PlatformServer) -> None:
    with server.browser() as browser:
        assert "default-src 'none'" in browser.get("/").headers["content-security-policy"]
        assert browser.get("/", host="evil.example").status == 421
        assert browser.get("/", origin="http://evil.example").status == 403
        assert browser.get("/events?after=0", sec_fetch_site="cross-site", sec_fetch_mode="cors").status == 403
        assert browser.enter().status == 403
        listed = server.aop("token", "list", "--platform", "--json").json["data"]["tokens"]
        for each in listed:
            assert server.aop("token", "revoke", each["token_id"], "--platform").code == 0
        ended = browser.get("/")
    assert ended.status == 401
    assert "aop web --platform" in ended.text


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("token", "reader", "--platform"), "invalid_cli_args"),
        (("token", "reader", "--platform", "--repositories", "shop", "--all-repositories"), "invalid_cli_args"),
        (("token", "reader", "--platform", "--repositories", ","), "invalid_cli_args"),
        (("token", "reader", "--platform", "--repositories", "shop,shpo"), "unknown_repository"),
        (("token", "builder", "--platform", "--repositories", "shop"), "invalid_cli_args"),
        (("token", "reader", "--platform", "--all-repositories", "--ttl", "367d"), "invalid_cli_args"),
        (("web", "--platform", "--repositories", "shpo"), "unknown_repository"),
        (("web", "--repositories", "shop"), "invalid_cli_args"),
    ],
)
def test_a_way_in_that_names_no_or_an_unknown_repository_is_not_made(
    server: PlatformServer, words: tuple[str, ...], code: str
) -> None:
    ran = server.aop(*words, "--json")
    assert (ran.code != 0, ran.json["error"]["code"]) == (True, code)


def test_the_command_starts_a_server_that_later_ones_find_and_stop(
    cluster: str, shop: Managed, server: PlatformServer, tmp_path: Path
) -> None:
    env = environ_of(tmp_path, cluster)
    first = run_aop(tmp_path, "web", "--platform", "--print", "--json", env=env)
    assert first.code == 0, first.err
    try:
        with entered(first.json["data"]["url"]) as browser:
            assert "search" in browser.get("/board").text
        again = run_aop(tmp_path, "web", "--platform", "--print", "--json", env=env)
        assert again.json["data"]["pid"] == first.json["data"]["pid"]
    finally:
        stopped = run_aop(tmp_path, "web", "--platform", "--stop", "--json", env=env)
    assert stopped.json["data"]["stopped"] == first.json["data"]["pid"]


def test_an_agent_gets_no_way_in(server: PlatformServer) -> None:
    for words in (("web", "--platform"), ("token", "reader", "--platform", "--all-repositories")):
        ran = run_aop(server.folder, *words, "--json", env={**server.env, "AOP_TOKEN": "x"})
        assert ran.json["error"]["code"] == "person_required"


def test_a_reader_of_the_database_is_enough_and_changes_nothing(
    cluster: str, shop: Managed, server: PlatformServer, tmp_path: Path
) -> None:
    with psycopg.connect(cluster, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE looks LOGIN PASSWORD '{PASSWORD}' IN ROLE aop_reader")
    with platform_server(tmp_path / "reader", cluster.replace("//aop:", "//looks:")) as reads:
        with reads.browser("--repositories", "shop") as browser:
            assert [browser.get(path).status for path in PATHS] == [200] * len(PATHS)
            assert "Which <b>index</b>?" in browser.get("/").text
        assert parsed(reads.metrics(reads.token("--all-repositories")).text)["aop_repositories", ()] == 2


def test_a_database_that_is_gone_is_named_without_its_password_and_comes_back(tmp_path: Path) -> None:
    with running_cluster_at("127.0.0.1") as own:
        managed = Managed(tmp_path / "shop", own.url, "shop")
        managed.feature("search")
        with platform_server(tmp_path / "server", own.url) as server, server.browser() as browser:
            assert browser.get("/board").status == 200
            own.stop()
            broken = browser.get("/board")
            assert broken.status == 503
            assert PASSWORD not in broken.html
            own.start()
            assert "search" in browser.get("/board").text
            assert browser.get("/workers").status == 200
            code, said = server.served.stop()
            assert (code, PASSWORD in said) == (0, False)


def test_a_delivery_waits_once_in_the_queue_of_tickets_and_only_a_session_for_all_shows_it(
    cluster: str, server: PlatformServer, tmp_path: Path
) -> None:
    body = delivery()
    with platform_server(tmp_path / "hooks", cluster, **HOOKS) as hooked:
        status, first = post(hooked.served, SCAFFOLD, body)
        assert (status, first["status"]) == (202, "accepted"), first
        assert post(hooked.served, SCAFFOLD, body)[1]["status"] == "duplicate"
        stranger = post(hooked.served, SCAFFOLD, body, signed(b"other"))
        other = post(hooked.served, SCAFFOLD, delivery("ELSEWHERE-1"))
        assert (stranger[0], other[1]["status"]) == (401, "ignored")
        with hooked.browser() as browser:
            assert first["run_id"] in browser.get("/tickets").text
        with hooked.browser("--repositories", "shop") as browser:
            assert first["run_id"] not in browser.get("/tickets").text
        every = parsed(hooked.metrics(hooked.token("--all-repositories")).text)
        some = parsed(hooked.metrics(hooked.token("--repositories", "shop")).text)
    assert (
        every["aop_queue_waiting", (("queue", "tickets"),)],
        some["aop_queue_waiting", (("queue", "tickets"),)],
    ) == (1, 0)
    # How many repositories need a leader is told only to those who may see all of them.
    leads = ("aop_queue_waiting", (("queue", "leads"),))
    assert (leads in every, leads in some) == (True, False)


def test_a_delivery_that_a_server_stored_and_did_not_queue_is_queued_by_the_next(
    cluster: str, server: PlatformServer, tmp_path: Path
) -> None:
    waiting = ("aop_queue_waiting", (("queue", "tickets"),))
    with platform_server(tmp_path / "first", cluster, **HOOKS) as first:
        before = parsed(first.metrics(first.token("--all-repositories")).text)[waiting]
    with psycopg.connect(cluster, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO fleet.ticket_runs (run_id, kind, ticket, state, began)"
            " VALUES ('run-stored', 'scaffold', %s, 'active', '2026-01-01T00:00:00.000Z')",
            (f"{KEY}9",),
        )
    with platform_server(tmp_path / "next", cluster, **HOOKS) as following:
        assert parsed(following.metrics(following.token("--all-repositories")).text)[waiting] == before + 1


def test_keys_and_tokens_of_a_server_are_those_of_one_database() -> None:
    assert server_identity("postgresql://ada:a@db/aop") == server_identity("postgresql://bob@db/aop?connect_timeout=3")
    others = (
        "postgresql:///aop?host=/run/a",
        "postgresql:///aop?host=/run/b",
        "postgresql://u@a:5432,b:5432/aop",
        "postgresql://u@c:5432,d:5432/aop",
        "postgresql://db/aop",
        "postgresql://db/other",
    )
    assert len({server_identity(url) for url in others}) == len(others)


def test_a_reader_of_the_database_takes_no_delivery_and_says_why(
    cluster: str, server: PlatformServer, tmp_path: Path
) -> None:
    with psycopg.connect(cluster, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE hears LOGIN PASSWORD '{PASSWORD}' IN ROLE aop_reader")
    with platform_server(tmp_path / "hooks", cluster.replace("//aop:", "//hears:"), **HOOKS) as hooked:
        status, answer = post(hooked.served, SCAFFOLD, delivery())
    assert (status, answer["error"]["code"]) == (503, "database_rights")


def number_of(html: str) -> int:
    """Return the number of changes at which a page was drawn."""
    found = re.search(r'data-seq="(\d+)"', html)
    assert found is not None
    return int(found[1])


_SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (-?[0-9.e+-]+)')
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


def parsed(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return the samples of a text in the format of Prometheus; every line has to be one that the format knows."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    announced = set()
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert kind == "gauge"
            assert name not in announced
            announced.add(name)
            continue
        sample = _SAMPLE.fullmatch(line)
        assert sample is not None, line
        assert sample[1] in announced
        labels = tuple((name, _unescaped(value)) for name, value in _LABEL.findall(sample[2] or ""))
        assert (sample[1], labels) not in found
        found[sample[1], labels] = float(sample[3])
    return found


def _unescaped(value: str) -> str:
    return re.sub(r"\\(.)", lambda each: {"n": "\n"}.get(each[1], each[1]), value)
