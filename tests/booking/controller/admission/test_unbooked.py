"""A pod that no booking covers and for which no GPU is free: it waits, or starts without one."""

import pytest

from booking.controller.admission.free_gpus import FreeGpus
from booking.controller.admission.owner import PodNamespace
from booking.controller.admission.review import HINT
from cluster import names
from tests.booking.controller.admission.fake_cluster_view import (
    HUB,
    MAY_BE_EVICTED,
    OURSELVES,
    FakeClusterView,
    Json,
    a_pod,
    annotations,
    reviewed,
)

BOBS = {names.HUB_USER: "bob"}
WHY = "No running booking, and no GPU that it may have is free: it was created without a GPU."


def full() -> FakeClusterView:
    return FakeClusterView(has="full")


def a_notebook(**spec: object) -> Json:
    return a_pod(annotations=dict(BOBS), spec=dict(spec))


class TestStripped:
    def test_an_unbooked_notebook_starts_without_its_gpu_and_its_creator_is_warned(self) -> None:
        pod, outcome = reviewed(a_notebook(), HUB, full())
        assert outcome.kind == "stripped"
        assert outcome.warnings == (WHY, HINT)
        assert annotations(pod) == {**BOBS, names.STRIPPED: WHY}
        (container,) = pod["spec"]["containers"]
        assert container["resources"] == {"limits": {}, "requests": {}}
        assert container["env"] == [{"name": names.VISIBLE_DEVICES_VARIABLE, "value": "none"}]

    def test_a_stripped_pod_keeps_its_scheduler_class_and_priority(self) -> None:
        pod, _ = reviewed(
            a_notebook(schedulerName="mine", priorityClassName="batch", priority=7), HUB, full()
        )
        spec = pod["spec"]
        assert (spec["schedulerName"], spec["priorityClassName"], spec["priority"]) == ("mine", "batch", 7)

    def test_a_stripped_pod_loses_fields_that_are_only_for_pods_with_gpus(self) -> None:
        submitted = a_notebook(
            schedulerName=names.SCHEDULER_NAME,
            priorityClassName=names.BOOKED_CLASS,
            nodeSelector={"nvidia.com/gpu.present": "true", "disk": "ssd"},
        )
        spec = reviewed(submitted, HUB, full())[0]["spec"]
        assert spec["schedulerName"] == "default-scheduler"
        assert not {"priorityClassName", "priority", "preemptionPolicy"} & spec.keys()
        assert spec["nodeSelector"] == {"disk": "ssd"}

    def test_a_stripped_pod_loses_forged_keys(self) -> None:
        submitted = a_notebook()
        submitted["metadata"]["annotations"] |= {names.BOOKING: "b-1", names.STRIPPED: "mine"}
        pod, outcome = reviewed(submitted, HUB, full())
        assert annotations(pod) == {**BOBS, names.STRIPPED: WHY}
        assert "only GPU Booking writes such keys" in outcome.warnings[2]

    def test_a_pod_without_an_owner_may_be_stripped_too(self) -> None:
        _, outcome = reviewed(a_pod(), HUB, full())
        assert outcome.kind == "stripped"
        assert "nobody's, and no GPU" in outcome.warnings[0]


class TestWaiting:
    @pytest.mark.parametrize("has", ["free", "unknown"])
    def test_a_notebook_keeps_its_gpu_request_while_one_is_free_or_may_be(self, has: FreeGpus) -> None:
        pod, outcome = reviewed(a_notebook(), HUB, FakeClusterView(has=has))
        assert outcome.kind == "opportunistic"
        assert names.STRIPPED not in annotations(pod)

    def test_l6_a_stale_cache_strips_no_pod(self) -> None:
        view = full()
        _, outcome = reviewed(a_notebook(), HUB, view, is_certain=False)
        assert outcome.kind == "opportunistic"
        assert outcome.warnings == (
            f"Bookings cannot be read now, so this pod counts as not booked: {MAY_BE_EVICTED}",
        )
        assert view.room_queries == []

    def test_pods_that_are_not_notebooks_wait(self) -> None:
        view = full()
        assert reviewed(a_pod(), "bob", view)[1].kind == "opportunistic"
        assert view.room_queries == []

    def test_the_settings_decide_which_pods_wait(self) -> None:
        kinds = {
            creator: reviewed(pod, creator, full(), unbooked="strip", unbooked_notebooks="queue")[1].kind
            for creator, pod in ((HUB, a_notebook()), ("bob", a_pod()))
        }
        assert kinds == {HUB: "opportunistic", "bob": "stripped"}

    def test_a_booked_pod_waits_for_its_booking(self) -> None:
        booked = a_pod(annotations={names.HUB_USER: "alice"})
        assert reviewed(booked, HUB, full())[1].kind == "booked"

    def test_a_pod_that_comes_back_with_its_gpu_request_keeps_it(self) -> None:
        back = a_pod(annotations={names.USER: "bob", names.RECREATED_FROM: "uid-1"})
        assert reviewed(back, OURSELVES, full(), unbooked="strip")[1].kind == "opportunistic"

    @pytest.mark.parametrize("spec", [{"schedulingGates": [{"name": "queue"}]}, {"nodeName": "n0"}])
    def test_a_pod_that_needs_no_scheduler_now_keeps_its_gpu_request(self, spec: Json) -> None:
        assert reviewed(a_notebook(**spec), HUB, full())[1].kind == "opportunistic"

    def test_the_warning_mentions_a_protected_namespace(self) -> None:
        view = FakeClusterView(namespaces={"default": PodNamespace(name="default", is_protected=True)})
        assert reviewed(a_pod(), "bob", view)[1].warnings == (
            "No running booking, but no pod of namespace default is evicted for a booking.",
        )


