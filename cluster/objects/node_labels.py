"""Which labels of a Node its agent has written, and which are others': pure.

The agent remembers its own in the annotation ``names.LABELS``, a comma-separated list of keys. Node feature
discovery remembers in annotations of its own what it owns, an instance with a name in one of that name.
"""

from cluster import names
from cluster.objects.meta import Meta


def encode_written(keys: frozenset[str]) -> str | None:
    """The text of the annotation; None where nothing is written."""
    return ",".join(sorted(keys)) or None


def written_labels(meta: Meta) -> frozenset[str]:
    """The labels that the Node has because an agent of ours wrote them."""
    return _keys(meta.annotation(names.LABELS) or "") & (meta.labels or {}).keys() - others_labels(meta)


def others_labels(meta: Meta) -> frozenset[str]:
    """The labels that node feature discovery owns."""
    return frozenset[str]().union(
        *(
            _keys(text)
            for key, text in (meta.annotations or {}).items()
            if key == names.FEATURE_LABELS or key.endswith(f".{names.FEATURE_LABELS}")
        )
    )


def _keys(text: str) -> frozenset[str]:
    return frozenset(key.strip() for key in text.split(",") if key.strip())
