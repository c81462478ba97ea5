"""The callers of the API server in memory, its requests to admission, and its faults."""

from typing import Any

import pytest

from cluster.fake.server import ADMINISTRATOR, Attributes, FakeKube
from cluster.kube.errors import ApiError, Conflict, Forbidden, NotFound, Refusal, Request, Unreachable
from cluster.kube.resources import LEASES, PODS, WHOLE_PODS
from cluster.objects.pods import Pod
from tests.contracts.kube import pod_body
from tests.contracts.kube_ground import PRIORITY_CLASSES

Json = dict[str, Any]


@pytest.fixture
def kube() -> FakeKube:
    return FakeKube()


class TestUsers:
    def test_every_call_records_its_user(self, kube: FakeKube) -> None:
        alice = kube.as_user("alice")
        alice.create(PODS, pod_body("a"), namespace="team")
        kube.get(PODS, "a", namespace="team")
        assert [(call.verb, call.user) for call in kube.calls] == [("POST", "alice"), ("GET", ADMINISTRATOR)]

    def test_all_users_ask_the_same_server(self, kube: FakeKube) -> None:
        made = kube.as_user("alice").create(PODS, pod_body("a"), namespace="team")
        assert kube.as_user("bob").get(PODS, "a", namespace="team") == made

    def test_admission_sees_the_user_who_creates(self, kube: FakeKube) -> None:
        users: list[str] = []

        def admit(attributes: Attributes) -> Json:
            users.append(attributes.user)
            return attributes.obj

        kube.admission = admit
        kube.as_user("alice").create(PODS, pod_body("a"), namespace="team")
        kube.create(PODS, pod_body("b"), namespace="team")
        assert users == ["alice", ADMINISTRATOR]

    def test_a_call_is_recorded_with_what_was_sent(self, kube: FakeKube) -> None:
        body = pod_body("a")
        kube.create(PODS, body, namespace="team")
        body["metadata"]["name"] = "changed later"
        (call,) = kube.calls
        assert (call.verb, call.path) == ("POST", "/api/v1/namespaces/team/pods")
        assert call.body == pod_body("a")

    def test_the_newest_of_very_many_calls_are_kept(self) -> None:
        kube = FakeKube(calls_kept=10)
        for _ in range(100):
            kube.list(PODS)
        kube.list(LEASES)
        assert 10 <= len(kube.calls) <= 20
        assert "leases" in kube.calls[-1].path


