"""Namespaces, reduced to what administrators have written on them."""

from cluster import names
from cluster.objects.meta import Meta, Partial


class Namespace(Partial, frozen=True):
    """A v1 Namespace, reduced to its metadata."""

    metadata: Meta = Meta()

    @property
    def owner(self) -> str | None:
        """Id of the user to whom pods of controllers belong here; None if no user is named."""
        return self.metadata.annotation(names.OWNER) or None

    @property
    def is_protected(self) -> bool:
        """Whether no pod of the namespace may be evicted for a booking."""
        return (self.metadata.annotation(names.NEVER_EVICT) or "").strip().lower() == "true"

    @property
    def default_share(self) -> str | None:
        """What a plain GPU of its pods means, as an administrator has written it; None for a whole GPU."""
        return self.metadata.annotation(names.DEFAULT_SHARE) or None
