"""What the claims of a pod ask for."""

from typing import Any

import msgspec
import pytest

from cluster import names
from cluster.decide.claims.kept import kept
from cluster.decide.claims.requested import Rules, held_by, requested_by
from cluster.decide.claims.terms import Accepted, Terms, verdict
from cluster.objects.claims import Configuration, DeviceClass, PodClaims, ResourceClaim

CLASSES = {
    name: msgspec.convert(
        {"spec": {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}]}}, DeviceClass
    )
    for name, driver in (("gpu", names.DRA_DRIVER), ("nic", "nic.example.com"))
}
Json = dict[str, Any]


def judge(terms: Terms) -> Accepted:
    """Two nodes have two devices each, or forty H100s; of the model that the last expression names."""
    requested = terms.expressions[-1]
    if len(terms.expressions) > 2:
        return Accepted(frozenset({"GPU-0"}), frozenset({"A100"}), unknown=requested)
    if requested == "none":
        return Accepted()
    model = requested if requested in {"H100", "T4"} else "A100"
    each = {"T4": None, "H100": 40}.get(model, 2)
    return Accepted(frozenset({f"GPU-{model}"}), frozenset({model}), each=each)


RULES = Rules(judge=judge)


def exactly(of: str = "gpu", *expressions: str, key: str = "mine", **more: Any) -> Json:
    selectors = [{"cel": {"expression": one}} for one in expressions]
    tolerations = [{"key": names.HELD_TAINT, "value": key}]
    return {"deviceClassName": of, "selectors": selectors, "tolerations": tolerations, **more}


def a_claim(*requests: Json, uid: str = "c", held: tuple[str, ...] = (), **more: Any) -> ResourceClaim:
    devices = {"requests": [{"name": "r", **one} for one in requests], **more}
    status: Json = {}
    if held:
        results = [{"driver": names.DRA_DRIVER, "pool": "n0", "device": one} for one in held]
        status = {"allocation": {"devices": {"results": results}}}
    raw = {"metadata": {"name": uid, "uid": uid}, "spec": {"devices": devices}, "status": status}
    return msgspec.convert(raw, ResourceClaim)


def of(*claims: ResourceClaim | None, are_new: bool = False) -> PodClaims | None:
    return requested_by({f"c{n}": one for n, one in enumerate(claims)}, CLASSES, RULES, are_new=are_new)


def test_requests_for_our_devices_are_counted_and_judged() -> None:
    found = of(a_claim({"exactly": exactly(count=2)}), a_claim({"exactly": exactly("nic")}, uid="other"))
    assert found is not None
    assert (found.count, found.names, found.uids, found.keys) == (2, ("c0",), ("c",), ("mine",))
    assert (found.problem, found.accepted, found.models) == (None, {"GPU-A100"}, {"A100"})


def test_what_is_allocated_is_held_and_needs_no_judgement() -> None:
    found = of(a_claim({"exactly": exactly()}, held=("gpu-3",)))
    assert found is not None
    assert [one.device for one in found.held] == ["gpu-3"]
    assert (found.node, found.accepted) == ("n0", None)


def test_of_a_device_that_several_claims_may_have_the_memory_that_was_asked_for_is_held() -> None:
    consumed = {"memory": "10738466816"}  # 10 GiB and one MiB
    results = [
        {"request": request, "driver": names.DRA_DRIVER, "pool": "n0", "device": f"gpu-{n}", "shareID": "s"}
        | {"consumedCapacity": consumed}
        for n, request in enumerate(("share", "any/small", "whole"))
    ]
    capacity = {"requests": {"memory": "10Gi"}}
    requests = [
        {"name": "share", "exactly": exactly(capacity=capacity)},
        {"name": "any", "firstAvailable": [exactly(name="small", capacity=capacity)]},
        {"name": "whole", "exactly": exactly()},
    ]
    raw = {"metadata": {"uid": "c"}, "spec": {"devices": {"requests": requests}}}
    status = {"status": {"allocation": {"devices": {"results": results}}}}
    claim = msgspec.convert(raw | status, ResourceClaim)
    for one in (claim, kept(claim).whole):
        assert [device.memory for device in held_by(one, names.DRA_DRIVER)] == [10241, 10241, 0]


def test_claims_that_others_may_have_too_are_kept_devices_for_one_by_one() -> None:
    found = of(
        a_claim({"exactly": exactly(count=2, key="d")}, uid="d"), a_claim({"exactly": exactly(key="c")})
    )
    assert found is not None
    assert (found.problem, found.count, found.by_claim) == (None, 3, (("c", 1), ("d", 2)))
    assert found.keys_of(3) == ("c", "d", "d")
    assert found.keys_of(2) is None, "which claim gets which device is not known"


