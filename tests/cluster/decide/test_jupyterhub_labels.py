"""Our encodings of JupyterHub's user names are KubeSpawner's own, for every name."""

import escapism
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kubespawner.slugs import escape_slug, is_valid_label, safe_slug

from cluster.decide.jupyterhub_labels import LONGEST_OBJECT, escaped, labels_of, safe_label, safe_object

LETTERS = st.text("abzAZ019-._@+ é\u017f\u212a\u0130\n", max_size=80)
NAMES = st.text(max_size=100) | LETTERS | st.text("ab-", min_size=60, max_size=66)


@given(NAMES)
@example("")
@example("-alice")
@example("1alice@kth.se")
@example("a--b")
@example("a\u017fb")
@example("a" * 64)
@example("a\n")
def test_labels_are_encoded_as_kubespawner_encodes_them(name: str) -> None:
    assert escaped(name) == escape_slug(name)
    assert safe_label(name) == safe_slug(name, is_valid=is_valid_label)
    assert safe_object(name) == safe_slug(name, max_length=LONGEST_OBJECT)


@given(st.text("abzAZ019-._@+é", min_size=1, max_size=60))
def test_the_old_encoding_can_be_read_back(name: str) -> None:
    assert escapism.unescape(escaped(name), escape_char="-") == name


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("alice", {"alice"}),
        ("alice@kth.se", {"alice-40kth-2ese", "alice-kth-se---5fc1f5b8"}),
        ("Alice", {"-41lice", "Alice", "alice---3bc51062"}),
    ],
)
def test_examples_of_names_have_the_expected_labels(name: str, labels: set[str]) -> None:
    assert labels_of(name) == labels
