"""Who gives out a node's GPUs when its label changes while somebody holds one."""

import itertools
import json
from pathlib import Path

import pytest

from cluster import claim_names, names
from cluster.kube.resources import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from cluster.objects.pods import Pod
from deviceplugin.beside.choice import Change, at_start
from deviceplugin.beside.holdings import Holdings
from deviceplugin.beside.owner import Held, Way, Whose, way
from deviceplugin.dra.allocated import AllocatedClaims
from deviceplugin.dra.orphans import orphans
from deviceplugin.dra.prepared import PreparedClaim
from deviceplugin.kubelet.checkpoint import NAME, CheckpointFile
from deviceplugin.node.given_by import GivenBy
from tests.deviceplugin.dra.test_prepare import NODE, TEAM, Lab, allocation

WORDS: tuple[Whose, ...] = ("ours", "existing", "dra")
CLAIMS, SLOTS, REPLICAS = Held(claims=("team/a",)), Held(slots=1), Held(replicas=1)


@pytest.mark.parametrize(
    ("wanted", "was", "held", "whose"),
    [
        ("existing", "dra", CLAIMS, "dra"),
        ("existing", "ours", CLAIMS, "ours"),  # of a change before
        ("existing", None, CLAIMS, "dra"),
        ("existing", "dra", Held(claims=None), "dra"),
        ("existing", "existing", CLAIMS, "dra"),
        ("existing", "ours", SLOTS, "ours"),
        ("existing", "ours", Held(slots=None), "ours"),
        ("existing", "existing", SLOTS, None),  # its own replicas have such ids
        ("existing", "dra", Held(is_offered=True), "dra"),
        ("ours", "existing", REPLICAS, "existing"),
        ("ours", "existing", Held(replicas=None), "existing"),
        ("ours", None, REPLICAS, "existing"),
        ("ours", "dra", Held(is_offered=True), "dra"),
        ("ours", "dra", CLAIMS, None),  # single devices are held back
        ("dra", "ours", SLOTS, None),
        ("dra", "existing", REPLICAS, None),
    ],
)
def test_l1_a_node_waits_where_who_is_next_would_not_know_what_is_held(
    wanted: Whose, was: Whose | None, held: Held, whose: Whose | None
) -> None:
    found = way(wanted, was, lambda: held)
    assert (found.whose, found.waits is not None) == (whose or wanted, whose is not None)
    assert way(wanted, found.whose, lambda: held) == found, "an agent that starts again decides the same"


@pytest.mark.parametrize(("wanted", "was"), [*itertools.product(WORDS, (*WORDS, None))])
def test_a_node_of_which_nobody_holds_anything_is_as_its_label_says(wanted: Whose, was: Whose | None) -> None:
    assert way(wanted, was, Held) == Way(wanted)


