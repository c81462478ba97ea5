"""All objects of one kind, as a reflector reports them: claims, volumes, classes."""

from hypothesis import given
from hypothesis import strategies as st

from cluster.cache.store import Guard, Store
from cluster.kube.resources import VOLUME_CLAIMS, VOLUMES
from cluster.objects.meta import Meta
from cluster.objects.volumes import ClaimSpec, Volume, VolumeClaim


class Kept:
    """A store of claims, and how often its watchers were notified."""

    def __init__(self) -> None:
        self.changes = 0
        self.guard = Guard()
        self.guard.watchers.append(self._count)
        self.store = Store(self.guard, VOLUME_CLAIMS)

    def _count(self) -> None:
        self.changes += 1

    @property
    def volumes(self) -> dict[str, str | None]:
        """Claim -> the volume that it names."""
        return {key: one.spec.volume_name for key, one in self.store.all().items()}


def volume_claim(
    name: str, volume: str, *, version: int = 1, uid: str = "", namespace: str = "team"
) -> VolumeClaim:
    meta = Meta(name=name, namespace=namespace, uid=uid or f"uid-{name}", resource_version=str(version))
    return VolumeClaim(metadata=meta, spec=ClaimSpec(volume_name=volume))


def test_watchers_are_notified_of_each_report() -> None:
    kept = Kept()
    kept.store.replace([], "1")
    kept.store.upsert(volume_claim("a", "pv-1"))
    kept.store.remove(volume_claim("a", "pv-1"))
    assert kept.changes == 3


def test_objects_of_one_name_in_two_namespaces_are_distinct() -> None:
    kept = Kept()
    kept.store.replace([volume_claim("a", "pv-1"), volume_claim("a", "pv-2", namespace="other")], "1")
    kept.store.remove(volume_claim("a", "pv-1"))
    assert kept.volumes == {"other/a": "pv-2"}


def test_a_snapshot_does_not_change_afterwards() -> None:
    kept = Kept()
    kept.store.upsert(volume_claim("a", "pv-1"))
    before = kept.store.all()
    kept.store.upsert(volume_claim("b", "pv-2"))
    assert list(before) == ["team/a"]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9)), max_size=8))
def test_the_newest_state_of_each_object_is_kept_after_any_reports_without_deletions(
    reports: list[tuple[str, int]],
) -> None:
    kept = Kept()
    for name, version in reports:
        kept.store.upsert(volume_claim(name, f"pv-{version}", version=version))
    newest = {f"team/{name}": max(v for n, v in reports if n == name) for name, _ in reports}
    assert kept.volumes == {key: f"pv-{version}" for key, version in newest.items()}


def test_a_cluster_scoped_object_is_known_by_its_name_alone() -> None:
    store = Store(Guard(), VOLUMES)
    store.upsert(Volume(metadata=Meta(name="x")))
    assert list(store.all()) == ["x"]


def test_an_index_has_what_its_function_reads_from_each_object_until_that_changes() -> None:
    kept = Kept()
    named = kept.store.index(lambda one: one.spec.volume_name or None)
    kept.store.replace([volume_claim("a", "pv-1"), volume_claim("b", "")], "2")
    before = named.all()
    assert before == {"team/a": "pv-1"}
    kept.store.upsert(volume_claim("a", "pv-1", version=3))
    assert named.all() is before
    kept.store.upsert(volume_claim("b", "pv-2", version=4))
    kept.store.upsert(volume_claim("a", "", version=5))
    assert (before, named.all()) == ({"team/a": "pv-1"}, {"team/b": "pv-2"})


def test_an_observer_gets_what_was_kept_and_what_there_is() -> None:
    kept, changes = Kept(), list[tuple[str, bool, bool]]()
    kept.store.observe(
        lambda key, before, after: changes.append((key, before is not None, after is not None))
    )
    kept.store.upsert(volume_claim("a", "pv-1", version=2))
    kept.store.upsert(volume_claim("a", "pv-1", version=1))
    kept.store.replace([volume_claim("a", "pv-2", version=3)], "4")
    kept.store.remove(volume_claim("a", "pv-2", version=5))
    assert changes == [("team/a", False, True), ("team/a", True, True), ("team/a", True, False)]
