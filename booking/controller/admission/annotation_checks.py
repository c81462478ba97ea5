"""Annotations of a new pod that cannot be parsed: its creator gets a warning, since they are ignored."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from booking.wording import quoted
from cluster import names
from cluster.objects.device_selector import mebibytes
from cluster.objects.gangs import LEAST, MOST, gang_of, size_in
from cluster.objects.pods import Pod
from cluster.objects.quantity import QuantityError

ON_EVICT: Final = ("recreate-without-gpu", "requeue", "delete")
"""What a pod may request for its eviction."""
SHARING: Final = ("time-slice", "mps", "any", "whole")
"""How a pod may share its GPUs."""


def unreadable(annotations: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each annotation that cannot be parsed."""
    for key, (is_good, form) in _CHECKS.items():
        text = annotations.get(key)
        if text is not None and not is_good(text.strip()):
            yield f"{key} is {form}, not {quoted(text)}: ignored."


def nameless_gang(pod: Pod) -> Iterator[str]:
    """Yield a warning where the size of a gang counts for nothing: nobody knows which pods are of it."""
    text = pod.metadata.annotation(names.GANG_SIZE)
    if text is not None and size_in(text) is not None and gang_of(pod) is None:
        yield (
            f"{names.GANG_SIZE} is ignored: this pod has no controller, so {names.GANG} must say of which"
            " gang it is, by a name that all of its pods have."
        )


def _is_instant(text: str, *, strict: bool = True) -> bool:
    """Whether the text is an RFC 3339 instant; one without a zone does not count."""
    try:
        return msgspec.convert(text, datetime, strict=strict).tzinfo is not None
    except msgspec.ValidationError:
        return False


def _is_checkpoint(text: str) -> bool:
    """Whether the text is a checkpoint instant; seconds since 1970 are accepted, too."""
    return _is_instant(text, strict=False)


def _is_span(text: str) -> bool:
    try:
        return msgspec.convert(text, timedelta) >= timedelta(0)
    except msgspec.ValidationError:
        return False


def _is_memory(text: str) -> bool:
    try:
        return mebibytes(text) >= 0
    except QuantityError:
        return False


_INSTANT: Final = "an instant such as 2026-11-27T17:00:00Z"
_CHECKS: Final[Mapping[str, tuple[Callable[[str], bool], str]]] = {
    names.CHECKPOINT_AT: (_is_checkpoint, _INSTANT),
    names.CHECKPOINT_DONE: (_is_instant, _INSTANT),
    names.MIN_MEMORY: (_is_memory, "a number of MiB such as 40960 or an amount such as 40Gi"),
    names.REQUESTED_NOTICE: (_is_span, "a duration such as PT5M"),
    names.ON_EVICT: (lambda text: text in ON_EVICT, f"one of {', '.join(ON_EVICT)}"),
    names.SHARING: (lambda text: text in SHARING, f"one of {', '.join(SHARING)}"),
    names.GANG_SIZE: (lambda text: size_in(text) is not None, f"a number from {LEAST} to {MOST}"),
    names.PLACEMENT: (lambda text: text in names.PLACEMENTS, f"one of {', '.join(names.PLACEMENTS)}"),
}
