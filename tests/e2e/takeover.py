"""Pods that want A100s, all of them taken, and what becomes of the pods that are evicted."""

from collections.abc import Iterable
from typing import Any

from cluster import names
from cluster.objects.assignment import assignment_of, devices_of
from cluster.objects.pods import Pod, asks_for_gpus
from devcluster import probe
from tests.e2e.persons import A100, Person
from tests.e2e.playground import HOSTNAME, Playground

CHEAP = {names.CHECKPOINT_AT: "2100-01-01T00:00:00Z"}
"""Counts as now: a pod that loses nothing when it is evicted."""


def pod(
    name: str, *, gpus: int = 1, node: str | None = None, cheap: bool = False, **parts: Any
) -> dict[str, Any]:
    """A pod that wants A100s."""
    containers = parts.pop("containers", None) or [probe.container("main", gpus=gpus)]
    extra = {"nodeSelector": {HOSTNAME: node}} if node else None
    body = probe.pod(name, containers, model=A100, extra=extra, **parts)
    body["metadata"]["annotations"].update(CHEAP if cheap else {})
    return body


def uuids(pods: Iterable[Pod]) -> set[str]:
    return {uuid for pod in pods for uuid in devices_of(assignment_of(pod) or {})}


def occupy(bob: Person, ground: Playground, *, cheap: Iterable[str] = ()) -> dict[str, Pod]:
    """Bob takes all four A100s, two a node: bob-a-0, bob-a-1, bob-b-0, bob-b-1."""
    wanted = [f"bob-{letter}-{n}" for letter in "ab" for n in (0, 1)]
    for name in wanted:
        bob.create(pod(name, node=f"node-{name[4]}", cheap=name in set(cheap)))
    ground.await_phase(wanted)
    return {name: ground.pod(name) for name in wanted}


def returned(ground: Playground, was: Pod) -> Pod:
    """The pod that came back for one that was taken away; it runs without a GPU."""

    def back() -> Pod | None:
        now = next((p for p in ground.pods() if p.metadata.name == was.metadata.name), None)
        came = now and now.metadata.annotation(names.RECREATED_FROM) == was.metadata.uid
        return now if now and came and now.status.phase == "Running" else None

    pod = ground.await_that(f"{was.metadata.name} comes back and runs", back)
    assert not asks_for_gpus(pod)
    for container in pod.spec.containers or ():
        seen = probe.read_sight(
            ground.kubectl,
            namespace=ground.namespace,
            name=pod.metadata.name,
            container_name=container.name,
        )
        assert seen is not None
        assert not seen.gpu_minors
        assert seen.env[names.VISIBLE_DEVICES_VARIABLE] == "none"
    ground.await_that(
        f"nothing is left to do for {was.metadata.name}",
        lambda: not ground.pod(was.metadata.name).metadata.finalizers or None,
    )
    return pod


def same(ground: Playground, pods: Iterable[Pod]) -> None:
    for was in pods:
        now = ground.pod(was.metadata.name)
        assert (now.metadata.uid, now.status.phase) == (was.metadata.uid, "Running")
        assert now.metadata.annotation(names.NOTICE) is None
