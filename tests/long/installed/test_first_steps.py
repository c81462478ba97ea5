"""docs/getting-started.md is followed, command by command, where kind's files have simulated the GPUs.

So is docs/migration-from-nvidia.md, with a DaemonSet that bears the name of NVIDIA's and does nothing: what
becomes of devices and pods is tried by tests/long/test_moving_from_nvidia.py.

The nodes get those as `make kind` gives them: by kind/simulated-gpus.yaml and kind/values.yaml, with the
image of kind/Dockerfile. What Docker and kind do around it is not done here.
"""

import json
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
import urllib3
import yaml

from cluster import names
from cluster.process.clock import SystemClock
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from devcluster.fakenvml import gpus_of
from devcluster.product.installed import Installed
from devcluster.spec import ClusterSpec, NodeSpec
from devcluster.wait import poll
from tests.architecture.checkout import ROOT
from tests.clusters import own
from tests.e2e.playground import PATIENCE, SPAWNS
from tests.laws.live import LiveWatch, checkpoints_of
from tests.long.installed import kind_image, playing

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]  # images are built first, where they are not kept

DOCUMENT = "docs/getting-started.md"
MIGRATION = "docs/migration-from-nvidia.md"
EXAMPLE = "docs/examples/first-pod.yaml"
MY_VALUES = "my-values.yaml"
PLUGIN = "nvidia-device-plugin-daemonset"
NODES = ("worker", "worker2")
KIND = ROOT / "kind"


@dataclass(frozen=True)
class Played:
    """What the document's commands printed, and the cluster in which they were typed."""

    cluster: Cluster
    outputs: Mapping[str, str]
    values: str
    environment: Mapping[str, str]

    def of(self, *words: str) -> str:
        """What the one command with these words printed."""
        (found,) = (output for line, output in self.outputs.items() if all(word in line for word in words))
        return found


NUMBERS: Final = "kubectl get nodes --output custom-columns"
OFFERED: Final = r"'jsonpath={.status.allocatable.nvidia\.com/gpu}'"
REPORTED: Final = " && ".join(
    f"kubectl wait node/{name} --for {OFFERED} --timeout 60s > /dev/null" for name in NODES
)
"""A reader sees ``<none>`` for as long as a kubelet has not reported yet, and asks again."""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    folder = tmp_path_factory.mktemp("first-steps")
    spec = ClusterSpec(name=own("first-steps"), nodes=tuple(NodeSpec(name=name) for name in NODES))
    with (
        Cluster.start(spec) as cluster,
        LiveWatch(administrator(cluster), SystemClock(), checkpoints_of(cluster)) as laws,
    ):
        cluster.load_image(kind_image.image().tar)
        cluster.kubectl("apply", "--filename", str(KIND / "simulated-gpus.yaml"))
        where = ("daemonset/simulated-gpus", "--namespace=simulated-gpus")
        cluster.kubectl("rollout", "status", *where, "--timeout=300s")
        installed = Installed(cluster)
        installed.bring()
        port = free_port()
        mine, here = values(folder, installed, port), environment(folder, cluster)
        outputs = playing.typed(DOCUMENT, replacements(folder, port, mine), here)
        laws.check()
        yield Played(cluster, outputs, mine, here)
        laws.finish()


@pytest.fixture(scope="module")
def moved(played: Played) -> Played:
    """The other document, followed in the same cluster afterwards."""
    played.cluster.kubectl("apply", "--filename=-", given=json.dumps(plugin_of_nvidia()))
    replaced = {"DAEMONSET": PLUGIN, "NAMESPACE": "kube-system", "NODE": NODES[0], MY_VALUES: played.values}
    outputs = playing.typed(MIGRATION, replaced, played.environment)
    return replace(played, outputs=outputs)


def plugin_of_nvidia() -> dict[str, Any]:
    """What bears its name."""
    labels = {"app": PLUGIN}
    spec = {"containers": [probe.container("main")], "terminationGracePeriodSeconds": 0}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": PLUGIN, "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def replacements(folder: Path, port: int, mine: str) -> dict[str, str]:
    """What differs here from what is written there."""
    return {
        # Of the checkout's own environment nothing is rebuilt here.
        "make venv": ":",
        "8480:80 &": f"8480:80 &\n{listening(port)}",
        "8480": str(port),
        NUMBERS: f"{REPORTED}\n{NUMBERS}",
        MY_VALUES: mine,
        EXAMPLE: pod(folder),
        "b-...": "$(kubectl gpu bookings --output name | sed s,.*/,,)",
    }


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def listening(port: int) -> str:
    """A reader sees that the port is forwarded before going on."""
    return f"until (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.1; done"


def environment(folder: Path, cluster: Cluster) -> dict[str, str]:
    programs = {name: cluster.program(name) for name in ("kubectl", "helm")}
    ours = {name: Path(sys.executable).parent / name for name in ("kubectl-gpu",)}
    return {
        "PATH": playing.programs(folder / "bin", programs | ours),
        "KUBECONFIG": str(cluster.kubeconfig),
        "HOME": str(folder),
    }


