"""ClientHello: the first message of a TLS connection, and the server name in it."""

from __future__ import annotations

from msgspec import Struct

LARGEST_HELLO = 32 * 1024
_HANDSHAKE, _CLIENT_HELLO = 22, 1
_SERVER_NAME, _ENCRYPTED_HELLO = 0, 0xFE0D
_RECORD_HEAD, _MESSAGE_HEAD = 5, 4


class ClientHello(Struct, frozen=True, kw_only=True):
    """The parts that tell which server is meant."""

    server_name: str
    """In lower case; empty if it names none."""
    is_encrypted: bool
    """Whether another hello is hidden in it, which may name another server."""


class NotTls(Exception):
    """The bytes are not the beginning of a TLS connection."""


def client_hello(data: bytes) -> ClientHello | None:
    """Read a hello from the first bytes of a connection; None if more are needed. Raises: NotTls."""
    message, at = b"", 0
    while not _is_whole(message):
        if at >= len(data):
            return None
        if data[at] != _HANDSHAKE:
            raise NotTls
        start = at + _RECORD_HEAD
        at = start + int.from_bytes(data[at + 3 : start])
        message += data[start:at]
    try:
        return _parsed(_Bytes(message[_MESSAGE_HEAD : _size(message)]))
    except (IndexError, UnicodeDecodeError) as error:
        raise NotTls from error


def _is_whole(message: bytes) -> bool:
    if message and (message[0] != _CLIENT_HELLO or _size(message) > LARGEST_HELLO):
        raise NotTls
    return len(message) >= _MESSAGE_HEAD and len(message) >= _size(message)


def _size(message: bytes) -> int:
    return _MESSAGE_HEAD + int.from_bytes(message[1:_MESSAGE_HEAD])


def _parsed(hello: _Bytes) -> ClientHello:
    hello.take(2 + 32)  # the version and the random bytes
    for length_size in (1, 2, 1):  # the session id, the ciphers, the compressions
        hello.block(length_size)
    extensions, name, is_encrypted = _Bytes(hello.block(2)), "", False
    while extensions.rest:
        kind, content = int.from_bytes(extensions.take(2)), extensions.block(2)
        is_encrypted |= kind == _ENCRYPTED_HELLO
        if kind == _SERVER_NAME:
            names = _Bytes(_Bytes(content).block(2))
            names.take(1)
            name = names.block(2).decode("ascii").lower()
            if names.rest:
                raise IndexError
    return ClientHello(server_name=name, is_encrypted=is_encrypted)


class _Bytes:
    """Bytes that are taken from the front."""

    def __init__(self, rest: bytes) -> None:
        self.rest = rest

    def take(self, size: int) -> bytes:
        if size > len(self.rest):
            raise IndexError
        taken, self.rest = self.rest[:size], self.rest[size:]
        return taken

    def block(self, length_size: int) -> bytes:
        """Take a block that begins with its length."""
        return self.take(int.from_bytes(self.take(length_size)))
