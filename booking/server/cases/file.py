"""Case files: a policy, devices and bookings, requests and the answers that they should get. Pure.

YAML. Devices, bookings and maintenance that several cases share are listed once at the top; a case may have
more bookings and maintenance of its own.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import msgspec.yaml

from cluster.objects.bookings import Topology
from cluster.objects.meta import Instant

Amount = Annotated[int, msgspec.Meta(ge=0, le=100_000)]
Size = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]


class CaseFileError(ValueError):
    """A case file that cannot be used; the message says where and why."""


class Booked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An existing booking."""

    user: str
    start: Instant
    end: Instant
    id: str = ""
    """The id that `change` refers to; by default `b-1` and so on, counted through the case."""
    model: str = ""
    """By default the only existing model."""
    count: Amount = 1
    memory: Size | None = None
    """MiB of each device; None: whole devices."""
    topology: Topology | None = None
    released: Instant | None = None
    cancelled: Instant | None = None
    waived: bool = False


class CaseRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request. Of a change, what is not given stays as it is."""

    start: Instant | None = None
    """None: now."""
    end: Instant | None = None
    duration: str | None = None
    """Instead of the end: P2D, 36h."""
    model: str = ""
    count: int | None = None
    memory: int | None = None
    """MiB of each device; None: whole devices."""
    topology: Topology | None = None
    namespace: str | None = None


class Exempted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An exemption of a case's user; it counts if the case's now is in ``[start, end)``."""

    limits: Mapping[str, Any]
    model: str | None = None
    start: Instant | None = None
    """None: the case's now."""
    end: Instant | None = None
    """By default a day after the case's now, or after a later start."""


class Maintained(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Devices of a node that cannot be used in ``[start, end)``."""

    node: str
    start: Instant
    end: Instant
    model: str | None = None
    """By default all models of the node."""
    count: Amount | None = None
    """By default all devices of the node."""


class OneCase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request and its expected answer."""

    name: str
    now: Instant
    user: str
    groups: tuple[str, ...] = ()
    history: tuple[Booked, ...] = ()
    """Bookings in addition to those of the whole file."""
    maintenance: tuple[Maintained, ...] = ()
    """In addition to that of the whole file."""
    exemptions: tuple[Exempted, ...] = ()
    request: CaseRequest
    change: str | None = None
    """Id of the booking that the request changes."""
    expect: tuple[str, ...] = ()
    """Rules that are broken, in any order; none: the request is accepted."""
    earliest_start: Instant | None = None
    """The expected earliest start, where that matters."""


class CaseFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cluster with its bookings, and requests with the answers that a policy must give."""

    policy: str | None = None
    """Path of the policy file, relative to this file; None: the manual's policy."""
    capacity: Mapping[str, Mapping[str, Amount]]
    """Model -> node -> devices."""
    memory: Mapping[str, Size] = {}
    """Model -> MiB that each of its devices offers to shares; others are booked whole only."""
    history: tuple[Booked, ...] = ()
    maintenance: tuple[Maintained, ...] = ()
    cases: tuple[OneCase, ...]


def read_cases(text: str) -> CaseFile:
    """The cases of a file.

    Raises:
        CaseFileError: the text is not YAML, or not a case file.
    """
    try:
        return msgspec.yaml.decode(text, type=CaseFile)
    except msgspec.ValidationError as error:
        raise CaseFileError(f"The case file is refused: {error}.") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise CaseFileError(f"The case file is not YAML: {' '.join(str(error).split())}.") from error
