"""The example for Kubernetes fits Kubernetes' schemas, and gives ranks what Nezha reads."""

from pathlib import Path

import pytest
import yaml

from nezha.launch_environment import detect

kubernetes_validate = pytest.importorskip("kubernetes_validate")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "kubernetes" / "job.yaml"
VERSIONS = ("1.29", "1.35")


@pytest.fixture(name="documents")
def documents_of_the_example():
    return list(yaml.safe_load_all(EXAMPLE.read_text("utf-8")))


@pytest.mark.parametrize("version", VERSIONS)
def test_it_fits_the_schemas(documents, version):
    assert [each["kind"] for each in documents] == ["Service", "Job"]
    for each in documents:
        kubernetes_validate.validate(each, version, strict=True)


def test_a_wrong_field_would_be_found(documents):
    documents[1]["spec"]["complettions"] = 2
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(documents[1], VERSIONS[0], strict=True)


def test_ranks_find_each_other(documents):
    service, job = documents
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    env = {each["name"]: each.get("value", "") for each in container["env"]}
    assert int(env["WORLD_SIZE"]) == job["spec"]["completions"] == job["spec"]["parallelism"]
    found = detect({**env, "RANK": "1"})
    name = f"{job['metadata']['name']}-0.{service['metadata']['name']}"  # as Kubernetes names the pod
    assert (found.rank, found.world_size, found.store) == (1, 2, f"tcp://{name}:29500")
    assert pod["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert "NEZHA_SECRET" in env
    assert (EXAMPLE.parents[1] / Path(container["command"][1]).name).exists()


def test_it_asks_for_no_privilege(documents):
    pod = documents[1]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] and "hostNetwork" not in pod
    allowed = container["securityContext"]
    assert allowed["allowPrivilegeEscalation"] is False and allowed["readOnlyRootFilesystem"] is True
    assert allowed["capabilities"] == {"drop": ["ALL"]}
