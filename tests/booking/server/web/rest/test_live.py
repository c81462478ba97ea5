"""What the cluster is doing now, by REST, and who may see it."""

from datetime import timedelta
from typing import Any

import pytest

from cluster import names
from cluster.decide import reasons
from cluster.decide.predicates import BOOKED_BY_OTHERS
from cluster.kube.resources import BOOKINGS, LEASES, NODES, PODS
from cluster.objects.device_usage import DeviceUsage, NodeUsage, Squatter, encode_use
from tests.booking.server.web.served import Served, problem
from tests.fakes.objects import A100, PodBuilder, a100, a_booking, a_lease, a_node, a_pod

NOW = "/api/v1/now"


@pytest.fixture
def busy(served: Served) -> Served:
    """Alice has a booked pod, bob one without a booking and one waiting; one GPU is unhealthy, one free."""
    now = served.clock.now()
    unhealthy = a100(2, health="unhealthy", reason="XID 79: fallen off the bus")
    served.cache.of(NODES).replace(
        [a_node("n0", a100(0), a100(1), unhealthy, a100(3)), a_node("n1", a100(0, "n1"))]
    )
    served.cache.of(LEASES).upsert(a_lease("n0", renewed=now))
    served.cache.of(BOOKINGS).upsert(a_booking(start=now, end=now + timedelta(days=2)))
    for pod in (
        a_pod("train").of("alice").asks(1).on("n0", {"main": ("GPU-n0-0",)}),
        a_pod("play").of("bob").asks(1).on("n0", {"main": ("GPU-n0-1",)}),
        a_pod("wait").of("bob").asks(8),
        a_pod("stray").asks(8),
    ):
        served.cache.of(PODS).upsert(pod.created(now).obj)
    return served


def seen(served: Served, user: str = "alice") -> dict[str, Any]:
    answer = served.ask("GET", NOW, user=user)
    assert answer.status_code == 200, answer.text
    return dict(answer.get_json())


def of(body: dict[str, Any], index: int) -> dict[str, Any]:
    return dict(body["nodes"][0]["devices"][index])


def test_devices_are_shown_with_holder_and_class(busy: Served) -> None:
    body = seen(busy)

    assert [node["state"] for node in body["nodes"]] == ["ready", "unresponsive"]
    assert "has not reported" in body["nodes"][1]["why"]
    assert [of(body, each)["state"] for each in range(4)] == ["booked", "opportunistic", "unhealthy", "free"]
    assert of(body, 2)["why"] == "XID 79: fallen off the bus."
    (holder,) = of(body, 0)["pods"]
    assert (holder["namespace"], holder["name"], holder["user"]) == ("default", "train", "alice")
    assert (holder["booking"], holder["until"]) == ("b-1", "2026-03-04T09:00:00Z")


def test_names_of_others_are_hidden_unless_the_policy_shows_them(busy: Served) -> None:
    hidden = {"namespace": None, "name": None, "user": None}
    (his,), (first,) = of(seen(busy), 1)["pods"], seen(busy)["next"]
    assert hidden.items() <= his.items()
    assert hidden.items() <= first.items()
    assert (first["model"], first["gpus"], first["node"]) == (A100, 1, "n0")
    assert "No booking covers it" in first["why"]
    assert hidden.items() <= of(seen(busy, "bob"), 0)["pods"][0].items()
    assert of(seen(busy, "bob"), 0)["pods"][0]["booking"] is None
    busy.visibility = "names"
    assert (of(seen(busy), 1)["pods"][0]["user"], seen(busy)["next"][0]["name"]) == ("bob", "play")
    busy.visibility = "load"
    busy.signing_in.administrators.add("alice")
    assert of(seen(busy), 1)["pods"][0]["user"] == "bob"


def encoded_use(served: Served, **more: Any) -> str:
    """The use of two GPUs as an agent reports it; ``more`` replaces parts of it."""
    return encode_use(
        NodeUsage(
            **{
                "at": served.clock.now(),
                "devices": (
                    DeviceUsage(uuid="GPU-n0-0", utilisation=87, memory=40000, temperature=61, power=288),
                    DeviceUsage(uuid="GPU-n0-1", utilisation=0, memory=900, pods={"uid-play": 700}),
                ),
                **more,
            }
        )
    )


def renew_lease(served: Served, text: str) -> None:
    served.cache.of(LEASES).upsert(a_lease("n0", renewed=served.clock.now(), version=2, use=text))


def test_the_use_of_a_gpu_is_shown_with_its_units(busy: Served) -> None:
    assert of(seen(busy), 0)["use"] is None
    renew_lease(busy, encoded_use(busy))
    body = seen(busy)
    assert of(body, 0)["use"] == {
        "utilisation_percent": 87,
        "memory_used_mib": 40000,
        "temperature_celsius": 61,
        "power_watts": 288,
    }
    assert of(body, 0)["memory_mib"] == 81920
    assert of(body, 1)["pods"][0]["memory_used_mib"] == 700
    assert of(body, 1)["use"]["power_watts"] is None
    assert of(body, 3)["use"] is None