@pytest.mark.parametrize(
    "claim",
    [
        a_claim({"exactly": exactly("nic")}),
        a_claim({"exactly": exactly("of-no-class")}),
        a_claim({"exactly": exactly(adminAccess=True)}),
    ],
)
def test_a_pod_without_a_claim_for_our_devices_asks_for_nothing(claim: ResourceClaim) -> None:
    assert of(claim) is None


@pytest.mark.parametrize(
    "claims",
    [
        (a_claim({"exactly": exactly()}), None),
        (a_claim({"exactly": exactly()}, {"exactly": exactly("gpu", "x")}),),
        (a_claim({"firstAvailable": [exactly(name="a"), exactly("nic", name="b")]}),),
        (
            a_claim(
                {"firstAvailable": [exactly(name="a"), exactly("gpu", "H100", name="b")]},
                {"exactly": exactly()},
            ),
        ),
        (a_claim({"exactly": exactly("gpu", "T4", allocationMode="All")}),),
        (a_claim({"exactly": exactly(allocationMode="Some")}),),
        (a_claim({"exactly": exactly(allocationMode="All")}, {"exactly": exactly()}),),
        (a_claim({"exactly": exactly()}, held=("gpu-1",)), a_claim({"exactly": exactly()}, uid="d")),
        (a_claim({"exactly": exactly(count=2)}, constraints=[{"matchAttribute": "x/y"}]),),
        (a_claim({"exactly": exactly(key="")}),),
        (a_claim({"exactly": exactly("gpu", "x", "y")}),),
        (a_claim({"exactly": exactly(count=33)}),),
        (a_claim({"exactly": exactly(count=20)}, {"exactly": exactly(count=20)}),),
        (a_claim({"exactly": exactly("gpu", "H100", allocationMode="All")}),),
    ],
)
def test_nothing_is_accepted_where_it_is_not_known_what_would_do(
    claims: tuple[ResourceClaim | None, ...],
) -> None:
    found = of(*claims)
    assert found is not None
    assert found.problem
    assert found.accepted == frozenset()


def test_a_claim_that_admission_is_about_to_mark_needs_no_mark() -> None:
    found = of(a_claim({"exactly": exactly(key="")}), are_new=True)
    assert found is not None
    assert found.problem is None


def alternatives(*ways: Json) -> ResourceClaim:
    return a_claim({"firstAvailable": [{**way, "name": f"way-{n}"} for n, way in enumerate(ways)]})


def test_of_alternatives_the_first_counts_that_has_devices_of_what_is_booked() -> None:
    found = of(alternatives(exactly("gpu", "H100", count=4), exactly(count=2)))
    assert found is not None
    assert (found.problem, found.count, found.models) == (None, 4, {"A100", "H100"})
    assert (found.of_model("A100").count, found.of_model("A100").accepted) == (2, {"GPU-A100"})
    assert found.of_model("V100") == found


@pytest.mark.parametrize(
    "first",
    [
        exactly("gpu", "none", count=4),
        exactly("gpu", "H100", count=33),
        exactly("gpu", "H100", allocationMode="All"),
    ],
)
def test_an_alternative_that_no_node_has_or_that_is_too_large_is_passed_over(first: Json) -> None:
    found = of(alternatives(first, exactly()))
    assert found is not None
    assert (found.count, found.accepted, found.models) == (1, {"GPU-A100"}, {"A100"})


def test_each_claim_of_a_pod_can_have_as_many_devices_as_kubernetes_gives_to_one() -> None:
    found = of(a_claim({"exactly": exactly(count=32)}), a_claim({"exactly": exactly(count=32)}, uid="d"))
    assert found is not None
    assert (found.count, found.problem) == (64, None)


def test_all_devices_are_those_of_any_node_where_nodes_have_as_many() -> None:
    found = of(a_claim({"exactly": exactly(allocationMode="All")}))
    assert found is not None
    assert (found.problem, found.count) == (None, 2)


