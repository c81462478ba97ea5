import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.controller.reclaimer.evictions.manifest import TOKEN_PATH
from booking.controller.reclaimer.evictions.replacement_pod import replacement_pod
from booking.controller.reclaimer.evictor import Back
from cluster import dialect_names, names
from cluster.kube.resources import WholePod
from cluster.objects.replaced_fields import Replaced, encode_replaced

Json = dict[str, Any]

BLIND = {"name": names.VISIBLE_DEVICES_VARIABLE, "value": "none"}
SHARES = (names.SHARED_RESOURCE, *names.GPU_AMOUNTS)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
META = {"name": "p", "namespace": "team", "uid": "v", "creationTimestamp": "2026-11-20T08:00:00Z"}


def whole(spec: Json, **metadata: Any) -> WholePod:
    return msgspec.convert({"metadata": {**META, **metadata}, "spec": spec}, WholePod)


def spec_after(**spec: Any) -> Json:
    return spec_after_of(whole(spec))


def spec_after_of(pod: WholePod) -> Json:
    after: Json = replacement_pod(pod, back="without-gpu", reason="evicted")["spec"]
    return after


def metadata_after(**metadata: Any) -> Json:
    after: Json = replacement_pod(whole({}, **metadata), back="without-gpu", reason="evicted")["metadata"]
    return after


# --- what it requests --------------------------------------------------------------------------------------

amounts = st.dictionaries(
    st.sampled_from(
        ["cpu", "memory", names.GPU_RESOURCE, "nvidia.com/mig-1g.10gb", "example.com/fpga", *SHARES]
    ),
    st.sampled_from(["1", "2", "500m"]),
)
variables = st.lists(
    st.one_of(
        st.builds(lambda name: {"name": name, "value": "x"}, st.sampled_from(["A", "B"])),
        st.just({"name": names.VISIBLE_DEVICES_VARIABLE, "value": "all"}),
        st.just(
            {
                "name": names.VISIBLE_DEVICES_VARIABLE,
                "valueFrom": {"configMapKeyRef": {"name": "x", "key": "y"}},
            }
        ),
    ),
    max_size=3,
)
containers = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("abc"), "image": st.just("x")},
        optional={
            "resources": st.fixed_dictionaries(
                {}, optional={"limits": amounts, "requests": amounts, "claims": st.just([{"name": "c"}])}
            ),
            "env": variables,
            "envFrom": st.just([{"configMapRef": {"name": "x"}}]),
            "command": st.just(["run"]),
            "restartPolicy": st.just("Always"),
            "volumeMounts": st.just([{"name": "data", "mountPath": "/data"}]),
        },
    ),
    min_size=1,
    max_size=3,
)


def without_gpu_amounts(resources: Json) -> Json:
    return {
        key: {k: v for k, v in value.items() if not names.is_gpu_request(k)}
        if key in ("limits", "requests")
        else value
        for key, value in resources.items()
    }


def other_variables(container: Json) -> list[Json]:
    return [one for one in container.get("env") or [] if one["name"] != names.VISIBLE_DEVICES_VARIABLE]


@given(containers, containers)
def test_gpu_requests_are_removed_from_all_containers_and_everything_else_stays(
    apps: list[Json], inits: list[Json]
) -> None:
    before = {"containers": apps, "initContainers": inits}
    untouched = copy.deepcopy(before)
    after = spec_after(**before)
    assert before == untouched
    for group in ("containers", "initContainers"):
        for was, now in zip(before[group], after[group], strict=True):
            assert now.get("resources") == (
                without_gpu_amounts(was["resources"]) if "resources" in was else None
            )
            assert BLIND in now["env"]
            assert other_variables(now) == other_variables(was)
            assert all(one == BLIND for one in now["env"] if one["name"] == names.VISIBLE_DEVICES_VARIABLE)
            rest = {"resources", "env"}
            assert {k: v for k, v in now.items() if k not in rest} == {
                k: v for k, v in was.items() if k not in rest
            }
    assert names.GPU_RESOURCE.encode() not in msgspec.json.encode(after)
    assert names.MIG_RESOURCE_PREFIX.encode() not in msgspec.json.encode(after)


# --- where it may run --------------------------------------------------------------------------------------


def term(*keys: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": "Exists"} for key in keys]}


def required_after(*terms: Json) -> Json:
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}
    node_affinity: Json = spec_after(affinity=affinity)["affinity"]["nodeAffinity"]
    return node_affinity


def test_labels_of_gpu_nodes_are_no_longer_required() -> None:
    selector = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "disk": "ssd"}
    assert spec_after(nodeSelector=selector)["nodeSelector"] == {"disk": "ssd"}
    assert required_after(term("nvidia.com/gpu.present", "disk")) == {
        REQUIRED: {"nodeSelectorTerms": [term("disk")]}
    }


def test_a_term_about_gpus_alone_drops_the_whole_requirement() -> None:
    assert required_after(term("nvidia.com/gpu.present"), term("disk")) == {}
    assert required_after(term("nvidia.com/gpu.present")) == {}


def test_other_affinities_and_tolerations_stay() -> None:
    preferred = [{"weight": 1, "preference": term("disk")}]
    affinity = {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred},
        "podAffinity": {},
    }
    tolerations = [{"key": names.GPU_RESOURCE, "operator": "Exists"}]
    after = spec_after(affinity=affinity, tolerations=tolerations)
    assert (after["affinity"], after["tolerations"]) == (affinity, tolerations)