class TestAdmission:
    @pytest.fixture
    def seen(self, kube: FakeKube) -> list[Attributes]:
        """The requests to an admission that allows everything."""
        seen: list[Attributes] = []

        def admit(attributes: Attributes) -> Json:
            seen.append(attributes)
            return attributes.obj

        kube.admission = admit
        return seen

    def test_admission_is_asked_about_every_kind_and_every_dry_run(
        self, kube: FakeKube, seen: list[Attributes]
    ) -> None:
        kube.create(PODS, pod_body("a"), namespace="team")
        kube.create(WHOLE_PODS, pod_body("b"), namespace="team", dry_run=True)
        kube.create(LEASES, {"metadata": {"name": "l"}}, namespace="team")
        calls = [(one.plural, one.namespace, one.dry_run) for one in seen]
        assert calls == [("pods", "team", False), ("pods", "team", True), ("leases", "team", False)]

    def test_admission_is_asked_before_a_name_is_generated(
        self, kube: FakeKube, seen: list[Attributes]
    ) -> None:
        kube.create(PODS, pod_body("", generateName="a-"), namespace="team")
        (attributes,) = seen
        assert attributes.obj["metadata"]["generateName"] == "a-"
        assert not attributes.obj["metadata"].get("name")
        assert "uid" not in attributes.obj["metadata"]

    def test_admission_sees_the_defaults(self, kube: FakeKube, seen: list[Attributes]) -> None:
        body = pod_body("a")
        del body["spec"]["schedulerName"]
        kube.create(PODS, body, namespace="team")
        assert seen[0].obj["spec"]["schedulerName"] == "default-scheduler"
        assert seen[0].obj["spec"]["priority"] == 0

    def test_admission_is_asked_before_the_name_is_checked(
        self, kube: FakeKube, seen: list[Attributes]
    ) -> None:
        kube.put(PODS, pod_body("a", namespace="team"))
        with pytest.raises(Conflict):
            kube.create(PODS, pod_body("a"), namespace="team")
        assert len(seen) == 1

    def test_an_object_is_stored_as_admission_changed_it(self, kube: FakeKube) -> None:
        def admit(attributes: Attributes) -> Json:
            return {**attributes.obj, "metadata": {**attributes.obj["metadata"], "labels": {"x": "1"}}}

        kube.admission = admit
        kube.create(PODS, pod_body("a"), namespace="team")
        assert kube.get(PODS, "a", namespace="team").metadata.labels == {"x": "1"}

    def test_an_object_that_admission_refuses_is_not_stored(self, kube: FakeKube) -> None:
        def admit(_attributes: Attributes) -> Json:
            raise Forbidden(Request("POST", "pods"), Refusal(code=403, message="not today"))

        kube.admission = admit
        with pytest.raises(Forbidden, match="not today"):
            kube.create(PODS, pod_body("a"), namespace="team")
        assert kube.list(PODS).items == ()

    def test_a_change_of_the_class_must_drop_the_priority(self, kube: FakeKube) -> None:
        for name, value in (("low", 1), ("high", 1000)):
            kube.put(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        dropped: tuple[str, ...] = ()

        def admit(attributes: Attributes) -> Json:
            spec = {key: value for key, value in attributes.obj["spec"].items() if key not in dropped}
            return {**attributes.obj, "spec": {**spec, "priorityClassName": "high"}}

        kube.admission = admit
        with pytest.raises(Forbidden, match="the integer value of priority"):
            kube.create(PODS, pod_body("a", spec={"priorityClassName": "low"}), namespace="team")
        dropped = ("priority",)
        pod = kube.create(PODS, pod_body("a", spec={"priorityClassName": "low"}), namespace="team")
        assert (pod.spec.priority_class_name, pod.spec.priority) == ("high", 1000)


class TestFaults:
    @pytest.fixture
    def bound(self, kube: FakeKube) -> Pod:
        return kube.put(PODS, pod_body("a", namespace="team", spec={"nodeName": "n0"}))

    def test_no_call_has_an_effect_while_the_server_is_down(self, kube: FakeKube) -> None:
        kube.down = True
        with pytest.raises(Unreachable):
            kube.as_user("alice").create(PODS, pod_body("a"), namespace="team")
        kube.down = False
        assert kube.list(PODS).items == ()
        assert [call.verb for call in kube.calls] == ["POST", "LIST"]

    def test_a_rival_acts_just_before_the_call(self, kube: FakeKube, bound: Pod) -> None:
        kube.before("GET", lambda: kube.finish(PODS, bound.metadata.name, namespace="team"))
        with pytest.raises(NotFound):
            kube.get(PODS, "a", namespace="team")

    def test_an_answer_can_be_lost_though_the_call_was_done(self, kube: FakeKube) -> None:
        kube.lose("POST")
        with pytest.raises(Unreachable):
            kube.create(PODS, pod_body("a"), namespace="team")
        assert kube.get(PODS, "a", namespace="team").metadata.name == "a"

    def test_a_call_fails_once_and_without_effect(self, kube: FakeKube, bound: Pod) -> None:
        kube.fail("DELETE", ApiError(Request("DELETE", "pods"), "broken"))
        with pytest.raises(ApiError, match="broken"):
            kube.delete(PODS, "a", namespace="team")
        assert kube.get(PODS, "a", namespace="team") == bound
        kube.delete(PODS, "a", namespace="team")

    def test_faults_that_have_not_happened_yet_can_be_cancelled(self, kube: FakeKube, bound: Pod) -> None:
        kube.fail("GET", ApiError(Request("GET", "pods"), "broken"))
        kube.lose("GET")
        kube.before("GET", lambda: kube.finish(PODS, "a", namespace="team"))
        kube.calm()
        assert kube.get(PODS, "a", namespace="team") == bound
