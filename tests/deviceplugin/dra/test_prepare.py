"""Claims are prepared and unprepared, with crashes, boots and lost calls: no device is for two (law L1)."""

import fcntl
import json
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cluster import claim_names, names
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.resources import RESOURCE_CLAIMS
from cluster.objects.inventory import Device
from deviceplugin.device_cache import AdvertisedDevices, DeviceCache
from deviceplugin.device_nodes import DeviceNode, DeviceNodes
from deviceplugin.dra.claim_files import ClaimFiles, More, Specification
from deviceplugin.dra.driver import PATIENCE as WAITS
from deviceplugin.dra.driver import ClaimDriver, Pool
from deviceplugin.dra.prepare import ClaimReference, Refusal
from deviceplugin.dra.prepared import Prepared, PreparedClaim, PreparedFile
from deviceplugin.kubelet import claim_users
from tests.patience import PATIENCE

Answer = TypeVar("Answer")
NODE, TEAM = "node-a", "team"
DEVICES = {f"gpu-{n}": f"GPU-{n}" for n in range(4)}
SHARED = 80 * 1024
"""MiB of each for shares."""


def allocation(
    *devices: str,
    driver: str = names.DRA_DRIVER,
    pool: str = NODE,
    request: str = "gpu",
    memory: int = 0,
    **more: object,
) -> dict[str, object]:
    """Args: memory: MiB of a share of each device; 0 for all of it."""
    consumed = {"consumedCapacity": {"memory": f"{memory}Mi"}} if memory else {}
    results = [
        {
            "request": request,
            "driver": driver,
            "pool": pool,
            "device": one,
            "shareID": f"s{n}" if memory else None,
        }
        | consumed
        for n, one in enumerate(devices)
    ]
    return {"allocation": {"devices": {"results": results, **more}}}


class DeathError(BaseException):
    """The process is killed: nobody handles that."""


class MortalFile(PreparedFile):
    """Its process may die before or after each write."""

    def __init__(self, path: Path, boot: str, step: Callable[[], None]) -> None:
        super().__init__(path, boot)
        self.step = step

    def write(self, claims: Prepared) -> None:
        self.step()
        super().write(claims)
        self.step()


class MortalFiles(ClaimFiles):
    """The same for the claims' specifications."""

    def __init__(self, folder: Path, specification: Specification, step: Callable[[], None]) -> None:
        super().__init__(folder, specification)
        self.step = step

    def write(self, claim: PreparedClaim, nodes: DeviceNodes) -> None:
        self.step()
        super().write(claim, nodes)
        self.step()

    def remove(self, uid: str) -> None:
        self.step()
        super().remove(uid)
        self.step()


class Lab:
    """A driver with some GPUs; what is on the disk outlives it."""

    def __init__(self, folder: Path, devices: dict[str, str] = DEVICES) -> None:
        self.devices = devices
        self.folder, self.clock, self.boot = folder, FakeClock(self_advancing=True), "boot-1"
        self.kube, self.device_cache = FakeKube(self.clock), DeviceCache()
        self.by_plugin: frozenset[str] = frozenset()
        self.steps_left: int | None = None
        self.break_gpu("")
        self.start()

    def step(self) -> None:
        """One write begins or ends; the process dies when none is left."""
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left < 0:
                raise DeathError

    def surviving(self, call: Callable[[], Answer], *, steps: int) -> Answer:
        """What a call answers whose process may die after so many steps; then the kubelet calls again."""
        self.steps_left = steps
        try:
            return call()
        except DeathError:
            self.steps_left = None
            self.start()
            return call()
        finally:
            self.steps_left = None

    def start(self, specification: Specification = lambda _, more: json.dumps(more).encode()) -> None:
        self.file = MortalFile(self.folder / "prepared.json", self.boot, self.step)
        files = MortalFiles(self.folder / "cdi", specification, self.step)
        self.driver = ClaimDriver(
            Pool(
                driver=names.DRA_DRIVER,
                node=NODE,
                devices=lambda: self.devices,
                taken=lambda: self.by_plugin,
                shares=lambda: dict.fromkeys(self.devices.values(), SHARED),
            ),
            self.kube,
            self.device_cache,
            file=self.file,
            files=files,
            kubelet_state=self.folder,
            clock=self.clock,
        )
        self.driver.start()

    def break_gpu(self, uuid: str) -> None:
        devices = tuple(
            Device(uuid=one, model="A100", health="unhealthy" if one == uuid else "healthy")
            for one in self.devices.values()
        )
        nodes = DeviceNodes(
            {one: (DeviceNode(f"/dev/{one}", f"/dev/{one}"),) for one in self.devices.values()}
        )
        self.device_cache.put(AdvertisedDevices(devices, nodes, reported=True))

    def claim(self, name: str, status: dict[str, object], **request: object) -> ClaimReference:
        requests = [{"name": "gpu", "exactly": request}] if request else None
        spec = {"devices": {"requests": requests}}
        made = self.kube.put(
            RESOURCE_CLAIMS, {"metadata": {"name": name, "namespace": TEAM}, "spec": spec, "status": status}
        )
        return ClaimReference(uid=made.metadata.uid, namespace=TEAM, name=name)

    def knows(self, *claims: ClaimReference) -> None:
        """What the kubelet's own record of claims has."""
        (self.folder / claim_users.NAME).write_text(" ".join(one.uid for one in claims))

    def file_of(self, claim: ClaimReference) -> str:
        name = f"{claim_names.CLAIM_CDI_PREFIX}{claim.uid}.json"
        return self.folder.joinpath("cdi", name).read_text()

    def files(self) -> set[str]:
        found = (self.folder / "cdi").glob("*.json")
        return {path.stem.removeprefix(claim_names.CLAIM_CDI_PREFIX) for path in found}


