"""Shares of GPUs in the words of other products: as container limits, or refused."""

from typing import Any

import pytest

from booking.controller.admission.owner import PodNamespace
from booking.controller.admission.sharing_dialects.translation import DIALECTS, Sharing
from cluster import dialect_names, names
from cluster.objects.replaced_fields import replaced_in
from tests.booking.controller.admission.fake_cluster_view import (
    OURSELVES,
    FakeClusterView,
    Json,
    a_pod,
    annotations,
    reviewed,
)
from tests.fakes.objects import A100, A6000

GPU, SHARED = names.GPU_RESOURCE, names.SHARED_RESOURCE
MIB, PERCENT, CORES, ALIYUN = names.GPU_AMOUNTS
MIG = f"{names.MIG_RESOURCE_PREFIX}1g.10gb"


def asking(*limits: Json, spec: Json | None = None, **metadata: Any) -> Json:
    """A pod with a container for each of these limits, the first one called ``main``."""
    called = ["main", *(f"more-{number}" for number in range(1, len(limits)))]
    both = [{key: str(value) for key, value in one.items()} for one in limits]
    containers = [
        {"name": name, "resources": {"limits": dict(one), "requests": dict(one)}}
        for name, one in zip(called, both, strict=True)
    ]
    return a_pod(spec={"containers": containers, **(spec or {})}, **metadata)


def limits(pod: Json) -> list[Json]:
    """Of each container; requests are the same."""
    resources = [one["resources"] for one in pod["spec"]["containers"]]
    assert all(one["limits"] == one["requests"] for one in resources)
    return [{key: int(value) for key, value in one["limits"].items()} for one in resources]


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ({GPU: 1, MIB: 8192}, {SHARED: 1, MIB: 8192}),
        ({GPU: 2, PERCENT: 25, CORES: 30}, {SHARED: 2, PERCENT: 25, CORES: 30}),
        ({MIB: 2**31 - 1}, {SHARED: 1, MIB: 2**31 - 1}),
        ({MIB: "8k", "memory": 5}, {SHARED: 1, MIB: "8k", "memory": 5}),
        ({GPU: 2, PERCENT: 100}, {GPU: 2}),
        ({GPU: 1, MIB: 8192, CORES: 100}, {GPU: 1}),
        ({ALIYUN: 3, CORES: 100}, {GPU: 1}),
        ({GPU: 1, CORES: 30}, {GPU: 1}),
        ({GPU: 1, MIB: 8192, dialect_names.HAMI_PRIORITY: 0}, {SHARED: 1, MIB: 8192}),
        ({GPU: 0, MIB: 8192}, {GPU: 0, MIB: 8192}),
        ({GPU: 1, SHARED: 0, MIB: 8192}, {SHARED: 1, MIB: 8192}),
        ({ALIYUN: 3}, {SHARED: 1, MIB: 3072, ALIYUN: 3}),
        ({ALIYUN: 3, CORES: 10}, {SHARED: 1, MIB: 3072, CORES: 10, ALIYUN: 3}),
        ({SHARED: 2}, {SHARED: 2, PERCENT: 25}),
        ({SHARED: 1, MIB: 4096}, {SHARED: 1, MIB: 4096}),
        ({SHARED: 1, CORES: 30}, {SHARED: 1, PERCENT: 25, CORES: 30}),
        ({GPU: 3}, {GPU: 3}),
        ({MIG: 1}, {MIG: 1}),
    ],
    ids=str,
)
def test_amounts_end_as_limits_of_the_container(given: Json, canonical: Json) -> None:
    pod, outcome = reviewed(asking(given))
    assert outcome.refused is None
    found = pod["spec"]["containers"][0]["resources"]["limits"]
    assert found == {key: str(value) for key, value in canonical.items()}
    assert found == pod["spec"]["containers"][0]["resources"]["requests"]
    again, _ = reviewed(pod, is_last=True)
    assert again["spec"]["containers"] == pod["spec"]["containers"]


