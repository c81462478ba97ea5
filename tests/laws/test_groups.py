"""The groups that a state passes on are those that it would build from its pods alone."""

from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.objects.pods import Pod
from tests.fakes.objects import EPOCH, a_node, a_pod
from tests.laws.changes import Change
from tests.laws.groups import Group
from tests.laws.state import State


def _pod(name: str, node: str | None, user: str | None) -> Pod:
    built = a_pod(name) if user is None else a_pod(name).of(user)
    return built.obj if node is None else built.on(node).obj


PODS = st.builds(
    _pod,
    st.sampled_from(["p", "q", "r"]),
    st.sampled_from([None, "n0", "n1"]),
    st.sampled_from([None, "alice", "bob"]),
)


def written(state: State, pod: Pod, *, is_gone: bool) -> State:
    """The state after a pod was written, or has vanished."""
    before = state.pods.get(pod.metadata.uid)
    if is_gone and before is None:
        return state
    after = None if is_gone else pod
    return state.after(Change(plural="pods", before=before, after=after, version=1, instant=EPOCH))


def members(groups: dict[str, Group]) -> dict[str, dict[str, Pod]]:
    """The groups that are not empty."""
    return {name: dict(group.pods) for name, group in groups.items() if group.pods}


@given(st.lists(st.tuples(PODS, st.booleans()), max_size=20))
def test_groups_carried_through_writes_match_groups_rebuilt_from_the_pods(
    writes: list[tuple[Pod, bool]],
) -> None:
    state = State()
    assert not state.by_node
    assert not state.by_user
    for pod, is_gone in writes:
        state = written(state, pod, is_gone=is_gone)
        rebuilt = State(pods=state.pods)
        assert members(state.by_node) == members(rebuilt.by_node)
        assert members(state.by_user) == members(rebuilt.by_user)


def test_a_group_is_the_same_until_a_pod_of_it_changes() -> None:
    state = written(
        written(State(), _pod("p", "n0", None), is_gone=False), _pod("q", "n1", None), is_gone=False
    )
    here, there = state.by_node["n0"], state.by_node["n1"]
    node = a_node("n0")
    after = state.after(Change(plural="nodes", before=None, after=node, version=2, instant=EPOCH))
    assert after.by_node["n0"] is here
    after = written(after, _pod("p", "n0", "alice"), is_gone=False)
    assert after.by_node["n0"] is not here
    assert after.by_node["n1"] is there


def test_a_value_of_a_group_is_computed_once() -> None:
    calls: list[str] = []
    group = Group({})

    def reckon() -> str:
        calls.append(names.PRODUCT)
        return "found"

    assert [group.reckoned("it", reckon) for _ in range(2)] == ["found", "found"]
    assert group.reckoned(("it", "otherwise"), reckon) == "found"
    assert len(calls) == 2
