"""Fingerprints: what tells two errors apart, and what does not."""

from __future__ import annotations

import hashlib

import pytest

from aop.forge.builds.people.fingerprints import file_in, fingerprint_of, lines_of, normalised, signs_of


@pytest.mark.req("FORGE-175")
@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("src/a.py:12: error", "src/a.py:998: error", "src/a.py:<line>: error"),
        ("src/a.ts:3:14 - TS2304", "src/a.ts:81:2 - TS2304", "src/a.ts:<line> - TS2304"),
        ("a.ts(3,14): error", "a.ts(80, 1): error", "a.ts(<line>): error"),
        ('File "a.py", line 3, in x', 'File "a.py", line 77, in x', 'File "a.py", line <line>, in x'),
        ("<X at 0x7f00aa>", "<X at 0xDEADBEEF>", "<X at <address>>"),
        (
            "job 123e4567-e89b-12d3-a456-426614174000 failed",
            "job FFFFFFFF-e89b-12d3-a456-426614174999  failed",
            "job <uuid> failed",
        ),
    ],
)
def test_lines_addresses_and_ids_do_not_tell_two_errors_apart(first: str, second: str, words: str) -> None:
    assert (normalised(first), normalised(second)) == (words, words)


@pytest.mark.req("FORGE-175")
def test_a_fingerprint_is_the_beginning_of_the_digest_over_source_severity_and_message() -> None:
    expected = hashlib.sha256(b"build_log:error:src/a.py:<line>: no name x").hexdigest()[:16]
    assert fingerprint_of("build_log", "error", "src/a.py:3: no\n  name x") == expected
    assert fingerprint_of("build_log", "fatal", "src/a.py:3: no name x") != expected
    assert fingerprint_of("run_tests", "error", "src/a.py:3: no name x") != expected
    assert fingerprint_of("build_log", "error", "src/b.py:3: no name x") != expected


@pytest.mark.req("FORGE-178")
@pytest.mark.parametrize(
    ("message", "path"),
    [
        ("src/shop/cart.py:12: error: no name x", "src/shop/cart.py"),
        ('  File "/usr/lib/python3.11/json.py", line 3\n  File "tests/test_a.py", line 9', "tests/test_a.py"),
        ("web/cart.ts(3,14): error TS2304", "web/cart.ts"),
        ("ModuleNotFoundError: No module named 'shop'", ""),
        ("../outside.py:3: error", ""),
        ("/etc/passwd.txt:3: error", ""),
        ("Forge said: 3.5 is not 4", ""),
    ],
)
def test_the_file_is_the_first_of_the_project_that_the_message_names(message: str, path: str) -> None:
    assert file_in(message) == path


def test_an_error_is_known_again_by_the_lines_that_tell_of_a_failure() -> None:
    message = "Traceback (most recent call last):\n  src/a.py:3\nNameError: name 'x' is not defined\n"
    assert signs_of(message) == {"NameError: name 'x' is not defined"}
    assert set(lines_of("ok\n  NameError:   name 'x' is not defined\n")) >= signs_of(message)
    assert signs_of("no output at all for a while") == {"no output at all for a while"}
    assert signs_of("FAILED") == {"FAILED"}
