"""The cache of comebacks: what watches report late, twice or not at all, among our own writes."""

from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.controller.reclaimer.evictions.comeback_cache import ComebackCache
from cluster import names
from cluster.kube.resources import PodTemplate
from cluster.objects.pods import Pod

NAMESPACE: Final = "team"


def pod(
    version: int | str = 1,
    *,
    uid: str = "v",
    name: str = "p",
    of: str | None = None,
    finalizer: bool = True,
    namespace: str = NAMESPACE,
) -> Pod:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": uid,
        "resourceVersion": str(version),
        "finalizers": [names.COMEBACK] if finalizer else [],
        "annotations": {names.RECREATED_FROM: of} if of else {},
    }
    return msgspec.convert({"metadata": metadata}, Pod)


def template(version: int = 1, *, of: str = "v", uid: str = "t", name: str | None = "p") -> PodTemplate:
    metadata = {
        "name": f"{names.COMEBACK_PREFIX}{of}",
        "namespace": NAMESPACE,
        "uid": uid,
        "resourceVersion": str(version),
    }
    kept = {"metadata": {"name": name} if name else {}}
    return msgspec.convert({"metadata": metadata, "template": kept}, PodTemplate)


@pytest.fixture
def seen() -> ComebackCache:
    return ComebackCache()


def version_of(seen: ComebackCache, uid: str = "v") -> str | None:
    found = seen.comeback(uid, wanted=True).victim
    return found.metadata.resource_version if found else None


# --- pods ----------------------------------------------------------------------------------------------


def test_our_own_write_is_cached_at_once_and_a_late_event_does_not_undo_it(seen: ComebackCache) -> None:
    seen.wrote_pod(pod(5))
    seen.pods.upsert(pod(4, finalizer=False))
    assert version_of(seen) == "5"


@pytest.mark.parametrize("known", [True, False])
def test_the_release_of_a_pod_does_not_cache_it_again_after_the_watch_removed_it(
    seen: ComebackCache, *, known: bool
) -> None:
    if known:
        seen.pods.upsert(pod(4))
    seen.wrote_pod(pod(5, finalizer=False))
    assert version_of(seen) == ("5" if known else None)


# --- templates -----------------------------------------------------------------------------------------


def test_objects_that_carry_only_our_label_are_not_cached(seen: ComebackCache) -> None:
    seen.templates.upsert(template(name=None))
    seen.templates.upsert(
        msgspec.convert(
            {"metadata": {"name": "theirs"}, "template": {"metadata": {"name": "p"}}}, PodTemplate
        )
    )
    assert seen.victims() == []


def test_law_l4_a_template_that_we_deleted_stays_deleted_however_late_its_events_arrive(
    seen: ComebackCache,
) -> None:
    seen.templates.upsert(template(1))
    seen.drop_template(template(1))
    seen.templates.upsert(template(2))
    assert seen.template("v") is None
    seen.templates.replace([template(2)], "2")
    assert seen.template("v") is None, "a list of before the deletion"
    seen.templates.replace([], "3")
    seen.templates.upsert(template(4, uid="another"))
    assert seen.template("v") is not None, "another of that name counts"


def test_the_deletion_of_the_previous_template_leaves_one_that_was_stored_again(seen: ComebackCache) -> None:
    seen.templates.upsert(template(1))
    seen.templates.upsert(template(3, uid="again"))
    seen.templates.remove(template(2))
    found = seen.template("v")
    assert found is not None
    assert found.metadata.uid == "again"
    seen.templates.remove(template(4, uid="again"))
    seen.templates.remove(template(4, uid="again"))
    assert seen.template("v") is None


@pytest.mark.parametrize(("version", "stays"), [("9", True), ("10", False)])
def test_a_list_made_before_we_stored_a_template_does_not_remove_it(
    seen: ComebackCache, version: str, *, stays: bool
) -> None:
    seen.put_template(template(10))
    seen.templates.replace([], version)
    assert (seen.template("v") is not None) is stays


# --- what belongs together -----------------------------------------------------------------------------


def test_victim_template_and_returning_pod_are_one_comeback(seen: ComebackCache) -> None:
    seen.pods.upsert(pod())
    seen.templates.upsert(template())
    seen.pods.upsert(pod(uid="r", of="v"))
    assert seen.victims() == ["v"]
    found = seen.comeback("v", wanted=False)
    assert (found.victim, found.template, found.returning) == (pod(), template(), pod(uid="r", of="v"))
    assert (found.wanted, found.is_name_taken) == (False, False)
    assert seen.comeback("v", wanted=True).wanted


@pytest.mark.parametrize(
    "marks",
    [{"name": "q"}, {"namespace": "other"}, {"of": "somebody"}],
    ids=["another name", "another namespace", "of another victim"],
)
def test_a_pod_counts_as_returning_only_in_its_victims_place(
    seen: ComebackCache, marks: dict[str, str]
) -> None:
    seen.templates.upsert(template())
    seen.pods.upsert(pod(**{"uid": "r", "of": "v", **marks}))
    assert seen.comeback("v", wanted=False).returning is None


def test_without_a_template_the_mark_on_the_pod_makes_it_a_returning_pod(seen: ComebackCache) -> None:
    seen.pods.upsert(pod(uid="r", of="v", name="q"))
    assert seen.comeback("v", wanted=False).returning is not None
    assert seen.victims() == ["v"]
    assert seen.comeback("r", wanted=False).victim is None


def test_a_pod_that_came_back_and_leaves_again_is_a_victim_itself(seen: ComebackCache) -> None:
    seen.pods.upsert(pod(uid="r", of="v"))
    seen.templates.upsert(template(of="r"))
    assert seen.victims() == ["r"]
    assert seen.comeback("r", wanted=False).victim is not None
    assert seen.comeback("v", wanted=False).returning is None


# --- callbacks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pods", "templates"])
def test_each_watch_event_triggers_every_callback_once_and_our_own_writes_trigger_none(
    seen: ComebackCache, kind: str
) -> None:
    notified: list[str] = []
    seen.on_change(lambda: notified.append("first"))
    seen.on_change(lambda: notified.append("second"))
    handler: Any = getattr(seen, kind)
    one: Any = pod() if kind == "pods" else template()
    for event in (lambda: handler.upsert(one), lambda: handler.remove(one), lambda: handler.replace([], "1")):
        event()
        assert notified == ["first", "second"]
        notified.clear()
    seen.wrote_pod(pod())
    seen.put_template(template(uid="u"))
    seen.drop_template(template(uid="u"))
    seen.drop_pod("v")
    assert notified == []


@given(
    versions=st.permutations(range(1, 7)),
    repeated=st.lists(st.integers(1, 6), max_size=6),
)
def test_the_newest_state_is_cached_whatever_the_order_of_events(
    versions: list[int], repeated: list[int]
) -> None:
    seen = ComebackCache()
    for version in [*versions, *repeated]:
        seen.pods.upsert(pod(version))
        seen.templates.upsert(template(version))
    found = seen.comeback("v", wanted=True)
    assert found.victim is not None
    assert found.template is not None
    assert found.victim.metadata.resource_version == found.template.metadata.resource_version == "6"
