"""What has happened to a pod is reported once, whichever event brings it."""

from dataclasses import dataclass, field, replace

from cluster import names
from cluster.objects.pods import Pod
from devcluster.demo.pod_cache import PodCache
from tests.fakes.objects import a_pod


@dataclass
class Reports:
    """Records which pods were reported with which transition."""

    lines: list[tuple[str, str]] = field(default_factory=list)

    def __call__(self, transition: str, pod: Pod) -> None:
        self.lines.append((pod.metadata.name, transition))


def test_changes_while_no_watch_ran_are_reported_by_the_next_list() -> None:
    reports = Reports()
    pods = PodCache(reports)
    pods.replace([a_pod("p").obj], "1")
    pods.replace([a_pod("p").on("n0").obj], "2")
    assert reports.lines == [("p", "scheduled")]


def test_a_list_repeats_nothing() -> None:
    reports = Reports()
    pods = PodCache(reports)
    pod = a_pod("p").on("n0").obj
    pods.upsert(pod)
    pods.replace([pod], "2")
    assert reports.lines == [("p", "scheduled")]


def test_a_pod_that_comes_back_is_a_new_pod() -> None:
    reports = Reports()
    pods = PodCache(reports)
    back = replace(a_pod("p"), uid="second").with_annotation(names.RECREATED_FROM, "uid-p").obj
    pods.upsert(a_pod("p").on("n0").obj)
    pods.replace([back], "2")
    assert reports.lines == [("p", "scheduled"), ("p", "returned")]
