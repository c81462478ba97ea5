"""How a new pod is admitted."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from booking.controller.admission.owner import PodNamespace
from booking.controller.admission.pod_reader import BadPodError
from booking.controller.admission.review import Outcome
from cluster import names
from cluster.decide.entitlement import candidate
from cluster.objects.replaced_fields import Replaced, replaced_in
from tests.booking.controller.admission.fake_cluster_view import (
    HUB,
    JOBS,
    MAY_BE_EVICTED,
    OURSELVES,
    FakeClusterView,
    a_pod,
    annotations,
    reviewed,
)
from tests.fakes.objects import A6000, EPOCH

Json = dict[str, Any]

FIXTURES = Path(__file__).parents[3] / "fixtures" / "admission"
OURS = {
    names.USER: "bob",
    names.BOOKING: "b-9",
    names.TERMINATE_AT: "2999-01-01T00:00:00Z",
    names.HOLD: "{}",
    names.ASSIGNED: "{}",
    names.FIRST_CREATED: "1999-01-01T00:00:00Z",
    names.RECREATED_FROM: "uid-1",
    names.REPLACED: '{"priorityClassName":"gpu-booked"}',
    f"{names.STATE_DOMAIN}/of-the-future": "x",
}

CAME_BACK = {
    names.USER: "alice",
    names.RECREATED_FROM: "uid-1",
    names.FIRST_CREATED: "2026-11-20T09:00:00Z",
    names.NOTICE: "x",
}


class TestCovered:
    def test_a_covered_pod_gets_its_user_booking_end_scheduler_and_class(self) -> None:
        pod, outcome = reviewed(a_pod())
        assert annotations(pod) == {
            names.ADMITTED: "true",
            names.USER: "alice",
            names.BOOKING: "b-1",
            names.TERMINATE_AT: "2026-11-25T09:00:00Z",
            names.REPLACED: '{"schedulerName":"default-scheduler"}',
        }
        assert pod["spec"]["schedulerName"] == names.SCHEDULER_NAME
        assert pod["spec"]["priorityClassName"] == names.BOOKED_CLASS
        assert outcome.kind == "booked"
        assert outcome.warnings == (
            "Your booking of 1 x NVIDIA-A100-SXM4-80GB (b-1) covers this pod until Wed 2026-11-25 09:00 UTC.",
        )

    def test_priority_numbers_computed_for_another_class_are_dropped(self) -> None:
        pod, _ = reviewed(a_pod())
        assert not {"priority", "preemptionPolicy"} & pod["spec"].keys()

    def test_other_fields_are_not_changed(self) -> None:
        before = a_pod(labels={"app": "x"}, finalizers=["example.org/x"], annotations={"note": "n"})
        pod, _ = reviewed(before)
        assert pod["metadata"]["labels"] == {"app": "x"}
        assert pod["metadata"]["finalizers"] == ["example.org/x"]
        assert annotations(pod)["note"] == "n"
        assert pod["spec"]["containers"] == before["spec"]["containers"]

    def test_the_replaced_values_are_recorded(self) -> None:
        pod, _ = reviewed(a_pod(spec={"priorityClassName": "batch", "schedulerName": "mine"}))
        kept = Replaced(scheduler_name="mine", priority_class_name="batch")
        assert replaced_in(annotations(pod)) == kept

    def test_our_scheduler_is_never_recorded_as_the_users_choice(self) -> None:
        """Where the cluster's own scheduler places GPU pods, ours does not run: a pod would never start."""
        submitted = a_pod(spec={"schedulerName": names.SCHEDULER_NAME})
        pod, _ = reviewed(submitted, scheduler="default-scheduler")
        assert pod["spec"]["schedulerName"] == "default-scheduler"
        assert replaced_in(annotations(pod)).scheduler_name is None

    def test_a_model_that_is_not_booked_is_not_covered(self) -> None:
        pod, outcome = reviewed(a_pod(annotations={names.MODEL: A6000}))
        assert outcome.kind == "opportunistic"
        assert names.BOOKING not in annotations(pod)

    def test_a_new_pod_comes_last_for_cover_whatever_its_metadata_says(self) -> None:
        view = FakeClusterView()
        says = a_pod(uid="0", creationTimestamp="1999-01-01T00:00:00Z", annotations=dict(OURS))
        reviewed(says, "alice", view)
        (pod,) = view.user_coverage_of
        found = candidate(pod, held=None, models={})
        assert found is not None
        assert (found.uid, found.first_created, found.annotated_booking, found.user) == (
            "~",
            EPOCH,
            None,
            "alice",
        )


