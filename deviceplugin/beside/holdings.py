"""Reads what is held on this node, from the record of claims, the kubelet and the API server."""

from collections.abc import Callable

from cluster import names
from cluster.objects.pods import Pod, is_terminal
from cluster.objects.slots import is_slot, physical
from deviceplugin.beside.owner import Held, Whose
from deviceplugin.dra.allocated import AllocatedClaims
from deviceplugin.dra.prepared import PreparedClaim, PreparedError, PreparedFile
from deviceplugin.kubelet.checkpoint import CheckpointError, CheckpointReader


class Holdings:
    """Reads at each call."""

    def __init__(
        self,
        *,
        record: PreparedFile,
        checkpoint: CheckpointReader,
        pods: Callable[[], tuple[Pod, ...] | None],
        allocated: AllocatedClaims,
        lost: Callable[[], list[PreparedClaim]],
    ) -> None:
        """Where to read.

        Args:
            record: of claims that are prepared.
            checkpoint: the kubelet's.
            pods: those that the kubelet knows; None if they cannot be read now.
            allocated: asks the API server about claims.
            lost: prepared claims whose end was lost (``orphans``); raises OSError.
        """
        self._record = record
        self._checkpoint = checkpoint
        self._pods = pods
        self._allocated = allocated
        self._lost = lost

    def held(self, wanted: Whose, was: Whose | None) -> Held:
        """As far as it matters for a change from ``was`` to ``wanted``.

        Our plugin holds back what claims have, device by device: it waits for nothing but that no more is
        offered to claims, and that is withdrawn here.
        """
        if wanted == "ours":
            if was == "dra":
                self._allocated.withdraw()
            is_offered = was == "dra" and self._allocated.is_offered()
            return Held(replicas=self._shared(names.GPU_RESOURCE), is_offered=is_offered)
        slots = self._shared(names.SHARED_RESOURCE) if was in ("ours", "dra") else 0
        # What is offered comes first: a claim may be allocated until it is not.
        is_offered = was == "dra" and self._allocated.is_offered()
        claims = self._prepared()
        if claims is not None and was == "dra":
            allocated = self._allocated.claims()
            claims = None if allocated is None else tuple(sorted({*claims, *allocated}))
        return Held(claims=claims, slots=slots, is_offered=is_offered)

    def _prepared(self) -> tuple[str, ...] | None:
        try:
            if not (claims := self._record.read_all()):
                return ()
            lost = {claim.uid for claim in self._lost()}
        except PreparedError:
            return None
        except OSError:
            lost = set()
        return tuple(sorted(claim.key for uid, claim in claims.items() if uid not in lost))

    def _shared(self, resource: str) -> int | None:
        """How many GPUs living pods have by slots of a resource."""
        try:
            found = self._checkpoint.read()
        except CheckpointError:
            return None
        if not any(map(is_slot, found.by_resource(names.GPU_RESOURCE).get(resource, ()))):
            return 0
        if (pods := self._pods()) is not None:
            found = found.of_pods({pod.metadata.uid for pod in pods if not is_terminal(pod)})
        slots = filter(is_slot, found.by_resource(names.GPU_RESOURCE).get(resource, ()))
        return len(set(map(physical, slots)))
