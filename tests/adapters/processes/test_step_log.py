"""The log of a gate step: what it keeps, what it never shows, and how little memory it needs."""

from __future__ import annotations

import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aop.adapters.processes.step_log import StepLog, without_controls
from aop.core.errors import Fault

KEY = b"-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\nq83vEjRWeJCrze8S\n-----END RSA PRIVATE KEY-----\n"


def redact(text: str) -> str:
    """Hide one token, and everything between the lines of a key."""
    before, begins, rest = text.partition("-----BEGIN RSA PRIVATE KEY-----")
    _, ends, after = rest.partition("-----END RSA PRIVATE KEY-----")
    if begins and ends:
        text = f"{before}[key]{after}"
    return text.replace("tok_0123456789abcdef", "[token]")


def logged(folder: Path, *chunks: bytes, **limits: int) -> tuple[bytes, bool]:
    """Feed the chunks to a new log; return its content and whether it says that something was left out."""
    path = folder / f"{len(list(folder.iterdir()))}.log"
    log = StepLog(path, redact, **limits)
    for chunk in chunks:
        log.feed(chunk)
    size, truncated = log.close()
    content = path.read_bytes()
    assert size == len(content)
    return content, truncated


@pytest.mark.req("AOP-192", "AOP-269")
def test_output_is_kept_whole_with_its_secrets_hidden(tmp_path: Path) -> None:
    assert logged(tmp_path, b"one\ntwo tok_0123456789abcdef\n\nlast") == (b"one\ntwo [token]\n\nlast\n", False)


def test_no_output_makes_an_empty_log(tmp_path: Path) -> None:
    assert logged(tmp_path) == (b"", False)


def test_the_head_can_be_read_while_the_step_still_runs(tmp_path: Path) -> None:
    log = StepLog(tmp_path / "live.log", redact)
    log.feed(b"started\nhalf a li")
    assert (tmp_path / "live.log").read_bytes() == b"started\n"
    log.close()


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        pytest.param("\x1b[31mred\x1b[0m", "red", id="G34-colour"),
        pytest.param("\x1b[38;2;1;2;3mx\x1b[?25l\x1b[2Ky", "xy", id="G34-private-modes"),
        pytest.param("\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\", "click", id="G34-hyperlink"),
        pytest.param("a\x1b]52;c;ZXZpbA==\x07b", "ab", id="G34-clipboard"),
        pytest.param("\x1b]0;owned\x07title", "title", id="G34-title"),
        pytest.param("a\x1bPq#0;2;0;0;0\x1b\\b\x1b_apc\x1b\\c", "abc", id="G34-device-strings"),
        pytest.param("a\x1b]52;c;never ended", "a", id="G34-unended-string"),
        pytest.param("a\x1b[", "a", id="G34-unended-csi"),
        pytest.param("a\x1b", "a", id="G34-lone-escape"),
        pytest.param("a\x1b(Bb\x1b7c\x1b=d", "abcd", id="G34-two-byte"),
        pytest.param("a\x9b31mb\x9d0;t\x07c\x9c", "abc", id="G34-eight-bit"),
        pytest.param("a\x1b[\x1b[31mb", "ab", id="G34-nested"),
        pytest.param("a\x1b[31é", "aé", id="G34-csi-without-final"),
        pytest.param("nul\x00 bell\x07 back\x08 del\x7f", "nul bell back del", id="G33-controls"),
        pytest.param("tab\tstays, so does é and 漢", "tab\tstays, so does é and 漢", id="text"),
    ],
)
@pytest.mark.hostile("G34", "G33")
def test_terminal_sequences_and_control_characters_are_taken_out(raw: str, shown: str) -> None:
    assert without_controls(raw) == shown


@pytest.mark.hostile("G34")
def test_a_secret_that_is_broken_up_by_colours_is_still_hidden(tmp_path: Path) -> None:
    assert logged(tmp_path, b"tok_\x1b[1m0123456789\x1b[0mabcdef\n") == (b"[token]\n", False)


