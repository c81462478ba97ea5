"""Reading: objects, lists, pages, selectors."""

import pytest

from cluster.kube.errors import BadRequest, NotFound, Unsent
from cluster.kube.interface import Kube, Selection
from cluster.kube.resources import LEASES, PODS
from cluster.objects.pods import Pod
from tests.contracts.kube_ground import KubeGround, pod_body


class KubeReading(KubeGround):
    def test_a_missing_object_is_not_found(self, kube: Kube, namespace: str) -> None:
        with pytest.raises(NotFound, match='pods "a" not found'):
            kube.get(PODS, "a", namespace=namespace)

    def test_a_created_object_can_be_read(self, kube: Kube, pod: Pod, namespace: str) -> None:
        assert kube.get(PODS, "a", namespace=namespace) == pod
        assert pod.metadata.uid
        assert pod.metadata.resource_version
        assert pod.metadata.namespace == namespace

    def test_a_read_after_its_deadline_is_not_sent(self, kube: Kube, pod: Pod, namespace: str) -> None:
        with pytest.raises(Unsent):
            kube.get(PODS, "a", namespace=namespace, within=0)
        assert kube.get(PODS, "a", namespace=namespace, within=10) == pod

    def test_a_list_of_a_missing_namespace_is_empty(self, kube: Kube) -> None:
        assert kube.list(PODS, Selection(namespace="no-such-namespace")).items == ()

    def test_a_list_is_sorted_by_name(self, kube: Kube, namespace: str) -> None:
        for name in ("b", "a-c", "a", "a0"):
            kube.create(PODS, pod_body(name), namespace=namespace)
        assert self.names(kube, namespace) == ["a", "a-c", "a0", "b"]

    def test_a_list_is_as_new_as_the_newest_write_of_any_kind(self, kube: Kube, namespace: str) -> None:
        lease = kube.create(LEASES, {"metadata": {"name": "l"}}, namespace=namespace)
        version = kube.list(PODS, Selection(namespace=namespace)).resource_version
        assert int(version) >= int(lease.metadata.resource_version)

    # --- pages -----------------------------------------------------------------------------------------

    def test_a_list_comes_in_pages(self, kube: Kube, namespace: str) -> None:
        for name in "abc":
            kube.create(PODS, pod_body(name), namespace=namespace)
        selection = Selection(namespace=namespace)
        first = kube.list(PODS, selection, limit=2)
        rest = kube.list(PODS, selection, limit=2, continue_=first.continue_)
        assert [pod.metadata.name for pod in first.items + rest.items] == ["a", "b", "c"]
        assert rest.continue_ is None

    def test_a_list_that_fits_into_one_page_has_no_second(self, kube: Kube, namespace: str) -> None:
        for name in "ab":
            kube.create(PODS, pod_body(name), namespace=namespace)
        assert kube.list(PODS, Selection(namespace=namespace), limit=2).continue_ is None

    def test_all_pages_show_the_state_at_the_first(self, kube: Kube, namespace: str) -> None:
        for name in "abcd":
            kube.create(PODS, pod_body(name), namespace=namespace)
        selection = Selection(namespace=namespace)
        first = kube.list(PODS, selection, limit=2)
        kube.delete(PODS, "a", namespace=namespace, grace_seconds=0)
        kube.delete(PODS, "d", namespace=namespace, grace_seconds=0)
        kube.create(PODS, pod_body("e"), namespace=namespace)
        rest = kube.list(PODS, selection, limit=2, continue_=first.continue_)
        assert [pod.metadata.name for pod in rest.items] == ["c", "d"]
        assert rest.resource_version == first.resource_version

    def test_an_invalid_continue_token_is_refused(self, kube: Kube, namespace: str) -> None:
        with pytest.raises(BadRequest):
            kube.list(PODS, Selection(namespace=namespace), limit=1, continue_="nonsense")

    # --- selectors -------------------------------------------------------------------------------------

    @pytest.fixture
    def three(self, kube: Kube, namespace: str) -> None:
        """One bound, one ended, one gated; labels x=1, x=2, none."""
        bound = kube.create(PODS, pod_body("bound", labels={"x": "1", "y": "1"}), namespace=namespace)
        self.bind(kube, bound)
        ended = kube.create(PODS, pod_body("ended", labels={"x": "2"}), namespace=namespace)
        self.report(kube, ended, phase="Failed")
        kube.create(PODS, pod_body("plain"), namespace=namespace)

    @pytest.mark.usefixtures("three")
    @pytest.mark.parametrize(
        ("selector", "selected"),
        [
            ("metadata.name=plain", ["plain"]),
            ("metadata.name!=plain", ["bound", "ended"]),
            ("spec.nodeName=nowhere", ["bound"]),
            ("spec.nodeName==nowhere", ["bound"]),
            ("spec.nodeName=", ["ended", "plain"]),
            ("spec.nodeName!=", ["bound"]),
            ("status.phase=Failed", ["ended"]),
            ("status.phase!=Succeeded,status.phase!=Failed", ["bound", "plain"]),
            ("spec.schedulerName=nobody,status.phase=Pending", ["bound", "plain"]),
        ],
    )
    def test_a_field_selector_selects(
        self, kube: Kube, namespace: str, selector: str, selected: list[str]
    ) -> None:
        assert self.names(kube, namespace, field_selector=selector) == selected

    @pytest.mark.usefixtures("three")
    @pytest.mark.parametrize(
        ("selector", "selected"),
        [
            ("x=2", ["ended"]),
            ("x==2", ["ended"]),
            ("x!=2", ["bound", "plain"]),
            ("x in (1,2)", ["bound", "ended"]),
            ("x in ( 2 )", ["ended"]),
            ("x notin (1)", ["ended", "plain"]),
            ("x", ["bound", "ended"]),
            ("!x", ["plain"]),
            ("x in (1,2),y", ["bound"]),
            ("y!=1,x", ["ended"]),
        ],
    )
    def test_a_label_selector_selects(
        self, kube: Kube, namespace: str, selector: str, selected: list[str]
    ) -> None:
        assert self.names(kube, namespace, label_selector=selector) == selected

    @pytest.mark.parametrize(
        "selection",
        [
            {"field_selector": "spec.priority=0"},
            {"field_selector": "metadata.uid=1"},
            {"field_selector": "metadata.name"},
            {"label_selector": "x in 1"},
            {"label_selector": "x=1=2"},
        ],
    )
    def test_an_invalid_selector_is_refused(
        self, kube: Kube, namespace: str, selection: dict[str, str]
    ) -> None:
        with pytest.raises(BadRequest):
            self.names(kube, namespace, **selection)
