"""Dry runs of administrators by the command line: what would happen is shown, and nothing happens."""

import json

import msgspec
import pytest

from booking.server.service.context import PodToEvict
from tests.booking.cli.conftest import Terminal
from tests.fakes.objects import A100, A6000

REASON = ("--reason", "new fans")
SPAN = "from Mon 2026-03-02 09:00 to Fri 2026-03-06 00:00 (UTC)"


@pytest.fixture
def bob(terminal: Terminal) -> Terminal:
    """Where bob is an administrator."""
    terminal.served.signing_in.administrators.add("bob")
    return terminal


def tried(bob: Terminal, *words: str) -> str:
    """What bob is shown of a dry run that changes nothing, not even the audit."""

    def kept() -> tuple[int, str]:
        return bob.served.stored, bob.says("admin", "audit", "-o", "json", user="bob")

    before = kept()
    output = bob.says(*words, "--dry-run", user="bob")
    assert kept() == before
    return output


def test_a_dry_run_of_maintenance_shows_the_bookings_that_it_would_put_at_risk(bob: Terminal) -> None:
    booking = bob.says("book", A6000, "--gpus", "2", "--for", "2d", "-o", "name").strip()
    risk = (
        f"{booking.removeprefix('booking/')} of alice, 2 GPUs, Mon 2026-03-02 09:00 to Wed 2026-03-04 09:00"
    )
    words = ("admin", "block", "node-a", "--to", "fri", *REASON)
    assert tried(bob, *words).splitlines() == [
        f"node-a would be blocked {SPAN}.",
        f"At risk then: {risk}.",
    ]
    assert bob.says("admin", "blocks", user="bob") == ""
    shown = json.loads(tried(bob, *words, "-o", "json"))
    assert (shown["dry_run"], len(shown["at_risk"]), "id" in shown) == (True, 1, False)
    assert tried(bob, *words, "-o", "name") == "(none)\n"
    assert "At risk now" in bob.run(*words, user="bob").stderr


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ((), "node-a would be"),
        (("--gpus", "1"), "1 GPU of node-a would be"),
        (("--gpus", "2", "--model", "a100"), f"2 GPUs of model {A100} of node-a would be"),
        (("--model", "a6000"), f"Every GPU of model {A6000} of node-a would be"),
    ],
)
def test_a_dry_run_of_maintenance_shows_what_it_would_block_and_that_no_booking_is_at_risk(
    bob: Terminal, words: tuple[str, ...], what: str
) -> None:
    output = tried(bob, "admin", "block", "node-a", "--to", "fri", *REASON, *words)
    assert output == f"{what} blocked {SPAN}.\nNo booking would be at risk.\n"


def test_the_message_agrees_with_the_number_of_blocked_gpus(bob: Terminal) -> None:
    words = ("admin", "block", "node-a", "--to", "fri", *REASON, "--gpus")
    assert bob.says(*words, "1", user="bob").startswith(f"1 GPU of node-a is blocked {SPAN}: ")
    assert bob.says(*words, "2", user="bob").startswith(f"2 GPUs of node-a are blocked {SPAN}: ")


def test_a_dry_run_of_the_end_of_maintenance_shows_it(bob: Terminal) -> None:
    words = ("admin", "block", "node-a", "--to", "fri", *REASON, "-o", "name")
    block = bob.says(*words, user="bob").strip()
    assert tried(bob, "admin", "unblock", block) == f"{block} would be removed: node-a, {SPAN}.\n"
    assert tried(bob, "admin", "unblock", block, "-o", "name") == f"{block}\n"
    assert block in bob.says("admin", "blocks", user="bob")


def test_dry_runs_of_an_exemption_and_its_end_show_the_limits(bob: Terminal) -> None:
    limits = ("horizon=null", "longest=P30D", "may_extend=false")
    words = ("admin", "exempt", "alice", *limits, "--model", "a100", "--to", "fri", *REASON)
    terms = f"horizon=null, longest=P30D, may_extend=false for {A100} {SPAN}"
    assert tried(bob, *words) == f"alice would have {terms}.\n"
    assert bob.says("admin", "exemptions", user="bob") == ""
    made = bob.says(*words, "-o", "name", user="bob").strip()
    output = tried(bob, "admin", "revoke", made)
    assert output == f"{made} would end: alice has {terms}.\n"
    assert made in bob.says("admin", "exemptions", user="bob")


