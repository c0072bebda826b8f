"""Binary changes: `GIT binary patch` parts, unpacked within limits."""

from __future__ import annotations

import zlib
from base64 import b85decode

from msgspec import Struct

from aop.kernel.patches.lines import PatchLines, invalid_patch

_LENGTHS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_HEX = frozenset(b"0123456789abcdef")


class BinaryChange(Struct, frozen=True, kw_only=True):
    """New bytes of a file as git packs them, with the ids of the old and the new blob."""

    old_oid: str
    new_oid: str
    lines: tuple[bytes, ...]
    """`literal SIZE` or `delta SIZE`, and the packed lines below it."""


def scan_binary(lines: PatchLines, index: bytes) -> BinaryChange:
    """Take a binary change; git checks its blob ids, so the index line must have them in full. Raises: InvalidPatch."""
    at = lines.number
    if not lines.rules.allow_binary:
        raise invalid_patch("binary changes are switched off by policy", reason="binary", line=at)
    lines.take_header()
    oids = index.split(b" ")[0].split(b"..")
    if len(oids) != 2 or not all(len(oid) in (40, 64) and _HEX.issuperset(oid) for oid in oids):
        raise invalid_patch("a binary change needs an `index` line with full blob ids", reason="binary", line=at)
    forward = _scan_block(lines)
    if lines.next_begins(b"literal ", b"delta "):
        # The reverse change, which is never applied.
        _scan_block(lines)
    return BinaryChange(old_oid=oids[0].decode(), new_oid=oids[1].decode(), lines=forward)


def _scan_block(lines: PatchLines) -> tuple[bytes, ...]:
    at = lines.number
    block: list[bytes] = []
    while (line := lines.peek()) is not None and line != b"":
        block.append(lines.take_header())
    if line is None:
        raise invalid_patch("no blank line ends the binary change", reason="binary", line=lines.number)
    lines.take()
    kind, _, size = (block or [b""])[0].partition(b" ")
    if kind not in (b"literal", b"delta") or not size.isdigit() or len(size) > 9:
        raise invalid_patch("`literal SIZE` or `delta SIZE` is missing here", reason="binary", line=at)
    content = _unpack(block[1:], int(size), at=at, limit=lines.rules.max_bytes)
    if kind == b"delta" and _delta_result_size(content) > lines.rules.max_bytes:
        raise _too_large(at, lines.rules.max_bytes)
    return tuple(block)


def _unpack(packed: list[bytes], size: int, *, at: int, limit: int) -> bytes:
    if size > limit:
        raise _too_large(at, limit)
    unpack = zlib.decompressobj()
    try:
        # Asking for one byte more than declared reveals a stream that holds more.
        content = unpack.decompress(b"".join(map(_decode, packed)), size + 1)
    except (ValueError, zlib.error) as error:
        raise invalid_patch("the binary change is damaged", reason="binary", line=at) from error
    if len(content) != size or not unpack.eof:
        raise invalid_patch("the binary change does not have the size that it declares", reason="binary", line=at)
    return content


def _decode(line: bytes) -> bytes:
    length = _LENGTHS.index(line[:1]) + 1
    content = b85decode(line[1:])
    if len(line) - 1 != (length + 3) // 4 * 5:
        raise ValueError(line)
    return content[:length]


def _delta_result_size(delta: bytes) -> int:
    """Return the second of the two sizes at the head of a delta: seven bits a byte, lowest first."""
    sizes = [0, 0]
    which = shift = 0
    for byte in delta:
        sizes[which] |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            which, shift = which + 1, 0
        if which == 2:
            break
    return sizes[1]


def _too_large(at: int, limit: int) -> Exception:
    return invalid_patch(f"the binary change unpacks to more than {limit} bytes", reason="too_large", line=at)
