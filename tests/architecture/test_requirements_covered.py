"""Requirement claims: counted right, and an unknown id is named."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "requirements_covered.py"


def test_every_id_that_a_test_claims_exists_and_every_other_has_a_reason(tmp_path: Path) -> None:
    ended = requirements_covered("--document", str(tmp_path / "requirements.md"), "--write")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_markers_and_hostile_rows_are_claims(tmp_path: Path) -> None:
    (tmp_path / "test_seeded.py").write_text(
        "import pytest\n\n"
        "@pytest.mark.req('AOP-130', 'AOP-131')\ndef test_one(): ...\n\n"
        "@pytest.mark.skip(reason='later')\n@pytest.mark.req('AOP-132')\ndef test_two(): ...\n"
    )
    (tmp_path / "hostile").mkdir()
    (tmp_path / "hostile" / "rows.py").write_text("ROWS = [('D001', 'b//abs'), ('D999', 'a row of our own')]\n")
    claims = json.loads(requirements_covered("--json", "--tests", str(tmp_path)).stdout)
    assert (claims["req"]["claimed"], claims["hostile"]["claimed"]) == (["AOP-130", "AOP-131"], ["D001"])
    assert [len(ids["claimed"] + ids["open"]) for ids in claims.values()] == [849, 324]


def test_a_claim_of_an_unknown_id_fails_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "test_seeded.py"
    path.write_text("import pytest\n\npytestmark = pytest.mark.req('AOP-999')\n")
    ended = requirements_covered("--tests", str(tmp_path))
    assert (ended.returncode, ended.stderr) == (1, f"{path}:3: `AOP-999` is not in the list of requirements.\n")


def test_every_id_of_the_document_is_claimed_or_has_a_reason(tmp_path: Path) -> None:
    document, reasons = tmp_path / "requirements.md", tmp_path / "open.tsv"
    reasons.write_text("AOP-143\tNot built yet.\n")
    written = requirements_covered(
        "--document", str(document), "--write", "--reasons", str(reasons), "--tests", str(tmp_path)
    )
    assert written.returncode == 1
    assert "`AOP-144` is claimed by no test, and has no reason in tests/requirements/open.tsv.\n" in written.stderr
    assert "AOP-143" not in written.stderr
    assert re.search(r"^\| AOP-143 \| .* \| Not built yet\. \|$", document.read_text(), re.MULTILINE)


def test_an_id_that_is_claimed_has_no_reason_why_it_is_not(tmp_path: Path) -> None:
    (tmp_path / "test_seeded.py").write_text("import pytest\n\npytestmark = pytest.mark.req('AOP-130')\n")
    reasons = tmp_path / "open.tsv"
    reasons.write_text("AOP-130\tNot built yet.\n")
    ended = requirements_covered(
        "--document", str(tmp_path / "doc.md"), "--write", "--reasons", str(reasons), "--tests", str(tmp_path)
    )
    assert "`AOP-130` is claimed by a test, and has a reason why not in tests/requirements/open.tsv.\n" in ended.stderr


def test_the_document_names_the_target_of_an_id_that_make_test_leaves_out(tmp_path: Path) -> None:
    (tmp_path / "test_seeded.py").write_text(
        "import pytest\n\n"
        "@pytest.mark.slow\n@pytest.mark.req('AOP-130', 'AOP-131')\ndef test_one(): ...\n\n"
        "@pytest.mark.req('AOP-131')\ndef test_two(): ...\n"
    )
    (tmp_path / "test_real.py").write_text(
        "import pytest\n\npytestmark = [pytest.mark.real]\n\n@pytest.mark.req('AOP-130', 'AOP-132')\ndef test_(): ...\n"
    )
    (tmp_path / "test_skipped.py").write_text(
        "import pytest\n\npytestmark = pytest.mark.skip(reason='')\n\n@pytest.mark.req('AOP-133')\ndef test_(): ...\n"
    )
    document = tmp_path / "doc.md"
    requirements_covered("--document", str(document), "--write", "--tests", str(tmp_path))
    claimed = document.read_text().partition("## Claimed by tests")[2]
    assert re.findall(r"^\| (AOP-\d+) \| .* \| (.*) \|$", claimed, re.MULTILINE) == [
        ("AOP-130", "`make slow`, `make real`"),
        ("AOP-131", ""),
        ("AOP-132", "`make real`"),
    ]


def test_a_document_that_is_old_is_named(tmp_path: Path) -> None:
    document, reasons = tmp_path / "requirements.md", tmp_path / "open.tsv"
    reasons.write_text("".join(f"{part}-*\tNot built yet.\n" for part in ("AOP", "GATED", "SCAF", "REV", "FORGE")))
    options = ("--document", str(document), "--reasons", str(reasons), "--tests", str(tmp_path))
    assert requirements_covered(*options, "--write").returncode == 0
    assert requirements_covered(*options).returncode == 0
    document.write_text("old\n")
    ended = requirements_covered(*options)
    assert (ended.returncode, "run `make tools`" in ended.stderr) == (1, True)


def requirements_covered(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
