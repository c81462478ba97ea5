"""A new pod that was created without its GPU says so in an Event, once."""

from datetime import timedelta

import msgspec

from booking.controller.reclaimer.stripped_pods import NEW, StrippedPods
from cluster import event_reasons, names
from cluster.cache import ClusterCache
from cluster.fake.clock import FakeClock
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod
from tests.fakes.objects import EPOCH, a_pod

WHY = "No running booking, and no GPU is free: it was created without a GPU."


def stripped(name: str = "p", age: timedelta = timedelta()) -> Pod:
    pod = a_pod(name).with_annotation(names.STRIPPED, WHY).obj
    meta = msgspec.structs.replace(pod.metadata, creation_timestamp=EPOCH - age)
    return msgspec.structs.replace(pod, metadata=meta)


def test_each_new_pod_has_one_event_and_an_old_one_none() -> None:
    events: list[tuple[str, str, str]] = []
    reporter = StrippedPods(lambda pod, reason, message: events.append((pod.metadata.name, reason, message)))
    pods = {pod.metadata.uid: pod for pod in (stripped(), stripped("old", NEW + timedelta(seconds=1)))}
    reporter.reconcile(pods, EPOCH)
    reporter.reconcile(pods, EPOCH)
    ((name, reason, message),) = events
    assert (name, reason) == ("p", event_reasons.CREATED_WITHOUT_GPU)
    assert message.startswith(f"{WHY} Book a GPU")


def test_the_cache_knows_stripped_pods_until_they_are_gone() -> None:
    cache, pod = ClusterCache(FakeClock()), stripped()
    cache.of(PODS).upsert(pod)
    cache.of(PODS).upsert(a_pod("other").obj)
    assert list(cache.stripped) == [pod.metadata.uid]
    cache.of(PODS).remove(pod)
    assert not cache.stripped
