"""The changes that give the Node its wanted labels: pure.

We write only labels that no other program has written, and record their keys on the Node. Where node feature
discovery writes GPU feature discovery's labels they are left to it; where it removes them we write ours.
"""

from collections.abc import Mapping
from typing import NamedTuple

from cluster import names
from cluster.objects.node_labels import encode_written, others_labels, written_labels
from cluster.objects.nodes import Node


class Change(NamedTuple):
    """A change of the Node: values, or None where the key has to go."""

    labels: dict[str, str | None]
    annotations: dict[str, str | None]


def change(wanted: Mapping[str, str] | None, node: Node) -> Change:
    """The change that gives the Node the wanted labels; an empty one where these are not known (None)."""
    if wanted is None:
        return Change({}, {})
    there, before = node.metadata.labels or {}, written_labels(node.metadata)
    foreign = others_labels(node.metadata) | (there.keys() - before)
    mine = {key: value for key, value in wanted.items() if key not in foreign}
    labels: dict[str, str | None] = {key: value for key, value in mine.items() if there.get(key) != value}
    labels |= dict.fromkeys(sorted(before - mine.keys()))
    written = encode_written(frozenset(mine))
    known = node.metadata.annotation(names.LABELS)
    return Change(labels, {} if written == known else {names.LABELS: written})
