import pytest

from cluster.kube.resources import LEASES, NODES, PODS


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PODS.path(), "/api/v1/pods"),
        (PODS.path("team"), "/api/v1/namespaces/team/pods"),
        (PODS.path("team", "a"), "/api/v1/namespaces/team/pods/a"),
        (PODS.path("team", "a", "binding"), "/api/v1/namespaces/team/pods/a/binding"),
        (NODES.path(name="n0"), "/api/v1/nodes/n0"),
        (LEASES.path("x", "l"), "/apis/coordination.k8s.io/v1/namespaces/x/leases/l"),
    ],
)
def test_every_object_has_its_path(path: str, expected: str) -> None:
    assert path == expected


def test_a_name_cannot_escape_from_its_path() -> None:
    assert PODS.path("team", "../secrets/s?x") == "/api/v1/namespaces/team/pods/..%2Fsecrets%2Fs%3Fx"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, "a", None), "needs its namespace"),
        (("team", None, "binding"), "needs the object's name"),
    ],
)
def test_an_impossible_path_is_refused(arguments: tuple[str | None, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PODS.path(*arguments)


def test_a_node_has_no_namespace() -> None:
    with pytest.raises(ValueError, match="have no namespace"):
        NODES.path("team", "n0")
