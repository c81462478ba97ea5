"""What a part has around it: ``simulation.Simulation``, as its parts see it."""

from typing import Any, Protocol

from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.resources import WholePod
from cluster.objects.pods import Pod
from demo.simulation.loop import Loop
from demo.simulation.maker import Maker


class Author(Protocol):
    """A part that calls the API server."""

    def known(self) -> Maker:
        """What must be known of it."""
        ...


class Interruption(Protocol):
    """Somebody who acts when a part calls the API server."""

    def __call__(self, part: Any, call: str, *, done: bool) -> None:
        """Before the call, and when it has been done."""
        ...


class Surroundings(Protocol):
    """The API server, the time, and the other parts."""

    clock: FakeClock
    loop: Loop
    kube: FakeKube
    caller: Author | None
    interruptions: list[Interruption]
    is_away: bool

    def restart(self, part: Any) -> None:
        """A part has died by itself."""
        ...

    def heartbeat(self, node: str) -> None:
        """A kubelet has renewed its Lease."""
        ...

    def allocated(self, node: str) -> None:
        """A kubelet's checkpoint has changed."""
        ...

    def read(self, whole: WholePod) -> Pod:
        """The pod as our readers see it."""
        ...