@pytest.mark.parametrize(
    ("annotated", "canonical"),
    [
        ({dialect_names.KAI_FRACTION: "0.5"}, {SHARED: 1, PERCENT: 50}),
        ({dialect_names.KAI_FRACTION: "0.29"}, {SHARED: 1, PERCENT: 29}),
        ({dialect_names.KAI_FRACTION: ".333"}, {SHARED: 1, PERCENT: 33}),
        ({dialect_names.KAI_FRACTION: "5e-1", dialect_names.KAI_DEVICES: "2"}, {SHARED: 2, PERCENT: 50}),
        ({dialect_names.KAI_FRACTION: "1"}, {GPU: 1}),
        ({dialect_names.KAI_MEMORY: "2000"}, {SHARED: 1, MIB: 2000}),
    ],
    ids=str,
)
def test_kais_annotations_end_as_limits_of_the_first_container(annotated: Json, canonical: Json) -> None:
    pod, _ = reviewed(asking({}, {}, annotations=annotated))
    assert limits(pod) == [canonical, {}]
    assert annotated.items() <= annotations(pod).items()


def test_kais_container_is_the_one_that_is_named() -> None:
    named = {dialect_names.KAI_FRACTION: "0.5", dialect_names.KAI_CONTAINER: "more-1"}
    assert limits(reviewed(asking({}, {}, annotations=named))[0]) == [{}, {SHARED: 1, PERCENT: 50}]


@pytest.mark.parametrize(
    "given",
    [
        {GPU: 1, MIB: 8192, PERCENT: 25},
        {GPU: 1, MIB: 0},
        {GPU: 1, MIB: -1},
        {GPU: 1, MIB: "1e-9"},
        {MIB: 2**31},
        {MIB: 10**18},
        {MIB: "8Gi"},
        {GPU: "0.5", MIB: 1},
        {GPU: 1, PERCENT: 101},
        {SHARED: 1, CORES: 101},
        {ALIYUN: 2**21},
        {ALIYUN: 3, MIB: 4096},
        {GPU: 1, ALIYUN: 3},
        {GPU: 1, SHARED: 1},
        {MIG: 1, MIB: 8192},
    ],
    ids=str,
)
def test_what_no_share_can_be_is_refused_in_one_sentence(given: Json) -> None:
    outcome = reviewed(asking(given))[1]
    assert outcome.kind == "refused"
    assert outcome.refused
    assert (outcome.refused.count(". "), outcome.refused[-1]) == (0, ".")
    assert outcome.refused.startswith("Container main ")
    assert not outcome.patch


@pytest.mark.parametrize(
    "annotated",
    [
        *(
            {dialect_names.KAI_FRACTION: text}
            for text in ("NaN", "1e-9", "0.5Gi", "0", "-0.5", "1.5", "inf", "", ".", "\u0660.\u0665", "e-1")
        ),
        *(
            {dialect_names.KAI_MEMORY: text}
            for text in ("8Gi", "0", "-1", str(2**31), str(10**18), "1.5", "NaN")
        ),
        {dialect_names.KAI_FRACTION: "0.5", dialect_names.KAI_MEMORY: "2000"},
        {dialect_names.KAI_FRACTION: "0.5", dialect_names.KAI_DEVICES: "0"},
        {dialect_names.KAI_FRACTION: "0.5", dialect_names.KAI_CONTAINER: "nobody"},
    ],
    ids=str,
)
def test_annotations_of_kai_that_say_no_share_are_refused(annotated: Json) -> None:
    assert reviewed(asking({}, annotations=annotated))[1].kind == "refused"


@pytest.mark.parametrize("other", [{GPU: 1}, {MIG: 1}])
def test_a_pod_has_shares_or_whole_gpus(other: Json) -> None:
    assert reviewed(asking({SHARED: 1, MIB: 1024}, other))[1].kind == "refused"
    assert reviewed(asking({}, other, annotations={dialect_names.KAI_FRACTION: "0.5"}))[1].kind == "refused"


@pytest.mark.parametrize("way", [{"hostPID": True}, {"hostIPC": True}])
def test_a_pod_that_no_limit_holds_gets_no_share(way: Json) -> None:
    assert reviewed(asking({GPU: 1, MIB: 1024}, spec=way))[1].kind == "refused"
    assert reviewed(asking({GPU: 1}, spec=way))[1].kind == "booked"


