"""Policies and preemption as stock kube-schedulers live them, in both modes."""

from collections.abc import Iterator
from typing import Any

import pytest

from cluster import names
from cluster.fake.clock import eventually
from cluster.kube.errors import ApiError
from cluster.objects.assignment import assignment_of, devices_of
from tests.controlplane.access import PRIORITY_CLASSES
from tests.e2e.playground import PATIENCE
from tests.fakes.objects import A100
from tests.long.controlplane import scheduling
from tests.long.controlplane.scheduling import DEDICATED, EXISTING, HIGHEST, Field, Mode

pytestmark = pytest.mark.controlplane

MODES = pytest.mark.parametrize("mode", [DEDICATED, EXISTING], ids=["dedicated", "existing"])
WHOLE_NODE = "60"
"""Processors: two such pods do not fit on one node."""


@pytest.fixture(scope="module")
def running() -> Iterator[Field]:
    with scheduling.field() as made:
        yield made


@pytest.fixture
def field(running: Field) -> Iterator[Field]:
    yield running
    running.clear()


def rather(node: str) -> dict[str, Any]:
    """A preferred node affinity."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    preferred = [{"weight": 100, "preference": term}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


# --- policies ------------------------------------------------------------------------------------------
@MODES
def test_each_pod_lands_where_its_policy_says(field: Field, mode: Mode) -> None:
    field.create("there", scheduler=mode.gpu_pods, gpus=4, node=1)
    field.placed("there")
    field.create("packed", scheduler=mode.gpu_pods, gpus=1, annotations={names.MODEL: A100})
    field.placed("packed")
    spread = {names.PLACEMENT: "spread", names.MODEL: A100}
    field.create("spread", scheduler=mode.gpu_pods, gpus=1, annotations=spread)

    assert field.placed("packed", "spread") == {"packed": 1, "spread": 0}


def test_a_preferred_affinity_outweighs_a_little_of_a_policy_and_not_much_of_it(field: Field) -> None:
    def asks(name: str, scheduler: str) -> int:
        affinity = rather(field.nodes[0])
        field.create(name, scheduler=scheduler, gpus=1, affinity=affinity, annotations={names.MODEL: A100})
        return field.placed(name)[name]

    field.create("one", scheduler=DEDICATED.gpu_pods, gpus=1, node=1)
    field.placed("one")
    # One point of ours (2 of 10 against 1) is worth 100 there, the affinity 200.
    assert asks("little", DEDICATED.gpu_pods) == 0
    field.create("five", scheduler=DEDICATED.gpu_pods, gpus=5, node=1)
    field.placed("five")
    # Node 1 has 8 points by now, node 0 two.
    assert asks("much", DEDICATED.gpu_pods) == 1
    # The same points, each worth a tenth.
    assert asks("light", EXISTING.gpu_pods) == 0


# --- pods without GPUs never reach the extender ------------------------------------------------------------
@MODES
def test_no_class_that_may_be_made_displaces_a_pod_of_the_booked_class(field: Field, mode: Mode) -> None:
    with pytest.raises(ApiError):
        field.kube.create(PRIORITY_CLASSES, {"metadata": {"name": "higher"}, "value": HIGHEST + 1})
    field.create(
        "booked", scheduler=mode.gpu_pods, gpus=1, node=0, cpu=WHOLE_NODE, priority_class=names.BOOKED_CLASS
    )
    field.placed("booked")
    field.create("web", scheduler=mode.other_pods, node=0, cpu=WHOLE_NODE, priority_class="highest")
    field.await_unschedulable("web")

    assert not field.pod("web").status.nominated_node_name
    assert field.living() == {"booked", "web"}


@MODES
def test_an_opportunistic_pod_is_displaced_by_any_higher_class_without_our_being_asked(
    field: Field, mode: Mode
) -> None:
    field.create(
        "unbooked",
        scheduler=mode.gpu_pods,
        gpus=1,
        node=0,
        cpu=WHOLE_NODE,
        priority_class=names.OPPORTUNISTIC_CLASS,
    )
    field.placed("unbooked")
    field.create("web", scheduler=mode.other_pods, node=0, cpu=WHOLE_NODE, priority_class="important")

    assert field.placed("web") == {"web": 0}
    assert field.living() == {"web"}


@MODES
@pytest.mark.parametrize(
    ("own", "other"),
    [(names.OPPORTUNISTIC_CLASS, "important"), (names.BOOKED_CLASS, "system-cluster-critical")],
    ids=["adopted", "critical"],
)
def test_a_booked_pod_is_unprotected_in_the_documented_cases(
    field: Field, mode: Mode, own: str, other: str
) -> None:
    """A pod that ran before its booking began keeps its class; classes of Kubernetes' own are above ours."""
    field.book("alice", A100, 1)
    field.create("booked", scheduler=mode.gpu_pods, gpus=1, node=0, cpu=WHOLE_NODE, priority_class=own)
    field.placed("booked")
    field.create("web", scheduler=mode.other_pods, node=0, cpu=WHOLE_NODE, priority_class=other)

    assert field.placed("web") == {"web": 0}
    assert field.living() == {"web"}


# --- pods with GPUs that preempt ---------------------------------------------------------------------------
@MODES
def test_l2_a_booked_pod_is_spared_and_a_victim_of_the_wrong_model_replaced(field: Field, mode: Mode) -> None:
    field.book("alice", A100, 2)
    for name, user, index in (("hers", "alice", 0), ("his", "bob", 1)):
        field.create(
            name, scheduler=mode.gpu_pods, gpus=2, node=2, user=user, annotations={names.MODEL: A100}
        )
        assert field.placed(name) == {name: 2}, index
    field.create("wrong", scheduler=mode.gpu_pods, gpus=4, node=2, user="carol")
    field.placed("wrong")
    field.create(
        "preempts",
        scheduler=mode.gpu_pods,
        gpus=2,
        node=2,
        user="bob",
        priority_class="important",
        annotations={names.MODEL: A100},
    )

    assert field.placed("preempts") == {"preempts": 2}
    assert field.living() == {"hers", "wrong", "preempts"}
    hers, preempts = (devices_of(assignment_of(field.pod(name)) or {}) for name in ("hers", "preempts"))
    assert len(preempts) == 2
    assert not hers & preempts


@MODES
def test_l2_no_pod_is_evicted_where_only_booked_pods_have_the_model(field: Field, mode: Mode) -> None:
    field.book("alice", A100, 4)
    field.create("hers", scheduler=mode.gpu_pods, gpus=4, node=2, annotations={names.MODEL: A100})
    field.placed("hers")
    field.create("wrong", scheduler=mode.gpu_pods, gpus=4, node=2, user="carol")
    field.placed("wrong")
    wanting = {"user": "bob", "priority_class": "important", "annotations": {names.MODEL: A100}}
    field.create("preempts", scheduler=mode.gpu_pods, gpus=2, node=2, **wanting)
    field.await_unschedulable("preempts")
    assert not field.pod("preempts").status.nominated_node_name
    assert field.living() == {"hers", "wrong", "preempts"}

    field.kube.delete(scheduling.BOOKINGS, "b-alice")
    field.create("again", scheduler=mode.gpu_pods, gpus=2, node=2, **wanting)
    eventually(lambda: "hers" not in field.living(), deadline=PATIENCE)