LONG_AGO, SOON = "1900-01-01T08:00:00Z", "2026-11-24T09:00:00Z"


def maias(
    until: str, creator: str = HUB, view: FakeClusterView | None = None, **settings: object
) -> tuple[Json, str]:
    pod = a_pod(annotations={**BOBS, names.TERMINATE_AT: until})
    after, outcome = reviewed(pod, creator, view, **{"maia": True, **settings})
    return annotations(after), outcome.warnings[0]


class TestMaia:
    @pytest.mark.parametrize("until", [LONG_AGO, SOON, "never"])
    def test_maias_annotation_stays_as_it_was_written(self, until: str) -> None:
        assert maias(until)[0][names.TERMINATE_AT] == until

    def test_a_pod_with_a_grant_of_maia_waits_and_the_warning_names_its_end(self) -> None:
        found, warning = maias(SOON, view=full())
        assert names.ADMITTED in found
        assert (
            warning == "No running booking, but MAIA's terminate-at covers it until Tue 2026-11-24 09:00 UTC."
        )

    def test_an_instant_without_a_zone_is_utc_as_the_reclaimer_reads_it(self) -> None:
        assert "until Tue 2026-11-24 09:00 UTC" in maias("2026-11-24T09:00:00")[1]

    @pytest.mark.parametrize(("maia", "kept"), [(True, SOON), (False, None)])
    def test_a_pod_that_we_create_again_keeps_its_grant(self, kept: str | None, *, maia: bool) -> None:
        pod = a_pod(annotations={names.USER: "bob", names.TERMINATE_AT: SOON})
        after, _ = reviewed(pod, OURSELVES, maia=maia)
        assert annotations(after).get(names.TERMINATE_AT) == kept

    def test_a_pod_whose_grant_is_over_may_be_stripped(self) -> None:
        assert maias(LONG_AGO, view=full())[0] == {**BOBS, names.STRIPPED: WHY, names.TERMINATE_AT: LONG_AGO}

    def test_our_booking_takes_precedence_over_maias_annotation(self) -> None:
        pod = a_pod(annotations={names.HUB_USER: "alice", names.TERMINATE_AT: LONG_AGO})
        after, _ = reviewed(pod, HUB, maia=True)
        assert annotations(after)[names.TERMINATE_AT] == "2026-11-25T09:00:00Z"

    def test_without_the_setting_maias_annotation_is_removed(self) -> None:
        assert names.TERMINATE_AT not in maias(SOON, maia=False)[0]

    def test_l7_the_annotation_from_any_other_creator_is_removed(self) -> None:
        found, _ = maias(SOON, "bob")
        assert names.TERMINATE_AT not in found

    def test_a_label_with_the_name_of_maias_annotation_is_removed(self) -> None:
        pod = a_pod(gpus=0, labels={names.TERMINATE_AT: "x"}, annotations={names.TERMINATE_AT: SOON})
        after, outcome = reviewed(pod, HUB, maia=True)
        assert outcome.kind == "cleaned"
        assert (after["metadata"]["labels"], annotations(after)) == ({}, {names.TERMINATE_AT: SOON})

    def test_a_pod_without_gpus_keeps_maias_annotation_too(self) -> None:
        pod = a_pod(gpus=0, annotations={names.TERMINATE_AT: SOON})
        assert reviewed(pod, HUB, maia=True)[1].kind == "untouched"
