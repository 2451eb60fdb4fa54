"""docker/compose.yaml and the Kubernetes manifests: valid by their schemas, and all that they name exists."""

from __future__ import annotations

import copy
import importlib.resources
import json
import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from api.http.access import PUBLIC
from api.server.settings import BrokerSettings, Settings
from tests.containers.images import DOCKERFILE, ROOT, final_targets

FOLDER = ROOT / "docker" / "kubernetes"
COMPOSE = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
SECRETS = {"POSTGRES_PASSWORD", "PROSEM_ADMIN_KEY", "PROSEM_BROKER_KEY", "PROSEM_METRICS_KEY"}
VERSIONS = ("1.31", "1.37")  # of Kubernetes
Manifest = dict[str, Any]


def manifests() -> list[Manifest]:
    """What kustomization.yaml lists."""
    return [
        one for name in KUSTOMIZATION["resources"] for one in yaml.safe_load_all((FOLDER / name).read_text())
    ]


MANIFESTS = {f"{one['kind']} {one['metadata']['name']}": one for one in manifests()}
WORKLOADS = {name: one for name, one in MANIFESTS.items() if "template" in one.get("spec", {})}
CONTAINERS = {name: one["spec"]["template"]["spec"]["containers"][0] for name, one in WORKLOADS.items()}
OWN = {name: one for name, one in CONTAINERS.items() if one["image"] == "prosem"}
settings_of = {"serve": Settings, "migrate": Settings, "broker": BrokerSettings, "stats": Settings}


def compose_schema() -> Any:
    place = importlib.resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    return json.loads(place.read_text())


def validate_compose(document: Any) -> None:
    jsonschema.validate(document, compose_schema())


# -- compose -------------------------------------------------------------------------------------------------
def test_compose_is_valid() -> None:
    validate_compose(COMPOSE)
    broken = copy.deepcopy(COMPOSE)
    broken["services"]["server"]["depends_on"]["nats"]["condition"] = 1
    with pytest.raises(jsonschema.ValidationError):
        validate_compose(broken)


def test_what_compose_names_exists() -> None:
    services = COMPOSE["services"]
    volumes = set()
    for name, service in services.items():
        assert set(service.get("depends_on", ())) <= services.keys(), name
        assert set(service.get("secrets", ())) <= COMPOSE["secrets"].keys()
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (ROOT / "docker" / source).exists(), volume
            else:
                volumes.add(source)
        if "build" in service:
            assert (ROOT / "docker" / service["build"]["context"] / service["build"]["dockerfile"]).samefile(
                DOCKERFILE
            )
            assert service["build"].get("target", "server") in final_targets(DOCKERFILE.read_text())
    assert volumes == COMPOSE["volumes"].keys()
    assert final_targets(DOCKERFILE.read_text())[-1] == "server", (
        "the last stage is what is built without a target"
    )


# -- Kubernetes ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_is_valid(name: str, version: str) -> None:
    kubernetes_validate.validate(MANIFESTS[name], version, strict=True)


def test_an_invalid_manifest_is_noticed() -> None:
    for place, value in (("replicas", "two"), ("replica", 2)):
        broken = copy.deepcopy(MANIFESTS["Deployment broker"])
        broken["spec"][place] = value
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(broken, VERSIONS[-1], strict=True)


def test_every_file_is_applied() -> None:
    files = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert files == set(KUSTOMIZATION["resources"])
    assert {image["name"] for image in KUSTOMIZATION["images"]} == {one["image"] for one in OWN.values()}


def test_selectors_find_their_pods() -> None:
    labels = [one["spec"]["template"]["metadata"]["labels"] for one in WORKLOADS.values()]
    for name, one in MANIFESTS.items():
        selector = one.get("spec", {}).get("selector")
        if selector is not None:
            wanted = selector.get("matchLabels", selector)
            assert sum(wanted.items() <= found.items() for found in labels) == 1, name
    for name, one in WORKLOADS.items():
        if one["kind"] == "StatefulSet":
            assert f"Service {one['spec']['serviceName']}" in MANIFESTS, name
            mounted = {volume["name"] for volume in CONTAINERS[name].get("volumeMounts", ())}
            claimed = {claim["metadata"]["name"] for claim in one["spec"].get("volumeClaimTemplates", ())}
            given = {volume["name"] for volume in one["spec"]["template"]["spec"].get("volumes", ())}
            assert mounted == claimed | given, name


def test_services_lead_to_ports_of_their_pods() -> None:
    for name, one in MANIFESTS.items():
        if one["kind"] == "Service":
            (container,) = [
                CONTAINERS[workload]
                for workload, made in WORKLOADS.items()
                if one["spec"]["selector"].items() <= made["spec"]["template"]["metadata"]["labels"].items()
            ]
            ports = {port["name"]: port["containerPort"] for port in container["ports"]}
            for port in one["spec"]["ports"]:
                target = port.get("targetPort", port["port"])
                assert target in ports or target in ports.values(), name


