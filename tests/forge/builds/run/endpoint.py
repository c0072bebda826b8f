"""A provider whose model builds: its reply follows from the request alone, so that processes can come and go."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.brains.endpoints import Endpoint, Step
from tests.forge.builds.run.builders import Said
from tests.forge.generation.writers import replies_in


class BuilderEndpoint(Endpoint):
    """One provider on this machine, with the replies of one build."""

    def __init__(self, script: Sequence[Said]) -> None:
        super().__init__("openai", [])
        self._script = script
        self.asked: list[int] = []
        """The turn of each request, from 1."""

    def next_step(self) -> Step:
        turn = 1 + replies_in(self.heard[-1].body)
        self.asked.append(turn)
        said = self._script[turn - 1]
        return Step(text=said.text, calls=said.calls)

    def told(self) -> str:
        """Return everything that its model was told."""
        return "\n".join(json.dumps(each.body, ensure_ascii=False) for each in self.heard)


@contextmanager
def building(script: Sequence[Said]) -> Iterator[BuilderEndpoint]:
    """Serve a model that builds."""
    server = BuilderEndpoint(script)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