def test_a_squatter_is_shown_and_named_only_to_users_who_may_see_names(busy: Served) -> None:
    stranger = Squatter(device="GPU-n0-3", pid=4711, command="python3", memory=2048)
    bobs = Squatter(
        device="GPU-n0-3", pid=5, command="jupyter", uid="uid-x", namespace="default", name="x", user="bob"
    )
    renew_lease(busy, encoded_use(busy, squatters=(stranger, bobs)))

    first, second = of(seen(busy), 3)["squatters"]
    assert (first["of_pod"], first["memory_used_mib"], first["pid"]) == (False, 2048, None)
    assert (second["of_pod"], second["name"], second["user"], second["pid"]) == (True, None, None, None)
    assert of(seen(busy, "bob"), 3)["squatters"][1]["name"] == "x"
    assert of(seen(busy), 0)["squatters"] == []
    busy.signing_in.administrators.add("alice")
    first, second = of(seen(busy), 3)["squatters"]
    assert (first["pid"], first["command"]) == (4711, "python3")
    assert (second["name"], second["user"], second["command"]) == ("x", "bob", "jupyter")


def why(served: Served, name: str, user: str) -> Any:
    return served.ask("GET", f"/api/v1/pods/default/{name}/why", user=user)


def test_a_pod_is_explained_only_to_its_owner_and_to_administrators(busy: Served) -> None:
    body = why(busy, "wait", "bob").get_json()
    assert (body["namespace"], body["name"], body["state"]) == ("default", "wait", "waiting, not booked")
    assert "The pod asks for 8 GPUs, but no node has more than 4." in body["because"]
    assert body["would_change"]
    missing = problem(why(busy, "nothing", "alice"), 404)
    assert problem(why(busy, "wait", "alice"), 404)["detail"] == missing["detail"].replace("nothing", "wait")
    busy.signing_in.administrators.add("alice")
    assert why(busy, "wait", "alice").status_code == 200


def test_an_explanation_names_the_pods_of_others_only_to_users_who_may_see_names(busy: Served) -> None:
    busy.cache.of(PODS).upsert(a_pod("small").of("bob").asks(2).created(busy.clock.now()).obj)
    assert "They are used by default/play." in why(busy, "small", "bob").get_json()["because"]
    busy.visibility = "names"
    assert "default/train" in why(busy, "small", "bob").text


def test_the_explanation_of_a_booked_pod_names_gpus_that_are_planned_for_others(served: Served) -> None:
    now = served.clock.now()
    served.cache.of(NODES).replace([a_node("n0", a100(0), a100(1))])
    served.cache.of(LEASES).upsert(a_lease("n0", renewed=now))
    end = now + timedelta(days=2)
    served.cache.of(BOOKINGS).upsert(a_booking(start=now, end=end))
    whole = {"count": 2, "topology": "single-node", "places": [{"node": "n0", "count": 2}]}
    served.cache.of(BOOKINGS).upsert(
        a_booking("b-2", user="bob", start=now + timedelta(hours=1), end=end, **whole)
    )
    served.cache.of(PODS).upsert(a_pod("wait").of("alice").asks(1).created(now).obj)

    body = why(served, "wait", "alice").get_json()

    assert f"n0: {BOOKED_BY_OTHERS}." in body["because"]
    assert f"n0: {reasons.BOOKED_BY_OTHERS.change}." in body["would_change"]


def test_a_pod_without_an_owner_is_explained_to_anybody_who_knows_its_name(busy: Served) -> None:
    assert why(busy, "stray", "alice").get_json()["because"][0].startswith("It belongs to nobody")


def test_pods_that_ended_or_have_no_gpu_are_explained_too(busy: Served) -> None:
    def put(pod: PodBuilder) -> None:
        busy.kube.put(PODS, dict(pod.raw))

    put(a_pod("done").of("alice").asks(1).ended())
    put(a_pod("bare").of("alice").with_annotation(names.STRIPPED, "All GPUs are booked."))
    assert why(busy, "done", "alice").get_json()["state"] == "finished"
    assert "All GPUs are booked." in why(busy, "bare", "alice").get_json()["because"]
    problem(why(busy, "done", "bob"), 404)


@pytest.mark.parametrize("name", ["..%2f..", "'%20OR%201", "%3Cscript%3E", "x" * 300])
def test_an_invalid_name_is_answered_as_unknown(busy: Served, name: str) -> None:
    problem(why(busy, name, "alice"), 404)


def test_nothing_is_shown_while_the_cluster_is_unknown(busy: Served) -> None:
    busy.unknown_capacity = "The pods are not known."
    for path in (NOW, "/api/v1/pods/default/train/why"):
        assert problem(busy.ask("GET", path), 503)["detail"] == "The pods are not known."


def test_the_answers_are_what_the_command_line_reads(busy: Served) -> None:
    body = seen(busy)
    assert set(body) == {"at", "models", "nodes", "next"}
    assert set(body["nodes"][0]) == {"node", "state", "why", "devices"}
    assert set(of(body, 0)) == {"index", "uuid", "model", "state", "standing", "why", "pods"} | {
        "memory_mib",
        "shares",
        "use",
        "squatters",
    }
