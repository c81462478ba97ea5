"""Orders about pods and GPUs as the service gives them: permitted, audited first, given, answered."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import pytest

from booking.policy.limits import Limits
from booking.principals import Principal
from booking.server.errors import (
    ClusterError,
    KeyReusedError,
    NotAllowedError,
    RefusedError,
    UnknownGpuError,
    UnknownPodError,
)
from booking.server.records import Violation
from booking.server.service import BookingService, Key
from booking.server.service.context import GpuOrder
from booking.server.store import Store
from cluster.fake.clock import START, FakeClock
from tests.fakes.cluster_orders import POD, Gpus, Pods
from tests.fakes.principals import an_administrator, somebody
from tests.fakes.records import CLUSTER

ROOT, ALICE = an_administrator(), somebody("alice")
KEY = Key.of("k-1", b"POST /orders")


class World:
    """A service whose orders are appended to lists."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.pods, self.gpus = Pods(self.actions), Gpus(self.actions)
        self.service = BookingService(
            store, clock, Limits(), lambda: CLUSTER, evictions=self.pods, gpus=self.gpus
        )

    def audited(self) -> list[tuple[str, str, str, str | None, datetime]]:
        """Oldest first."""
        found = self.service.audit(ROOT).entries
        return [(each.actor, each.action, each.subject, each.reason, each.at) for each in found[::-1]]

    def actions(self) -> list[str]:
        """What was done, oldest first."""
        return [action for _, action, *_ in self.audited()]

    def evict(self, who: Principal = ROOT, reason: str = "loud", key: Key | None = None) -> None:
        """``team/train``."""
        self.service.evict(who, "team", "train", reason, key=key)

    def cordon(self, who: Principal = ROOT, reason: str = "loud", key: Key | None = None) -> str:
        """GPU 0 of ``n0``."""
        return self.service.order_gpu(who, "n0", "0", order="cordon", reason=reason, key=key)


@pytest.fixture
def world(store: Store, clock: FakeClock) -> Iterator[World]:
    clock.advance(0.75)
    return World(store, clock)


def test_an_eviction_is_audited_before_it_is_ordered(world: World) -> None:
    world.evict(reason=" loud ")
    assert world.audited() == [("root", "pod.evict", "team/train", "loud", START)]
    assert world.pods.before == [["pod.evict"]]
    ((*arguments, at),) = world.pods.given
    assert arguments == ["team", "train", "root", "loud"]
    assert at == START + timedelta(milliseconds=750)


@pytest.mark.parametrize("order", ["cordon", "uncordon", "clear"])
def test_each_order_about_a_gpu_is_audited_under_its_name_before_it_is_given(
    world: World, order: GpuOrder
) -> None:
    assert world.service.order_gpu(ROOT, "n0", "GPU-x", order=order, reason=" loud ") == "GPU-1"
    assert world.audited() == [("root", f"gpu.{order}", "n0/GPU-x", "loud", START)]
    assert world.gpus.before == [[f"gpu.{order}"]]
    ((*arguments, at),) = world.gpus.given
    assert arguments == ["n0", "GPU-x", order, "root: loud"]
    assert at == START + timedelta(milliseconds=750)


LONG = "x" * 10_000


NOBODY_ANSWERS = ClusterError("Nobody answers.")
EVICTION, CORDON = ("evict", "pod.evict", "team/train"), ("cordon", "gpu.cordon", "n0/0")


