"""Seccomp filter: the system calls that a step under Landlock is refused.

Landlock controls files and, in later versions, TCP, abstract sockets and signals. The filter closes the rest: other
sockets, new namespaces, and kernel interfaces that no build or test needs.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping, Sequence

from msgspec import Struct

_KILL, _ALLOW, _REFUSE = 0x80000000, 0x7FFF0000, 0x00050000
_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16

_AF_UNIX = 1
_AF_INET, _EITHER_VERSION = 2, 0xFFFFFFF7
"""AF_INET6 is 10: one more bit."""
_SOCK_STREAM, _KIND = 1, 0xF
_TCP_OR_NONE = 0xFFFFFFF9
_MSG_FASTOPEN = 0x20000000
_TIOCSTI = 0x5412
_O_TRUNC, _O_ACCMODE = 0o1000, 0o3
_NOT_FOR_WRITING = (0, 3)
_NEW_NAMESPACES = 0x7E020000
_NEW_TIME_NAMESPACE = 0x80
_X32 = 0x40000000
"""From this number on, system calls of x86_64 have 32-bit pointers, and would bypass every rule below."""


class Processor(Struct, frozen=True, kw_only=True):
    """The numbers that differ by processor."""

    audit_number: int
    calls: Mapping[str, int]


# The numbers of newer calls are the same everywhere.
_COMMON = {"clone3": 435, "io_uring_setup": 425, "open_tree": 428, "move_mount": 429, "fsopen": 430, "openat2": 437}

# The numbers of older calls on x86_64 and on aarch64, which has no `open`.
_OLDER = {
    "open": (2, None),
    "ioctl": (16, 29),
    "socket": (41, 198),
    "connect": (42, 203),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "clone": (56, 220),
    "truncate": (76, 45),
    "mount": (165, 40),
    "umount2": (166, 39),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "openat": (257, 56),
    "unshare": (272, 97),
    "perf_event_open": (298, 241),
    "sendmmsg": (307, 269),
    "setns": (308, 268),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
}

PROCESSORS: Mapping[str, Processor] = {
    name: Processor(
        audit_number=audit_number,
        calls=_COMMON | {call: number for call, both in _OLDER.items() if (number := both[at]) is not None},
    )
    for at, (name, audit_number) in enumerate((("x86_64", 0xC000003E), ("aarch64", 0xC00000B7)))
}


class RefusedCall(Struct, frozen=True, kw_only=True):
    """A refused system call: always, or if a masked argument is, or is not, a value."""

    call: str
    answer: int = errno.EPERM
    argument: int | None = None
    mask: int = 0xFFFFFFFF
    value: int = 0
    unless: bool = False


# glibc and others work without these.
_ABSENT = ("clone3", "io_uring_setup")
_FORBIDDEN = (
    *("mount", "umount2", "open_tree", "move_mount", "fsopen", "setns"),
    *("keyctl", "add_key", "request_key", "bpf", "perf_event_open", "userfaultfd"),
)
_ALWAYS = (
    *(RefusedCall(call=call, answer=errno.ENOSYS) for call in _ABSENT),
    *(RefusedCall(call=call) for call in _FORBIDDEN),
    RefusedCall(call="clone", argument=0, mask=_NEW_NAMESPACES, unless=True),
    RefusedCall(call="unshare", argument=0, mask=_NEW_NAMESPACES | _NEW_TIME_NAMESPACE, unless=True),
    RefusedCall(call="ioctl", argument=1, value=_TIOCSTI),
)
# Landlock does not control sockets with a path, where Docker, ssh-agent and D-Bus listen: a step may make them or
# connect, but never both.
_NO_NETWORK = (
    RefusedCall(call="socket", answer=errno.EACCES, argument=0, value=_AF_UNIX, unless=True),
    RefusedCall(call="connect", answer=errno.EACCES),
)
_HOST_NETWORK = (RefusedCall(call="socket", answer=errno.EACCES, argument=0, value=_AF_UNIX),)
# Landlock controls `connect` of TCP: other protocols, and data that connects by itself, would bypass it.
_ONLY_TCP = (
    RefusedCall(call="socket", answer=errno.EACCES, argument=0, mask=_EITHER_VERSION, value=_AF_INET, unless=True),
    RefusedCall(call="socket", answer=errno.EACCES, argument=1, mask=_KIND, value=_SOCK_STREAM, unless=True),
    RefusedCall(call="socket", answer=errno.EACCES, argument=2, mask=_TCP_OR_NONE, value=0, unless=True),
    *(
        RefusedCall(call=call, answer=errno.EACCES, argument=argument, mask=_MSG_FASTOPEN, value=_MSG_FASTOPEN)
        for call, argument in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3))
    ),
)
_NETWORKS = {"none": _NO_NETWORK, "host": _HOST_NETWORK, "ports": _ONLY_TCP}
# Before version 3, Landlock let a process truncate files that it could only read, and others by their path.
_NO_TRUNCATION = (
    RefusedCall(call="truncate", answer=errno.EACCES),
    RefusedCall(call="openat2", answer=errno.ENOSYS),
    *(
        RefusedCall(
            call=call, answer=errno.EACCES, argument=argument, mask=_O_TRUNC | _O_ACCMODE, value=_O_TRUNC | mode
        )
        for call, argument in (("open", 1), ("openat", 2))
        for mode in _NOT_FOR_WRITING
    ),
)


def filter_program(processor: Processor, *, network: str, landlock_abi: int) -> bytes:
    """Return the filter program for a step."""
    return _program(processor, (*_ALWAYS, *_NETWORKS[network], *(_NO_TRUNCATION if landlock_abi < 3 else ())))


def tcp_program(processor: Processor) -> bytes:
    """Return the filter program for a process that is confined elsewhere, but for the network."""
    # Calls through a ring bypass the filter.
    return _program(processor, (RefusedCall(call="io_uring_setup", answer=errno.ENOSYS), *_ONLY_TCP))


def _program(processor: Processor, refused: Sequence[RefusedCall]) -> bytes:
    return b"".join(
        (
            _instruction(_LOAD, _ARCHITECTURE),
            _instruction(_EQUAL, processor.audit_number, then=1),
            _instruction(_RETURN, _KILL),
            _instruction(_LOAD, _NUMBER),
            _instruction(_AT_LEAST, _X32, otherwise=1),
            _instruction(_RETURN, _REFUSE | errno.ENOSYS),
            *(_rule_for(processor.calls[each.call], each) for each in refused if each.call in processor.calls),
            _instruction(_RETURN, _ALLOW),
        )
    )


def _rule_for(number: int, refused: RefusedCall) -> bytes:
    """Return the part of the program for one call; other calls skip it."""
    refusal = _instruction(_RETURN, _REFUSE | refused.answer)
    if refused.argument is None:
        return _instruction(_EQUAL, number, otherwise=1) + refusal
    # The lower half of an argument comes first on both processors, and none of these has an upper half.
    return (
        _instruction(_EQUAL, number, otherwise=5)
        + _instruction(_LOAD, _ARGUMENTS + 8 * refused.argument)
        + _instruction(_AND, refused.mask)
        + _instruction(_EQUAL, refused.value, then=int(refused.unless), otherwise=int(not refused.unless))
        + refusal
        + _instruction(_LOAD, _NUMBER)
    )


def _instruction(code: int, operand: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    """Return one instruction; the jumps are the numbers of instructions to skip after a comparison."""
    return struct.pack("=HBBI", code, then, otherwise, operand)
