"""Which labels of a Node its agent has written, and which belong to others. Pure.

The agent keeps the keys of its own in the annotation ``names.LABELS``, separated by commas. Node feature
discovery keeps those of its own in ``names.FEATURE_LABELS``, and a named instance in one with its name as a
prefix.
"""

from cluster import names
from cluster.objects.meta import Meta


def encode_written(keys: frozenset[str]) -> str | None:
    """The text of the annotation; None without keys."""
    return ",".join(sorted(keys)) or None


def written_labels(meta: Meta) -> frozenset[str]:
    """Keys of the Node's labels that an agent of ours wrote and that still exist."""
    return _keys(meta.annotation(names.LABELS) or "") & (meta.labels or {}).keys() - others_labels(meta)


def others_labels(meta: Meta) -> frozenset[str]:
    """Keys of the labels that node feature discovery owns."""
    return frozenset[str]().union(
        *(
            _keys(text)
            for key, text in (meta.annotations or {}).items()
            if key == names.FEATURE_LABELS or key.endswith(f".{names.FEATURE_LABELS}")
        )
    )


def _keys(text: str) -> frozenset[str]:
    return frozenset(key.strip() for key in text.split(",") if key.strip())