def test_a_privileged_container_beside_a_share_is_refused() -> None:
    pod = asking({GPU: 1, MIB: 1024}, {})
    pod["spec"]["containers"][1]["securityContext"] = {"privileged": True}
    assert reviewed(pod)[1].kind == "refused"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_dialect_that_is_off_is_not_read(dialect: str) -> None:
    given = {
        "hami": asking({GPU: 1, MIB: 8192}),
        "gpushare": asking({ALIYUN: 3}),
        "kai": asking({}, annotations={dialect_names.KAI_FRACTION: "NaN"}),
        "nvidia": asking({SHARED: 1}),
    }[dialect]
    sharing = Sharing(dialects=tuple(one for one in DIALECTS if one != dialect))
    pod, outcome = reviewed(given, sharing=sharing)
    assert outcome.refused is None
    assert pod["spec"]["containers"] == given["spec"]["containers"]


def test_the_units_and_defaults_of_an_installation_count() -> None:
    sharing = Sharing(gpushare_unit="MiB", default_percentage=50)
    pod, _ = reviewed(asking({ALIYUN: 3000}, {SHARED: 1}), sharing=sharing)
    assert limits(pod) == [{SHARED: 1, MIB: 3000, ALIYUN: 3000}, {SHARED: 1, PERCENT: 50}]


class TestNamespaces:
    @staticmethod
    def admitted(pod: Json, default: str, creator: str = "alice") -> tuple[Json, Any]:
        namespace = PodNamespace(name="default", default_share=default)
        return reviewed(pod, creator, FakeClusterView(namespaces={"default": namespace}))

    @pytest.mark.parametrize(
        ("default", "canonical"),
        [
            ("25%", {SHARED: 2, PERCENT: 25}),
            ("8Gi", {SHARED: 2, MIB: 8192}),
            ("100%", {GPU: 2}),
            *((text, {GPU: 2}) for text in ("NaN%", "0%", "101%", "1e-9", "half", "-8Gi", "1e30")),
        ],
    )
    def test_a_plain_gpu_means_what_the_namespace_says(self, default: str, canonical: Json) -> None:
        pod, outcome = self.admitted(asking({GPU: 2}), default)
        assert limits(pod) == [canonical]
        assert any(names.DEFAULT_SHARE in warning for warning in outcome.warnings) == (
            default not in {"25%", "8Gi", "100%"}
        )

    def test_a_pod_that_says_so_gets_whole_gpus(self) -> None:
        pod, _ = self.admitted(asking({GPU: 2}, annotations={names.SHARING: "whole"}), "25%")
        assert limits(pod) == [{GPU: 2}]
        assert names.SHARING_MODE not in annotations(pod)

    def test_it_counts_neither_for_amounts_nor_for_mig_nor_for_pods_that_no_limit_holds(self) -> None:
        assert limits(self.admitted(asking({GPU: 1, MIB: 4096}), "25%")[0]) == [{SHARED: 1, MIB: 4096}]
        assert limits(self.admitted(asking({GPU: 1}, {MIG: 1}), "25%")[0]) == [{GPU: 1}, {MIG: 1}]
        assert limits(self.admitted(asking({GPU: 1}, spec={"hostPID": True}), "25%")[0]) == [{GPU: 1}]

    @pytest.mark.parametrize("forged", [names.ADMITTED, names.STATIC_POD])
    def test_l7_a_forged_mark_does_not_lift_it(self, forged: str) -> None:
        assert limits(self.admitted(asking({GPU: 1}, annotations={forged: "x"}), "25%")[0]) == [
            {SHARED: 1, PERCENT: 25}
        ]

    def test_a_whole_pod_that_comes_back_stays_whole(self) -> None:
        assert limits(self.admitted(asking({GPU: 1}), "25%", OURSELVES)[0]) == [{GPU: 1}]


