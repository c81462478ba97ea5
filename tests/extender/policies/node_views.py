"""Nodes as policies see them, drawn at random."""

from hypothesis import strategies as st

from cluster import names
from cluster.decide.ledger import Ledger, NodeView
from cluster.decide.request import GpuRequest, gpu_request_of
from cluster.objects.inventory import Device
from tests.fakes.objects import a100, a_node, a_pod


def devices(links: dict[int, dict[int, int]], numa: list[int | None]) -> tuple[Device, ...]:
    """As many as there are NUMA nodes in the list; links by index."""
    return tuple(
        a100(
            index,
            "n",
            numa=numa[index],
            links={f"GPU-n-{other}": count for other, count in links.get(index, {}).items()} or None,
        )
        for index in range(len(numa))
    )


def view(
    has: tuple[Device, ...],
    held: frozenset[int] = frozenset(),
    *,
    unknown: int = 0,
    unknown_of: str = names.GPU_RESOURCE,
) -> NodeView:
    """A node with some held devices, and ``unknown`` more of a resource that are held but not identified."""
    ledger = Ledger()
    ledger.apply_node(a_node("n", *has))
    if held:
        taken = {"main": tuple(f"GPU-n-{index}" for index in sorted(held))}
        ledger.apply_pod(a_pod("holds").asks(len(held)).on("n", taken).obj)
    if unknown:
        ledger.apply_pod(a_pod("stranger").asks(unknown, resource=unknown_of).on("n").obj)
    return ledger.view("n")


def plain(count: int, used: int, unknown: int = 0) -> NodeView:
    """A node of so many devices without links, the first of them held."""
    return view(devices({}, [None] * count), frozenset(range(used)), unknown=unknown)


def asking(count: int) -> GpuRequest:
    """A pod that asks for so many devices of any model."""
    return gpu_request_of(a_pod().asks(count).obj)


@st.composite
def fills(draw: st.DrawFn, need: int) -> tuple[int, int]:
    """A node on which so many devices are free: how many it has, how many are in use."""
    count = draw(st.integers(need, 16))
    return count, draw(st.integers(0, count - need))


def meshed(count: int) -> dict[int, dict[int, int]]:
    """Every device is linked to every other."""
    return {one: {other: 2 for other in range(count) if other != one} for one in range(count)}
