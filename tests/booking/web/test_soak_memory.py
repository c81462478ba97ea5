"""What the soak of the server's memory calls a leak."""

from tests.booking.web.soak_memory import LEAST, WARM_UP, Look, too_much

LOOKS = 200
NOISE = 2_000
"""Blocks that come and go with garbage and caches."""
PIECE = 2**20
"""Bytes that Python asks for at once."""


def soak(*, blocks: float = 0.0, malloced: float = 0.0, pieces: int = 0) -> list[Look]:
    """What is seen after the warm-up of the shortest soak.

    Args:
        blocks: of Python, of 48 bytes, that stay of each request.
        malloced: bytes that others keep of each request.
        pieces: that Python needs more in the middle of it.
    """
    begin = WARM_UP * LEAST
    seen = []
    for number in range(LOOKS):
        asked = int(begin + number * (LEAST - begin) / LOOKS)
        more = pieces if number >= LOOKS // 2 else 0
        kept = 100 * 2**20 + int(malloced * asked) + more * PIECE + int(48 * blocks * asked)
        seen.append(Look(asked, kept, 420_000 + int(blocks * asked) + number * 7919 % NOISE))
    return seen


def test_memory_that_is_flat_is_no_leak() -> None:
    assert too_much(soak()) == set()


def test_another_piece_of_memory_for_python_is_no_leak() -> None:
    assert too_much(soak(pieces=1)) == set()


def test_one_small_object_of_each_request_is_a_leak() -> None:
    assert too_much(soak(blocks=1)) == {"blocks"}


def test_what_c_libraries_keep_of_each_request_is_a_leak() -> None:
    assert too_much(soak(malloced=128)) == {"bytes"}
