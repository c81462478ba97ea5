"""What administrators write on Namespaces."""

import pytest

from cluster import names
from cluster.objects.meta import Meta
from cluster.objects.namespaces import Namespace


def annotated(key: str, text: str) -> Namespace:
    return Namespace(metadata=Meta(name="team", annotations={key: text}))


@pytest.mark.parametrize(
    ("text", "is_protected"),
    [
        ("true", True),
        ("True", True),
        ("TRUE", True),
        (" true\n", True),
        ("false", False),
        ("", False),
        ("yes", False),
        ("1", False),
        ("true-ish", False),
        ("not true", False),
    ],
)
def test_a_namespace_is_protected_where_its_annotation_is_true(text: str, *, is_protected: bool) -> None:
    assert annotated(names.NEVER_EVICT, text).is_protected is is_protected


def test_protection_is_an_annotation_and_not_a_label() -> None:
    assert not Namespace(metadata=Meta(labels={names.NEVER_EVICT: "true"})).is_protected


def test_pods_of_controllers_belong_to_the_owner_of_their_namespace() -> None:
    assert annotated(names.OWNER, "alice").owner == "alice"


@pytest.mark.parametrize(
    "namespace", [Namespace(), annotated(names.OWNER, ""), annotated(names.USER, "alice")]
)
def test_a_namespace_without_the_annotation_has_no_owner(namespace: Namespace) -> None:
    assert namespace.owner is None
    assert not namespace.is_protected
