"""Namespaces, as far as we read them: what administrators have written on them."""

from cluster import names
from cluster.objects.meta import Meta, Partial


class Namespace(Partial, frozen=True):
    """What is read of a v1 Namespace: its metadata."""

    metadata: Meta = Meta()

    @property
    def owner(self) -> str | None:
        """User id to whom the pods belong that controllers create here; None where no user is named."""
        return self.metadata.annotation(names.OWNER) or None

    @property
    def is_protected(self) -> bool:
        """Whether no pod of it may be evicted for a booking."""
        return (self.metadata.annotation(names.NEVER_EVICT) or "").strip().lower() == "true"