class TestNotCovered:
    def test_an_uncovered_pod_is_opportunistic_and_its_creator_is_warned(self) -> None:
        pod, outcome = reviewed(a_pod(), "bob")
        assert annotations(pod)[names.USER] == "bob"
        assert not {names.BOOKING, names.TERMINATE_AT} & annotations(pod).keys()
        assert pod["spec"]["priorityClassName"] == names.OPPORTUNISTIC_CLASS
        assert outcome.warnings == (f"No running booking: {MAY_BE_EVICTED}",)

    def test_no_pod_counts_as_booked_while_cover_is_unknown(self) -> None:
        pod, outcome = reviewed(a_pod(), is_certain=False)
        assert outcome.kind == "opportunistic"
        assert annotations(pod)[names.USER] == "alice"
        assert "cannot be read now" in outcome.warnings[0]

    def test_a_matching_class_keeps_its_priority_numbers(self) -> None:
        given = {"priorityClassName": names.OPPORTUNISTIC_CLASS, "schedulerName": names.SCHEDULER_NAME}
        pod, outcome = reviewed(a_pod(spec=given), "bob")
        assert [step.path for step in outcome.patch] == ["/metadata/annotations"]
        assert annotations(pod) == {names.ADMITTED: "true", names.USER: "bob"}

    def test_our_priority_class_is_never_recorded_as_the_users_choice(self) -> None:
        pod, _ = reviewed(a_pod(spec={"priorityClassName": names.BOOKED_CLASS}), "bob")
        assert pod["spec"]["priorityClassName"] == names.OPPORTUNISTIC_CLASS
        assert replaced_in(annotations(pod)).priority_class_name is None


class TestWhoAsks:
    def test_a_controllers_pod_belongs_to_the_owner_of_the_namespace(self) -> None:
        view = FakeClusterView(namespaces={"default": PodNamespace(name="default", owner="alice")})
        pod, outcome = reviewed(a_pod(), JOBS, view)
        assert annotations(pod)[names.USER] == "alice"
        assert outcome.kind == "booked"

    def test_a_controllers_pod_in_an_unowned_namespace_has_no_owner_and_the_warning_names_the_cure(
        self,
    ) -> None:
        pod, outcome = reviewed(a_pod(), JOBS)
        assert names.USER not in annotations(pod)
        assert outcome.kind == "opportunistic"
        (message,) = outcome.warnings
        assert annotations(pod)[names.NO_USER] == (
            f"{JOBS} acts for others, and no administrator has set {names.OWNER} on namespace default."
        )
        assert message == (
            f"{JOBS} acts for others, and no administrator has set {names.OWNER} on namespace default,"
            f" so this pod is nobody's: {MAY_BE_EVICTED}"
        )

    def test_a_person_in_another_users_namespace_keeps_their_own_name(self) -> None:
        view = FakeClusterView(namespaces={"default": PodNamespace(name="default", owner="alice")})
        assert annotations(reviewed(a_pod(), "bob", view)[0])[names.USER] == "bob"

    def test_a_trusted_creator_names_the_owner(self) -> None:
        pod, outcome = reviewed(a_pod(annotations={names.HUB_USER: "alice"}), HUB)
        assert annotations(pod)[names.USER] == "alice"
        assert outcome.kind == "booked"

    def test_pods_of_a_trusted_creator_that_names_no_owner_have_none(self) -> None:
        pod, outcome = reviewed(a_pod(), HUB)
        assert names.USER not in annotations(pod)
        assert names.HUB_USER in outcome.warnings[0]

    def test_only_a_trusted_creator_may_name_the_owner(self) -> None:
        pod, outcome = reviewed(a_pod(annotations={names.HUB_USER: "alice"}), "bob")
        assert annotations(pod)[names.USER] == "bob"
        assert outcome.kind == "opportunistic"

    @pytest.mark.parametrize("creator", ["alice", "bob", HUB, "system:serviceaccount:default:default"])
    def test_warnings_are_short(self, creator: str) -> None:
        _, outcome = reviewed(a_pod(annotations=dict(OURS)), creator)
        assert all(len(message) <= 256 for message in outcome.warnings)


