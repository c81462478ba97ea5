"""The claims of this node: prepares and unprepares them, one at a time.

Only the kubelet's word frees a device (Unprepare, or its own record of claims): the API server may have
forgotten a claim whose container still runs.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from cluster.kube.errors import ApiError
from cluster.kube.interface import Kube
from cluster.objects.claims import ResourceClaim
from cluster.process.clock import Clock
from deviceplugin.device_cache import DeviceCache
from deviceplugin.dra.claim_files import ClaimFiles
from deviceplugin.dra.orphans import claim_of, known_to_kubelet, orphans
from deviceplugin.dra.prepare import Busy, ClaimReference, Offer, Refusal, prepare
from deviceplugin.dra.prepared import PreparedClaim, PreparedError, PreparedFile

log = structlog.get_logger(__name__)

PATIENCE: Final = 5.0
"""Seconds for which a claim waits for the end of another one: a refused pod would wait for 6 s and more."""
POLL: Final = 0.05
"""Seconds between two looks."""


@dataclass(frozen=True, kw_only=True)
class Pool:
    """The node's devices for claims."""

    driver: str
    node: str
    """Name of the node, and of its pool."""
    devices: Callable[[], dict[str, str]]
    """Name -> UUID, of the devices that are offered now."""
    taken: Callable[[], frozenset[str]] = frozenset
    """UUIDs of devices that living pods have by the device plugin."""
    shares: Callable[[], Mapping[str, int]] = dict
    """UUID -> MiB for the shares of all claims, of devices that can be shared."""
    closed: Callable[[], str | None] = lambda: None
    """Why nothing is prepared anew, for people: somebody else gives out the node's GPUs."""


