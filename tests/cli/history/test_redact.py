"""`aop redact`: what it masks, what it tells, and what it never prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.world import run_aop

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3hJ5"
TEXT = f"one line\n  token: {TOKEN}\r\nthe last one, without an end"


def redact_bytes(data: bytes, *words: str) -> bytes:
    command = [sys.executable, "-m", "aop.cli.main", "redact", *words]
    return subprocess.run(command, input=data, capture_output=True, check=True, timeout=300).stdout


def test_a_file_comes_out_without_its_secrets_and_otherwise_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_bytes(TEXT.encode())
    ran = run_aop(tmp_path, "redact", "log.txt")
    assert (ran.code, ran.err) == (0, "Masked: github-token 1.\n")
    assert redact_bytes(TEXT.encode()) == TEXT.replace(TOKEN, "[redacted:github-token]").encode()


@pytest.mark.parametrize("words", [(), ("-",)], ids=["nothing", "a dash"])
def test_standard_input_is_read_where_the_file_is(words: tuple[str, ...], tmp_path: Path) -> None:
    ran = run_aop(tmp_path, "redact", *words, stdin=f"{TOKEN}\n")
    assert (ran.code, ran.out) == (0, "[redacted:github-token]\n")


def test_json_tells_rule_line_and_column_and_never_the_secret(tmp_path: Path) -> None:
    ran = run_aop(tmp_path, "redact", "--json", stdin=TEXT)
    assert ran.json["data"] == {"findings": [{"rule": "github-token", "line": 2, "column": 10}]}
    assert TOKEN not in ran.out + ran.err


def test_a_value_that_this_environment_keeps_secret_is_found_too(tmp_path: Path) -> None:
    env = {"SHOP_PASSWORD": "correct horse battery"}
    ran = run_aop(tmp_path, "redact", stdin="it says correct horse battery here\n", env=env)
    assert ran.out == "it says [redacted:known-value] here\n"


def test_a_text_without_secrets_is_said_to_have_none(tmp_path: Path) -> None:
    ran = run_aop(tmp_path, "redact", stdin="nothing to hide\n")
    assert (ran.code, ran.out, ran.err) == (0, "nothing to hide\n", "Masked: nothing.\n")


def test_bytes_that_are_no_text_come_out_as_they_are() -> None:
    data = b"\xff\xfe\x00 caf\xc3\xa9 \xc3(" + TOKEN.encode() + b"\n\x80"
    assert redact_bytes(data) == data.replace(TOKEN.encode(), b"[redacted:github-token]")


def test_a_file_that_is_larger_than_the_memory_is_streamed(tmp_path: Path) -> None:
    size = 300 << 20
    with open(tmp_path / "large.log", "wb") as file:
        file.seek(size)
        file.write(b"\n" + TOKEN.encode())
    limit = "import resource, sys; resource.setrlimit(resource.RLIMIT_DATA, (150 << 20,) * 2);"
    program = f"{limit} from aop.cli.main import main; sys.exit(main(['redact', 'large.log', '--json']))"
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout)["data"]["findings"] == [{"rule": "github-token", "line": 2, "column": 1}]


@pytest.mark.parametrize("name", ["absent.txt", "."])
def test_what_is_no_file_is_refused(name: str, tmp_path: Path) -> None:
    ran = run_aop(tmp_path, "redact", name, "--json")
    assert (ran.code, ran.json["error"]["code"]) == (2, "invalid_cli_args")


def test_a_reader_that_goes_away_is_no_breakage(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("word\n" * 100_000)
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "aop.cli.main", "redact", "a.txt"]
    with open(writer, "wb") as stdout:
        ran = subprocess.run(command, cwd=tmp_path, stdout=stdout, stderr=subprocess.PIPE, check=False, timeout=300)
    assert (ran.returncode, ran.stderr) == (1, b"")