class TestForgedKeys:
    def test_forged_keys_are_overwritten_or_removed_everywhere(self) -> None:
        pod, outcome = reviewed(
            a_pod(annotations=dict(OURS), labels=dict(OURS), finalizers=[names.COMEBACK, "example.org/x"]),
            "bob",
        )
        assert annotations(pod) == {
            names.ADMITTED: "true",
            names.USER: "bob",
            names.REPLACED: '{"schedulerName":"default-scheduler"}',
        }
        assert pod["metadata"]["labels"] == {}
        assert pod["metadata"]["finalizers"] == ["example.org/x"]
        assert "ignored, only GPU Booking writes such keys" in outcome.warnings[1]
        assert set(outcome.forged) == {*OURS, names.COMEBACK}

    def test_a_pod_without_gpus_only_loses_forged_keys(self) -> None:
        before = a_pod(gpus=0, annotations={**OURS, "note": "n"}, labels={names.USER: "x", "app": "x"})
        pod, outcome = reviewed(before)
        assert outcome.kind == "cleaned"
        assert annotations(pod) == {"note": "n"}
        assert pod["metadata"]["labels"] == {"app": "x"}
        assert pod["spec"] == before["spec"]

    def test_a_forged_label_alone_is_removed_too(self) -> None:
        pod, _ = reviewed(a_pod(gpus=0, labels={names.TERMINATE_AT: "never"}))
        assert pod["metadata"]["labels"] == {}


class TestOurReclaimer:
    def test_a_pod_that_comes_back_without_a_gpu_is_not_changed(self) -> None:
        before = a_pod(
            gpus=0,
            annotations=dict(CAME_BACK),
            labels={names.COMEBACK: "true"},
            finalizers=[names.COMEBACK],
        )
        pod, outcome = reviewed(before, OURSELVES)
        assert (outcome.kind, outcome.patch, outcome.warnings) == ("untouched", (), ())
        assert pod == before

    def test_a_pod_that_comes_back_with_a_gpu_keeps_our_annotations(self) -> None:
        before = a_pod(
            annotations=dict(CAME_BACK), labels={names.COMEBACK: "true"}, finalizers=[names.COMEBACK]
        )
        pod, outcome = reviewed(before, OURSELVES)
        assert CAME_BACK.items() <= annotations(pod).items()
        assert annotations(pod)[names.BOOKING] == "b-1"
        assert pod["metadata"]["labels"] == before["metadata"]["labels"]
        assert pod["metadata"]["finalizers"] == [names.COMEBACK]
        assert outcome.kind == "booked"

    def test_a_stale_booking_on_a_returning_pod_is_removed(self) -> None:
        stale = {**CAME_BACK, names.USER: "bob", names.BOOKING: "b-0", names.TERMINATE_AT: "x"}
        pod, _ = reviewed(a_pod(annotations=stale), OURSELVES)
        assert not {names.BOOKING, names.TERMINATE_AT} & annotations(pod).keys()

    def test_the_first_recorded_values_of_a_returning_pod_are_kept(self) -> None:
        first = {**CAME_BACK, names.REPLACED: '{"schedulerName":"mine"}'}
        pod, _ = reviewed(a_pod(annotations=first), OURSELVES)
        assert annotations(pod)[names.REPLACED] == '{"schedulerName":"mine"}'

    def test_the_first_reason_why_a_returning_pod_has_no_owner_is_kept(self) -> None:
        pod, _ = reviewed(
            a_pod(annotations={names.RECREATED_FROM: "uid-1", names.NO_USER: "First."}), OURSELVES
        )
        assert annotations(pod)[names.NO_USER] == "First."

    def test_a_second_review_changes_nothing(self) -> None:
        once, _ = reviewed(a_pod(annotations=dict(CAME_BACK)), OURSELVES)
        twice, outcome = reviewed(once, OURSELVES)
        assert outcome.patch == ()
        assert twice == once


