"""The proxy of a turn with a log-in: only the hosts of the vendor, only TLS, only with the turn's token."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import pytest

from aop.adapters.agents.logins.client_hello import NotTls, client_hello
from aop.adapters.agents.logins.connect_requests import Refused
from aop.adapters.agents.logins.destinations import Network, is_address, is_public
from aop.adapters.agents.logins.host_proxy import AT_MOST, HostProxy, ProxyTimeouts, open_proxy

VENDOR = "api.vendor.example"
PUBLIC = "93.184.215.14"
SECONDS = 4.0
BRIEF = ProxyTimeouts(opening=1.5)
QUIET = ProxyTimeouts(silence=0.5)


class Upstream:
    """A host that sends back what it gets."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.reached: list[tuple[str, int]] = []
        self.got = bytearray()

    def network(self, *addresses: str) -> Network:
        async def resolve(_host: str) -> Sequence[str]:
            return addresses

        async def connect(address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            self.reached.append((address, port))
            return await asyncio.open_connection(*self.listening.getsockname())

        return Network(resolve=resolve, connect=connect)

    def echo(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            with connection:
                while chunk := connection.recv(65536):
                    self.got += chunk
                    connection.sendall(chunk)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    upstream = Upstream()
    thread = threading.Thread(target=upstream.echo)
    thread.start()
    yield upstream
    upstream.listening.shutdown(socket.SHUT_RDWR)
    upstream.listening.close()
    thread.join()


@contextmanager
def client(proxy: HostProxy) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=SECONDS) as connection:
        yield connection


def token(proxy: HostProxy) -> str:
    return urlsplit(proxy.url).password or ""


def request(proxy: HostProxy, target: str, method: str = "CONNECT", token_text: str | None = None) -> bytes:
    credentials = b64encode(f"aop:{token(proxy) if token_text is None else token_text}".encode()).decode()
    return f"{method} {target} HTTP/1.1\r\nHost: {target}\r\nProxy-Authorization: Basic {credentials}\r\n\r\n".encode()


def hello(name: str | None) -> bytes:
    context = ssl.create_default_context()
    context.check_hostname = False
    written = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), written, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return written.read()


def everything(connection: socket.socket) -> bytes:
    received = bytearray()
    try:
        while chunk := connection.recv(65536):
            received += chunk
    except ConnectionResetError:
        pass
    return bytes(received)


def opened(connection: socket.socket) -> bytes:
    return connection.recv(4096)


# --- what is let through ---------------------------------------------------------------------------


def test_a_host_of_the_vendor_is_reached_at_the_address_that_was_checked(upstream: Upstream) -> None:
    first, rest = hello(VENDOR), b"what follows"
    with open_proxy(frozenset({VENDOR}), upstream.network(PUBLIC)) as proxy:
        with client(proxy) as connection:
            connection.sendall(request(proxy, f"{VENDOR.upper()}:443"))
            assert opened(connection).startswith(b"HTTP/1.1 200 ")
            connection.sendall(first[:7])
            connection.sendall(first[7:] + rest)
            connection.shutdown(socket.SHUT_WR)
            assert everything(connection) == first + rest
        report = proxy.report()
    assert upstream.reached == [(PUBLIC, 443)]
    assert report.connections == {VENDOR: 1}
    assert (report.sent_bytes, report.received_bytes) == (len(first + rest), len(first + rest))
    assert report.refused == {}


# --- what is refused -------------------------------------------------------------------------------

