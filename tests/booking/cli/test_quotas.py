"""What the command line says of a quota, and of pods that could not be created."""

from cluster import names
from cluster.kube.resources import EVENTS, NAMESPACES, QUOTAS
from cluster.objects.meta import Meta
from cluster.objects.namespaces import Namespace
from tests.booking.cli.conftest import Terminal


def test_a_booking_that_a_quota_cannot_hold_is_made_with_a_warning(terminal: Terminal) -> None:
    body = {"metadata": {"name": "gpus"}, "status": {"hard": {names.GPU_QUOTA: "1"}}}
    terminal.served.kube.create(QUOTAS, body, namespace="research")
    done = terminal.run("book", "a100", "-g", "2", "--for", "2d", "-n", "research")
    assert (done.exit_code, done.stdout.startswith("Booked as")) == (0, True)
    assert done.stderr.startswith("Warning: The ResourceQuota gpus lets pods of the namespace research")


def test_a_deployment_whose_pods_were_refused_is_explained(terminal: Terminal) -> None:
    body = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "ReplicaSet", "name": "train-7d9c5"},
        "reason": "FailedCreate",
        "message": "Error creating: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, and so on",
        "lastTimestamp": "2026-03-02T08:00:00Z",
    }
    terminal.served.kube.create(EVENTS, body, namespace="research")
    owned = Meta(name="research", annotations={names.OWNER: "alice"})
    terminal.served.cache.of(NAMESPACES).upsert(Namespace(metadata=owned))
    text = terminal.says("why", "deployment/train", "-n", "research")
    assert text.startswith("research/train: never created\n")
    assert "their part of the ResourceQuota gpus" in text
