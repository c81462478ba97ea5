"""kind/up.sh is run; docker, kind, kubectl and helm are programs that write down how they were called."""

import re
import subprocess
from itertools import pairwise
from typing import Any

import pytest
import yaml

from cluster import names
from cluster.version import VERSION
from devcluster.images.product import TARGETS, tag
from devcluster.product.people import NAMESPACE, USERS
from tests.architecture.checkout import ROOT
from tests.kind.conftest import PROGRAMS, Laptop, up

FILES = ROOT / "kind"
CLUSTER = names.PRODUCT
SIMULATED = f"localhost/{names.PRODUCT}/simulated-gpus:1"
FILE_OPTIONS = {"--filename", "--values", "--config"}


def documents(name: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all((FILES / name).read_text()) if document]


def options(words: list[str], option: str) -> list[str]:
    return [value for one, value in pairwise(words) if one == option] + [
        word.partition("=")[2] for word in words if word.startswith(f"{option}=")
    ]


@pytest.fixture
def done(laptop: Laptop) -> subprocess.CompletedProcess[str]:
    laptop.install(*PROGRAMS)
    ended = up(laptop)
    assert ended.returncode == 0, ended.stderr
    return ended


def test_the_shell_of_a_laptop_accepts_the_script() -> None:
    subprocess.run(["/bin/bash", "-n", FILES / "up.sh"], check=True)
    # macOS has bash 3.2.
    newer = re.findall(
        r"\b(?:mapfile|readarray|declare -A|local -n)\b|\$\{\w+(?:,,|\^\^|@)", (FILES / "up.sh").read_text()
    )
    assert not newer


@pytest.mark.usefixtures("done")
def test_it_builds_loads_installs_and_waits_in_this_order(laptop: Laptop) -> None:
    doing = [" ".join(words) for words in laptop.calls()]
    order = (
        "docker buildx build",
        "kind create cluster",
        "kind load docker-image",
        "kubectl --context kind-gpu-booking apply",
        "kubectl --context kind-gpu-booking rollout status daemonset/simulated-gpus",
        "helm upgrade --install",
        f"kubectl --context kind-gpu-booking rollout status daemonset/{names.NODE_AGENT}",
    )
    places = [next(n for n, line in enumerate(doing) if line.startswith(beginning)) for beginning in order]
    assert places == sorted(places)


@pytest.mark.usefixtures("done")
def test_the_built_images_are_those_that_are_loaded_and_that_pods_ask_for(laptop: Laptop) -> None:
    built = [options(words, "--tag") for words in laptop.calls("docker", "buildx")]
    (loaded,) = laptop.calls("kind", "load")
    every = {SIMULATED, *(tag(target, VERSION) for target in TARGETS)}
    assert sorted(name for names_ in built for name in names_) == sorted(every)
    assert {word for word in loaded if word.startswith("localhost/")} == every
    daemons = next(d for d in documents("simulated-gpus.yaml") if d["kind"] == "DaemonSet")
    spec = daemons["spec"]["template"]["spec"]
    images = {c["image"] for c in (*spec["initContainers"], *spec["containers"])}
    assert images == {SIMULATED}
    assert {c["imagePullPolicy"] for c in (*spec["initContainers"], *spec["containers"])} == {"Never"}


@pytest.mark.usefixtures("done")
def test_every_file_named_in_the_script_exists(laptop: Laptop) -> None:
    files = {
        value for words in laptop.calls() for o in (*FILE_OPTIONS, "--file") for value in options(words, o)
    }
    assert files == {
        "Dockerfile",
        "kind/Dockerfile",
        "kind/cluster.yaml",
        "kind/people.yaml",
        "kind/simulated-gpus.yaml",
        "kind/values.yaml",
    }
    assert all((ROOT / name).is_file() for name in files)