@pytest.mark.hostile("G33")
def test_a_lone_return_ends_a_line_and_bad_utf8_is_replaced(tmp_path: Path) -> None:
    assert logged(tmp_path, b"10%\r20%\r", b"\nwin\r\nbad \xff\xfe\r") == (
        "10%\n20%\nwin\nbad \N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}\n".encode(),
        False,
    )


@pytest.mark.hostile("G33")
def test_a_long_line_is_cut(tmp_path: Path) -> None:
    chunks = [b"x" * 1000] * 3000
    assert logged(tmp_path, *chunks, b"\nnext\n", max_line=5000) == (b"x" * 5000 + b" [... line cut]\nnext\n", True)


@pytest.mark.parametrize("before", range(4976, 5024, 4))
def test_no_half_of_a_secret_stands_where_a_line_is_cut(tmp_path: Path, before: int) -> None:
    line = b"\x1b[0m" * 1000 + b"x" * before + b"tok_0123456789abcdef" + b"y" * 9000
    content, _ = logged(tmp_path, line, max_line=5000)
    assert b"tok_0" not in content


@pytest.mark.parametrize("before", range(60, 80, 4))
def test_no_half_of_a_secret_stands_where_the_raw_line_was_cut(tmp_path: Path, before: int) -> None:
    line = b"\x1b[0m" * 1250 + b"x" * (4096 - before) + b"tok_0123456789abcdef" + b"y" * 9000
    content, _ = logged(tmp_path, line, max_line=5000)
    assert b"tok_" not in content


def test_the_head_and_the_tail_of_a_long_log_are_kept(tmp_path: Path) -> None:
    lines = [f"line {number:06}\n".encode() for number in range(10_000)]
    content, truncated = logged(tmp_path, b"".join(lines), max_bytes=2400)
    assert truncated
    shown = content.splitlines(keepends=True)
    marker = shown.index(b"[... 117672 bytes left out ...]\n")
    assert shown[:marker] == lines[:marker]
    assert shown[marker + 1 :] == lines[len(lines) - len(shown) + marker + 1 :]
    assert 2200 < len(content) <= 2400
    assert len(b"".join(lines)) == 117672 + len(b"".join(shown[:marker] + shown[marker + 1 :]))


def test_the_first_and_last_of_very_many_lines_are_kept(tmp_path: Path) -> None:
    lines = [b"%d\n" % (number % 10) for number in range(1000)]
    assert logged(tmp_path, b"".join(lines), max_lines=6) == (
        b"0\n1\n2\n[... 1988 bytes left out ...]\n7\n8\n9\n",
        True,
    )


def test_a_log_that_fits_has_no_marker_in_its_middle(tmp_path: Path) -> None:
    text = b"".join(f"line {number:06}\n".encode() for number in range(150))
    assert logged(tmp_path, text, max_bytes=2400) == (text, False)