class Bench:
    """A node that gives its GPUs by claims, and an agent of it that looks when told."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lab = folder, Lab(folder)
        self.kube, self.ends = self.lab.kube, list[str]()
        self.lab.knows()
        self.kube.put(NODES, {"metadata": {"name": NODE, "labels": {names.DEVICE_PLUGIN: "dra"}}})
        allocated = AllocatedClaims(self.kube, self.pods, node=NODE, driver=names.DRA_DRIVER)
        self.holdings = Holdings(
            record=self.lab.file,
            checkpoint=CheckpointFile(folder, names.GPU_RESOURCE),
            pods=self.pods,
            allocated=allocated,
            lost=lambda: orphans(self.lab.file, folder, self.kube, driver=names.DRA_DRIVER, node=NODE),
        )
        self.start()

    def pods(self) -> tuple[Pod, ...]:
        return self.kube.list(PODS).items

    def start(self) -> None:
        self.way = at_start(self.kube, NODE, "ours", self.holdings.held)
        GivenBy(self.kube, self.way.whose, self.lab.clock).write(self.kube.get(NODES, NODE))
        self.change = Change(self.way, "ours", self.holdings.held, end=self.ends.append, clock=self.lab.clock)

    def label(self, whose: str) -> None:
        self.kube.patch(NODES, NODE, {"metadata": {"labels": {names.DEVICE_PLUGIN: whose}}})

    def look(self) -> tuple[str, bool]:
        """Who gives out the GPUs after a look and perhaps a new start, and whether that waits."""
        self.change.see(self.kube.get(NODES, NODE))
        self.change.once()
        if self.ends:
            self.ends.clear()
            self.start()
            self.change.see(self.kube.get(NODES, NODE))
            self.change.once()
            assert not self.ends, "it would begin again for ever"
        label = (self.kube.get(NODES, NODE).metadata.labels or {})[names.GIVEN_BY]
        assert label == self.way.whose
        return label, self.change.waits is not None

    def pod(self, name: str, claim: str, *, is_extended: bool = False) -> None:
        """A pod of the node with a claim; ``is_extended``: made for its extended resources."""
        named = {"resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]}
        status = {"extendedResourceClaimStatus": {"resourceClaimName": claim}}
        meta = {"name": name, "namespace": TEAM}
        spec = {"nodeName": NODE, **({} if is_extended else named)}
        self.kube.put(PODS, {"metadata": meta, "spec": spec, "status": status if is_extended else {}})

    def offer(self, *devices: str) -> None:
        body = {"driver": names.DRA_DRIVER, "nodeName": NODE, "devices": [{"name": one} for one in devices]}
        name = f"{claim_names.SLICE_PREFIX}{NODE}-0"
        self.kube.put(RESOURCE_SLICES, {"metadata": {"name": name}, "spec": body})

    def pod_has(self, resource: str, *devices: str) -> None:
        entry = {"PodUID": "a", "ContainerName": "main", "ResourceName": resource}
        entries = [{**entry, "DeviceIDs": {"-1": devices}}] if devices else []
        text = json.dumps({"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}, "Checksum": 0})
        (self.folder / NAME).write_text(text)


@pytest.mark.parametrize("is_extended", [False, True])
def test_l1_another_plugin_does_not_begin_before_the_last_claim_is_over(
    tmp_path: Path, *, is_extended: bool
) -> None:
    bench = Bench(tmp_path)
    lab = bench.lab
    assert bench.look() == ("dra", False)
    bench.offer("gpu-0", "gpu-1", "gpu-2")
    running = lab.claim("running", allocation("gpu-0"))
    assert isinstance(lab.driver.prepare(running), PreparedClaim)
    lab.claim("starting", allocation("gpu-1"))
    bench.pod("starts", "starting", is_extended=is_extended)
    lab.claim("of-another-node", allocation("gpu-1", driver="nic.example.org"))
    bench.pod("elsewhere", "of-another-node")

    bench.label("existing")
    assert bench.look() == ("dra", True)
    assert "team/running, team/starting)" in (bench.change.waits or "")
    bench.start()
    assert bench.look() == ("dra", True), "after a restart, too"
    assert lab.driver.unprepare(running.uid) is None
    assert bench.look() == ("dra", True)
    bench.kube.delete(PODS, "starts", namespace=TEAM, grace_seconds=0)
    assert bench.look() == ("dra", True), "kube-scheduler is still offered devices"
    bench.offer()
    assert bench.look() == ("existing", False)


def test_a_claim_whose_end_was_lost_keeps_no_node_waiting_and_one_that_the_kubelet_knows_does(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path)
    claim = bench.lab.claim("lost", allocation("gpu-0"))
    bench.lab.driver.prepare(claim)
    bench.kube.delete(RESOURCE_CLAIMS, "lost", namespace=TEAM)
    bench.lab.knows(claim)
    bench.label("existing")
    assert bench.look() == ("dra", True)
    bench.lab.knows()
    assert bench.look() == ("existing", False)


def test_l1_our_own_plugin_begins_at_once_where_nothing_more_is_offered_to_claims(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.lab.driver.prepare(bench.lab.claim("running", allocation("gpu-0")))
    assert bench.look() == ("dra", False)
    bench.offer("gpu-0", "gpu-1")
    bench.label("ours")
    assert bench.look() == ("ours", False)
    assert bench.kube.list(RESOURCE_SLICES).items == ()


def test_devices_count_as_offered_while_the_api_server_does_not_say(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    allocated = AllocatedClaims(bench.kube, bench.pods, node=NODE, driver=names.DRA_DRIVER)
    bench.kube.down = True
    allocated.withdraw()
    assert allocated.is_offered()
    bench.kube.down = False
    bench.kube.forbid("LIST", RESOURCE_SLICES)
    assert not allocated.is_offered(), "nobody without that right has published any"


def test_a_change_of_mind_opens_the_node_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.lab.driver.prepare(bench.lab.claim("running", allocation("gpu-0")))
    bench.label("existing")
    assert bench.look() == ("dra", True)
    bench.label("dra")
    assert bench.look() == ("dra", False)


def test_l1_slots_of_ours_and_replicas_of_another_plugin_are_waited_for(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.label("ours")
    assert bench.look() == ("ours", False)
    bench.kube.put(PODS, {"metadata": {"name": "a", "namespace": TEAM, "uid": "a"}})
    bench.pod_has(names.SHARED_RESOURCE, "GPU-0::1")
    bench.label("existing")
    assert bench.look() == ("ours", True)
    bench.pod_has(names.GPU_RESOURCE, "GPU-0")
    assert bench.look() == ("existing", False), "a whole GPU has the same id in both"
    bench.pod_has(names.GPU_RESOURCE, "GPU-0::1")
    bench.label("ours")
    assert bench.look() == ("existing", True)
    bench.kube.delete(PODS, "a", namespace=TEAM)
    assert bench.look() == ("ours", False), "pods that have ended stay in the kubelet's record for a while"
