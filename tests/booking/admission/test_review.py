"""How a new pod is admitted."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from booking.admission.owner import PodNamespace
from booking.admission.pod_reader import BadPodError
from booking.admission.review import Outcome
from cluster import names
from cluster.decide.entitlement import candidate
from cluster.objects.replaced_fields import Replaced, replaced_in
from tests.booking.admission.fake_cluster_view import (
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

FIXTURES = Path(__file__).parents[2] / "fixtures" / "admission"
OURS = {
    names.USER: "mallory",
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
    def test_it_gets_its_user_booking_end_scheduler_and_class(self) -> None:
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

    def test_numbers_that_were_computed_for_another_class_are_dropped(self) -> None:
        pod, _ = reviewed(a_pod())
        assert not {"priority", "preemptionPolicy"} & pod["spec"].keys()

    def test_nothing_else_is_touched(self) -> None:
        before = a_pod(labels={"app": "x"}, finalizers=["example.org/x"], annotations={"note": "n"})
        pod, _ = reviewed(before)
        assert pod["metadata"]["labels"] == {"app": "x"}
        assert pod["metadata"]["finalizers"] == ["example.org/x"]
        assert annotations(pod)["note"] == "n"
        assert pod["spec"]["containers"] == before["spec"]["containers"]

    def test_what_was_replaced_is_kept(self) -> None:
        pod, _ = reviewed(a_pod(spec={"priorityClassName": "batch", "schedulerName": "mine"}))
        kept = Replaced(scheduler_name="mine", priority_class_name="batch")
        assert replaced_in(annotations(pod)) == kept

    def test_the_scheduler_of_the_other_mode_never_comes_back(self) -> None:
        """Where the cluster's own schedules pods with GPUs, nobody runs it: a pod would wait indefinitely."""
        asked = a_pod(spec={"schedulerName": names.SCHEDULER_NAME})
        pod, _ = reviewed(asked, scheduler="default-scheduler")
        assert pod["spec"]["schedulerName"] == "default-scheduler"
        assert replaced_in(annotations(pod)).scheduler_name is None

    def test_a_model_that_is_not_booked_is_not_covered(self) -> None:
        pod, outcome = reviewed(a_pod(annotations={names.MODEL: A6000}))
        assert outcome.kind == "opportunistic"
        assert names.BOOKING not in annotations(pod)

    def test_it_is_the_newest_and_last_whatever_it_says(self) -> None:
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
    def test_it_is_opportunistic_and_its_creator_is_warned(self) -> None:
        pod, outcome = reviewed(a_pod(), "bob")
        assert annotations(pod)[names.USER] == "bob"
        assert not {names.BOOKING, names.TERMINATE_AT} & annotations(pod).keys()
        assert pod["spec"]["priorityClassName"] == names.OPPORTUNISTIC_CLASS
        assert outcome.warnings == (f"No running booking: {MAY_BE_EVICTED}",)

    def test_while_cover_is_unknown_nobody_counts_as_booked(self) -> None:
        pod, outcome = reviewed(a_pod(), is_certain=False)
        assert outcome.kind == "opportunistic"
        assert annotations(pod)[names.USER] == "alice"
        assert "cannot be read now" in outcome.warnings[0]

    def test_a_class_that_fits_keeps_its_numbers(self) -> None:
        given = {"priorityClassName": names.OPPORTUNISTIC_CLASS, "schedulerName": names.SCHEDULER_NAME}
        pod, outcome = reviewed(a_pod(spec=given), "bob")
        assert [step.path for step in outcome.patch] == ["/metadata/annotations"]
        assert annotations(pod) == {names.ADMITTED: "true", names.USER: "bob"}

    def test_a_class_of_ours_that_was_asked_for_never_comes_back(self) -> None:
        pod, _ = reviewed(a_pod(spec={"priorityClassName": names.BOOKED_CLASS}), "bob")
        assert pod["spec"]["priorityClassName"] == names.OPPORTUNISTIC_CLASS
        assert replaced_in(annotations(pod)).priority_class_name is None


class TestWhoAsks:
    def test_a_controllers_pod_is_the_namespaces_owners(self) -> None:
        view = FakeClusterView(namespaces={"default": PodNamespace(name="default", owner="alice")})
        pod, outcome = reviewed(a_pod(), JOBS, view)
        assert annotations(pod)[names.USER] == "alice"
        assert outcome.kind == "booked"

    def test_without_one_it_is_nobodys_and_the_warning_says_what_would_change_that(self) -> None:
        pod, outcome = reviewed(a_pod(), JOBS)
        assert names.USER not in annotations(pod)
        assert outcome.kind == "opportunistic"
        (message,) = outcome.warnings
        assert annotations(pod)[names.NOBODY] == (
            f"{JOBS} acts for others, and no administrator has set {names.OWNER} on namespace default."
        )
        assert message == (
            f"{JOBS} acts for others, and no administrator has set {names.OWNER} on namespace default,"
            f" so this pod is nobody's: {MAY_BE_EVICTED}"
        )

    def test_a_person_in_somebodys_namespace_is_who_they_are(self) -> None:
        view = FakeClusterView(namespaces={"default": PodNamespace(name="default", owner="alice")})
        assert annotations(reviewed(a_pod(), "bob", view)[0])[names.USER] == "bob"

    def test_a_trusted_creator_says_for_whom(self) -> None:
        pod, outcome = reviewed(a_pod(annotations={names.HUB_USER: "alice"}), HUB)
        assert annotations(pod)[names.USER] == "alice"
        assert outcome.kind == "booked"

    def test_a_trusted_creator_that_says_nothing_creates_nobodys_pods(self) -> None:
        pod, outcome = reviewed(a_pod(), HUB)
        assert names.USER not in annotations(pod)
        assert names.HUB_USER in outcome.warnings[0]

    def test_nobody_else_may_say_for_whom(self) -> None:
        pod, outcome = reviewed(a_pod(annotations={names.HUB_USER: "alice"}), "bob")
        assert annotations(pod)[names.USER] == "bob"
        assert outcome.kind == "opportunistic"

    @pytest.mark.parametrize("creator", ["alice", "bob", HUB, "system:serviceaccount:default:default"])
    def test_messages_are_short(self, creator: str) -> None:
        _, outcome = reviewed(a_pod(annotations=dict(OURS)), creator)
        assert all(len(message) <= 256 for message in outcome.warnings)