def test_a_gpu_runtime_class_is_removed_and_any_other_stays() -> None:
    overhead = {"cpu": "100m"}
    gone = spec_after(runtimeClassName="nvidia-cdi", overhead=overhead)
    assert "runtimeClassName" not in gone
    assert "overhead" not in gone
    kept = spec_after(runtimeClassName="gvisor", overhead=overhead)
    assert kept["runtimeClassName"] == "gvisor"


# --- what others have written ------------------------------------------------------------------------------


def test_the_values_that_admission_replaced_are_restored() -> None:
    replaced = encode_replaced(Replaced(scheduler_name="mine", priority_class_name="batch"))
    spec = {
        "schedulerName": names.SCHEDULER_NAME,
        "priorityClassName": names.BOOKED_CLASS,
        "priority": 1000000000,
        "preemptionPolicy": "Never",
    }
    after = spec_after_of(whole(spec, annotations={names.REPLACED: replaced}))
    assert after == {"schedulerName": "mine", "priorityClassName": "batch"}
    assert spec_after_of(whole(spec)) == {"schedulerName": "default-scheduler"}


def test_fields_of_the_old_pod_alone_are_not_copied() -> None:
    spec = {"nodeName": "n0", "ephemeralContainers": [{"name": "debug"}], "hostname": "h", "subdomain": "s"}
    assert spec_after(**spec) == {"hostname": "h", "subdomain": "s", "schedulerName": "default-scheduler"}
    meta = metadata_after(
        resourceVersion="7",
        deletionTimestamp="2026-11-23T09:00:00Z",
        finalizers=["x/y"],
        ownerReferences=[{"kind": "X", "name": "x", "uid": "x"}],
    )
    assert set(meta) == {"name", "namespace", "labels", "annotations"}


def test_the_injected_token_is_removed_with_its_mounts_and_the_users_volumes_stay() -> None:
    mounts = [{"name": "kube-api-access-bcdfg", "mountPath": TOKEN_PATH}, {"name": "data", "mountPath": "/d"}]
    container = {"name": "main", "volumeMounts": mounts}
    volumes = [{"name": "kube-api-access-bcdfg", "projected": {}}, {"name": "data", "emptyDir": {}}]
    after = spec_after(containers=[container], initContainers=[container], volumes=volumes)
    assert after["volumes"] == volumes[1:]
    for group in ("containers", "initContainers"):
        assert after[group][0]["volumeMounts"] == mounts[1:]


def test_labels_and_requests_stay_and_our_own_keys_are_removed() -> None:
    meta = metadata_after(
        labels={"app": "x", names.COMEBACK: "true"},
        annotations={
            names.USER: "bob",
            names.MODEL: "NVIDIA-RTX-A6000",
            names.ASSIGNED: "{}",
            names.TERMINATE_AT: "1900-01-01T00:00:00Z",
            names.HOLD: "{}",
            names.HUB_USER: "bob",
        },
    )
    assert meta["labels"] == {"app": "x"}
    assert meta["annotations"] == {
        names.USER: "bob",
        names.MODEL: "NVIDIA-RTX-A6000",
        names.HUB_USER: "bob",
        names.RECREATED_FROM: "v",
        names.FIRST_CREATED: "2026-11-20T08:00:00Z",
    }


@pytest.mark.parametrize(
    ("booking", "kept"), [({}, {"2026-11-24T09:00:00Z"}), ({names.BOOKING: "b-1"}, {None})]
)
def test_a_grant_of_maia_is_kept_by_a_pod_that_comes_back_as_it_was(
    booking: dict[str, str], kept: set[str | None]
) -> None:
    pod = whole({}, annotations={names.TERMINATE_AT: "2026-11-24T09:00:00Z", **booking})
    after = replacement_pod(pod, back="as-it-was", reason="refused")["metadata"]["annotations"]
    assert {after.get(names.TERMINATE_AT)} == kept


def test_a_pod_asks_for_a_share_again_only_where_it_comes_back_as_it_was() -> None:
    keys = {dialect_names.KAI_FRACTION: "0.5", dialect_names.KAI_DEVICES: "2"}
    slots = {"limits": dict.fromkeys(SHARES, "1"), "requests": dict.fromkeys(SHARES, "1")}
    pod = whole({"containers": [{"name": "main", "resources": slots}]}, annotations=keys)
    after = replacement_pod(pod, back="as-it-was", reason="evicted")
    assert keys.items() <= after["metadata"]["annotations"].items()
    assert after["spec"]["containers"][0]["resources"] == slots
    after = replacement_pod(pod, back="without-gpu", reason="evicted")
    assert dialect_names.KAI_FRACTION not in after["metadata"]["annotations"]
    assert after["spec"]["containers"][0]["resources"] == {"limits": {}, "requests": {}}


@pytest.mark.parametrize("back", ["as-it-was", "without-gpu"])
def test_what_gpushares_tools_read_of_the_old_gpu_is_not_on_the_replacement(back: Back) -> None:
    pod = whole({}, annotations=dict.fromkeys(dialect_names.GPUSHARE_STATE, "1"))
    after = replacement_pod(pod, back=back, reason="evicted")["metadata"]["annotations"]
    assert after.keys().isdisjoint(dialect_names.GPUSHARE_STATE)


def test_the_reason_why_a_pod_has_no_owner_is_kept() -> None:
    why = {names.NO_USER: "system:serviceaccount:ci:ci acts for others."}
    assert metadata_after(annotations=why)["annotations"].items() >= why.items()


def test_a_pod_that_came_back_before_keeps_its_first_creation_time() -> None:
    meta = metadata_after(
        annotations={names.FIRST_CREATED: "2026-10-01T00:00:00Z", names.RECREATED_FROM: "older"}
    )
    assert meta["annotations"] == {names.FIRST_CREATED: "2026-10-01T00:00:00Z", names.RECREATED_FROM: "v"}
