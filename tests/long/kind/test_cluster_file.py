"""kind itself, of its pinned version, reads our cluster file, and says to Docker what it wants.

Docker is not here: its replacement here fails at the first container.
"""

import re
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from devcluster.binaries import ensure_tool
from devcluster.binaries.pins import KIND, version
from tests.architecture.checkout import ROOT
from tests.kind.conftest import Laptop

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(600)]  # kind is built first, where it is not kept

FILE = ROOT / "kind" / "cluster.yaml"
SIMULATED = "/var/lib/simulated-gpus"


@pytest.fixture(scope="module")
def kind() -> Path:
    return ensure_tool(KIND) / "kind"


def wanted(laptop: Laptop, kind: Path) -> dict[str, list[str]]:
    """Name of each node -> the words of the `docker run` that was to make it."""
    laptop.install("docker")
    nodes = len(yaml.safe_load(FILE.read_text())["nodes"])
    done = laptop.run([kind, "create", "cluster", "--config", FILE], refused="docker run", together=nodes)
    assert done.returncode != 0
    runs = laptop.calls("docker", "run")
    assert runs, done.stderr
    return {words[words.index("--name") + 1]: words for words in runs}


def test_kind_wants_a_control_plane_and_two_nodes_of_our_name(laptop: Laptop, kind: Path) -> None:
    nodes = wanted(laptop, kind)
    assert nodes.keys() == {
        "gpu-booking-control-plane",
        "gpu-booking-worker",
        "gpu-booking-worker2",
    }


def test_the_page_is_published_for_this_machine_alone(laptop: Laptop, kind: Path) -> None:
    values = yaml.safe_load((ROOT / "kind" / "values.yaml").read_text())["server"]
    port = values["url"].rpartition(":")[2]
    published = [
        word
        for words in wanted(laptop, kind).values()
        for word in words
        if word.startswith("--publish=") and ":6443/" not in word
    ]
    assert published == [f"--publish=127.0.0.1:{port}:{values['service']['nodePort']}/TCP"]


def test_nodes_run_the_image_that_this_kind_was_released_with(laptop: Laptop, kind: Path) -> None:
    images = {words[-1] for words in wanted(laptop, kind).values()}
    assert len(images) == 1
    without = laptop.folder / "plain.yaml"
    without.write_text("kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nname: plain\n")
    laptop.run([kind, "create", "cluster", "--config", without], refused="docker run")
    assert laptop.calls("docker", "run")[-1][-1] in images
    text = FILE.read_text()
    assert f"kind {version(KIND).removeprefix('v').rpartition('.')[0]} " in text


def test_the_kubernetes_of_the_nodes_is_one_that_the_chart_accepts(laptop: Laptop, kind: Path) -> None:
    (image,) = {words[-1] for words in wanted(laptop, kind).values()}
    found = re.search(r":v1\.(\d+)\.", image)
    chart = yaml.safe_load((ROOT / "charts" / "gpu-booking" / "Chart.yaml").read_text())
    least = re.search(r">=1\.(\d+)\.", chart["kubeVersion"])
    assert found
    assert least
    assert int(found[1]) >= int(least[1])


def test_the_gpus_lie_where_a_node_keeps_its_files_and_may_have_devices(laptop: Laptop, kind: Path) -> None:
    """What kind mounts as tmpfs is empty after a restart of the laptop, and takes no device nodes."""
    for words in wanted(laptop, kind).values():
        pairs = list(pairwise(words))
        assert ("--volume", "/var") in pairs
        assert not [w for option, w in pairs if option == "--tmpfs" and SIMULATED.startswith(w)]
        assert "--privileged" in words