class TestForgedKeys:
    def test_they_are_overwritten_or_removed_everywhere(self) -> None:
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

    def test_a_pod_without_gpus_is_only_cleaned(self) -> None:
        before = a_pod(gpus=0, annotations={**OURS, "note": "n"}, labels={names.USER: "x", "app": "x"})
        pod, outcome = reviewed(before)
        assert outcome.kind == "cleaned"
        assert annotations(pod) == {"note": "n"}
        assert pod["metadata"]["labels"] == {"app": "x"}
        assert pod["spec"] == before["spec"]

    def test_a_label_alone_is_removed_too(self) -> None:
        pod, _ = reviewed(a_pod(gpus=0, labels={names.TERMINATE_AT: "never"}))
        assert pod["metadata"]["labels"] == {}


class TestOurReclaimer:
    def test_what_comes_back_without_a_gpu_is_untouched(self) -> None:
        before = a_pod(
            gpus=0,
            annotations=dict(CAME_BACK),
            labels={names.COMEBACK: "true"},
            finalizers=[names.COMEBACK],
        )
        pod, outcome = reviewed(before, OURSELVES)
        assert (outcome.kind, outcome.patch, outcome.warnings) == ("untouched", (), ())
        assert pod == before

    def test_what_comes_back_with_a_gpu_keeps_everything_of_ours(self) -> None:
        before = a_pod(
            annotations=dict(CAME_BACK), labels={names.COMEBACK: "true"}, finalizers=[names.COMEBACK]
        )
        pod, outcome = reviewed(before, OURSELVES)
        assert CAME_BACK.items() <= annotations(pod).items()
        assert annotations(pod)[names.BOOKING] == "b-1"
        assert pod["metadata"]["labels"] == before["metadata"]["labels"]
        assert pod["metadata"]["finalizers"] == [names.COMEBACK]
        assert outcome.kind == "booked"

    def test_a_stale_booking_on_it_is_not_kept(self) -> None:
        stale = {**CAME_BACK, names.USER: "bob", names.BOOKING: "b-0", names.TERMINATE_AT: "x"}
        pod, _ = reviewed(a_pod(annotations=stale), OURSELVES)
        assert not {names.BOOKING, names.TERMINATE_AT} & annotations(pod).keys()

    def test_what_was_replaced_first_stays(self) -> None:
        first = {**CAME_BACK, names.REPLACED: '{"schedulerName":"mine"}'}
        pod, _ = reviewed(a_pod(annotations=first), OURSELVES)
        assert annotations(pod)[names.REPLACED] == '{"schedulerName":"mine"}'

    def test_why_it_was_nobodys_first_stays(self) -> None:
        pod, _ = reviewed(
            a_pod(annotations={names.RECREATED_FROM: "uid-1", names.NOBODY: "First."}), OURSELVES
        )
        assert annotations(pod)[names.NOBODY] == "First."

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
    def test_any_amount_anywhere_counts(
        self, resource: str, kind: str, where: str, amount: str | int
    ) -> None:
        pod = a_pod(gpus=0)
        pod["spec"][kind] = [{"name": "x", "resources": {where: {resource: amount}}}]
        assert reviewed(pod)[1].kind != "untouched"

    @pytest.mark.parametrize(
        "resources", [{}, {"limits": None}, {"limits": {names.GPU_RESOURCE: "0"}}, {"limits": {"cpu": "1"}}]
    )
    def test_nothing_is_nothing(self, resources: Json) -> None:
        pod = a_pod(gpus=0)
        pod["spec"]["containers"][0]["resources"] = resources
        pod["spec"]["initContainers"] = None
        assert reviewed(pod)[1] == Outcome(kind="untouched")

    def test_a_pod_of_profiles_is_never_covered_by_a_booking_of_whole_gpus(self) -> None:
        pod = a_pod(gpus=0)
        pod["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/mig-1g.10gb": "1"}
        assert reviewed(pod)[1].kind == "opportunistic"

    @pytest.mark.parametrize(
        "bad", [{}, {"metadata": {}}, {"metadata": {}, "spec": 1}, {"metadata": [], "spec": {}}]
    )
    def test_what_is_no_pod_is_refused(self, bad: Json) -> None:
        with pytest.raises(BadPodError, match="not a pod"):
            reviewed(bad)


class TestRealRequests:
    def pod_in(self, file: str) -> Json:
        pod: Json = msgspec.json.decode((FIXTURES / file).read_bytes())["request"]["object"]
        return pod

    def test_a_users_pod(self) -> None:
        pod, outcome = reviewed(self.pod_in("create_user.json"))
        assert outcome.kind == "booked"
        assert annotations(pod)[names.USER] == "alice"

    def test_a_jobs_pod_has_no_name_and_no_user(self) -> None:
        before = self.pod_in("create_job_controller.json")
        pod, outcome = reviewed(before, JOBS)
        assert outcome.kind == "opportunistic"
        assert pod["metadata"]["finalizers"] == before["metadata"]["finalizers"]
        assert replaced_in(annotations(pod)) == Replaced(scheduler_name="none")