class TestWhatIsAPodWithGpus:
    @pytest.mark.parametrize("amount", ["1", "2k", "half", 1])
    @pytest.mark.parametrize("where", ["limits", "requests"])
    @pytest.mark.parametrize("kind", ["containers", "initContainers"])
    @pytest.mark.parametrize("resource", [names.GPU_RESOURCE, "nvidia.com/mig-1g.10gb"])
    def test_any_amount_of_gpus_in_any_container_counts(
        self, resource: str, kind: str, where: str, amount: str | int
    ) -> None:
        pod = a_pod(gpus=0)
        pod["spec"][kind] = [{"name": "x", "resources": {where: {resource: amount}}}]
        assert reviewed(pod)[1].kind != "untouched"

    @pytest.mark.parametrize(
        "resources", [{}, {"limits": None}, {"limits": {names.GPU_RESOURCE: "0"}}, {"limits": {"cpu": "1"}}]
    )
    def test_a_pod_without_an_amount_of_gpus_is_not_changed(self, resources: Json) -> None:
        pod = a_pod(gpus=0)
        pod["spec"]["containers"][0]["resources"] = resources
        pod["spec"]["initContainers"] = None
        assert reviewed(pod)[1] == Outcome(kind="untouched")

    def test_a_pod_of_mig_profiles_is_never_covered_by_a_booking_of_whole_gpus(self) -> None:
        pod = a_pod(gpus=0)
        pod["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/mig-1g.10gb": "1"}
        assert reviewed(pod)[1].kind == "opportunistic"

    @pytest.mark.parametrize(
        "bad", [{}, {"metadata": {}}, {"metadata": {}, "spec": 1}, {"metadata": [], "spec": {}}]
    )
    def test_an_object_that_is_not_a_pod_is_refused(self, bad: Json) -> None:
        with pytest.raises(BadPodError, match="not a pod"):
            reviewed(bad)


class TestRealRequests:
    def pod_in(self, file: str) -> Json:
        pod: Json = msgspec.json.decode((FIXTURES / file).read_bytes())["request"]["object"]
        return pod

    def test_a_real_pod_of_a_user_is_admitted(self) -> None:
        pod, outcome = reviewed(self.pod_in("create_user.json"))
        assert outcome.kind == "booked"
        assert annotations(pod)[names.USER] == "alice"

    def test_a_real_pod_of_a_job_has_no_name_and_no_owner(self) -> None:
        before = self.pod_in("create_job_controller.json")
        pod, outcome = reviewed(before, JOBS)
        assert outcome.kind == "opportunistic"
        assert pod["metadata"]["finalizers"] == before["metadata"]["finalizers"]
        assert replaced_in(annotations(pod)) == Replaced(scheduler_name="none")


def test_those_of_its_creators_groups_are_on_the_pod_that_divide_shares() -> None:
    hers = frozenset({"vision", "system:authenticated"})
    named: dict[str, Any] = {"share_groups": lambda: frozenset({"vision", "robots"})}
    pod, _ = reviewed(a_pod(), "alice", groups=hers, **named)
    assert annotations(pod)[names.GROUPS] == '["vision"]'
    assert names.GROUPS not in annotations(reviewed(a_pod(), HUB, groups=hers, **named)[0])
    assert names.GROUPS not in annotations(reviewed(a_pod(), "alice", groups=hers)[0])
    forged = a_pod(annotations={names.GROUPS: '["robots"]'})
    assert annotations(reviewed(forged, "alice", groups=hers, **named)[0])[names.GROUPS] == '["vision"]'
    assert names.GROUPS not in annotations(reviewed(forged, "alice", **named)[0])
