"""What is read of a pod: its requests, whether it is alive, and since when it has its place."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.objects.pods import (
    Container,
    ContainerNeed,
    Pod,
    Resources,
    asks_for_gpus,
    container_needs,
    first_created,
    has_condition,
    is_live,
    is_terminal,
    is_terminating,
    requested_models,
)
from cluster.objects.quantity import QuantityError, parse_count
from tests.fakes.objects import A100, A6000, EPOCH, PodBuilder, a_pod

MIG = "nvidia.com/mig-1g.5gb"


def limited(limits: dict[str, object], **more: object) -> Pod:
    """A pod of one container with these limits."""
    container = {"name": "main", "resources": {"limits": limits, **more}}
    return msgspec.convert({"spec": {"containers": [container]}}, Pod)


class TestNeeds:
    def test_init_containers_are_served_before_app_containers(self) -> None:
        pod = a_pod().asks(1, container="main").init("setup", 2).sidecar("proxy", 1).obj

        assert [(need.name, need.kind, need.count) for need in container_needs(pod)] == [
            ("setup", "init", 2),
            ("proxy", "sidecar", 1),
            ("main", "app", 1),
        ]

    def test_a_container_asks_for_several_resources_in_the_order_of_their_names(self) -> None:
        assert container_needs(limited({MIG: "2", names.GPU_RESOURCE: "1", "cpu": "4"})) == (
            ContainerNeed(name="main", kind="app", resource=names.GPU_RESOURCE, count=1),
            ContainerNeed(name="main", kind="app", resource=MIG, count=2),
        )

    @pytest.mark.parametrize(
        ("resource", "is_ours"),
        [
            (names.GPU_RESOURCE, True),
            ("nvidia.com/mig-1g.10gb.me", True),
            (names.SHARED_RESOURCE, True),
            (names.GPU_MEMORY, False),
            ("nvidia.com/pgpu", False),
            ("nvidia.com/mig", False),
            ("amd.com/gpu", False),
            (names.GPU_QUOTA, False),
        ],
    )
    def test_gpus_mig_profiles_and_shares_alone_count(self, resource: str, *, is_ours: bool) -> None:
        assert asks_for_gpus(limited({resource: "1"})) is is_ours

    @pytest.mark.parametrize("amount", ["2", 2, "2000m", "0.002k", "2e0"])
    def test_an_amount_is_read_in_every_spelling(self, amount: object) -> None:
        assert [need.count for need in container_needs(limited({names.GPU_RESOURCE: amount}))] == [2]

    @pytest.mark.parametrize("amount", ["1.5", "500m", "-1", "all", "", -1])
    def test_an_amount_that_is_not_a_number_of_devices_is_an_error(self, amount: object) -> None:
        with pytest.raises(QuantityError):
            container_needs(limited({names.GPU_RESOURCE: amount}))

    def test_amounts_of_other_resources_are_not_read(self) -> None:
        assert container_needs(limited({"cpu": "much", names.GPU_RESOURCE: "1"}))[0].count == 1

    @pytest.mark.parametrize(
        "pod",
        [
            pytest.param(Pod(), id="no containers"),
            pytest.param(msgspec.convert({"spec": {"containers": None}}, Pod), id="null containers"),
            pytest.param(a_pod().obj, id="no resources"),
            pytest.param(limited({"cpu": "1"}), id="other resources"),
            pytest.param(limited({names.GPU_RESOURCE: "0"}), id="none of them"),
            pytest.param(limited({}, requests={names.GPU_RESOURCE: "1"}), id="a request without a limit"),
            pytest.param(
                msgspec.convert({"spec": {"containers": [{"resources": {"limits": None}}]}}, Pod),
                id="null limits",
            ),
        ],
    )
    def test_without_a_limit_nothing_is_asked_for(self, pod: Pod) -> None:
        assert container_needs(pod) == ()
        assert not asks_for_gpus(pod)

    @pytest.mark.parametrize(
        "pod", [a_pod().asks(1, resource=MIG), a_pod().init("setup", 1), a_pod().sidecar("proxy", 1)]
    )
    def test_any_container_that_asks_makes_the_pod_ask(self, pod: PodBuilder) -> None:
        assert asks_for_gpus(pod.obj)

    @pytest.mark.parametrize(
        ("policy", "kind"), [(None, "init"), ("", "init"), ("OnFailure", "init"), ("Always", "sidecar")]
    )
    def test_an_init_container_that_always_restarts_is_a_sidecar(self, policy: str | None, kind: str) -> None:
        limits = Resources(limits={names.GPU_RESOURCE: 1})
        container = Container(name="c", resources=limits, restart_policy=policy)
        spec = msgspec.structs.replace(Pod().spec, init_containers=(container,), containers=(container,))
        assert [need.kind for need in container_needs(Pod(spec=spec))] == [kind, "app"]


@given(st.lists(st.integers(0, 3), max_size=4), st.lists(st.integers(0, 3), max_size=4))
def test_every_container_with_a_limit_is_listed_once_in_its_place(inits: list[int], apps: list[int]) -> None:
    pod = a_pod()
    for number, count in enumerate(inits):
        pod = pod.sidecar(f"i{number}", count) if number % 2 else pod.init(f"i{number}", count)
    for number, count in enumerate(apps):
        pod = pod.asks(count, container=f"a{number}")
    needs = container_needs(pod.obj)
    assert [need.name for need in needs] == [
        *(f"i{number}" for number, count in enumerate(inits) if count),
        *(f"a{number}" for number, count in enumerate(apps) if count),
    ]
    assert sum(need.count for need in needs) == sum(inits) + sum(apps)


class TestModels:
    @pytest.mark.parametrize(
        ("text", "models"),
        [
            pytest.param("", set(), id="empty"),
            pytest.param(" , ,", set(), id="separators alone"),
            pytest.param(A100, {A100}, id="as a label"),
            pytest.param("NVIDIA A100-SXM4-80GB", {A100}, id="as the driver says it"),
            pytest.param(f" {A6000} ,NVIDIA  A100-SXM4-80GB,", {A100, A6000}, id="several"),
            pytest.param(f"{A100},{A100}", {A100}, id="one twice"),
            pytest.param("1g.10gb", {"1g.10gb"}, id="a MIG profile"),
        ],
    )
    def test_models_are_accepted_in_every_spelling(self, text: str, models: set[str]) -> None:
        assert requested_models(a_pod().with_annotation(names.MODEL, text).obj) == models

    def test_no_requested_model_means_any_model(self) -> None:
        assert requested_models(a_pod().obj) == frozenset()


class TestLife:
    @pytest.mark.parametrize(
        ("pod", "terminal", "terminating", "live"),
        [
            pytest.param(a_pod(), False, False, True, id="waiting"),
            pytest.param(a_pod().ended("Running"), False, False, True, id="running"),
            pytest.param(a_pod().ended("Unknown"), False, False, True, id="of a lost node"),
            pytest.param(a_pod().ended("Succeeded"), True, False, False, id="done"),
            pytest.param(a_pod().ended("Failed"), True, False, False, id="failed"),
            pytest.param(a_pod().terminating(), False, True, False, id="terminating"),
            pytest.param(
                a_pod().ended("Failed").terminating(), True, True, False, id="failed and terminating"
            ),
        ],
    )
    def test_a_pod_lives_until_it_has_ended_or_is_deleted(
        self, pod: PodBuilder, *, terminal: bool, terminating: bool, live: bool
    ) -> None:
        obj = pod.obj
        assert (is_terminal(obj), is_terminating(obj), is_live(obj)) == (terminal, terminating, live)

    def test_a_pod_without_a_status_lives(self) -> None:
        assert is_live(Pod())

    @pytest.mark.parametrize(
        ("conditions", "is_ready"),
        [
            ([], False),
            (None, False),
            ([{"type": "Ready", "status": "True"}], True),
            ([{"type": "Ready", "status": "False"}], False),
            ([{"type": "Ready", "status": "Unknown"}], False),
            ([{"type": "Ready"}], False),
            ([{"type": "ContainersReady", "status": "True"}], False),
            ([{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}], True),
        ],
    )
    def test_a_condition_holds_where_its_status_is_true(
        self, conditions: list[dict[str, str]] | None, *, is_ready: bool
    ) -> None:
        pod = msgspec.convert({"status": {"conditions": conditions}}, Pod)
        assert has_condition(pod, "Ready") is is_ready

    def test_the_key_of_a_pod_is_its_namespace_and_name(self) -> None:
        assert a_pod("web").obj.key == "default/web"


class TestFirstCreated:
    CREATED = EPOCH + timedelta(hours=5)

    def read(self, text: str | None) -> datetime:
        pod = a_pod().created(self.CREATED)
        return first_created((pod if text is None else pod.with_annotation(names.FIRST_CREATED, text)).obj)

    def test_a_recreated_pod_keeps_the_place_of_its_original(self) -> None:
        assert self.read("2026-11-23T09:00:00Z") == EPOCH
        assert self.read("2026-11-23T10:00:00+01:00") == EPOCH

    @pytest.mark.parametrize(
        "text", [None, "", "yesterday", "nan", "1e400", "2026-11-23", "2026-11-23T09:00:00", "{}", "null"]
    )
    def test_an_unreadable_original_creation_time_is_ignored(self, text: str | None) -> None:
        assert self.read(text) == self.CREATED

    def test_a_pod_that_was_not_created_yet_comes_last(self) -> None:
        assert first_created(Pod()) == datetime.max.replace(tzinfo=UTC)
        assert first_created(a_pod().with_annotation(names.FIRST_CREATED, EPOCH.isoformat()).obj) == EPOCH


def test_a_pod_is_read_as_an_api_server_writes_it() -> None:
    """Names that camel case alone does not give, and others that are easily mistaken."""
    pod = msgspec.convert(
        {
            "spec": {
                "nodeName": "n0",
                "schedulerName": names.SCHEDULER_NAME,
                "priorityClassName": names.BOOKED_CLASS,
                "terminationGracePeriodSeconds": 30,
                "overhead": {"cpu": "250m"},
                "containers": [{"name": "main", "ports": [{"hostPort": 80, "hostIP": "10.0.0.1"}]}],
            },
            "status": {
                "nominatedNodeName": "n1",
                "startTime": "2026-11-23T09:00:00Z",
                "containerStatuses": [
                    {
                        "name": "main",
                        "state": {"running": {"startedAt": "2026-11-23T09:00:00Z"}},
                    }
                ],
            },
        },
        Pod,
    )
    ((port,),) = [container.ports or () for container in pod.spec.containers or ()]
    (status,) = pod.status.container_statuses or ()
    spec = pod.spec
    assert (port.host_port, port.host_ip, port.protocol) == (80, "10.0.0.1", None)
    assert (spec.node_name, spec.scheduler_name, spec.priority_class_name) == (
        "n0",
        names.SCHEDULER_NAME,
        names.BOOKED_CLASS,
    )
    assert (spec.termination_grace_period_seconds, spec.overhead) == (30, {"cpu": "250m"})
    assert (pod.status.nominated_node_name, pod.status.start_time) == ("n1", EPOCH)
    assert status.state is not None
    assert status.state.running is not None
    assert (status.state.running.started_at, status.state.terminated) == (EPOCH, None)


@pytest.mark.parametrize(("text", "number"), [("2", 2), ("2000m", 2), ("2k", 2000), ("0", 0), ("+3", 3)])
def test_a_quantity_is_a_whole_number(text: str, number: int) -> None:
    assert parse_count(text) == number


@pytest.mark.parametrize(
    "text", ["", "x", "1.5", "500m", "-1", "1Q", "NaN", "Infinity", "1e999999999", "16E"]
)
def test_anything_else_is_no_quantity_of_devices(text: str) -> None:
    with pytest.raises(QuantityError):
        parse_count(text)