Wrong = Callable[[HostProxy], bytes]
REFUSED: dict[str, tuple[Wrong, Refused, str, int]] = {
    "a host that is not listed": (
        lambda proxy: request(proxy, "example.com:443"),
        Refused.OTHER_HOST,
        "example.com",
        403,
    ),
    "a host below one that is listed": (
        lambda proxy: request(proxy, f"x.{VENDOR}:443"),
        Refused.OTHER_HOST,
        f"x.{VENDOR}",
        403,
    ),
    "a listed host with a dot behind it": (
        lambda proxy: request(proxy, f"{VENDOR}.:443"),
        Refused.OTHER_HOST,
        f"{VENDOR}.",
        403,
    ),
    "another port": (lambda proxy: request(proxy, f"{VENDOR}:80"), Refused.OTHER_PORT, f"{VENDOR}:80", 403),
    "a port in other digits": (
        lambda proxy: request(proxy, f"{VENDOR}:0443"),
        Refused.OTHER_PORT,
        f"{VENDOR}:0443",
        403,
    ),
    "an address": (lambda proxy: request(proxy, f"{PUBLIC}:443"), Refused.ADDRESS, PUBLIC, 403),
    "an address of IPv6": (lambda proxy: request(proxy, "[::1]:443"), Refused.ADDRESS, "[::1]", 403),
    "an address as one number": (
        lambda proxy: request(proxy, "2130706433:443"),
        Refused.ADDRESS,
        "2130706433",
        403,
    ),
    "no token": (
        lambda _: f"CONNECT {VENDOR}:443 HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
        Refused.NO_TOKEN,
        VENDOR,
        407,
    ),
    "the token of another turn": (
        lambda proxy: request(proxy, f"{VENDOR}:443", token_text="another"),
        Refused.NO_TOKEN,
        VENDOR,
        407,
    ),
    "plain HTTP through the proxy": (
        lambda proxy: request(proxy, f"http://{VENDOR}/", method="GET"),
        Refused.NOT_CONNECT,
        f"http://{VENDOR}/",
        405,
    ),
    "no port": (lambda proxy: request(proxy, VENDOR), Refused.MALFORMED, VENDOR, 400),
    "no HTTP": (lambda _: b"\x16\x03\x01 hello\r\n\r\n", Refused.MALFORMED, "", 400),
    "a head that is too large": (lambda _: b"CONNECT " + b"a" * 70_000, Refused.MALFORMED, "", 400),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_request_is_refused_by_its_name_and_nothing_is_reached(upstream: Upstream, case: str) -> None:
    wrong, reason, host, status = REFUSED[case]
    with open_proxy(frozenset({VENDOR}), upstream.network(PUBLIC)) as proxy:
        with client(proxy) as connection:
            connection.sendall(wrong(proxy))
            answer = everything(connection)
        report = proxy.report()
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()) or (not answer and case == "a head that is too large")
    assert dict(report.refused) == {(reason, host): 1}
    assert upstream.reached == []


@pytest.mark.parametrize(
    "addresses",
    [("127.0.0.1",), (PUBLIC, "10.0.0.7"), ("169.254.169.254",), ("::1",), ("::ffff:127.0.0.1",), ("fd00::1",), ()],
)
def test_a_name_that_leads_to_this_machine_or_its_network_is_refused(
    upstream: Upstream, addresses: tuple[str, ...]
) -> None:
    with open_proxy(frozenset({VENDOR}), upstream.network(*addresses)) as proxy, client(proxy) as connection:
        connection.sendall(request(proxy, f"{VENDOR}:443"))
        assert everything(connection).startswith(b"HTTP/1.1 403 ")
        assert dict(proxy.report().refused) == {(Refused.NOT_PUBLIC, VENDOR): 1}
    assert upstream.reached == []


OTHER_BYTES: dict[str, tuple[Callable[[], bytes], Refused]] = {
    "TLS to another host": (lambda: hello("other.example"), Refused.OTHER_NAME),
    "TLS that names no host": (lambda: hello(None), Refused.OTHER_NAME),
    "plain HTTP": (lambda: b"GET / HTTP/1.1\r\n\r\n", Refused.NOT_TLS),
    "the beginning of TLS": (lambda: hello(VENDOR)[:40], Refused.TIMED_OUT),
}


@pytest.mark.parametrize("case", OTHER_BYTES)
def test_bytes_that_are_not_tls_to_the_same_host_do_not_reach_it(upstream: Upstream, case: str) -> None:
    sent, reason = OTHER_BYTES[case]
    timeouts = BRIEF if reason is Refused.TIMED_OUT else None
    with open_proxy(frozenset({VENDOR}), upstream.network(PUBLIC), timeouts) as proxy, client(proxy) as connection:
        connection.sendall(request(proxy, f"{VENDOR}:443"))
        opened(connection)
        connection.sendall(sent())
        assert everything(connection) == b""
        assert dict(proxy.report().refused) == {(reason, VENDOR): 1}
    assert upstream.got == b""


