"""The manifests of deploy/kubernetes: what they say is in the published schemas, and agrees with itself.

Kubeflow's package of its operator's schemas has those of Kubernetes, too.  Apache's operator publishes its
schema in no package: its fields are held to those of its API ``v1`` by name, its pods to Kubernetes' schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.cli.settings_file import read_settings
from penstock.core.option import ports_in

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "deploy" / "kubernetes"
AROUND = {each["kind"]: each for each in yaml.safe_load_all((PLACE / "namespace.yaml").read_text())}
APACHE, KUBEFLOW = (
    yaml.safe_load((PLACE / f"{name}-operator.yaml").read_text()) for name in ("apache", "kubeflow")
)
PODS = {
    "apache driver": APACHE["spec"]["driverSpec"]["podTemplateSpec"],
    "apache executor": APACHE["spec"]["executorSpec"]["podTemplateSpec"],
    "kubeflow driver": KUBEFLOW["spec"]["driver"]["template"],
    "kubeflow executor": KUBEFLOW["spec"]["executor"]["template"],
}
OF_APACHE = {
    "pyFiles": str,
    "driverArgs": list,
    "runtimeVersions": {"sparkVersion": str, "scalaVersion": str, "jdkVersion": str},
    "sparkConf": dict,
    "driverSpec": {"podTemplateSpec": dict},
    "executorSpec": {"podTemplateSpec": dict},
    "applicationTolerations": {
        "restartConfig": {
            "restartPolicy": frozenset({"Always", "Never", "OnFailure", "OnInfrastructureFailure"}),
            "maxRestartAttempts": int,
            "restartBackoffMillis": int,
            "restartCounterResetMillis": int,
        },
        "instanceConfig": {"initExecutors": int, "minExecutors": int, "maxExecutors": int},
    },
}


def unlike(given: Any, known: Any, path: str = "") -> Iterator[str]:
    """Where something differs from what a schema has made of it, or lacks in it."""
    if isinstance(given, dict) and isinstance(known, dict):
        for key, value in given.items():
            if key in known:
                yield from unlike(value, known[key], f"{path}/{key}")
            else:
                yield f"{path}/{key} is unknown"
    elif isinstance(given, list) and isinstance(known, list) and len(given) == len(known):
        for number, (each, other) in enumerate(zip(given, known, strict=True)):
            yield from unlike(each, other, f"{path}/{number}")
    elif isinstance(known, frozenset):
        if given not in known:
            yield f"{path}: {given!r} is none of {sorted(known)}"
    elif isinstance(known, type):
        if not isinstance(given, known):
            yield f"{path}: {given!r} is no {known.__name__}"
    elif given != known:
        yield f"{path}: {given!r} became {known!r}"


def check_schema(name: str, given: dict[str, Any]) -> None:
    """Unknown fields are dropped by the package's models, so they are missed in what comes back."""
    models = pytest.importorskip(
        "kubeflow_spark_api.models",
        reason="the schemas of Kubernetes are not here: pip install kubeflow-spark-api",
    )
    assert list(unlike(given, getattr(models, name).from_dict(given).to_dict())) == []


def test_kubeflows_application() -> None:
    check_schema("SparkV1beta2SparkApplication", KUBEFLOW)


@pytest.mark.parametrize("which", PODS)
def test_pods(which: str) -> None:
    check_schema("IoK8sApiCoreV1PodTemplateSpec", PODS[which])


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        ("ServiceAccount", "IoK8sApiCoreV1ServiceAccount"),
        ("ConfigMap", "IoK8sApiCoreV1ConfigMap"),
        ("PersistentVolumeClaim", "IoK8sApiCoreV1PersistentVolumeClaim"),
        ("NetworkPolicy", "IoK8sApiNetworkingV1NetworkPolicy"),
    ],
)
def test_what_is_around_a_job(kind: str, model: str) -> None:
    check_schema(model, AROUND[kind])


def test_apaches_application_has_fields_that_its_operator_knows() -> None:
    assert APACHE["apiVersion"] == "spark.apache.org/v1"
    assert list(unlike(APACHE["spec"], OF_APACHE)) == []
    assert APACHE["spec"]["runtimeVersions"]["sparkVersion"], "it must be there"
    assert all(isinstance(value, str) for value in APACHE["spec"]["driverArgs"])


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """The job's, as ``penstock run`` reads them: an unknown one is an error."""
    file = tmp_path / "penstock.yaml"
    file.write_text(AROUND["ConfigMap"]["data"]["penstock.yaml"])
    return dict(read_settings(file).settings)