@pytest.mark.usefixtures("done")
def test_a_part_whose_image_has_changed_is_replaced(laptop: Laptop) -> None:
    (words,) = laptop.calls("helm")
    given = dict(one.split("=", 1) for one in options(words, "--set-string"))
    assert given.keys() == {
        f"{part}.podAnnotations.image" for part in ("nodeAgent", "extender", "controller", "server")
    }
    assert given["server.podAnnotations.image"] == given["controller.podAnnotations.image"]
    assert len(set(given.values())) == len(TARGETS)
    assert all(value.startswith("sha256:") for value in given.values())


@pytest.mark.usefixtures("done")
def test_it_waits_for_every_workload_of_the_chart(laptop: Laptop) -> None:
    waited = {words[words.index("status") + 1] for words in laptop.calls("kubectl") if "status" in words}
    assert waited == {
        "daemonset/simulated-gpus",
        f"daemonset/{names.NODE_AGENT}",
        *(f"deployment/{name}" for name in (names.SCHEDULER_ACCOUNT, names.CONTROLLER, names.BOOKING_SERVER)),
    }


@pytest.mark.usefixtures("done")
def test_the_script_talks_to_its_own_cluster_alone(laptop: Laptop) -> None:
    assert {tuple(options(words, "--context")) for words in laptop.calls("kubectl")} == {(f"kind-{CLUSTER}",)}
    assert options(laptop.calls("helm")[0], "--kube-context") == [f"kind-{CLUSTER}"]
    assert documents("cluster.yaml")[0]["name"] == CLUSTER


def test_the_script_reports_where_the_page_is_and_how_to_sign_in(
    done: subprocess.CompletedProcess[str],
) -> None:
    (values,) = documents("values.yaml")
    assert f"Page and REST API: {values['server']['url']}" in done.stdout
    accounts = {d["metadata"]["name"] for d in documents("people.yaml") if d["kind"] == "ServiceAccount"}
    assert accounts == set(USERS)
    message = f"create token alice --namespace {NAMESPACE} --audience {names.AUDIENCE}"
    assert message in done.stdout
    (rule,) = values["identityRules"]
    for user in accounts:
        matched = re.fullmatch(rule["match"], f"system:serviceaccount:{NAMESPACE}:{user}")
        assert matched
        assert matched.expand(rule["user"]) == user


def test_an_existing_cluster_is_reused(laptop: Laptop) -> None:
    laptop.install(*PROGRAMS)
    assert up(laptop, clusters=f"other\n{CLUSTER}").returncode == 0
    assert not laptop.calls("kind", "create")
    assert laptop.calls("helm", "upgrade")


def test_a_cluster_with_a_longer_name_is_not_taken_for_ours(laptop: Laptop) -> None:
    laptop.install(*PROGRAMS)
    assert up(laptop, clusters=f"{CLUSTER}-old").returncode == 0
    assert laptop.calls("kind", "create")


@pytest.mark.parametrize("missing", PROGRAMS)
def test_a_missing_program_is_named_before_anything_is_done(laptop: Laptop, missing: str) -> None:
    laptop.install(*(name for name in PROGRAMS if name != missing))
    ended = up(laptop)
    assert ended.returncode != 0
    assert f"needs {missing}," in ended.stderr
    assert laptop.calls() == []


def test_a_docker_daemon_that_is_not_running_is_reported_and_nothing_is_done(laptop: Laptop) -> None:
    laptop.install(*PROGRAMS)
    ended = up(laptop, refused="docker info")
    assert ended.returncode != 0
    assert "its daemon does not answer" in ended.stderr
    assert [words[:2] for words in laptop.calls()] == [["docker", "info"]]


@pytest.mark.parametrize("step", ["docker buildx", "kind create", "kind load", "kubectl", "helm"])
def test_a_failing_step_ends_the_script_there(laptop: Laptop, step: str) -> None:
    laptop.install(*PROGRAMS)
    ended = up(laptop, refused=step)
    assert ended.returncode != 0
    assert " ".join(laptop.calls()[-1]).startswith(step)
    assert "Page and REST API" not in ended.stdout
