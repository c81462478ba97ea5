"""Reports on a new pod that it was created without the GPU that it asked for.

The warning of admission reaches whoever sends the request, which for a notebook is its hub. An Event reaches
its user: JupyterHub's page shows the Events of a pod that starts.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from booking.controller.reclaimer.context import WriteEvent
from cluster import event_reasons, names
from cluster.objects.pods import Pod

NEW: Final = timedelta(minutes=5)
"""Age up to which a pod is reported: after a restart of ours the older ones are not reported again."""
HINT: Final = "Book a GPU, or create the pod again when one is free."


class StrippedPods:
    """Writes one Event on each. Not thread-safe."""

    def __init__(self, write_event: WriteEvent) -> None:
        self._write_event = write_event
        self._reported: set[str] = set()

    def reconcile(self, stripped: Mapping[str, Pod], now: datetime) -> None:
        """Report those that have not been.

        Args:
            stripped: uid -> every living pod of this kind.
            now: the instant.
        """
        self._reported &= stripped.keys()
        for uid, pod in stripped.items():
            created = pod.metadata.creation_timestamp
            if uid in self._reported or created is None or now - created > NEW:
                continue
            self._reported.add(uid)
            why = pod.metadata.annotation(names.STRIPPED) or ""
            self._write_event(pod, event_reasons.CREATED_WITHOUT_GPU, f"{why} {HINT}")
