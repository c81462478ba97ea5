"""One instant of the cluster, as people are shown it: taken from the picture under its lock."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from booking.terms import Terms
from cluster.decide.explain import Scene
from cluster.decide.protection import stays_for_ever
from cluster.decide.witness.lasting import Lasting
from cluster.objects.bookings import Booking
from cluster.objects.hold import Hold
from cluster.objects.namespaces import Namespace
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from cluster.picture import EVERYWHERE, Looks, Picture, Places, Witness
from cluster.runtime.clock import Clock


@dataclass(frozen=True, kw_only=True)
class Sight:
    """Values alone. It is a ``booking.evicting.instant.Instant``, too."""

    now: datetime
    pods: Mapping[str, Pod]
    looks: Looks
    bookings: Mapping[str, Booking]
    cover: Mapping[str, Booking]
    barred: frozenset[tuple[str, str]] = frozenset()
    holds: Mapping[str, Hold] = field(default_factory=dict)
    places: Places = EVERYWHERE
    """Where booked pods may be placed."""
    lasting: Lasting | None = None
    """Where pods may be placed that stay for ever."""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    namespaces: Mapping[str, Namespace] = field(default_factory=dict)
    uses: Mapping[str, str] = field(default_factory=dict)
    """Node -> how its GPUs are used, as its agent says it."""
    terms: Terms = field(default_factory=Terms)

    @property
    def scene(self) -> Scene:
        """For explanations."""
        return Scene(
            now=self.now,
            pods=self.pods,
            looks=self.looks,
            bookings=self.bookings,
            cover=self.cover,
            barred=self.barred,
            holds=self.holds,
            promised=self.places.scenes,
            lasting=self.lasting,
            nodes=self.nodes,
            namespaces=self.namespaces,
            home=self.terms.namespace,
        )

    @property
    def going(self) -> frozenset[str]:
        """Uids of the pods that must leave for booked ones."""
        return frozenset(uid for hold in self.holds.values() for uid in hold.victims)


def take(picture: Picture, clock: Clock, terms: Terms, witness: Witness | None = None) -> Sight:
    """The cluster now.

    Args:
        picture: of the cluster.
        clock: the time.
        terms: the administrator's settings.
        witness: over the same picture, where it matters what is promised to whom.
    """
    now = clock.now()
    with picture.locked() as ledger:
        pods = dict(picture.pods)
        return Sight(
            now=now,
            pods=pods,
            looks=picture.looks(),
            bookings=picture.bookings,
            cover=picture.cover(now),
            barred=picture.barred(now),
            holds={uid: hold for uid, hold in ledger.holds.items() if uid in pods},
            places=witness.places(now) if witness else EVERYWHERE,
            nodes=dict(picture.nodes),
            namespaces=picture.namespaces,
            uses=dict(picture.uses),
            terms=terms,
        )


def about(pod: Pod, sight: Sight, witness: Witness) -> Sight:
    """The same for questions about one pod: of every node it is looked only where that matters to the pod.

    Args:
        pod: that is asked about.
        sight: of now.
        witness: over the same picture.
    """
    if stays_for_ever(pod, namespaces=sight.namespaces, home=sight.terms.namespace) is None:
        return sight
    return replace(sight, lasting=witness.lasting(sight.now))
