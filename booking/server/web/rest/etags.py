"""Versions of a booking: ``ETag``, and ``If-Match`` (RFC 9110, section 13.1.1). Pure."""

import re
from typing import Final

from werkzeug.datastructures import Headers

from booking.server.records import Record

IF_MATCH: Final = "If-Match"
TAGS: Final = r'^(\*|(W/)?"[!#-~]*"([ \t]*,[ \t]*(W/)?"[!#-~]*")*)$'
"""Pattern of the header's value."""
_TAG: Final = re.compile(r'(W/)?"([!#-~]*)"')


def tag_of(record: Record) -> str:
    """The version as an entity tag."""
    return f'"{record.version}"'


def expected(headers: Headers) -> frozenset[str] | None:
    """The versions that the client accepts for the change; None: any.

    A malformed header, or tags that are not ours, match no version: the current one always differs. The
    service compares in the transaction: a retry with a key gets the answer of the request that was once up to
    date.
    """
    if_match = headers.get(IF_MATCH)
    if if_match is None or if_match.strip() == "*":
        return None
    if not re.fullmatch(TAGS, if_match.strip()):
        return frozenset()
    return frozenset(tag for weak, tag in _TAG.findall(if_match) if not weak)
