"""The story: GPUs are taken without a booking, booked, given to the booked pod, and given back."""

from cluster import names
from cluster.objects.pods import Pod
from devcluster.demo import pod_status
from devcluster.demo.booking_client import SOMEBODYS, BookingClient
from devcluster.demo.context import Context, Narrator
from devcluster.demo.reporter import Reporter
from devcluster.demo.steps import Steps

A100 = "NVIDIA-A100-SXM4-80GB"
A6000 = "NVIDIA-RTX-A6000"
PARTS = {"bob-part-1": 16384, "bob-part-2": 20480}
"""Pods that fit on one A6000 together, and the MiB of it that each asks for."""
SHORT = {names.setting("shortest_booking"): "PT10S", names.setting("cooldown"): "PT0S"}
"""The policy of the last chapter: a booking may be this short, and the next may begin without a pause."""
_LAST_SECONDS = 10.0
"""How long the last booking still runs once everything has been seen that happens while it does."""


class Story:
    """Plays the chapters in their order; a step that does not happen raises StepError."""

    def __init__(self, context: Context, reporter: Reporter, narrator: Narrator) -> None:
        self._context = context
        self._reporter = reporter
        self._steps = Steps(context, reporter, narrator)
        self._desk = BookingClient(context.rest, reporter)

    def play(self) -> None:
        """Play all chapters, from the nodes' GPUs to the turn of whoever has the fewest."""
        self._chapter_inventory()
        self._chapter_five_for_four()
        booking = self._chapter_alice_books()
        self._context.interlude("booked")
        self._chapter_served("alice-1", victim="bob-3", others=("bob-1", "bob-2", "bob-4"))
        self._context.interlude("served")
        self._chapter_released(booking)
        self._context.interlude("released")
        self._chapter_ends_by_its_time()
        self._chapter_one_gpu_for_two()
        self._chapter_in_line()

    # --- chapters ------------------------------------------------------------------------------------
    def _chapter_inventory(self) -> None:
        self._reporter.chapter("The node agents publish the GPUs that they see through NVML.")
        for name in self._context.node_names:
            self._steps.inventory(name)

    def _chapter_five_for_four(self) -> None:
        self._reporter.chapter("Bob, without a booking, creates five pods that want an A100; there are four.")
        four = [f"bob-{n}" for n in range(1, 5)]
        for name in four:
            self._steps.create(name, user="bob", model=A100)
        for name in four:  # the pod that comes last waits: that must be the fifth
            self._steps.wait(name, pod_status.node_of, f"{name} is scheduled")
        self._steps.create("bob-5", user="bob", model=A100)
        for name in four:
            self._steps.served(name, model=A100)
        self._steps.waits("bob-5")

    def _chapter_alice_books(self) -> str:
        self._reporter.chapter("Alice books an A100 for two days, starting now.")
        booking = self._desk.book(model=A100, duration="P2D")
        self._desk.is_refused(
            {"no-active-overlap", "cooldown", "longest"}, model=A100, count=1, duration="P20D"
        )
        return booking

    def _chapter_served(self, name: str, *, victim: str, others: tuple[str, ...]) -> None:
        self._reporter.chapter(f"Alice creates {name}; every A100 is Bob's. The one that loses least leaves.")
        self._steps.checkpoint(victim, user="bob", others=others)
        self._take(name, victim=victim, others=others)

    def _chapter_released(self, booking: str) -> None:
        self._reporter.chapter(
            "Alice is done early and gives her booking back; Bob's fifth pod has waited for it."
        )
        hers = self._steps.pod("alice-1")
        self._desk.release(booking)
        self._steps.comes_back("alice-1", hers)
        self._steps.served("bob-5", model=A100, by=pod_status.devices(hers))

    def _chapter_ends_by_its_time(self) -> None:
        self._reporter.chapter(
            "Once more, with a booking of an hour that alice shortens: it ends by its time."
        )
        self._context.policy(SHORT)
        self._reporter.say("parts", "the booking server has started again, with a policy that allows it")
        self._steps.create("bob-6", user="bob", model=A100)
        self._steps.waits("bob-6")
        booking = self._desk.book(model=A100, duration="PT1H")
        others = ("bob-1", "bob-4", "bob-5")
        self._steps.checkpoint("bob-2", user="bob", others=others)
        hers = self._take("alice-2", victim="bob-2", others=others)
        self._desk.shorten(booking, seconds=_LAST_SECONDS)
        self._desk.await_end(booking, seconds=_LAST_SECONDS + self._context.patience)
        self._steps.comes_back("alice-2", hers)
        self._steps.served("bob-6", model=A100, by=pod_status.devices(hers))

    def _chapter_one_gpu_for_two(self) -> None:
        if self._steps.kubelet_chooses:
            return  # shares are given by the node agent of this project
        self._reporter.chapter("Two of Bob's pods share one A6000, each with a part of its memory.")
        for name, memory in PARTS.items():
            self._steps.create(name, user="bob", model=A6000, memory=memory)
        first, second = (self._steps.shares(name, model=A6000, memory=PARTS[name]) for name in PARTS)
        self._steps.are_equal("the two pods have parts of one GPU", first, second)

    def _chapter_in_line(self) -> None:
        """Bob has all four A100s by now, and nobody a booking."""
        if not self._desk.divides_fairly:
            return
        self._reporter.chapter(
            "Bob wants a fifth A100, and after him Alice wants one, without a booking: the next is hers."
        )
        self._steps.create("bob-7", user="bob", model=A100)
        self._steps.create("alice-3", user="alice", model=A100)
        self._desk.await_line(A100, "alice-3")
        freed = self._steps.pod("bob-1")
        self._steps.delete("bob-1", user="bob")
        self._steps.served("alice-3", model=A100, by=pod_status.devices(freed))
        self._desk.await_line(A100, SOMEBODYS)

    def _take(self, name: str, *, victim: str, others: tuple[str, ...]) -> Pod:
        """A booked pod takes the victim's device, and no other pod is touched. Returns the booked pod."""
        leaves = self._steps.pod(victim)
        stay = [self._steps.pod(other) for other in others]
        self._steps.create(name, user="alice", model=A100)
        self._context.interlude("asked")
        self._steps.served(name, model=A100, by=pod_status.devices(leaves))
        self._steps.comes_back(victim, leaves)
        self._steps.untouched(stay)
        return self._steps.pod(name)
