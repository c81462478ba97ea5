"""Alice and bob in an end-to-end test: their own tokens, at the API server and at the booking server."""

from collections.abc import Mapping
from typing import Any

from cluster.kube.interface import Kube
from cluster.kube.resources import BOOKINGS, PODS
from devcluster.demo.rest import Rest, RestAnswer
from tests.e2e.playground import Playground

A100 = "NVIDIA-A100-SXM4-80GB"


class Person:
    """Somebody with a name."""

    def __init__(self, name: str, kube: Kube, rest: Rest, ground: Playground) -> None:
        self.name = name
        self.kube = kube
        self.rest = rest
        self._ground = ground
        self._booked: list[str] = []

    def create(self, body: Mapping[str, Any]) -> str:
        """Create a pod with one's own rights; its name."""
        return self.kube.create(PODS, body, namespace=self._ground.namespace).metadata.name

    def book(self, count: int = 1, *, model: str = A100, duration: str = "P1D", **more: object) -> str:
        """Book from now on; the booking's id. Its object is there when this returns."""
        answer = self.ask(count=count, model=model, duration=duration, **more)
        assert answer.status == 201, answer
        assert self._ground.kube.get(BOOKINGS, answer.body["id"]).spec.user == self.name
        return str(answer.body["id"])

    def ask(self, **request: object) -> RestAnswer:
        """Ask for a booking, whatever the answer."""
        answer = self.rest.book(**request)
        if not answer.is_refusal:
            self._booked.append(answer.body["id"])
        return answer

    def release(self, booking: str) -> None:
        """Give a running booking back."""
        answer = self.rest.release(booking)
        assert answer.status == 200, answer

    def leave(self) -> None:
        """Give everything back that is still running."""
        for booking in self._booked:
            if self.rest.show(booking).body.get("state") == "active":
                self.release(booking)
        self._booked.clear()
