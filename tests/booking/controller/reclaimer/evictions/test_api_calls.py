"""Each call of an eviction: what is sent, on which preconditions, and what its answers mean."""

import re
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.controller.reclaimer.evictions.api_calls import DEFAULT_GRACE, SHORTEST_GRACE, Calls, grace
from cluster import event_reasons, names
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.errors import Conflict, NotFound
from cluster.kube.resources import POD_TEMPLATES, PODS
from cluster.objects.meta import Meta
from cluster.objects.pods import Pod
from tests.booking.controller.reclaimer.evictions.comebacks import NAMESPACE, gpu_pod

SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
"""How Kubernetes calls pods (RFC 1123)."""
SUFFIX: Final = "x7k2p"
"""What the API server adds to ``generateName``."""


class Server:
    """An API server, our calls, and one pod."""

    def __init__(self, *finalizers: str, **metadata: Any) -> None:
        clock = FakeClock()
        self.kube = FakeKube(clock)
        self.calls = Calls(self.kube, clock)
        self.pod = self.kube.put(PODS, gpu_pod(uid="v", finalizers=list(finalizers), **metadata))

    @property
    def sent(self) -> dict[str, Any]:
        """The body of the last call."""
        body = self.kube.calls[-1].body
        assert body is not None
        return body

    def changed_by_another(self) -> None:
        """The pod as we know it is not the newest."""
        change = {"metadata": {"annotations": {"theirs": "x"}}}
        self.kube.patch(PODS, "p", change, namespace=NAMESPACE)

    def replaced(self) -> None:
        """A pod with the same name and another uid takes its place."""
        self.kube.patch(PODS, "p", {"metadata": {"finalizers": None}}, namespace=NAMESPACE)
        self.kube.delete(PODS, "p", namespace=NAMESPACE, grace_seconds=0)
        self.kube.put(PODS, gpu_pod(uid="theirs"))


WRITES: Final = {
    "add finalizer": lambda server: server.calls.add_finalizer(server.pod, back="without-gpu", notice=None),
    "notify": lambda server: server.calls.notify(server.pod, "Soon."),
    "release victim": lambda server: server.calls.release_victim(server.pod),
    "remove finalizer": lambda server: server.calls.remove_finalizer(server.pod),
    "release": lambda server: server.calls.release(server.pod),
    "evict": lambda server: server.calls.evict(server.pod, 20, versioned=True),
    "evict an owned one": lambda server: server.calls.evict(server.pod, 20, versioned=False),
    "mark": lambda server: server.calls.mark_disruption(
        server.pod, [], status=True, reason="ended", message="Over."
    ),
    "end": lambda server: server.calls.end(server.pod, 20),
}
VERSIONED: Final = {"add finalizer", "remove finalizer", "evict", "mark", "end"}
"""Writes that could undo or overrule what another has written."""


@pytest.mark.parametrize("write", WRITES)
def test_no_write_reaches_a_new_pod_of_the_same_name(write: str) -> None:
    server = Server(names.COMEBACK)
    server.replaced()
    before = server.kube.raw(PODS, "p", namespace=NAMESPACE)
    with pytest.raises((Conflict, NotFound)):
        WRITES[write](server)
    assert server.kube.raw(PODS, "p", namespace=NAMESPACE) == before


@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_could_overrule_another_writer_fails_when_the_pod_has_changed(write: str) -> None:
    server = Server(names.COMEBACK)
    server.changed_by_another()
    if write in VERSIONED:
        with pytest.raises(Conflict):
            WRITES[write](server)
    else:
        WRITES[write](server)


@pytest.mark.parametrize("write", ["release victim", "release"])
def test_with_finalizers_of_others_a_release_fails_unless_the_pod_is_as_it_was_read(write: str) -> None:
    server = Server("example.com/stay", names.COMEBACK)
    server.changed_by_another()
    with pytest.raises(Conflict):
        WRITES[write](server)
    server.pod = server.kube.get(PODS, "p", namespace=NAMESPACE)
    WRITES[write](server)
    assert server.kube.get(PODS, "p", namespace=NAMESPACE).metadata.finalizers == ("example.com/stay",)