@pytest.mark.parametrize("application", [APACHE, KUBEFLOW], ids=["apache", "kubeflow"])
def test_the_network_policy_lets_through_what_the_settings_open(
    application: dict[str, Any], settings: dict[str, str]
) -> None:
    spark = application["spec"]["sparkConf"]
    opened = {int(spark[key]) for key in spark if re.fullmatch(r"spark\..*(?<!ui\.)[pP]ort", key)}
    for key in ("jobmanager.rpc.bind-port", "taskmanager.data.port"):
        opened |= set(ports_in(settings[key]))
    rule = AROUND["NetworkPolicy"]["spec"]["ingress"][0]
    let_through = {
        port for each in rule["ports"] for port in range(each["port"], each.get("endPort", each["port"]) + 1)
    }
    assert let_through == opened and len(opened) == 7 and 0 not in opened
    peers = AROUND["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"]
    assert rule["from"] == [{"podSelector": {"matchLabels": peers}}]
    assert all(pod["metadata"]["labels"] == peers for pod in PODS.values())


def test_the_image_has_what_the_manifests_start_and_its_user_has_no_rights() -> None:
    image = (ROOT / "deploy" / "container" / "Dockerfile").read_text()
    user = re.findall(r"^USER (\d+):(\d+)$", image, re.M)
    assert user == [("1000", "1000")] and "--uid 1000" in image
    copied = re.search(r"^COPY (.*) /opt/penstock/$", image, re.M)
    assert copied is not None and all((ROOT / path).is_file() for path in copied[1].split())
    there = {f"/opt/penstock/{Path(path).name}" for path in copied[1].split()}
    mains = {APACHE["spec"]["pyFiles"], KUBEFLOW["spec"]["mainApplicationFile"]}
    assert mains == {"local:///opt/penstock/main.py"} and "/opt/penstock/main.py" in there
    assert APACHE["spec"]["driverArgs"] == KUBEFLOW["spec"]["arguments"]
    for name, pod in PODS.items():
        container = pod["spec"]["containers"][0]
        assert [pod["spec"]["securityContext"][key] for key in ("runAsUser", "fsGroup")] == [1000, 1000]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        probes = [container[key]["exec"]["command"] for key in container if key.endswith("Probe")]
        assert probes == [["python", "/opt/penstock/alive.py"]] * (2 if name.endswith("driver") else 0)
    assert "/opt/penstock/alive.py" in there


@pytest.mark.parametrize("application", [APACHE, KUBEFLOW], ids=["apache", "kubeflow"])
def test_copies_of_checkpoints_are_on_the_executors_own_volume(
    application: dict[str, Any], settings: dict[str, str]
) -> None:
    spark = application["spec"]["sparkConf"]
    volume = "spark.kubernetes.executor.volumes.persistentVolumeClaim.spark-local-dir-1"
    assert spark[f"{volume}.mount.path"] == settings["execution.checkpointing.local-backup.dirs"]
    assert {"claimName", "storageClass", "sizeLimit"} == {
        key.rpartition(".")[2] for key in spark if key.startswith(f"{volume}.options.")
    }
    assert all(isinstance(value, str) for value in spark.values())


def test_what_is_mounted_is_there(settings: dict[str, str]) -> None:
    claims = {AROUND["PersistentVolumeClaim"]["metadata"]["name"]}
    for pod in PODS.values():
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        mounts = {mount["name"]: mount["mountPath"] for mount in pod["spec"]["containers"][0]["volumeMounts"]}
        assert set(mounts) == set(volumes)
        assert {volumes["checkpoints"]["persistentVolumeClaim"]["claimName"]} == claims
        assert settings["execution.checkpointing.dir"] == mounts["checkpoints"]
        if "settings" in volumes:
            assert volumes["settings"]["configMap"]["name"] == AROUND["ConfigMap"]["metadata"]["name"]
            assert f"{mounts['settings']}/penstock.yaml" in APACHE["spec"]["driverArgs"]
