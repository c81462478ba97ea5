"""Requests to the API server, read as values."""

import json
from typing import Any

import pytest

from cluster import names
from devcluster.faultproxy.calls import Call, Place, place_of


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/api/v1/pods", Place("pods")),
        ("/api/v1/namespaces/team/pods", Place("pods", "team")),
        ("/api/v1/namespaces/team/pods/p", Place("pods", "team", "p")),
        ("/api/v1/namespaces/team/pods/p/binding", Place("pods", "team", "p", "binding")),
        ("/api/v1/nodes/n0/status", Place("nodes", "", "n0", "status")),
        ("/api/v1/namespaces/team", Place("namespaces", "", "team")),
        ("/apis/gpu/v1/bookings/b%2D1", Place("bookings", "", "b-1")),
        ("/apis/coordination.k8s.io/v1/namespaces/x/leases/l", Place("leases", "x", "l")),
        ("/api/v1", Place()),
        ("/apis", Place()),
        ("/readyz", Place()),
        ("/", Place()),
    ],
)
def test_a_path_names_a_place(path: str, place: Place) -> None:
    assert place_of(path) == place


def patch(body: dict[str, Any], target: str = "/api/v1/namespaces/team/pods/p") -> Call:
    return Call(verb="PATCH", target=target, caller="controller", body=json.dumps(body).encode())


def test_a_patch_is_identified_by_what_it_sets_and_removes() -> None:
    annotations = {names.HOLD: None, names.NOTICE: "go"}
    metadata = {"uid": "1", "resourceVersion": "2", "annotations": annotations, "finalizers": []}
    assert patch({"metadata": metadata}).step == "PATCH pods -hold +notice -finalizers"


def test_a_patch_of_status_and_one_of_spec_name_their_fields() -> None:
    status = patch({"status": {"ending": []}}, "/apis/g/v1/bookings/b/status")
    assert status.step == "PATCH bookings/status +ending"
    assert patch({"spec": {"end": "now", "namespace": None}}).step == "PATCH pods +end -namespace"


def test_posts_and_deletes_are_identified_by_their_kind() -> None:
    pods = "/api/v1/namespaces/team/pods"
    assert Call(verb="POST", target=f"{pods}?dryRun=All").step == "POST pods dry run"
    assert Call(verb="POST", target=f"{pods}/p/eviction").step == "POST pods/eviction"
    assert Call(verb="DELETE", target=f"{pods}/p").step == "DELETE pods"


def test_a_watch_a_dry_run_and_a_write_are_distinguished() -> None:
    watch = Call(verb="GET", target="/api/v1/pods?watch=true&resourceVersion=7")
    rehearsal = Call(verb="POST", target="/api/v1/namespaces/team/pods?dryRun=All")
    assert (watch.is_watch, watch.is_write, watch.is_dry_run) == (True, False, False)
    assert (rehearsal.is_watch, rehearsal.is_write, rehearsal.is_dry_run) == (False, True, True)
    assert watch.query["resourceVersion"] == "7"


@pytest.mark.parametrize("body", [b"", b"nothing", b"[1]", b"\xff"])
def test_a_body_that_is_no_object_counts_as_empty(body: bytes) -> None:
    call = Call(verb="PATCH", target="/api/v1/nodes/n0", body=body)
    assert call.content == {}
    assert call.step == "PATCH nodes"


def test_a_call_is_shown_with_its_caller() -> None:
    assert str(patch({})) == "controller: PATCH pods of team/p"
    assert str(Call(verb="GET", target="/readyz")) == "somebody: GET "