class ClaimDriver:
    """Answers Prepare and Unprepare. Safe from any thread."""

    def __init__(
        self,
        pool: Pool,
        kube: Kube,
        device_cache: DeviceCache,
        *,
        file: PreparedFile,
        files: ClaimFiles,
        kubelet_state: Path,
        clock: Clock,
    ) -> None:
        self._pool = pool
        self._kube = kube
        self._device_cache = device_cache
        self._file = file
        self._files = files
        self._kubelet_state = kubelet_state
        self._clock = clock
        self._lock = threading.Lock()
        self._asked: dict[str, set[object]] = {}
        """Uid -> the calls that prepare it and go on."""

    def start(self) -> None:
        """Remove files of claims that are not prepared any more.

        Raises:
            PreparedError: the record of claims cannot be read.
        """
        with self._lock, self._file.alone():
            self._files.keep_only(self._file.read_all().keys())

    def refresh(self) -> None:
        """Write the claims' files anew that would be others now: containers start again without any call.

        The driver's files have another version, or a device node has come since.
        """
        nodes = self._device_cache.now.nodes
        try:
            with self._lock, self._file.alone():
                for claim in self._file.read().values():
                    if claim.devices and all(one.uuid in nodes.of_device for one in claim.devices):
                        self._files.write(claim, nodes)
        except (PreparedError, OSError) as error:
            log.warning("the files of claims cannot be written", message=str(error))

    def held(self) -> frozenset[str]:
        """UUIDs of the devices that claims have.

        Raises:
            PreparedError: the record of claims cannot be read.
        """
        claims = self._file.read().values()
        return frozenset(one.uuid for claim in claims for one in claim.devices if not one.is_admin)

    def prepare_all(self, wanted: Sequence[ClaimReference]) -> dict[str, PreparedClaim | Refusal]:
        """Uid -> answer of ``prepare``. All together wait as long as one: the kubelet gives up after 45 s."""
        give_up = self._clock.monotonic() + PATIENCE
        call = object()
        with self._lock:
            for one in wanted:
                self._asked.setdefault(one.uid, set()).add(call)
        try:
            return {one.uid: self._until(one, give_up, call) for one in wanted}
        finally:
            with self._lock:
                for one in wanted:
                    self._end(one.uid, {call})

    def prepare(self, wanted: ClaimReference) -> PreparedClaim | Refusal:
        """Prepare a claim; a claim that is prepared already has the same answer again."""
        return self.prepare_all([wanted])[wanted.uid]

    def _until(self, wanted: ClaimReference, give_up: float, call: object) -> PreparedClaim | Refusal:
        never = threading.Event()
        try:
            is_prepared = wanted.uid in self._file.read()
            claim = None if is_prepared else claim_of(self._kube, wanted.namespace, wanted.name)
        except (ApiError, PreparedError) as error:
            return Refusal(f"The claim {wanted.key} cannot be read: {error}")
        while True:
            answer = self._try(wanted, claim, call)
            if not isinstance(answer, Busy):
                return answer
            if self._clock.monotonic() >= give_up:
                return Refusal(answer.message)
            if not self._forget_orphans():
                self._clock.wait(never, POLL)

    def unprepare(self, uid: str) -> str | None:
        """Free the devices of a claim; returns why that is not possible, None once it is done.

        A call that still prepares it comes to nothing: the kubelet hangs up when a pod is deleted, and calls
        nobody for the claim again.
        """
        try:
            with self._lock, self._file.alone():
                self._end(uid, self._asked.get(uid, set()))
                self._forget(uid)
        except (PreparedError, OSError) as error:
            return f"The devices of the claim {uid} cannot be freed: {error}"
        return None

    def _end(self, uid: str, calls: Iterable[object]) -> None:
        if left := self._asked.pop(uid, set()).difference(calls):
            self._asked[uid] = left

    def _try(
        self, wanted: ClaimReference, claim: ResourceClaim | None, call: object
    ) -> PreparedClaim | Refusal | Busy:
        offer = self._offer()
        try:
            with self._lock, self._file.alone():
                if call not in self._asked.get(wanted.uid, ()):
                    return Refusal(f"The claim {wanted.key} has ended while it was being prepared.")
                return self._prepare(wanted, claim, offer)
        except (PreparedError, OSError) as error:
            return Refusal(f"The claim {wanted.key} cannot be prepared: {error}")

    def _prepare(
        self, wanted: ClaimReference, claim: ResourceClaim | None, offer: Offer
    ) -> PreparedClaim | Refusal | Busy:
        prepared = dict(self._file.read())
        answer = prepare(wanted, claim, prepared, offer)
        if not isinstance(answer, PreparedClaim):
            return answer
        if answer.uid not in prepared:
            self._file.write({**prepared, answer.uid: answer})
            log.info("a claim is prepared", claim=answer.key, devices=[one.device for one in answer.devices])
        if answer.devices and not self._files.has(answer):
            self._files.write(answer, self._device_cache.now.nodes)
        return answer

    def _offer(self) -> Offer:
        now = self._device_cache.now
        unhealthy = {
            device.uuid: device.reason or "It is unhealthy"
            for device in now.devices
            if not device.is_healthy and device.uuid not in now.closed
        }
        devices = {name: uuid for name, uuid in self._pool.devices().items() if uuid in now.nodes.of_device}
        return Offer(
            driver=self._pool.driver,
            pool=self._pool.node,
            devices=devices,
            unhealthy=unhealthy,
            taken=self._pool.taken(),
            shares=self._pool.shares(),
            is_known=now.reported,
            closed=self._pool.closed(),
        )

    def _forget_orphans(self) -> bool:
        """Free devices of claims whose Unprepare was lost: without them for the API server and the kubelet.

        Returns whether there were any. The lock is not held while the API server is asked: nobody's Unprepare
        waits for that. A claim that a user has made may have been allocated and prepared again meanwhile: the
        kubelet has written that down before it called.
        """
        try:
            lost = orphans(
                self._file, self._kubelet_state, self._kube, driver=self._pool.driver, node=self._pool.node
            )
        except (OSError, PreparedError):
            return False
        freed = [self._forget_orphan(claim) for claim in lost]
        return True in freed

    def _forget_orphan(self, claim: PreparedClaim) -> bool:
        """Free its devices, unless the kubelet has called for it again; returns whether they are free."""
        problem = None
        try:
            with self._lock, self._file.alone():
                if claim.uid in known_to_kubelet(self._kubelet_state):
                    return False
                self._forget(claim.uid)
        except (PreparedError, OSError) as error:
            problem = str(error)
        log.warning("a claim has ended without the kubelet's call", claim=claim.key, problem=problem)
        return problem is None

    def _forget(self, uid: str) -> None:
        prepared = dict(self._file.read())
        self._files.remove(uid)
        if claim := prepared.pop(uid, None):
            self._file.write(prepared)
            log.info("a claim is over", claim=claim.key, devices=[one.device for one in claim.devices])