def test_a_released_victim_keeps_the_label_that_the_watch_selects() -> None:
    server = Server(names.COMEBACK, labels={names.COMEBACK: "true", "app": "x"})
    after = server.calls.release_victim(server.pod)
    assert (after.metadata.finalizers, after.metadata.labels) == (
        None,
        {names.COMEBACK: "true", "app": "x"},
    )


@pytest.mark.parametrize("write", ["remove finalizer", "release"])
def test_nothing_of_ours_stays_on_a_pod_whose_comeback_is_over(write: str) -> None:
    server = Server(
        names.COMEBACK,
        labels={names.COMEBACK: "true", "app": "x"},
        annotations={names.COMEBACK_HOW: "as-it-was", "mine": "y"},
    )
    WRITES[write](server)
    meta = server.kube.get(PODS, "p", namespace=NAMESPACE).metadata
    assert (meta.finalizers, meta.labels, meta.annotations) == (None, {"app": "x"}, {"mine": "y"})


@pytest.mark.parametrize(
    ("back", "notice", "annotations"),
    [
        ("without-gpu", None, None),
        ("as-it-was", None, {names.COMEBACK_HOW: "as-it-was"}),
        ("without-gpu", "Soon.", {names.NOTICE: "Soon."}),
        ("as-it-was", "Soon.", {names.COMEBACK_HOW: "as-it-was", names.NOTICE: "Soon."}),
        ("without-gpu", "", None),
    ],
    ids=["without a GPU", "as it was", "with a notice", "both", "an empty notice"],
)
def test_finalizer_label_form_of_return_and_notice_are_one_write(
    back: Any, notice: str | None, annotations: dict[str, str] | None
) -> None:
    server = Server("example.com/stay")
    server.calls.add_finalizer(server.pod, back=back, notice=notice)
    meta = server.sent["metadata"]
    assert meta["finalizers"] == ["example.com/stay", names.COMEBACK]
    assert meta["labels"] == {names.COMEBACK: "true"}
    assert meta.get("annotations") == annotations


@pytest.mark.parametrize(
    ("own", "longest", "seconds"),
    [
        (None, 120, DEFAULT_GRACE),
        (None, 10, 10),
        (60, 120, 60),
        (604800, 120, 120),
        (120, 120, 120),
        (0, 120, SHORTEST_GRACE),
        (60, 0, SHORTEST_GRACE),
    ],
    ids=[
        "the default",
        "the default is too long",
        "its own",
        "a week",
        "just the longest",
        "none of its own",
        "none allowed",
    ],
)
def test_a_pod_gets_its_own_grace_period_up_to_the_limit_and_never_none(
    own: int | None, longest: int, seconds: int
) -> None:
    spec = {} if own is None else {"terminationGracePeriodSeconds": own}
    assert grace(msgspec.convert({"metadata": {}, "spec": spec}, Pod), longest) == seconds


@pytest.mark.parametrize(("status", "word"), [(True, "True"), (False, "False")])
def test_our_condition_replaces_the_previous_one_and_keeps_the_others(*, status: bool, word: str) -> None:
    server = Server()
    others = [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}]
    old = {"type": names.DISRUPTION_TARGET, "status": "True", "reason": "Other"}
    server.calls.mark_disruption(
        server.pod, [others[0], old, others[1]], status=status, reason="refused", message="No."
    )
    *kept, ours = server.sent["status"]["conditions"]
    assert kept == others
    assert ours == {
        "type": names.DISRUPTION_TARGET,
        "status": word,
        "reason": event_reasons.REJECTED_BY_KUBELET,
        "message": "No.",
        "lastTransitionTime": "2026-03-02T09:00:00Z",
    }


# --- the template --------------------------------------------------------------------------------------

BODY: Final[dict[str, Any]] = {
    "metadata": {"name": "p", "namespace": NAMESPACE, "labels": {"app": "x"}, "annotations": {"mine": "y"}},
    "spec": {"containers": [{"name": "main", "image": "x"}]},
}
META: Final = Meta(name="p", namespace=NAMESPACE, uid="v")


def test_a_template_that_is_stored_already_is_left_as_it_is() -> None:
    server = Server()
    first = server.calls.store(META, BODY, reason="evicted", message="First.", back="without-gpu")
    again = server.calls.store(META, BODY, reason="ended", message="Second.", back="as-it-was")
    assert again == first
    assert again.metadata.annotations == {
        names.COMEBACK_REASON: "evicted",
        names.COMEBACK_MESSAGE: "First.",
    }


