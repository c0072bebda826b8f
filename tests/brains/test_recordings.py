"""Recordings: replayed by request, without secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aop.adapters.models.recorded_model import RecordedModel, RecordingModel
from aop.brains.prompts import Data, Prompt, build_prompt
from aop.core.errors import InputPathNotFound, ReplayDiverged
from aop.core.redaction.redactor import Redactor
from aop.testing.scripted_model import ScriptedModel, answers
from tests.brains.subjects import FIVE, asked_with

SECRET = "correct-horse-battery"


def question(text: str, fence: str = "fence-of-the-first-run") -> Prompt:
    return build_prompt("You add.", "Add.", [Data(source="a ticket", text=text)], fence)


def recorded(path: Path, text: str) -> Path:
    model = RecordingModel(ScriptedModel([answers(FIVE)]), path, Redactor([SECRET]))
    assert asked_with(question(text), model).value == FIVE
    return path


def test_the_same_question_in_another_run_gets_the_recorded_answer(tmp_path: Path) -> None:
    path = recorded(tmp_path / "kept.jsonl", "2 3")
    asked_again = question("2 3", fence="another-fence-altogether")
    answer = asked_with(asked_again, RecordedModel(path, Redactor()), timeout=300)
    assert (answer.value, answer.model, answer.usage.total_tokens) == (FIVE, "scripted:model", 120)


def test_another_question_has_no_answer(tmp_path: Path) -> None:
    path = recorded(tmp_path / "kept.jsonl", "2 3")
    with pytest.raises(ReplayDiverged) as refused:
        asked_with(question("2 4"), RecordedModel(path, Redactor()))
    assert refused.value.facts["recorded"] == 1


def test_a_recording_holds_question_and_answer_for_people_and_no_secret(tmp_path: Path) -> None:
    path = recorded(tmp_path / "kept.jsonl", f"2 3 {SECRET}")
    (line,) = path.read_text().splitlines()
    kept = json.loads(line)
    assert (kept["asked"]["turns"][0]["text"], kept["reply"]["calls"][0]["name"], SECRET in line) == (
        'Add.\n\n<data-FENCE source="a ticket">\n2 3 [redacted:known-value]\n</data-FENCE>', "give_answer", False,
    )  # fmt: skip
    assert path.stat().st_mode & 0o077 == 0
    assert asked_with(question(f"2 3 {SECRET}"), RecordedModel(path, Redactor([SECRET]))).value == FIVE


def test_a_recording_that_cannot_be_written_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    model = ScriptedModel([answers(FIVE)])
    with pytest.raises(InputPathNotFound):
        RecordingModel(model, tmp_path / "nowhere" / "kept.jsonl", Redactor())
    assert model.asked == []


@pytest.mark.parametrize("text", [None, "no recording\n", '{"key": 1}\n'])
def test_a_recording_that_is_none_is_refused(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputPathNotFound):
        RecordedModel(path, Redactor())