def values(folder: Path, installed: Installed, port: int) -> str:
    """The document's own, then what differs here: no registry, simulated GPUs."""
    theirs = folder / "my-values.yaml"
    theirs.write_text(documented_values(port))
    kind = yaml.safe_load((KIND / "values.yaml").read_text())
    here = {
        "image": {"registry": "localhost", **kind["image"]},
        "scheduler": installed.values()["scheduler"],
        "nodeAgent": kind["nodeAgent"],
        "server": {"service": kind["server"]["service"]},
    }
    ours = folder / "here.yaml"
    ours.write_text(json.dumps(here))
    return f"{theirs} --values {ours}"


def documented_values(port: int) -> str:
    """What the document says to write."""
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / DOCUMENT).read_text(), re.MULTILINE | re.DOTALL)
    return str(block.replace("8480", str(port)))


def pod(folder: Path) -> str:
    """The example with an image that is here."""
    example: dict[str, Any] = yaml.safe_load((ROOT / EXAMPLE).read_text())
    (container,) = example["spec"]["containers"]
    del container["command"]
    container |= {"image": probe.IMAGE, "imagePullPolicy": "Never"}
    changed = folder / "first-pod.yaml"
    changed.write_text(json.dumps(example))
    return str(changed)


def test_every_node_has_the_gpus_that_kinds_files_give_it(played: Played) -> None:
    lines = played.of("GPUS:").splitlines()[1:]
    assert {tuple(line.split()) for line in lines} == {(name, str(len(gpus_of(name)))) for name in NODES}


def test_the_page_answers_on_the_port_that_kind_leads_to_the_laptop(played: Played) -> None:
    port = yaml.safe_load((KIND / "values.yaml").read_text())["server"]["service"]["nodePort"]
    words = ("get", "nodes", "--output=jsonpath={.items[0].status.addresses[0].address}")
    url = f"http://{played.cluster.kubectl(*words)}:{port}/login"
    assert urllib3.request("GET", url, timeout=60.0).status == 200


def test_helm_says_what_would_change_before_anything_does(played: Played) -> None:
    notes = played.of("helm upgrade", "--dry-run=server").partition("NOTES:")[2]
    assert "What changes for running pods" in notes
    assert "Nodes with GPUs:" in notes
    # The first that installs finds no release of an earlier one.
    installing = [
        line for line in played.outputs if line.startswith("helm upgrade") and "dry-run" not in line
    ]
    assert "REVISION: 1" in played.outputs[installing[0]]


def test_a_booking_is_tried_and_made_once_and_shown(played: Played) -> None:
    (shown,) = re.findall(r"\bb-\w+", played.of("kubectl gpu bookings"))
    assert shown in played.outputs["kubectl gpu book a100 --for 1d"]
    assert shown not in played.of("kubectl gpu book", "--dry-run")
    assert shown in played.of("kubectl get bookings")


def test_the_first_pod_is_covered_and_sees_the_one_gpu_that_was_chosen_for_it(played: Played) -> None:
    seen = json.loads(played.of("kubectl logs").splitlines()[0])
    chosen = json.loads(played.of("jsonpath"))
    devices = seen["env"][names.DEVICES_VARIABLE].split(",")
    assert len(devices) == 1
    assert devices[0] in json.dumps(chosen)
    assert len([d for d in seen["devices"] if re.fullmatch(r"/dev/nvidia\d+", d["path"])]) == 1
    (booked,) = re.findall(r"\bb-\w+", played.of("kubectl gpu bookings"))
    assert booked in played.of("kubectl gpu why")


def test_the_booking_is_given_back(played: Played) -> None:
    left = played.cluster.kubectl("get", "bookings", "--output=json")
    spans = [item["spec"]["end"] for item in json.loads(left)["items"]]
    assert len(spans) == 1
    assert "released" in played.of("kubectl gpu release").lower() or "ended" in played.of("release").lower()
    assert "deleted" in played.of("kubectl delete pod")


def test_one_label_says_which_plugin_a_node_has_and_in_the_end_every_node_has_ours(moved: Played) -> None:
    assert f"{NODES[0]}" in moved.of("custom-columns='NODE:")
    assert "condition met" in moved.of("kubectl wait pods") or "deleted" in moved.of("kubectl wait pods")
    assert PLUGIN not in moved.cluster.kubectl("get", "daemonsets", "--all-namespaces", "--output=name")
    words = ("rollout", "status", f"daemonset/{names.NODE_AGENT}", f"--namespace={names.NAMESPACE}")
    moved.cluster.kubectl(*words, "--timeout=180s")

    def gpus() -> bool:
        path = "--output=jsonpath={.items[*].status.allocatable.nvidia\\.com/gpu}"
        wanted = [str(len(gpus_of(name))) for name in NODES]
        return moved.cluster.kubectl("get", "nodes", path).split() == wanted

    assert poll(gpus, seconds=PATIENCE, every=SPAWNS)