@pytest.mark.parametrize(
    ("verb", "action", "subject", "trouble"),
    [
        (*EVICTION, UnknownPodError("There is no pod.")),
        (*EVICTION, NOBODY_ANSWERS),
        (*EVICTION, RefusedError([Violation(rule="never-evicted", message="It stays.")])),
        (*CORDON, UnknownGpuError("There is no GPU.")),
        (*CORDON, NOBODY_ANSWERS),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_a_failed_order_is_audited_with_the_reason(
    world: World, verb: str, action: str, subject: str, trouble: Exception
) -> None:
    world.pods.trouble = world.gpus.trouble = trouble
    with pytest.raises(type(trouble)) as raised:
        getattr(world, verb)()
    assert raised.value is trouble
    assert world.audited() == [
        ("root", action, subject, "loud", START),
        ("root", f"{action}-failed", subject, str(trouble), START),
    ]


def test_the_audit_has_the_beginning_of_a_very_long_error(world: World) -> None:
    world.pods.trouble = world.gpus.trouble = ClusterError(LONG)
    for order in (world.evict, world.cordon):
        with pytest.raises(ClusterError):
            order()
        *_, why, _ = world.audited()[-1]
        assert why is not None
        assert why.startswith("xxx")
        assert len(why) < 200


@pytest.mark.parametrize("verb", ["evict", "cordon"])
@pytest.mark.parametrize(
    ("trouble", "is_free"),
    [(ClusterError("Nobody answers."), True), (UnknownGpuError("There is no GPU."), False)],
    ids=["nobody answers", "there is none"],
)
def test_a_refusal_uses_the_key_and_a_passing_failure_leaves_it_free(
    world: World, verb: str, trouble: Exception, *, is_free: bool
) -> None:
    """That something does not exist is an answer; after no answer another request may have the key."""
    kind = UnknownPodError if verb == "evict" and not is_free else type(trouble)
    world.pods.trouble = world.gpus.trouble = kind(str(trouble))
    order = getattr(world, verb)
    with pytest.raises(kind):
        order(key=KEY)
    world.pods.trouble = world.gpus.trouble = None
    other = Key.of(KEY.text, b"another request")
    if is_free:
        order(key=other)
        return
    with pytest.raises(KeyReusedError):
        order(key=other)
    order(key=KEY)


@pytest.mark.parametrize("verb", ["evict", "cordon"])
def test_the_key_of_an_order_belongs_to_its_administrator(world: World, verb: str) -> None:
    order = getattr(world, verb)
    order(key=KEY)
    order(an_administrator("toor"), key=KEY)
    order(key=KEY)
    assert len(world.pods.given) + len(world.gpus.given) == 2
    assert [actor for actor, *_ in world.audited()] == ["root", "toor"]


@pytest.mark.parametrize("verb", ["evict", "cordon"])
def test_a_user_without_permission_uses_no_key_and_reads_what_only_administrators_may_do(
    world: World, verb: str
) -> None:
    what = {"evict": "evict pods", "cordon": "cordon GPUs"}[verb]
    with pytest.raises(NotAllowedError) as refused:
        getattr(world, verb)(ALICE, reason="", key=KEY)
    assert str(refused.value) == f"Only administrators may {what}, and 'alice' is none."
    assert world.audited() == []
    assert world.service.replayed(ALICE, KEY) is None


NAMESPACES = [
    ("team", True),
    ("a", True),
    ("a-b-0", True),
    ("x" * 63, True),
    ("x" * 64, False),
    ("", False),
    ("-a", False),
    ("a-", False),
    ("a.b", False),
    ("A", False),
    ("a_b", False),
    ("a\n", False),
]
PODS = [
    ("train", True),
    ("a.b-c.0", True),
    ("x" * 253, True),
    ("x" * 254, False),
    ("", False),
    (".a", False),
    ("a.", False),
    ("A", False),
    ("a/b", False),
    ("a\n", False),
    ("β", False),
]


@pytest.mark.parametrize(("namespace", "is_name"), NAMESPACES)
def test_an_impossible_namespace_causes_no_call(world: World, namespace: str, *, is_name: bool) -> None:
    assert_evicted_or_refused(world, namespace, "train", is_name=is_name)


@pytest.mark.parametrize(("pod", "is_name"), PODS)
def test_an_impossible_pod_name_causes_no_call(world: World, pod: str, *, is_name: bool) -> None:
    assert_evicted_or_refused(world, "team", pod, is_name=is_name)


def assert_evicted_or_refused(world: World, namespace: str, pod: str, *, is_name: bool) -> None:
    """Evict, in earnest and as a dry run; or both are refused without a call to the cluster."""
    for evict in (world.service.evict, world.service.dry_run_evict):
        if is_name:
            evict(ROOT, namespace, pod, "loud")
            continue
        with pytest.raises(UnknownPodError, match=r"There is no pod '.*' in the namespace '.*'"):
            evict(ROOT, namespace, pod, "loud")
    assert (len(world.pods.given), len(world.pods.tried)) == (is_name, is_name)
    assert len(world.audited()) == is_name


@pytest.mark.parametrize(
    ("node", "gpu", "is_name"),
    [
        ("n0", "0", True),
        ("n0.example.org", "GPU-8f2b-A", True),
        ("x" * 253, "x" * 63, True),
        ("x" * 254, "0", False),
        ("n0", "x" * 64, False),
        ("n0", "", False),
        ("", "0", False),
        ("N0", "0", False),
        ("n0-", "0", False),
        ("n0", "GPU 0", False),
        ("n0", "0\n", False),
        ("n0", "GPU_0", False),
    ],
)
def test_an_impossible_gpu_name_causes_no_call(world: World, node: str, gpu: str, *, is_name: bool) -> None:
    for dry_run in (False, True):
        if is_name:
            world.service.order_gpu(ROOT, node, gpu, order="clear", reason="mended", dry_run=dry_run)
            continue
        with pytest.raises(UnknownGpuError, match=r"There is no GPU '.*' of a node '.*'"):
            world.service.order_gpu(ROOT, node, gpu, order="clear", reason="mended", dry_run=dry_run)
    assert (len(world.gpus.given), len(world.gpus.tried)) == (is_name, is_name)
    assert len(world.audited()) == is_name


@pytest.mark.parametrize(
    ("reason", "name", "error"),
    [("", "No Pod", RefusedError), ("loud", "No Pod", UnknownPodError), ("loud", "train", ClusterError)],
    ids=["no reason", "no name", "nothing to write to"],
)
def test_the_reason_is_checked_first_then_the_name_then_the_cluster(
    store: Store, clock: FakeClock, reason: str, name: str, error: type[Exception]
) -> None:
    blind = BookingService(store, clock, Limits(), lambda: CLUSTER)
    with pytest.raises(error):
        blind.evict(ROOT, "team", name, reason)
    with pytest.raises(error):
        blind.dry_run_evict(ROOT, "team", name, reason)
    assert blind.audit(ROOT).entries == ()


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (lambda s: s.evict(ROOT, "team", "train", "loud"), "This booking server cannot write to pods."),
        (
            lambda s: s.order_gpu(ROOT, "n0", "0", order="clear", reason="loud"),
            "This booking server cannot write to nodes.",
        ),
    ],
    ids=["evict", "clear"],
)
def test_a_server_without_a_cluster_reports_what_it_cannot_do(
    store: Store, clock: FakeClock, order: Callable[[BookingService], object], message: str
) -> None:
    with pytest.raises(ClusterError) as error:
        order(BookingService(store, clock, Limits(), lambda: CLUSTER))
    assert str(error.value) == message


def test_a_repeated_order_is_answered_without_the_cluster(world: World) -> None:
    first = world.cordon(key=KEY)
    world.gpus.trouble = ClusterError("Nobody answers.")
    assert world.cordon(key=KEY) == first
    assert world.actions() == ["gpu.cordon"]


def test_a_dry_run_asks_the_cluster_in_the_administrators_name_and_returns_its_answer(world: World) -> None:
    assert world.service.dry_run_evict(ROOT, "team", "train", " loud ") == POD
    assert [call[:4] for call in world.pods.tried] == [("team", "train", "root", "loud")]
    uuid = world.service.order_gpu(ROOT, "n0", "0", order="clear", reason=" loud ", dry_run=True, key=KEY)
    assert uuid == "GPU-0"
    assert [call[:4] for call in world.gpus.tried] == [("n0", "0", "clear", "root: loud")]
    assert (world.pods.given, world.gpus.given, world.audited()) == ([], [], [])
