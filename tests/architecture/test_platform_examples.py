"""Examples of a platform: files for Compose and Kubernetes that fit their schemas, with commands that AOP knows."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import json
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml

from aop.adapters.fleet.platform_shape import LEADS, QUEUES
from aop.cli.main import load_verb

PLATFORM = Path(__file__).parents[2] / "examples" / "platform"
COMPOSE = yaml.safe_load((PLATFORM / "compose.yaml").read_text(encoding="utf-8"))
MANIFESTS = [
    manifest
    for path in sorted(PLATFORM.glob("kubernetes/*.yaml"))
    for manifest in yaml.safe_load_all(path.read_text(encoding="utf-8"))
]
NAMES = [f"{manifest['kind']}-{manifest['metadata']['name']}" for manifest in MANIFESTS]
PODS = {
    name: manifest["spec"]["template"]["spec"]
    for name, manifest in zip(NAMES, MANIFESTS, strict=True)
    if "template" in manifest["spec"]
}
OWN = {name: service for name, service in COMPOSE["services"].items() if service.get("entrypoint") == ["aop"]}


def test_the_compose_file_fits_the_schema_of_compose() -> None:
    compose_schema().validate(COMPOSE)
    wrong = copy.deepcopy(COMPOSE)
    wrong["services"]["gates"]["stop_grace"] = "1h"
    assert [error.message for error in compose_schema().iter_errors(wrong)] != []


@pytest.mark.parametrize("manifest", MANIFESTS, ids=NAMES)
def test_a_manifest_fits_the_schema_of_its_kind(manifest: dict[str, Any]) -> None:
    kubernetes_schema(manifest).validate(manifest)
    wrong = {**manifest, "spec": {**manifest["spec"], "replica": 1}}
    assert [error.message for error in kubernetes_schema(manifest).iter_errors(wrong)] != []


@pytest.mark.parametrize(
    "words",
    [[*container["command"]] for pod in PODS.values() for container in pod["containers"]]
    + [["aop", *service["command"]] for service in OWN.values()],
    ids=" ".join,
)
def test_each_command_is_one_of_aop_and_takes_queues_that_exist(words: list[str]) -> None:
    assert words[0] == "aop"
    _verb, parser = load_verb(words[1], words[2:])
    arguments = parser.parse_intermixed_args(words[2:])
    assert set(getattr(arguments, "queues", "gates").split(",")) <= {*QUEUES, LEADS}


@pytest.mark.parametrize("pod", PODS.values(), ids=PODS)
def test_a_pod_is_without_rights_and_without_secrets_of_its_own(pod: dict[str, Any]) -> None:
    assert (pod["automountServiceAccountToken"], pod["securityContext"]["runAsNonRoot"]) == (False, True)
    for container in pod["containers"]:
        context = container["securityContext"]
        assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True)
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
        assert is_pinned(container["image"])
        assert [entry for entry in container["env"] if "DATABASE" in entry["name"] and "valueFrom" not in entry] == []


@pytest.mark.parametrize("service", COMPOSE["services"].values(), ids=COMPOSE["services"])
def test_a_service_has_an_image_with_a_fixed_tag_and_no_password(service: dict[str, Any]) -> None:
    assert is_pinned(service["image"])
    texts = [str(value) for value in service.get("environment", {}).values()]
    assert [text for text in texts if "://" in text and "_PASSWORD}@" not in text] == []


@pytest.mark.parametrize("service", OWN.values(), ids=OWN)
def test_a_container_of_aop_has_no_rights(service: dict[str, Any]) -> None:
    assert (service["cap_drop"], service["read_only"], service["user"]) == (["ALL"], True, "10001:10001")


def test_workers_have_time_to_end_their_runs_in_both() -> None:
    workers = {name: service for name, service in OWN.items() if service["command"][0] == "worker"}
    assert {name: service["stop_grace_period"] for name, service in workers.items()} == dict.fromkeys(workers, "1h")
    pods = [pod for pod in PODS.values() if "worker" in pod["containers"][0]["command"]]
    assert {pod["terminationGracePeriodSeconds"] for pod in pods} == {3600}


def test_each_queue_has_workers_and_each_process_the_user_of_its_role() -> None:
    users = {name: user_in(service["environment"]["AOP_DATABASE"]) for name, service in OWN.items()}
    workers = {"gates": "build", "agents": "build", "tickets": "build", "leads": "lead"}
    assert users == {**workers, "queues": "aop", "pages": "look"}
    keys = {name: environ_of(pod)["AOP_DATABASE"]["valueFrom"]["secretKeyRef"]["key"] for name, pod in PODS.items()}
    assert keys == {
        "Job-aop-queues": "owner",
        "Deployment-aop-pages": "reader",
        "Deployment-aop-leads": "leader",
        **{f"Deployment-aop-{queue}": "worker" for queue in QUEUES},
    }


def test_the_key_and_the_tokens_of_the_pages_are_on_a_volume() -> None:
    pages = OWN["pages"]
    folder = pages["environment"]["XDG_STATE_HOME"]
    [volume] = [mount.partition(":")[0] for mount in pages["volumes"] if mount.endswith(f":{folder}")]
    assert volume in COMPOSE["volumes"]
    pod = PODS["Deployment-aop-pages"]
    folder = environ_of(pod)["XDG_STATE_HOME"]["value"]
    [name] = [mount["name"] for mount in pod["containers"][0]["volumeMounts"] if mount["mountPath"] == folder]
    [claim] = [volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"] if volume["name"] == name]
    assert f"PersistentVolumeClaim-{claim}" in NAMES
    # Otherwise every mount opens the key to the group, which AOP refuses.
    assert pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"


def user_in(address: str) -> str:
    return address.partition("://")[2].partition(":")[0]


def environ_of(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in pod["containers"][0]["env"]}


def is_pinned(image: str) -> bool:
    """Tell whether an image has a tag that does not move, or one that the reader has to name."""
    _name, colon, tag = image.rpartition("/")[2].partition(":")
    return image.startswith("${AOP_IMAGE:?") or (colon == ":" and tag != "latest" and any(map(str.isdigit, tag)))


def compose_schema() -> jsonschema.Draft202012Validator:
    text = files("check_jsonschema").joinpath("builtin_schemas/vendor/compose-spec.json").read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


def kubernetes_schema(manifest: dict[str, Any]) -> jsonschema.Draft202012Validator:
    """Return the schema of a kind, closed: no field but those of the kind."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    module = f"{group.partition('.')[0] or 'core'}_{version}"
    with_plain_dataclasses()
    schema = msgspec.json.schema(getattr(importlib.import_module(f"lightkube.models.{module}"), manifest["kind"]))
    for shape in objects_in(schema):
        # Of words that Python keeps for itself, the package ends the name with a line.
        shape["properties"] = {name.rstrip("_"): of for name, of in shape["properties"].items()}
        shape["additionalProperties"] = False
    return jsonschema.Draft202012Validator(schema)


def with_plain_dataclasses() -> None:
    """Give the models the base that they look for in their client, which is not installed."""
    if "lightkube.core.schema" not in sys.modules:
        base = ModuleType("lightkube.core.schema")
        vars(base).update(dataclass=dataclasses.dataclass, field=dataclasses.field, DictMixin=object)
        sys.modules.update({"lightkube.core": ModuleType("lightkube.core"), "lightkube.core.schema": base})


def objects_in(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for shape in schema["$defs"].values():
        if "properties" in shape:
            yield shape
