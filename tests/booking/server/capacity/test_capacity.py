from booking.server.capacity.capacity import Capacity
from tests.fakes.objects import A100, A6000


def test_total_and_largest_cover_all_nodes() -> None:
    capacity = Capacity({A100: {"n0": 4, "n1": 2}})
    assert (capacity.total(A100), capacity.largest(A100)) == (6, 4)
    assert (capacity.total(A6000), capacity.largest(A6000)) == (0, 0)
