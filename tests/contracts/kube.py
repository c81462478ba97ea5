"""What every client of an API server may rely on: the same tests for the real one and for the fake.

A subclass gives the fixtures ``kube`` and ``namespace`` (an empty one) and says how its server is brought to
protect, to send bookmarks and to forget; objects are its business to clean up. Wherever the two disagree the
real one is right.
"""

from tests.contracts.kube_bookings import KubeBookings
from tests.contracts.kube_creating import KubeCreating
from tests.contracts.kube_ground import pod_body
from tests.contracts.kube_pods import KubeBinding, KubeDeleting, KubeEvicting, KubeFinalizers
from tests.contracts.kube_reading import KubeReading
from tests.contracts.kube_updating import KubeImmutable, KubePatching
from tests.contracts.kube_watching import KubeWatching

__all__ = ["KubeContract", "pod_body"]


class KubeContract(
    KubeReading,
    KubeWatching,
    KubeCreating,
    KubePatching,
    KubeImmutable,
    KubeBinding,
    KubeDeleting,
    KubeFinalizers,
    KubeEvicting,
    KubeBookings,
):
    """The contract."""
