"""What the soak of the server's memory reports as a leak."""

from tests.booking.server.web.soak_memory import LEAST, WARM_UP, Sample, too_much

SAMPLES = 200
NOISE = 2_000
"""Blocks that come and go with garbage and caches."""
PIECE = 2**20
"""Bytes that Python requests at once."""


def soak(*, blocks: float = 0.0, malloced: float = 0.0, pieces: int = 0) -> list[Sample]:
    """The samples after the warm-up of the shortest soak.

    Args:
        blocks: of Python, of 48 bytes, that remain of each request.
        malloced: bytes that others keep of each request.
        pieces: that Python needs in addition from the middle of it on.
    """
    begin = WARM_UP * LEAST
    seen = []
    for number in range(SAMPLES):
        requests = int(begin + number * (LEAST - begin) / SAMPLES)
        more = pieces if number >= SAMPLES // 2 else 0
        kept = 100 * 2**20 + int(malloced * requests) + more * PIECE + int(48 * blocks * requests)
        seen.append(Sample(requests, kept, 420_000 + int(blocks * requests) + number * 7919 % NOISE))
    return seen


def test_constant_memory_is_not_a_leak() -> None:
    assert too_much(soak()) == set()


def test_another_piece_of_memory_for_python_is_not_a_leak() -> None:
    assert too_much(soak(pieces=1)) == set()


def test_one_small_object_of_each_request_is_a_leak() -> None:
    assert too_much(soak(blocks=1)) == {"blocks"}


def test_memory_that_c_libraries_keep_of_each_request_is_a_leak() -> None:
    assert too_much(soak(malloced=128)) == {"bytes"}