def test_a_connection_on_which_nothing_moves_is_closed(upstream: Upstream) -> None:
    with open_proxy(frozenset({VENDOR}), upstream.network(PUBLIC), QUIET) as proxy, client(proxy) as connection:
        connection.sendall(request(proxy, f"{VENDOR}:443"))
        opened(connection)
        first = hello(VENDOR)
        connection.sendall(first)
        assert first.startswith(everything(connection))


def test_more_connections_at_once_than_a_turn_needs_are_refused(upstream: Upstream) -> None:
    with open_proxy(frozenset({VENDOR}), upstream.network(PUBLIC)) as proxy, ExitStack() as stack:
        for _ in range(AT_MOST):
            waiting = stack.enter_context(client(proxy))
            waiting.sendall(b"CONNECT ")
        with client(proxy) as connection:
            connection.sendall(request(proxy, f"{VENDOR}:443"))
            assert everything(connection).startswith(b"HTTP/1.1 503 ")
        assert dict(proxy.report().refused) == {(Refused.TOO_MANY, ""): 1}


def test_the_end_of_a_turn_closes_what_is_open(upstream: Upstream) -> None:
    with open_proxy(frozenset({VENDOR}), upstream.network(PUBLIC)) as proxy:
        connection = socket.create_connection(("127.0.0.1", proxy.port), timeout=SECONDS)
        connection.sendall(request(proxy, f"{VENDOR}:443"))
        opened(connection)
    with connection:
        assert everything(connection) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", proxy.port), timeout=SECONDS)


# --- the parts -------------------------------------------------------------------------------------


def test_a_hello_is_read_from_any_number_of_its_first_bytes() -> None:
    whole = hello(VENDOR)
    assert [client_hello(whole[:size]) for size in range(len(whole))] == [None] * len(whole)
    found = client_hello(whole + b"\x17")
    assert found is not None
    assert (found.server_name, found.is_encrypted) == (VENDOR, False)


def test_a_hello_that_hides_another_is_noticed() -> None:
    whole = hello(VENDOR)
    extensions_at = whole.index(VENDOR.encode()) - 9 - 2
    hidden = b"\xfe\x0d\x00\x01\x00"
    grown = bytearray(whole[: extensions_at + 2] + hidden + whole[extensions_at + 2 :])
    for at, size in ((3, 2), (6, 3), (extensions_at, 2)):
        grown[at : at + size] = (int.from_bytes(grown[at : at + size]) + len(hidden)).to_bytes(size)
    found = client_hello(bytes(grown))
    assert found is not None
    assert (found.server_name, found.is_encrypted) == (VENDOR, True)


def test_no_bytes_make_the_reader_of_hellos_fail_otherwise() -> None:
    whole = hello(VENDOR)
    for at in range(len(whole)):
        for value in (0, 1, 0xFF):
            changed = whole[:at] + bytes([value]) + whole[at + 1 :]
            try:
                client_hello(changed)
            except NotTls:
                continue


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "192.168.0.1", "100.64.0.1", "0.0.0.0", "224.0.0.1", "::", "fe80::1", "ff02::1",
     "64:ff9b::7f00:1", "2002:7f00:1::", "::ffff:10.0.0.1", "not an address"],
)  # fmt: skip
def test_an_address_of_this_machine_or_its_networks_is_not_public(address: str) -> None:
    assert not is_public(address)


def test_names_are_not_addresses_and_public_addresses_are_public() -> None:
    assert is_public(PUBLIC)
    assert is_public("2606:2800:21f:cb07:6820:80da:af6b:8b2c")
    assert not is_address("api.vendor.example")
    assert all(map(is_address, ("127.0.0.1", "127.1", "0x7f000001", "[fe80::1%lo]", "::1")))