def test_a_pod_created_from_a_stored_template_has_our_marks_and_the_reason_of_its_victim() -> None:
    server = Server()
    server.replaced()
    server.kube.delete(PODS, "p", namespace=NAMESPACE, grace_seconds=0)
    template = server.calls.store(META, BODY, reason="evicted", message="Why.", back="as-it-was")
    assert template.metadata.name == f"{names.COMEBACK_PREFIX}v"
    assert template.metadata.labels == {names.COMEBACK: "true"}
    pod = server.calls.create(template)
    assert pod.metadata.labels == {"app": "x", names.COMEBACK: "true"}
    assert pod.metadata.finalizers == (names.COMEBACK,)
    assert pod.metadata.annotations == {
        "mine": "y",
        names.COMEBACK_REASON: "evicted",
        names.COMEBACK_MESSAGE: "Why.",
    }
    with pytest.raises(Conflict):
        server.calls.create(template)


def test_only_the_same_template_is_marked_or_deleted_and_a_missing_one_counts_as_deleted() -> None:
    server = Server()
    template = server.calls.store(META, BODY, reason="evicted", message="Why.", back="without-gpu")
    due = server.calls.mark_due(template)
    assert due.metadata.annotation(names.COMEBACK_DUE) == "2026-03-02T09:00:00Z"
    name = template.metadata.name
    server.kube.finish(POD_TEMPLATES, name, namespace=NAMESPACE)
    server.calls.forget(template)
    assert server.calls.stored("v", NAMESPACE) is None
    other = server.calls.store(META, BODY, reason="evicted", message="Why.", back="without-gpu")
    for write in (server.calls.mark_due, server.calls.forget):
        with pytest.raises(Conflict):
            write(template)
    assert server.calls.stored("v", NAMESPACE) == other


# --- reading -------------------------------------------------------------------------------------------


def test_a_pod_is_read_whole_only_if_its_uid_is_the_same() -> None:
    server = Server()
    whole = server.calls.whole(server.pod.metadata)
    assert whole is not None
    assert whole.metadata.uid == "v"
    server.replaced()
    assert server.calls.whole(server.pod.metadata) is None
    found = server.calls.named("p", NAMESPACE)
    assert found is not None
    assert found.metadata.uid == "theirs"
    server.kube.delete(PODS, "p", namespace=NAMESPACE, grace_seconds=0)
    assert server.calls.whole(server.pod.metadata) is None
    assert server.calls.named("p", NAMESPACE) is None


# --- the dry run ---------------------------------------------------------------------------------------


def named_in_dry_run(name: str) -> str:
    """The name under which the API server would create the pod."""
    server = Server()
    server.calls.dry_run({**BODY, "metadata": {**BODY["metadata"], "name": name}})
    assert server.kube.calls[-1].path.endswith("/pods?dryRun=All")
    assert "name" not in server.sent["metadata"]
    return f"{server.sent['metadata']['generateName']}{SUFFIX}"


@pytest.mark.parametrize(
    ("name", "tried"),
    [
        ("p", "p-x7k2p"),
        ("a" * 40, f"{'a' * 40}-x7k2p"),
        ("a" * 41, f"{'a' * 40}-x7k2p"),
        (f"{'a' * 39}.b", f"{'a' * 39}-x7k2p"),
        (f"{'a' * 39}-b", f"{'a' * 39}--x7k2p"),
    ],
    ids=["short", "just as long", "longer", "cut after a dot", "cut after a hyphen"],
)
def test_a_dry_run_uses_the_beginning_of_the_pods_name(name: str, tried: str) -> None:
    assert named_in_dry_run(name) == tried


LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)


@given(name=st.lists(LABELS, min_size=1, max_size=8).map(".".join))
def test_the_api_server_accepts_the_dry_runs_name_for_every_pod_name(name: str) -> None:
    assert SUBDOMAIN.fullmatch(name)
    tried = named_in_dry_run(name)
    assert SUBDOMAIN.fullmatch(tried)
    assert len(tried) <= 63
