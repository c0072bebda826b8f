"""Real coding agents whose provider is in trouble: the sentence that a person sees, and no attempt that is used up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aop.adapters.agents.model_access import model_provider_of
from tests.cli.shops import Shop
from tests.racing import until
from tests.real.fake_vendors import FakeVendors, Trouble, listening
from tests.real.scenes import KEY, PROGRAMS, SECONDS, TRIED, environment, files_with, logs, needs, submits
from tests.world import run_aop

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

POLICY = "version: 1\nsupervisor: {max_iterations_per_phase: 1}\n"
HTML = b"<html><title>Sign in</title><p>Who are you?</p></html>"
CUT = b'data: {"type": "ping", "candidates": []}\n\n'
TROUBLES: dict[str, Trouble] = {
    "rejects the key (HTTP status 401). It says: no such key": Trouble(
        status=401, body=b'{"error": {"message": "no such key"}}'
    ),
    "wants to be paid first (HTTP status 402). It says: pay first": Trouble(
        status=402, body=b'{"error": {"message": "pay first"}}'
    ),
    "limits the requests (HTTP status 429). It says: slow down": Trouble(
        status=429, body=b'{"error": {"message": "slow down"}}', headers={"retry-after": "7200"}
    ),
    "has an error of its own (HTTP status 500). It says: oh no": Trouble(
        status=500, body=b'{"error": {"message": "oh no"}}'
    ),
    "is overloaded (HTTP status 529). It says: busy": Trouble(status=529, body=b'{"error": {"message": "busy"}}'),
    "sent an answer that is not that of a model. It says: Sign in Who are you?": Trouble(kind="text/html", body=HTML),
    "broke off its answer.": Trouble(kind="text/event-stream", body=CUT),
    "did not answer in time: {host} was silent for 2 seconds.": Trouble(is_silent=True),
}
"""The end of the sentence, and the answer that it is about."""


def inbox(shop: Shop) -> Any:
    return json.loads(run_aop(shop.root, "inbox", "--json").out)["data"]


def sentences(shop: Shop) -> list[str]:
    """Return what the inbox says."""
    seen = inbox(shop)
    return [each["text"] for each in seen["questions"]] + [each["reason"] for each in seen["waits"]]


def await_sentence(shop: Shop, said: str) -> None:
    """Wait until a sentence is all that the inbox shows; the log is looked at first, since it costs no process."""
    until(lambda: said in shop.log(), seconds=SECONDS)
    until(lambda: [said in each for each in sentences(shop)] == [True], seconds=SECONDS)


def go_on(shop: Shop) -> None:
    """Answer the question, or end the wait."""
    asked = inbox(shop)["questions"]
    words = ["answer", asked[0]["question_id"], "retry"] if asked else ["resume", "good"]
    ran = run_aop(shop.root, *words)
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("agent", PROGRAMS)
def test_a_person_sees_each_trouble_of_a_real_agents_provider_and_none_uses_up_an_attempt(
    tmp_path: Path, agent: str
) -> None:
    needs(agent)
    shop = Shop(tmp_path, POLICY)
    shop.wants("good")
    provider = model_provider_of(TRIED[agent])
    with FakeVendors(submits) as model:
        host = f"127.0.0.1:{model.server_port}"
        env = {**environment(agent, model), "AOP_MODEL_TIMEOUT_SECONDS": "2"}
        words = ["run", "-fl", str(shop.specs), "--agent-provider", agent]
        ran = run_aop(shop.root, *words, env=env, seconds=SECONDS)
        assert ran.code == 0, ran.err
        await_sentence(shop, f"{provider} cannot be reached: {host} refuses the connection.")
        with listening(model):
            for what, trouble in TROUBLES.items():
                model.trouble = trouble
                go_on(shop)
                await_sentence(shop, f"{provider} {what}".format(host=host))
            model.trouble = None
            go_on(shop)
            until(lambda: "plan 1 accepted" in shop.log(), seconds=SECONDS)
            run_aop(shop.root, "stop")
    assert files_with(KEY, tmp_path) == [], logs(shop)
