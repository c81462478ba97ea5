"""Mode ``existing``: one of several replicas decides, and shows its clients the certificate of its files."""

from cluster.fake.clock import FakeClock
from cluster.process.certificates import AllowedClients, KeyPair
from extender.binding.binding_post import DEADLINE
from extender.existing import GRACE_SECONDS, NOT_LEADING, NOT_READY_YET, OwnLease, Presented, Shown


class Holding:
    """Whether the Lease is held."""

    def __init__(self) -> None:
        self.held = False

    def __call__(self) -> bool:
        return self.held


def test_a_replica_without_the_lease_decides_nothing() -> None:
    lease = OwnLease(Holding(), FakeClock())
    assert not lease.leads()
    assert lease.unready_reason() == NOT_LEADING


def test_a_new_leader_waits_until_the_last_binding_of_the_former_one_has_been_posted() -> None:
    clock, holding = FakeClock(), Holding()
    lease = OwnLease(holding, clock)
    holding.held = True
    assert lease.unready_reason() == NOT_READY_YET
    clock.advance(DEADLINE)
    assert not lease.leads()
    clock.advance(GRACE_SECONDS - DEADLINE)
    assert lease.leads()


def test_a_leader_that_has_lost_the_lease_in_between_waits_again() -> None:
    clock, holding = FakeClock(), Holding()
    lease = OwnLease(holding, clock)
    holding.held = True
    lease.unready_reason()
    clock.advance(GRACE_SECONDS)
    assert lease.leads()
    holding.held = False
    assert not lease.leads()
    holding.held = True
    assert lease.unready_reason() == NOT_READY_YET


class Files:
    """Certificate and key on a disk; None where they cannot be read."""

    def __init__(self, pair: tuple[bytes, bytes] | None) -> None:
        self.pair = pair
        self.authority = b"ours"

    def __call__(self) -> Shown:
        if self.pair is None:
            raise FileNotFoundError("no such file: server.crt")
        return KeyPair(*self.pair), AllowedClients(self.authority.decode(), frozenset())


def test_a_certificate_is_served_as_soon_as_its_files_are_there_and_again_when_they_change() -> None:
    files, served = Files(None), list[KeyPair]()
    presented = Presented(files, lambda pair, _: served.append(pair), FakeClock())
    presented.reconcile()
    problem = presented.problem()
    assert problem is not None
    assert "no such file: server.crt" in problem
    files.pair = (b"one", b"key")
    presented.reconcile()
    presented.reconcile()
    assert presented.problem() is None
    files.pair = (b"two", b"key")
    presented.reconcile()
    assert served == [KeyPair(b"one", b"key"), KeyPair(b"two", b"key")]


def test_a_certificate_that_cannot_be_served_keeps_the_former_one() -> None:
    files, refused = Files((b"good", b"key")), {b"bad"}

    def present(pair: KeyPair, _: AllowedClients | None) -> None:
        if pair.certificate in refused:
            raise OSError("that is no certificate")

    presented = Presented(files, present, FakeClock())
    presented.reconcile()
    files.pair = (b"bad", b"key")
    presented.reconcile()
    assert presented.problem() is None


def test_the_authority_of_client_certificates_is_read_again_too() -> None:
    files, admitted = Files((b"one", b"key")), list[str]()
    presented = Presented(
        files, lambda _, clients: admitted.append(clients.authorities if clients else ""), FakeClock()
    )
    presented.reconcile()
    presented.reconcile()
    files.authority = b"theirs"
    presented.reconcile()
    files.authority = b"\xff"
    presented.reconcile()
    assert admitted == ["ours", "theirs"]
    assert presented.problem() is None
