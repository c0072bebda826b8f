"""Ticket service: the projects whose tickets workers take."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from aop.adapters.fleet.platform_shape import TICKETS, project_queue


class TicketService:
    """The queues for tickets as they were at one moment, each with whether a worker that takes it was live."""

    def __init__(self, served: Mapping[str, bool]) -> None:
        self._served = served

    def queue_of(self, project: str) -> str:
        """Return the queue for the tickets of a project: its own, if the platform has one."""
        own = project_queue(project)
        return own if own in self._served else TICKETS

    def serves(self, project: str) -> bool:
        """Tell whether a worker takes the tickets of a project."""
        return self._served.get(self.queue_of(project), False)

    def serves_any(self, projects: Collection[str]) -> bool:
        """Tell whether workers take the tickets of one of these projects at least; without names, of any."""
        return any(self._each(projects))

    def serves_all(self, projects: Collection[str]) -> bool:
        """Tell whether workers take the tickets of all these projects; without names, of every one."""
        return all(self._each(projects))

    def _each(self, projects: Collection[str]) -> list[bool]:
        return [self.serves(project) for project in projects] if projects else list(self._served.values())


NO_SERVICE = TicketService({TICKETS: False})
"""Without a platform."""
