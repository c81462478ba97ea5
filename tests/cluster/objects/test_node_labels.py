"""Which labels of a node its agent wrote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.objects.meta import Meta
from cluster.objects.node_labels import encode_written, others_labels, written_labels

OURS = names.LABELS
NFD = names.FEATURE_LABELS


@pytest.mark.parametrize(
    ("labels", "annotations", "ours"),
    [
        (["a", "b"], {}, []),
        (["a", "b"], {OURS: "a"}, ["a"]),
        (["a"], {OURS: " a , b,,"}, ["a"]),
        ([], {OURS: "a"}, []),
        (["a", "b"], {OURS: "a,b", NFD: "b"}, ["a"]),
        (["a", "b"], {OURS: "a,b", f"second.{NFD}": "a"}, ["b"]),
        (["a", "b"], {OURS: "a,b", NFD: "a", f"second.{NFD}": "b"}, []),
        (["a"], {OURS: "a", f"{NFD}.second": "a", f"second{NFD}": "a"}, ["a"]),
    ],
)
def test_a_label_is_ours_if_we_wrote_it_it_is_present_and_nobody_else_owns_it(
    labels: list[str], annotations: dict[str, str], ours: list[str]
) -> None:
    meta = Meta(labels=dict.fromkeys(labels, "v"), annotations=annotations)
    assert sorted(written_labels(meta)) == ours


def test_the_remembered_labels_are_written_in_one_order() -> None:
    assert encode_written(frozenset({"b", "a"})) == "a,b"
    assert encode_written(frozenset()) is None


def test_a_node_without_labels_and_annotations_has_none() -> None:
    assert written_labels(Meta()) == others_labels(Meta()) == frozenset()


KEYS = st.sets(st.sampled_from(["a", "b", "example.com/c", "nvidia.com/gpu.product"])).map(frozenset)


@given(KEYS, KEYS, KEYS)
def test_an_agent_owns_its_remembered_labels_except_removed_ones_and_those_of_others(
    ours: frozenset[str], there: frozenset[str], theirs: frozenset[str]
) -> None:
    written = {OURS: text} if (text := encode_written(ours)) else {}
    meta = Meta(labels=dict.fromkeys(there, "v"), annotations={**written, NFD: ",".join(theirs)})
    assert written_labels(meta) == {key for key in ours if key in there and key not in theirs}
    assert others_labels(meta) == theirs