@given(
    text=st.lists(
        st.sampled_from(
            [b"plain", b"\n", b"\r", b"\r\n", b"tok_0123456789abcdef", KEY, b"\x1b[31m", b"\xc3\xa9", b"\xff"]
        )
        | st.binary(max_size=40),
        max_size=40,
    ).map(b"".join),
    cuts=st.lists(st.integers(0, 1600), max_size=12),
)
@pytest.mark.hostile("K07")
def test_the_log_does_not_depend_on_how_the_output_was_chunked(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, cuts: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    chunks = [text[start:end] for start, end in pairwise(edges)]
    bytewise = [text[at : at + 1] for at in range(len(text))]
    whole = logged(folder, text, max_bytes=300, max_line=90, max_lines=16)
    assert logged(folder, *chunks, max_bytes=300, max_line=90, max_lines=16) == whole
    assert logged(folder, *bytewise, max_bytes=300, max_line=90, max_lines=16) == whole


@pytest.mark.hostile("K07")
def test_a_secret_on_a_chunk_boundary_is_hidden(tmp_path: Path) -> None:
    assert logged(tmp_path, b"a tok_01234", b"56789abcdef z\n") == (b"a [token] z\n", False)


@pytest.mark.req("AOP-269")
def test_the_lines_of_a_private_key_are_redacted_together(tmp_path: Path) -> None:
    assert logged(tmp_path, b"before\n" + KEY + b"after\n") == (b"before\n[key]\nafter\n", False)


@pytest.mark.req("AOP-269")
@pytest.mark.parametrize("tail", range(1100, 1310, 7))
def test_what_is_left_of_a_key_that_the_cut_went_through_is_not_shown(tmp_path: Path, tail: int) -> None:
    content, truncated = logged(tmp_path, b"x\n" * 3000 + KEY + b"y" * tail + b"\n", max_bytes=2600)
    assert truncated
    assert b"MIIE" not in content
    assert b"q83v" not in content


def test_a_key_that_never_ends_does_not_hold_the_log_back(tmp_path: Path) -> None:
    lines = b"-----BEGIN RSA PRIVATE KEY-----\n" + b"\n" * 5000 + b"end\n"
    assert logged(tmp_path, lines) == (lines, False)


def test_the_key_that_begins_where_a_cut_one_ends_stays_hidden(tmp_path: Path) -> None:
    body = b"MIIEowIBAAKCAQEA\nq83vEjRWeJCrze8S\n-----END RSA PRIVATE KEY-----"
    again = b"-----END RSA PRIVATE KEY----------BEGIN RSA PRIVATE KEY-----\n" + body
    content, _ = logged(tmp_path, b"x\n" * 3000 + again + b"\nlast\n", max_bytes=2600)
    assert (b"MIIEowIBAAKCAQEA" in content, content[-5:]) == (False, b"last\n")


def test_memory_stays_flat_whatever_the_output(tmp_path: Path) -> None:
    log = StepLog(tmp_path / "flood.log", redact, max_bytes=1 << 20)
    many_lines, one_line = b"0123456789abcde\n" * 4096, b"x" * 65536
    log.feed(many_lines)
    tracemalloc.start()
    for _ in range(1000):
        log.feed(many_lines)
    for _ in range(1000):
        log.feed(one_line)
    size, truncated = log.close()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (truncated, size <= 1 << 20, peak < 3 << 20) == (True, True, True)


FLOOD = """
import resource, sys
from pathlib import Path
from aop.adapters.processes.step_log import StepLog

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

line = sys.argv[2].encode().decode("unicode_escape").encode()
chunk = line * (65536 // len(line))
log = StepLog(Path(sys.argv[1]), str, max_bytes=10 << 20)
before = peak()
for _ in range((2 << 30) // len(chunk)):
    log.feed(chunk)
_, truncated = log.close()
print(truncated, (peak() - before) // 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", ["y\\n", "\\n", "0123456789012345678901234567890123456789\\n"], ids=["yes", "empty", "40"]
)
def test_two_gigabytes_of_output_cost_less_than_20_megabytes(tmp_path: Path, line: str) -> None:
    command = [sys.executable, "-c", FLOOD, str(tmp_path / "log"), line]
    truncated, grown = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert (truncated, int(grown) < 20) == ("True", True)


def test_one_endless_line_needs_no_more_memory_than_the_cap(tmp_path: Path) -> None:
    tracemalloc.start()
    assert logged(tmp_path, *([b"x" * 65536] * 3200)) == (b"x" * 65536 + b" [... line cut]\n", True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


@pytest.mark.hostile("S39")
def test_a_disk_that_is_full_truncates_the_log_and_nothing_else(tmp_path: Path) -> None:
    log = StepLog(tmp_path / "full.log", redact)
    with files_limited_to(10_000):
        for _ in range(100):
            log.feed(b"0123456789abcde\n" * 64)
        assert log.close() == (10_000, True)
    assert (tmp_path / "full.log").stat().st_size == 10_000


def test_the_log_is_private_and_its_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "run" / "step.log"
    StepLog(path, redact).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_or_link_that_is_already_there_is_never_written(tmp_path: Path) -> None:
    (tmp_path / "there.log").write_bytes(b"precious")
    (tmp_path / "link.log").symlink_to(tmp_path / "elsewhere")
    for name in ("there.log", "link.log"):
        with pytest.raises(Fault, match=f"{name}` cannot be created"):
            StepLog(tmp_path / name, redact)
    assert (tmp_path / "there.log").read_bytes() == b"precious"
    assert not (tmp_path / "elsewhere").exists()


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
