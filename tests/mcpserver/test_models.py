"""`aop mcp` and `aop serve` with a model's key beside them: they ask no model unless the operator says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from aop.core.roles import Role
from tests.brains.endpoints import Endpoint, serving
from tests.gated.test_reviewers import KEY, at_review, says
from tests.mcpserver.clients import Answer, over_http, over_stdio, served, token_for

CLIENTS = {"aop.wiring.models", "aop.adapters.models.remote_model", "aop.brains.model_brain", "pydantic_ai", "openai"}


class Review(Struct, frozen=True, kw_only=True):
    """A workflow whose next step is the review by a model."""

    root: Path
    model: Endpoint
    token: str

    @property
    def env(self) -> dict[str, str]:
        return {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": self.model.url}

    @property
    def said(self) -> Path:
        """The file with what `aop mcp` said, with all its imports."""
        return self.root.parent / "mcp.err"

    def imported(self) -> set[str]:
        """Return the modules that `aop mcp` imported."""
        lines = self.said.read_text().splitlines() if self.said.exists() else []
        return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}

    def over_mcp(self, *words: str) -> Answer:
        env = {**self.env, "PYTHONPROFILEIMPORTTIME": "1"}
        with self.said.open("w") as said, over_stdio(self.root, self.token, *words, env=env, said=said) as agent:
            answer = agent.call("get_task")
        assert "aop.mcpserver.tool_server" in self.imported()
        return answer

    def over_serve(self, *words: str) -> Answer:
        with served(self.root, *words, **self.env) as server, over_http(server.url, self.token) as agent:
            return agent.call("get_task")


@pytest.fixture
def review(tmp_path: Path) -> Iterator[Review]:
    with serving("anthropic", says()) as model:
        agent = at_review(tmp_path / "repo", model.url)
        token = token_for(agent.world, Role.SWE, "gated")
        agent.world.close()
        yield Review(root=tmp_path / "repo", model=model, token=token)


@pytest.mark.req("AOP-017")
@pytest.mark.parametrize("call", [Review.over_mcp, Review.over_serve], ids=["mcp", "serve"])
def test_a_server_asks_a_model_only_at_the_operators_word(review: Review, call: Callable[..., Answer]) -> None:
    refused = call(review)
    assert (refused.code, "`--ask-models`" in refused.text, review.model.heard) == ("model_not_allowed", True, [])
    assert not review.imported() & CLIENTS
    assert call(review, "--ask-models").data["status"] == "AWAITING_FINALIZATION"
    assert len(review.model.heard) == 1