def test_a_dry_run_of_an_eviction_shows_the_user_of_the_pod(bob: Terminal) -> None:
    words = ("admin", "evict", "research/train-0", *REASON)
    assert tried(bob, *words) == (
        "research/train-0 of bob would be evicted from 2 GPUs of node-a: the booking b-1 covers it."
        " Job/train would make another in its place.\n"
    )
    assert json.loads(tried(bob, *words, "-o", "json"))["user"] == "bob"
    assert bob.served.evictions.orders == []
    assert bob.says(*words, user="bob") == "research/train-0 is being evicted.\n"


def test_a_dry_run_of_an_eviction_shows_that_a_bare_pod_without_an_owner_would_come_back(
    bob: Terminal,
) -> None:
    bob.served.evictions.pod = PodToEvict(user=None, booking=None, node="n", gpus=1, controller=None)
    output = tried(bob, "admin", "evict", "train-0", "-n", "research", *REASON)
    assert output == (
        "research/train-0 of nobody would be evicted from 1 GPU of n: no booking covers it."
        " It would come back as its annotations say, by default without a GPU.\n"
    )


def test_a_dry_run_of_an_eviction_shows_why_a_controller_makes_no_other_pod(bob: Terminal) -> None:
    pod = bob.served.evictions.pod
    bob.served.evictions.pod = msgspec.structs.replace(pod, not_replaced="its Job fails with it")
    output = tried(bob, "admin", "evict", "research/train-0", *REASON)
    assert output.endswith(" Job/train would make no other in its place: its Job fails with it.\n")


@pytest.mark.parametrize(
    ("verb", "what"),
    [
        ("cordon", "would get no new pods"),
        ("uncordon", "would not be cordoned any more"),
        ("clear", "would be probed again"),
    ],
)
def test_dry_runs_of_orders_about_a_gpu_show_them(bob: Terminal, verb: str, what: str) -> None:
    assert tried(bob, "admin", verb, "node-a", "0", *REASON) == f"GPU-0 of node-a {what}.\n"
    assert bob.served.gpus.orders == []


def test_a_dry_run_of_a_booking_for_another_user_shows_that_user(bob: Terminal) -> None:
    words = ("book", A100, "--for", "2d", "--user", "alice")
    assert tried(bob, *words).startswith(f"This would be booked for alice: 1 x {A100} from Mon 2026-03-02")
    earliest = ("earliest", A100, "--for", "2d", "--user", "alice", "--book")
    assert tried(bob, *earliest).startswith("This would be booked for alice: ")
    assert " for alice: " in bob.says(*words, user="bob")


def test_a_dry_run_of_the_end_of_another_users_booking_shows_that_user(bob: Terminal) -> None:
    booking = bob.says("book", A100, "--for", "2d", "-o", "name").strip().removeprefix("booking/")
    words = ("release", booking, "--reason", "power cut")
    assert tried(bob, *words).startswith(f"{booking} of alice would be released now.\n")
    assert "a reason is missing" in bob.fails("release", booking, "--dry-run", user="bob")
    assert bob.says(*words, user="bob").startswith(f"Released {booking} of alice.\n")
    later = ("book", A100, "--from", "fri 9", "--for", "2d", "-o", "name")
    booking = bob.says(*later).strip().removeprefix("booking/")
    words = ("cancel", booking, "--reason", "power cut")
    assert tried(bob, *words) == f"{booking} of alice would be cancelled now.\n"
    assert bob.says(*words, user="bob") == f"Cancelled {booking} of alice.\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("block", "node-z", "--to", "fri", *REASON), "No node with GPUs is called 'node-z'"),
        (("unblock", "b-0"), "There is no maintenance block 'b-0'"),
        (("exempt", "alice", "x=1", "--to", "fri", *REASON), "There is no limit 'x'"),
        (("revoke", "b-0"), "There is no exemption 'b-0'"),
        (("evict", "nothing", "-n", "research", *REASON), "There is no pod nothing"),
        (("cordon", "node-a", "7", *REASON), "There is no GPU 7"),
    ],
)
def test_a_dry_run_is_refused_as_the_real_command_would_be(
    bob: Terminal, words: tuple[str, ...], says: str
) -> None:
    assert says in bob.fails("admin", *words, "--dry-run", user="bob")
    assert "administrator" in bob.fails("admin", *words, "--dry-run").lower()
    assert bob.served.stored == 0
    assert bob.says("admin", "audit", user="bob") == ""