def refusal(lab: Lab, claim: ClaimReference) -> str:
    answer = lab.driver.prepare(claim)
    assert isinstance(answer, Refusal), answer
    return answer.message


def test_what_cannot_be_given_is_refused_with_the_reason(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.break_gpu("GPU-3")
    sharing = {"kind": "GpuConfig", "sharing": {"strategy": "MPS"}}
    config = [{"opaque": {"driver": names.DRA_DRIVER, "parameters": sharing}}]
    assert "gives no sharing by MPS" in refusal(lab, lab.claim("mps", allocation("gpu-0", config=config)))
    assert "no device gpu-9" in refusal(lab, lab.claim("foreign", allocation("gpu-9")))
    assert "no new pods" in refusal(lab, lab.claim("sick", allocation("gpu-3")))
    assert "not allocated" in refusal(lab, lab.claim("early", {}))
    assert "is gone" in refusal(lab, ClaimReference(uid="other", namespace=TEAM, name="mps"))
    assert lab.driver.held() == frozenset()
    assert not lab.files()


def test_containers_are_told_their_share_and_one_that_does_not_fit_waits(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    first = lab.claim("first", allocation("gpu-0", memory=50_000))
    second = lab.claim("second", allocation("gpu-0", memory=30_000))
    third = lab.claim("third", allocation("gpu-0", memory=2_000))
    whole = lab.claim("whole", allocation("gpu-0", memory=SHARED), capacity={})
    for claim, memory in ((first, 50_000), (second, 30_000)):
        answer = lab.driver.prepare(claim)
        assert isinstance(answer, PreparedClaim)
        (edits,) = json.loads(lab.file_of(claim)).values()
        assert edits["env"] == [f"{names.DEVICES_VARIABLE}=GPU-0", f"{names.GPU_MEMORY_VARIABLE}={memory}"]
    assert "1920 MiB left beside team/first and team/second" in refusal(lab, third)
    assert "in use by the claim team/first" in refusal(lab, whole)
    lab.driver.unprepare(first.uid)
    assert isinstance(lab.driver.prepare(third), PreparedClaim)
    lab.driver.unprepare(second.uid)
    lab.driver.unprepare(third.uid)
    answer = lab.driver.prepare(whole)
    assert isinstance(answer, PreparedClaim), "it names no amount, so it has the GPU alone and no limit"
    assert json.loads(lab.file_of(whole)) == {}
    assert "in use by the claim team/whole" in refusal(lab, first)


def test_claims_of_one_pod_wait_together_as_long_as_one(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.driver.prepare(lab.claim("first", allocation("gpu-0")))
    waiting = [lab.claim(f"late-{number}", allocation("gpu-0")) for number in range(9)]
    begun = lab.clock.monotonic()
    answers = lab.driver.prepare_all(waiting)
    assert all(isinstance(answers[one.uid], Refusal) for one in waiting)
    assert lab.clock.monotonic() - begun < 2 * WAITS


def test_a_claim_can_have_as_many_devices_as_kubernetes_gives_to_one(tmp_path: Path) -> None:
    many = {f"gpu-{n}": f"GPU-{n}" for n in range(33)}
    lab = Lab(tmp_path, many)
    most = lab.claim("most", allocation(*list(many)[:32]))
    others = [lab.claim(f"late-{n}", allocation(f"gpu-{n}")) for n in (0, 31, 32)]
    for steps in (1, 0):  # the process dies before its file is written, and the kubelet asks again
        answer = lab.surviving(lambda: lab.driver.prepare(most), steps=steps)
        assert isinstance(answer, PreparedClaim)
        assert [one.device for one in answer.devices] == list(many)[:32]
    assert lab.files() == {most.uid}
    assert [isinstance(lab.driver.prepare(one), Refusal) for one in others] == [True, True, False]
    assert lab.driver.unprepare(most.uid) is None
    assert all(isinstance(lab.driver.prepare(one), PreparedClaim) for one in others)


@pytest.mark.parametrize("is_away", [False, True], ids=["driver alive", "driver dead"])
def test_a_device_of_another_claim_is_given_once_that_one_is_over(tmp_path: Path, *, is_away: bool) -> None:
    lab = Lab(tmp_path)
    first, second = lab.claim("first", allocation("gpu-0")), lab.claim("second", allocation("gpu-0"))
    lab.driver.prepare(first)
    lab.knows(first)
    lab.kube.delete(RESOURCE_CLAIMS, "first", namespace=TEAM)
    if is_away:
        lab.start()
    # The API server has forgotten the first claim, and the kubelet has not: its container may still run.
    assert "in use by the claim team/first" in refusal(lab, second)
    lab.knows()
    assert isinstance(lab.driver.prepare(second), PreparedClaim)
    assert lab.files() == {second.uid}


def test_a_device_that_a_pod_has_by_the_device_plugin_is_given_when_the_pod_has_ended(tmp_path: Path) -> None:
    """The claim was allocated by slices of before the node changed to the device plugin, and back."""
    lab = Lab(tmp_path)
    lab.by_plugin = frozenset({"GPU-0"})
    claim = lab.claim("first", allocation("gpu-0"))
    assert "still in use by a pod" in refusal(lab, claim)
    lab.by_plugin = frozenset()
    assert isinstance(lab.driver.prepare(claim), PreparedClaim)


def test_a_claim_that_comes_before_the_devices_are_known_waits(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    known = lab.device_cache.now
    lab.device_cache.put(AdvertisedDevices())
    claim = lab.claim("first", allocation("gpu-0"))
    assert "has not answered yet" in refusal(lab, claim)
    lab.device_cache.put(known)
    assert isinstance(lab.driver.prepare(claim), PreparedClaim)
    # Its file is lost, and then the GPU: the kubelet gets a sentence, and may free the claim.
    lab.device_cache.put(AdvertisedDevices(reported=True))
    next((tmp_path / "cdi").glob("*.json")).unlink()
    assert "no device nodes" in refusal(lab, claim)
    assert lab.driver.unprepare(claim.uid) is None


def test_unprepare_waits_for_no_answer_of_the_api_server(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    first, second = lab.claim("first", allocation("gpu-0")), lab.claim("second", allocation("gpu-0"))
    lab.driver.prepare(first)
    lab.knows()

    def end() -> None:
        ending = threading.Thread(target=lab.driver.unprepare, args=(first.uid,), daemon=True)
        ending.start()
        ending.join(PATIENCE)
        assert not ending.is_alive(), "it waits for the lock"

    lab.kube.before("GET", lambda: lab.kube.before("GET", end))
    known = len(lab.kube.calls)
    assert isinstance(lab.driver.prepare(second), PreparedClaim)
    requested = [call.path.rpartition("/")[2] for call in lab.kube.calls[known:] if call.verb == "GET"]
    assert requested == ["second", "first"], "an allocation does not change while its pod starts"


def test_a_second_agent_waits_while_a_claim_is_prepared(tmp_path: Path) -> None:
    """The old agent's pod was deleted by force: for a moment both are the driver, with one record."""
    lab = Lab(tmp_path)
    tried: list[bool] = []

    def specification(_: DeviceNodes, more: More) -> bytes:
        del more
        with (tmp_path / ".prepared.json.lock").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                tried.append(True)
            except BlockingIOError:
                tried.append(False)
        return b"{}"

    lab.start(specification)
    lab.driver.prepare(lab.claim("first", allocation("gpu-0")))
    assert tried == [False]


def test_a_file_that_cannot_be_read_frees_no_device(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.driver.prepare(lab.claim("first", allocation("gpu-0")))
    (tmp_path / "prepared.json").write_text("{")
    assert "cannot be read" in refusal(lab, lab.claim("second", allocation("gpu-0")))


class Claims(RuleBasedStateMachine):
    """A naive model: claim -> devices, of which the kubelet has heard that they are prepared."""

    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        self.lab = Lab(Path(self.place.name))
        self.model: dict[ClaimReference, frozenset[str]] = {}
        self.memory: dict[ClaimReference, int] = {}
        self.deleted: set[ClaimReference] = set()
        """Those of them that the API server has forgotten, and the kubelet has not."""
        self.orphans: dict[ClaimReference, frozenset[str]] = {}
        """Those that both have forgotten."""
        self.number = 0

    def teardown(self) -> None:
        self.place.cleanup()

    @rule(
        devices=st.sets(st.sampled_from(sorted(DEVICES)), min_size=1, max_size=3),
        memory=st.sampled_from([0, SHARED // 4, SHARED // 2, SHARED]),
        steps=st.integers(0, 8),
    )
    def prepare(self, devices: set[str], memory: int, steps: int) -> None:
        self.number += 1
        claim = self.lab.claim(f"claim-{self.number}", allocation(*sorted(devices), memory=memory))
        self.lab.knows(*self.model, claim)
        if not all(self.fits(device, memory, {**self.model, **self.orphans}) for device in devices):
            self.orphans = {}  # somebody would wait for them
        answer = self.lab.surviving(lambda: self.lab.driver.prepare(claim), steps=steps)
        assert isinstance(answer, Refusal) == any(
            not self.fits(device, memory, self.model) for device in devices
        )
        if isinstance(answer, PreparedClaim):
            assert {one.device for one in answer.devices} == devices
            self.model[claim] = frozenset(devices)
            self.memory[claim] = memory

    def fits(self, device: str, memory: int, held: dict[ClaimReference, frozenset[str]]) -> bool:
        """All of a device is for one claim alone, and shares are never more than there is."""
        there = [self.memory[claim] for claim, devices in held.items() if device in devices]
        return not there or (memory > 0 and all(there) and sum(there) + memory <= SHARED)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), by_both=st.booleans())
    def forget(self, data: st.DataObject, *, by_both: bool) -> None:
        """A deletion by force: the API server forgets a claim; perhaps the kubelet, too: its call is lost."""
        claim = self.drawn(data)
        if claim not in self.deleted:
            self.lab.kube.delete(RESOURCE_CLAIMS, claim.name, namespace=TEAM)
            self.deleted.add(claim)
        if by_both:
            self.deleted.remove(claim)
            self.orphans[claim] = self.model.pop(claim)

    def drawn(self, data: st.DataObject) -> ClaimReference:
        found: ClaimReference = data.draw(st.sampled_from(sorted(self.model, key=lambda one: one.name)))
        return found

    @precondition(lambda self: self.model.keys() - self.deleted)
    @rule(data=st.data())
    def prepare_again(self, data: st.DataObject) -> None:
        there = sorted(self.model.keys() - self.deleted, key=lambda one: one.name)
        claim = data.draw(st.sampled_from(there))
        before = self.lab.driver.prepare(claim)
        assert isinstance(before, PreparedClaim)
        assert {one.device for one in before.devices} == self.model[claim]

    @precondition(lambda self: self.model)
    @rule(data=st.data(), steps=st.integers(0, 5))
    def unprepare(self, data: st.DataObject, steps: int) -> None:
        claim = self.drawn(data)
        assert self.lab.surviving(lambda: self.lab.driver.unprepare(claim.uid), steps=steps) is None
        assert self.lab.driver.unprepare(claim.uid) is None, "the kubelet may call it again"
        del self.model[claim]
        self.deleted.discard(claim)

    @rule()
    def restart(self) -> None:
        self.lab.start()

    @rule()
    def lose_a_file(self) -> None:
        """A crash between the record and the claim's file: it is written when the kubelet asks again."""
        there = {claim.uid for claim in self.model.keys() - self.deleted}
        for uid in sorted(self.lab.files() & there)[:1]:
            self.lab.folder.joinpath("cdi", f"{claim_names.CLAIM_CDI_PREFIX}{uid}.json").unlink()
            claim = next(one for one in self.model if one.uid == uid)
            self.lab.driver.prepare(claim)

    @rule()
    def boot(self) -> None:
        self.lab.boot += "+"
        self.lab.start()
        self.model, self.orphans, self.deleted = {}, {}, set()

    @invariant()
    def everything_is_as_the_model_has_it(self) -> None:
        there = {**self.model, **self.orphans}
        assert self.lab.driver.held() == {DEVICES[name] for those in there.values() for name in those}
        assert self.lab.files() == {claim.uid for claim in there}


TestClaims = Claims.TestCase
TestClaims.settings = settings(max_examples=20, stateful_step_count=20)