def test_replicated_parts_have_a_budget_and_every_part_has_resources() -> None:
    for name, one in WORKLOADS.items():
        resources = CONTAINERS[name]["resources"]
        assert resources["requests"].keys() == {"cpu", "memory"}, name
        assert "memory" in resources["limits"], name
        if one["spec"].get("replicas", 1) > 1:
            budget = MANIFESTS[f"PodDisruptionBudget {one['metadata']['name']}"]["spec"]
            assert budget["selector"] == one["spec"]["selector"]
            assert budget["maxUnavailable"] < one["spec"]["replicas"]
    replicas = WORKLOADS["StatefulSet nats"]["spec"]["replicas"]
    assert variables(CONTAINERS["StatefulSet server"])["PROSEM_NATS_REPLICAS"] == str(replicas)


def variables(container: Manifest) -> dict[str, str]:
    """By name; what comes from elsewhere has no value here."""
    return {one["name"]: one.get("value", "") for one in container["env"]}


@pytest.mark.parametrize("name", OWN)
def test_containers_of_ours_have_settings_that_exist(name: str) -> None:
    container = OWN[name]
    command, subcommand = container["command"]
    assert command == "prosem"
    known = {f"PROSEM_{field.name.upper()}" for field in fields(settings_of[subcommand])}
    given = {variable for variable in variables(container) if variable.startswith("PROSEM_")}
    assert given <= known, name
    pod = WORKLOADS[name]["spec"]["template"]["spec"]
    assert pod["enableServiceLinks"] is False, (
        "Kubernetes would set PROSEM_PORT, for the Service of that name"
    )
    assert pod["securityContext"]["runAsNonRoot"]
    assert f"--uid {pod['securityContext']['runAsUser']} " in DOCKERFILE.read_text()
    for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
        if kind in container:
            probe = container[kind]["httpGet"]
            assert probe["path"] in PUBLIC
            assert probe["port"] in {port["name"] for port in container["ports"]}
    assert name.startswith("Job") or container.keys() >= {"startupProbe", "readinessProbe", "livenessProbe"}


@pytest.mark.parametrize("name", CONTAINERS)
def test_secrets_and_addresses_exist(name: str) -> None:
    (generated,) = KUSTOMIZATION["secretGenerator"]
    for variable in CONTAINERS[name]["env"]:
        secret = variable.get("valueFrom", {}).get("secretKeyRef")
        if secret is not None:
            assert (secret["name"], secret["key"] in SECRETS) == (generated["name"], True)
        for host in re.findall(
            r"[/@]([a-z][\w.-]*)[:/]", variable.get("value", "").partition("://")[2].join("//")
        ):
            pod, _, service = host.rpartition(".")
            assert f"Service {service}" in MANIFESTS, host
            if pod:
                at, number = pod.rsplit("-", 1)
                assert int(number) < WORKLOADS[f"StatefulSet {at}"]["spec"]["replicas"], host
        for other in re.findall(r"\$\((\w+)\)", variable.get("value", "")):
            names = [one["name"] for one in CONTAINERS[name]["env"]]
            assert names.index(other) < names.index(variable["name"]), "Kubernetes expands what is above"


def test_no_value_of_a_secret_is_in_a_file() -> None:
    for name, container in CONTAINERS.items():
        for variable in container["env"]:
            if variable["name"] in SECRETS | {"PROSEM_API_KEY"}:
                assert "value" not in variable, name
    assert "docker/kubernetes/secrets.env" in (ROOT / ".gitignore").read_text().splitlines()


def test_the_documented_lines_set_every_secret() -> None:
    guide = (ROOT / "docs" / "howto" / "kubernetes.md").read_text()
    for text in ((FOLDER / "kustomization.yaml").read_text(), guide):
        (named,) = re.findall(r"for name in ([A-Z_ ]+); do", text)
        assert set(named.split()) == SECRETS


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl here")
def test_kustomize_builds_them(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "made")
    (tmp_path / "made" / "secrets.env").write_text(
        "".join(f"{name}=made-by-a-test\n" for name in sorted(SECRETS))
    )
    built = subprocess.run(
        ["kubectl", "kustomize", str(tmp_path / "made")], capture_output=True, text=True, check=True
    )
    found = list(yaml.safe_load_all(built.stdout))
    assert len(found) == len(MANIFESTS) + 1, "and the secret"
    for one in found:
        assert one["metadata"]["namespace"] == KUSTOMIZATION["namespace"]
        kubernetes_validate.validate(one, VERSIONS[-1], strict=True)
