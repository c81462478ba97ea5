"""Alice and bob: what they do at the API server and at the booking server, under their own names."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from booking.server.records import BookingRequest, Record
from cluster import names
from cluster.kube.errors import ApiError
from cluster.kube.interface import Kube
from cluster.kube.resources import PODS
from demo.simulation.server import UnavailableError
from tests.fakes.objects import A100

if TYPE_CHECKING:
    from tests.scenarios.world import World

Json = dict[str, Any]

NAMESPACE: Final = "team"
PATIENCE: Final = 60.0
"""Seconds that a person tries again where nobody answers."""


def a_pod(name: str, gpus: int = 1, *, model: str | None = A100, seconds: float | None = None) -> Json:
    """A pod that asks for GPUs of a model; with ``seconds`` its work is done after so long."""
    limits = {"cpu": "1", **({names.GPU_RESOURCE: str(gpus)} if gpus else {})}
    container: Json = {"name": "main", "image": "x", "resources": {"limits": limits, "requests": limits}}
    if seconds is not None:
        container["args"] = [str(seconds)]
    annotations = {names.MODEL: model} if model else {}
    spec = {
        "containers": [container],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 30,
    }
    return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}


class Person:
    """Somebody with a name. What is not answered is tried again for a minute."""

    def __init__(self, world: "World", name: str) -> None:
        self.name = name
        self._world = world
        self.kube: Kube = world.kube.as_user(name)

    # --- pods ------------------------------------------------------------------------------------------
    def create(self, body: Json, *, namespace: str = NAMESPACE) -> str:
        """Create a pod; its uid."""
        done = self._insist(lambda: self.kube.create(PODS, body, namespace=namespace))
        uid: str = done.metadata.uid
        return uid

    def delete(self, name: str, *, namespace: str = NAMESPACE) -> None:
        """Delete a pod, their own or another's."""
        self._insist(lambda: self.kube.delete(PODS, name, namespace=namespace))

    def annotate(self, name: str, **annotations: str | None) -> None:
        """Write a request or a checkpoint on a pod: ``checkpoint_at="..."``."""
        keys = {f"{names.DOMAIN}/{key.replace('_', '-')}": value for key, value in annotations.items()}
        body = {"metadata": {"annotations": keys}}
        self._insist(lambda: self.kube.patch(PODS, name, body, namespace=NAMESPACE))

    def checkpoint(self, name: str) -> None:
        """The pod's work is safe up to now."""
        now = self._world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        self.annotate(name, checkpoint_at=now)

    # --- bookings --------------------------------------------------------------------------------------
    def book(
        self,
        count: int = 1,
        *,
        model: str = A100,
        lasting: timedelta = timedelta(days=2),
        start: datetime | None = None,
        namespace: str | None = None,
        topology: Any = None,
        memory: int | None = None,
    ) -> str:
        """Book; the booking's id, when it is written in the cluster.

        Raises:
            RefusedError: it breaks a rule.
        """
        begin = start or self._world.clock.now()
        request = BookingRequest(
            model=model,
            count=count,
            memory=memory,
            start=start,
            end=begin + lasting,
            namespace=namespace,
            topology=topology,
        )
        return self._changed(lambda: self._world.server.book(self.name, request))

    def request(self) -> BookingRequest:
        """One GPU for two days, from now on."""
        return BookingRequest(model=A100, end=self._world.clock.now() + timedelta(days=2))

    def release(self, booking: str) -> None:
        """Give a running booking back."""
        self._changed(lambda: self._world.server.release(self.name, booking))

    def cancel(self, booking: str) -> None:
        """Take a planned booking back."""
        self._changed(lambda: self._world.server.cancel(self.name, booking))

    def _changed(self, ask: Callable[[], Record]) -> str:
        record = self._insist(ask)
        self._world.until(
            lambda: self._world.server.is_written(record), f"{record.id} is written to the cluster"
        )
        return record.id

    def _insist(self, ask: Callable[[], Any]) -> Any:
        end = self._world.loop.now + PATIENCE
        while True:
            if self._world.is_away and self._world.loop.now < end:
                self._world.run(1.0)
                continue
            try:
                return ask()
            except (ApiError, UnavailableError) as error:
                is_final = isinstance(error, ApiError) and 400 <= getattr(error, "code", 500) < 500
                if is_final or self._world.loop.now >= end:
                    raise
            self._world.run(1.0)
