"""A Node without the text of its inventory, which is the largest part of it: the ledger has what it says."""

from msgspec.structs import replace

from cluster import names
from cluster.objects.nodes import Node


def slim(node: Node) -> Node:
    """The node with all that is read of it later.

    Where numbered GPUs are published, whoever counts them compares the text with what it would write.
    """
    notes = node.metadata.annotations or {}
    text = notes.get(names.INVENTORY)
    if text is None or names.COUNTED in notes or _NUMBERED in text:
        return node
    rest = {key: value for key, value in notes.items() if key != names.INVENTORY}
    return replace(node, metadata=replace(node.metadata, annotations=rest))


_NUMBERED = '"numbered"'
