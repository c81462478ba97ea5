"""Pods of JupyterHubs, with the fields by which their hub finds them."""

import msgspec

from cluster.objects.meta import Meta, Partial
from cluster.objects.pods import Condition


class NotebookStatus(Partial, frozen=True):
    """``status`` of a hub's pod."""

    pod_ip: str | None = msgspec.field(name="podIP", default=None)
    conditions: tuple[Condition, ...] | None = None


class Notebook(Partial, frozen=True):
    """A v1 Pod of a JupyterHub."""

    metadata: Meta = Meta()
    status: NotebookStatus = NotebookStatus()

    @property
    def address(self) -> str | None:
        """The pod's address once it is ready; None before."""
        conditions = self.status.conditions or ()
        is_ready = any((c.type, c.status) == ("Ready", "True") for c in conditions)
        return self.status.pod_ip if is_ready else None
