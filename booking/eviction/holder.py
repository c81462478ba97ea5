"""A pod that holds devices, as decisions about evictions see it."""

import msgspec

from cluster.decide.eviction.costs import Work
from cluster.decide.eviction.fates import Member


class Holder(msgspec.Struct, frozen=True, gc=False):
    """A pod, and the devices of one model of which it is the only holder."""

    uid: str
    devices: tuple[str, ...]
    gpus: int
    """Number of all its devices, of any model."""
    work: Work
    leaves: bool
    """Whether the pod is terminating, and does not hang."""
    evictable: bool
    member: Member | None = None
    """The same as a member of what its controller runs, if that may not replace it."""
    thousandths: int = 0
    """The same in thousandths of a GPU, where it has shares: of each as much as of its memory or compute,
    whichever is more."""

    @property
    def weight(self) -> int:
        """Thousandths of GPUs that its time counts for."""
        return self.thousandths or 1000 * self.gpus
