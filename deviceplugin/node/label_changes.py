"""The changes that give the Node its wanted labels. Pure.

We write only labels that no other program has written, and record their keys on the Node. Labels that node
feature discovery writes for GPU feature discovery are left to it; once it removes them, we write ours.
"""

from collections.abc import Mapping
from typing import NamedTuple

from cluster import names
from cluster.objects.node_labels import encode_written, others_labels, written_labels
from cluster.objects.nodes import Node


class LabelChange(NamedTuple):
    """A change of the Node: key -> value, or None to remove the key."""

    labels: dict[str, str | None]
    annotations: dict[str, str | None]


def change(wanted: Mapping[str, str] | None, node: Node) -> LabelChange:
    """The change that gives the Node the wanted labels; an empty one if these are not known (None)."""
    if wanted is None:
        return LabelChange({}, {})
    there, before = node.metadata.labels or {}, written_labels(node.metadata)
    foreign = others_labels(node.metadata) | (there.keys() - before)
    mine = {key: value for key, value in wanted.items() if key not in foreign}
    labels: dict[str, str | None] = {key: value for key, value in mine.items() if there.get(key) != value}
    labels |= dict.fromkeys(sorted(before - mine.keys()))
    written = encode_written(frozenset(mine))
    known = node.metadata.annotation(names.LABELS)
    return LabelChange(labels, {} if written == known else {names.LABELS: written})
