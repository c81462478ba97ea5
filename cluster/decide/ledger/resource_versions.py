"""Which of two states of one object is newer.

``resourceVersion`` of the same object may be compared as a number (promised since Kubernetes 1.35, and true
of etcd before). If states cannot be compared, the later one to arrive counts as newer.
"""

from cluster.objects.meta import Meta


def is_older(meta: Meta, known: Meta) -> bool:
    """Whether ``meta`` is an older state of the object that ``known`` belongs to."""
    if meta.uid != known.uid:
        return False
    return version_is_older(meta.resource_version, known.resource_version)


def version_is_older(version: str, known: str) -> bool:
    """Whether one resourceVersion of an object is older than another; False when that cannot be decided."""
    if not (version.isdecimal() and known.isdecimal()):
        return False
    return int(version) < int(known)
