"""FoundRoute clauses: the routes of the code against the physics contract."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from aop.core.text.counts import count
from aop.forge.check.clauses import CheckedContracts, Clause, Code, decided
from aop.forge.contracts.consistency import same_path
from aop.forge.contracts.shapes.physics import Endpoint, Physics
from aop.forge.contracts.types import ContractType
from aop.forge.scan.file_facts import ANY_METHOD, UNKNOWN
from aop.forge.scan.routes import FoundRoute, routes_of

_NAMED_PATH = re.compile(r"`(?:[A-Z]+ )?(/[^`\s]*)`")
_IMPLIED = frozenset({"HEAD", "OPTIONS"})


def route_clauses(physics: Physics, contracts: CheckedContracts, code: Code) -> Iterator[Clause]:
    """Judge each path of the contract, and the routes that it does not name."""
    routes = routes_of(code.inventory)
    for endpoint in physics.endpoints:
        yield _declared(endpoint, routes, contracts, code)
    yield _undeclared(physics, routes, contracts, code)


def _declared(endpoint: Endpoint, routes: Sequence[FoundRoute], contracts: CheckedContracts, code: Code) -> Clause:
    found = [route for route in routes if _serves(route, endpoint)]
    partial = [route for route in routes if not route.complete]
    unknown = ""
    if not found and not routes:
        unknown = "No route was found in the code; its framework may not be one that is read."
    elif not found and partial:
        first = partial[0]
        unknown = f"The prefix of {count(len(partial), 'route')} is not known, the first at {first.file}:{first.line}."
    missing = [] if found or unknown else [contracts.proof_of(ContractType.PHYSICS, endpoint.line)]
    return Clause(
        clause=f"physics.{endpoint.method}.{endpoint.path}",
        kind="route",
        statement=f"{endpoint.method.upper()} {endpoint.path} has a handler",
        verdict=decided(missing, unknown=unknown),
        proofs=tuple(missing) or tuple(code.proof(route.file, route.line) for route in found),
        detail=unknown,
    )


def _undeclared(physics: Physics, routes: Sequence[FoundRoute], contracts: CheckedContracts, code: Code) -> Clause:
    """Judge the routes that no contract names; pages are named by the UI, and a health check by a phase."""
    texts = [contracts.texts.get(each, "") for each in (ContractType.UI, ContractType.PHASES)]
    pages = {same_path(path) for text in texts for path in _NAMED_PATH.findall(text)}
    foreign = [
        route
        for route in routes
        if route.complete and route.method not in _IMPLIED and same_path(route.path) not in pages
        if not any(_serves(route, endpoint) for endpoint in physics.endpoints)
    ]
    unknown = "" if routes else "No route was found in the code."
    return Clause(
        clause="physics.undeclared",
        kind="route",
        statement="Every route of the code is in physics, or is a page of the UI",
        verdict=decided([code.proof(route.file, route.line) for route in foreign], unknown=unknown),
        proofs=tuple(code.proof(route.file, route.line) for route in foreign),
        detail=", ".join(f"{route.method} {route.path}" for route in foreign[:10]) or unknown,
    )


def _serves(route: FoundRoute, endpoint: Endpoint) -> bool:
    is_method = route.method == ANY_METHOD or route.method.lower() == endpoint.method
    return is_method and route.path != UNKNOWN and same_path(route.path) == same_path(endpoint.path)