def test_hamis_parts_of_model_names_are_whole_names_here() -> None:
    view = FakeClusterView(gpu_models=frozenset({A100, A6000}))
    written = {
        dialect_names.HAMI_TYPE: "a100, H100",
        dialect_names.HAMI_NOT_TYPE: "RTX A6000",
        dialect_names.HAMI_UUID: "GPU-1",
        dialect_names.HAMI_NOT_UUID: "GPU-2,GPU-3",
    }
    pod, _ = reviewed(asking({GPU: 1}, annotations={**written, names.UUID: "GPU-9"}), view=view)
    found = annotations(pod)
    assert found[names.MODEL] == f"{A100},H100"
    assert found[names.NOT_MODEL] == A6000
    assert found[names.NOT_UUID] == "GPU-2,GPU-3"
    assert found[names.UUID] == "GPU-9"


@pytest.mark.parametrize(
    ("wanted", "mode"), [(None, "time-slice"), ("mps", "mps"), ("any", "any"), ("best", "time-slice")]
)
def test_l7_the_mode_is_admissions_to_write(wanted: str | None, mode: str) -> None:
    given = {names.SHARING_MODE: "forged"} | ({names.SHARING: wanted} if wanted else {})
    pod, _ = reviewed(asking({GPU: 1, MIB: 1024}, annotations=given))
    assert annotations(pod)[names.SHARING_MODE] == mode


def test_a_container_with_shares_of_several_gpus_takes_turns_on_them_or_is_refused() -> None:
    several = {GPU: 2, MIB: 1024}
    pod, _ = reviewed(asking(several, annotations={names.SHARING: "any"}))
    assert annotations(pod)[names.SHARING_MODE] == "time-slice"
    outcome = reviewed(asking(several, annotations={names.SHARING: "mps"}))[1]
    assert "a share of one GPU" in (outcome.refused or "")


def test_the_limits_that_were_replaced_are_on_record() -> None:
    pod, _ = reviewed(asking({GPU: 2, MIB: 1024}, {}))
    assert replaced_in(annotations(pod)).limits == {"main": {GPU: "2"}}


class TestLosingIt:
    WORDS = (
        asking({GPU: 1, MIB: 8192, CORES: 10}),
        asking({ALIYUN: 3}),
        asking({SHARED: 1}),
        asking({}, annotations={dialect_names.KAI_FRACTION: "0.5"}),
    )

    @pytest.mark.parametrize("given", WORDS, ids=str)
    def test_a_pod_that_starts_without_a_gpu_keeps_no_amount(self, given: Json) -> None:
        pod, outcome = reviewed(given, "bob", FakeClusterView(has="full"), unbooked="strip")
        assert outcome.kind == "stripped"
        assert limits(pod) == [{}]
        assert not {*dialect_names.KAI_REQUESTS, names.SHARING_MODE, names.REPLACED} & annotations(pod).keys()

    @pytest.mark.parametrize("given", WORDS, ids=str)
    def test_l7_a_slot_that_another_webhook_removes_does_not_come_back(self, given: Json) -> None:
        seen, _ = reviewed(given)
        for part in ("limits", "requests"):
            del seen["spec"]["containers"][0]["resources"][part][SHARED]
        pod, outcome = reviewed(seen, is_last=True)
        assert outcome.kind == "gpu-removed"
        assert limits(pod) == [{}]
        assert not {*dialect_names.KAI_REQUESTS, names.SHARING_MODE, names.ADMITTED} & annotations(pod).keys()

    def test_what_kais_annotations_say_later_changes_nothing(self) -> None:
        seen, _ = reviewed(asking({}, annotations={dialect_names.KAI_FRACTION: "0.5"}))
        seen["metadata"]["annotations"][dialect_names.KAI_FRACTION] = "1"
        pod, _ = reviewed(seen, is_last=True)
        assert limits(pod) == [{SHARED: 1, PERCENT: 50}]

    def test_a_limit_range_makes_no_share(self) -> None:
        filled = asking({GPU: 1, MIB: 40000})
        recorded = f"LimitRanger plugin set: {MIB} request for container main; {MIB} limit for container main"
        filled["metadata"]["annotations"] = {names.LIMIT_RANGER: recorded}
        assert limits(reviewed(filled)[0]) == [{GPU: 1, MIB: 0}]