@pytest.mark.parametrize(
    ("request_", "shared", "memory", "is_known"),
    [
        (exactly(capacity={"requests": {"memory": "10Gi"}}), True, 10240, True),
        (exactly(capacity={"requests": {"memory": "1"}}), True, 256, True),
        (exactly(capacity={"requests": {"memory": "10Gi"}}), False, 0, True),
        (exactly(capacity={"requests": {"memory": "10Gi"}}), None, 10240, False),
        (exactly(capacity={"requests": {"memory": "10Gi"}}, count=2), True, 10240, False),
        (exactly(capacity={"requests": {"memory": "10Gi"}}, count=2), False, 0, True),
        (exactly(), True, 0, True),
        (exactly(), None, 0, True),
    ],
)
def test_an_amount_is_a_share_where_devices_can_be_shared(
    *, request_: Json, shared: bool | None, memory: int, is_known: bool
) -> None:
    some = Accepted(frozenset({"GPU-0"}), frozenset({"A100"}), shared=shared)
    claims = {"c": a_claim({"exactly": request_})}
    found = requested_by(claims, CLASSES, Rules(judge=lambda _terms: some))
    assert found is not None
    assert (found.memory, found.problem is None) == (memory, is_known)


def test_the_memory_that_a_claim_has_is_its_share_and_whole_devices_beside_it_are_none() -> None:
    share = {"exactly": exactly(capacity={"requests": {"memory": "10Gi"}})}
    assert [
        one and one.memory for one in (of_unjudged(share), of_unjudged(share, {"exactly": exactly()}))
    ] == [
        10240,
        0,
    ]


def of_unjudged(*requests: Json) -> PodClaims | None:
    return requested_by({"c": a_claim(*requests)}, CLASSES, Rules())


def test_where_nobody_plans_the_fewest_devices_count_that_will_do() -> None:
    """The filter must not refuse a node on which a later alternative fits."""
    for claim, least in (
        (alternatives(exactly(count=4), exactly(count=1)), 1),
        (a_claim({"exactly": exactly(allocationMode="All")}), 1),
        (a_claim({"exactly": exactly(count=3)}), 3),
    ):
        found = requested_by({"c": claim}, CLASSES, Rules())
        assert found is not None
        assert found.count == least


def judged(expression: str, _driver: str, _device: Any) -> bool | None:
    return {"yes": True, "no": False}.get(expression)


@pytest.mark.parametrize(
    ("terms", "device", "found"),
    [
        (Terms(("yes", "yes")), {}, True),
        (Terms(("no", "odd")), {}, False),
        (Terms(("odd", "no")), {}, "the expression odd cannot be evaluated here"),
        (Terms(capacity=(("memory", "30Gi"),)), {"capacity": {"memory": {"value": "80Gi"}}}, True),
        (Terms(capacity=(("memory", "90Gi"),)), {"capacity": {"memory": {"value": "80Gi"}}}, False),
        (Terms(capacity=(("d/memory", "1"),)), {"capacity": {"memory": {"value": "80Gi"}}}, False),
        (Terms(capacity=(("memory", "1"),)), {"allowMultipleAllocations": True}, False),
    ],
)
def test_a_device_is_judged_in_kube_schedulers_order(
    *, terms: Terms, device: Json, found: bool | str
) -> None:
    """What comes after an expression that is false is not evaluated; an error before it ends the search."""
    assert verdict(terms, names.DRA_DRIVER, device, judged) == found


def configures(strategy: str, *requests: str) -> Json:
    parameters = {"kind": "GpuConfig", "sharing": {"strategy": strategy}}
    return {"requests": requests, "opaque": {"driver": names.DRA_DRIVER, "parameters": parameters}}


@pytest.mark.parametrize(
    ("of_claim", "of_class", "uuids", "is_refused"),
    [
        ("MPS", None, {"GPU-0"}, True),
        ("MPS", None, {"MIG-0"}, False),
        ("MPS", None, {"GPU-0", "MIG-0"}, True),
        (None, "MPS", {"GPU-0"}, True),
        ("TimeSlicing", "MPS", {"GPU-0"}, False),
        ("TimeSlicing", None, {"GPU-0"}, False),
    ],
)
def test_nothing_is_accepted_where_the_driver_would_refuse_what_is_configured(
    *, of_claim: str | None, of_class: str | None, uuids: set[str], is_refused: bool
) -> None:
    claim = a_claim({"exactly": exactly()}, config=[configures(of_claim)] if of_claim else [])
    spec = msgspec.structs.replace(
        CLASSES["gpu"].spec,
        config=msgspec.convert([configures(of_class)] if of_class else [], tuple[Configuration, ...]),
    )
    classes = {"gpu": msgspec.structs.replace(CLASSES["gpu"], spec=spec)}
    for one in (claim, kept(claim).whole):
        found = requested_by(
            {"c": one}, classes, Rules(judge=lambda _: Accepted(frozenset(uuids), frozenset({"A100"})))
        )
        assert found is not None
        assert (found.refusal is not None, found.accepted == frozenset()) == (is_refused, is_refused)
        assert found.problem == found.refusal
