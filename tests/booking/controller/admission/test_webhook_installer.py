"""The webhook installs itself."""

import base64
import threading
from datetime import timedelta
from typing import Any

import pytest

from booking.controller.admission.certificate_authority import KeyPair, vouches
from booking.controller.admission.keys import KNOWN_AFTER, data_of, renewed
from booking.controller.admission.webhook_installer import EVERY, WebhookInstaller
from cluster import names
from cluster.fake.clock import FakeClock, eventually
from cluster.fake.server import FakeKube
from cluster.kube.errors import ApiError
from cluster.kube.resources import MUTATING_WEBHOOKS, SECRETS

HOSTS = ("webhook.example",)


class Replica:
    """One controller, as far as the installation of the webhook is concerned."""

    def __init__(self, kube: FakeKube, clock: FakeClock) -> None:
        self.kube = kube
        self.served: list[KeyPair] = []
        self.installed = WebhookInstaller(kube, clock, self.present, namespace=names.NAMESPACE, hosts=HOSTS)

    def present(self, pair: KeyPair) -> None:
        assert vouches(bundle(self.kube), pair.certificate, HOSTS), "served before its authority is trusted"
        self.served.append(pair)


def configuration(**changes: Any) -> dict[str, Any]:
    """As the chart makes it: without a caBundle."""
    webhook = {
        "name": f"pods.{names.DOMAIN}",
        "clientConfig": {"service": {"name": "s", "namespace": "n", "path": "/admit"}},
        "failurePolicy": "Fail",
        "timeoutSeconds": 3,
        **changes,
    }
    return {"metadata": {"name": names.WEBHOOK}, "webhooks": [webhook, {**webhook, "name": "other"}]}


def bundle(kube: FakeKube) -> bytes:
    (text,) = {w["clientConfig"]["caBundle"] for w in kube.raw(MUTATING_WEBHOOKS, names.WEBHOOK)["webhooks"]}
    return base64.b64decode(text)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def kube(clock: FakeClock) -> FakeKube:
    kube = FakeKube(clock)
    kube.put(MUTATING_WEBHOOKS, configuration())
    return kube


@pytest.fixture
def replica(kube: FakeKube, clock: FakeClock) -> Replica:
    return Replica(kube, clock)


def writes(kube: FakeKube) -> list[str]:
    return [call.verb for call in kube.calls if call.verb not in {"GET", "LIST", "WATCH"}]


def test_the_first_round_creates_keys_publishes_the_authority_and_serves(
    kube: FakeKube, replica: Replica
) -> None:
    replica.installed.round()
    secret = kube.raw(SECRETS, names.WEBHOOK_KEYS, namespace=names.NAMESPACE)
    assert secret["type"] == "kubernetes.io/tls"
    assert base64.b64decode(secret["data"]["ca.crt"]) == bundle(kube)
    assert len(replica.served) == 1


def test_nothing_else_of_the_configuration_changes(kube: FakeKube, replica: Replica) -> None:
    before = configuration()["webhooks"]
    replica.installed.round()
    after = kube.raw(MUTATING_WEBHOOKS, names.WEBHOOK)["webhooks"]
    for webhook in after:
        del webhook["clientConfig"]["caBundle"]
    assert after == before


def test_the_webhook_that_is_asked_last_trusts_the_same_authority(kube: FakeKube, replica: Replica) -> None:
    kube.put(MUTATING_WEBHOOKS, configuration() | {"metadata": {"name": names.LAST_WEBHOOK}})
    replica.installed.round()
    bundles = {
        webhook["clientConfig"]["caBundle"]
        for name in (names.WEBHOOK, names.LAST_WEBHOOK)
        for webhook in kube.raw(MUTATING_WEBHOOKS, name)["webhooks"]
    }
    assert [base64.b64decode(one) for one in bundles] == [bundle(kube)]


def test_a_round_without_changes_writes_nothing(kube: FakeKube, replica: Replica) -> None:
    replica.installed.round()
    kube.calls.clear()
    replica.installed.round()
    assert writes(kube) == []
    assert len(replica.served) == 1


def test_two_replicas_that_start_at_once_serve_the_same_certificate(
    kube: FakeKube, clock: FakeClock, replica: Replica
) -> None:
    rival = Replica(kube, clock)
    kube.before("POST", rival.installed.round)
    replica.installed.round()
    assert replica.served == rival.served


def test_a_restarted_replica_serves_the_stored_certificate(
    kube: FakeKube, clock: FakeClock, replica: Replica
) -> None:
    replica.installed.round()
    restarted = Replica(kube, clock)
    kube.calls.clear()
    restarted.installed.round()
    assert restarted.served == replica.served
    assert writes(kube) == []


def test_a_certificate_is_renewed_by_one_replica_and_served_by_both(
    kube: FakeKube, clock: FakeClock, replica: Replica
) -> None:
    rival = Replica(kube, clock)
    for each in (replica, rival):
        each.installed.round()
    before = bundle(kube)
    clock.advance(timedelta(days=276).total_seconds())
    kube.before("PATCH", rival.installed.round)
    replica.installed.round()
    assert len(replica.served) == len(rival.served) == 2
    assert replica.served == rival.served
    assert bundle(kube) == before


def test_a_new_authority_is_published_for_a_while_before_it_signs_the_served_certificate(
    kube: FakeKube, clock: FakeClock, replica: Replica
) -> None:
    replica.installed.round()
    clock.advance(timedelta(days=3600).total_seconds())
    replica.installed.round()
    announced = bundle(kube)
    assert announced.count(b"BEGIN CERTIFICATE") == 2
    assert vouches(announced, replica.served[-1].certificate, HOSTS), "signed by the former one still"
    clock.advance(KNOWN_AFTER.total_seconds())
    replica.installed.round()
    assert vouches(bundle(kube), replica.served[-1].certificate, HOSTS)
    assert not vouches(announced, replica.served[-1].certificate, HOSTS), "signed by the new one now"


class TestGivenKeys:
    """The setting for cert-manager: others make the Secret, others write the caBundle."""

    @pytest.fixture
    def replica(self, kube: FakeKube, clock: FakeClock) -> Replica:
        replica = Replica(kube, clock)
        replica.installed = WebhookInstaller(
            kube, clock, replica.served.append, namespace=names.NAMESPACE, hosts=HOSTS, makes_keys=False
        )
        return replica

    def given(self, kube: FakeKube, clock: FakeClock) -> KeyPair:
        keys = renewed(None, HOSTS, clock.now())
        metadata = {"name": names.WEBHOOK_KEYS, "namespace": names.NAMESPACE}
        data = {key: text for key, text in data_of(keys).items() if key in ("tls.crt", "tls.key", "ca.crt")}
        kube.put(SECRETS, {"metadata": metadata, "data": data})
        return keys.server

    def test_given_keys_are_served_unchanged_and_nothing_is_written(
        self, kube: FakeKube, clock: FakeClock, replica: Replica
    ) -> None:
        first = self.given(kube, clock)
        replica.installed.round()
        second = self.given(kube, clock)
        replica.installed.round()
        assert replica.served == [first, second]
        assert writes(kube) == []

    def test_missing_given_keys_are_reported(self, kube: FakeKube, replica: Replica) -> None:
        with pytest.raises(ApiError, match=names.WEBHOOK_KEYS):
            replica.installed.round()
        assert replica.served == writes(kube) == []

    def test_an_incomplete_pair_is_not_served(
        self, kube: FakeKube, clock: FakeClock, replica: Replica
    ) -> None:
        first = self.given(kube, clock)
        replica.installed.round()
        metadata = {"name": names.WEBHOOK_KEYS, "namespace": names.NAMESPACE}
        kube.put(SECRETS, {"metadata": metadata, "data": {"tls.crt": "eA=="}})
        replica.installed.round()
        assert replica.served == [first]
        assert replica.installed.problem() is None


def test_a_changed_bundle_is_corrected(kube: FakeKube, replica: Replica) -> None:
    replica.installed.round()
    right = bundle(kube)
    kube.put(MUTATING_WEBHOOKS, configuration(clientConfig={"service": {"name": "s"}, "caBundle": "eA=="}))
    replica.installed.round()
    assert bundle(kube) == right


def test_a_lost_secret_is_created_again(kube: FakeKube, replica: Replica) -> None:
    replica.installed.round()
    kube.delete(SECRETS, names.WEBHOOK_KEYS, namespace=names.NAMESPACE)
    replica.installed.round()
    assert len(replica.served) == 2


def test_an_empty_secret_is_filled(kube: FakeKube, replica: Replica) -> None:
    kube.put(SECRETS, {"metadata": {"name": names.WEBHOOK_KEYS, "namespace": names.NAMESPACE}})
    replica.installed.round()
    assert len(replica.served) == 1


def test_keys_from_elsewhere_are_used(kube: FakeKube, clock: FakeClock, replica: Replica) -> None:
    keys = renewed(None, HOSTS, clock.now())
    metadata = {"name": names.WEBHOOK_KEYS, "namespace": names.NAMESPACE}
    kube.put(SECRETS, {"metadata": metadata, "data": data_of(keys)})
    replica.installed.round()
    assert replica.served == [keys.server]


class TestRun:
    def test_rounds_are_retried_soon_until_one_succeeds_and_then_run_every_minute(
        self, clock: FakeClock
    ) -> None:
        kube = FakeKube(clock)
        replica, stop = Replica(kube, clock), threading.Event()
        thread = threading.Thread(target=replica.installed.run, args=(stop,), daemon=True)
        thread.start()
        clock.until_waiting()
        problem = replica.installed.problem()
        assert problem is not None
        assert names.WEBHOOK in problem
        assert clock.waits[-1] <= 0.5
        assert replica.served == []

        kube.put(MUTATING_WEBHOOKS, configuration())
        clock.advance(1)
        eventually(lambda: clock.waits[-1] == EVERY)
        assert replica.installed.problem() is None
        assert len(replica.served) == 1
        stop.set()
        thread.join(10)
        assert not thread.is_alive()

    def test_the_webhook_keeps_serving_while_the_api_server_is_unreachable(
        self, kube: FakeKube, clock: FakeClock, replica: Replica
    ) -> None:
        replica.installed.round()
        stop = threading.Event()
        kube.down = True
        thread = threading.Thread(target=replica.installed.run, args=(stop,), daemon=True)
        thread.start()
        clock.until_waiting()
        assert clock.waits[-1] <= 0.5
        assert replica.installed.problem() is None
        kube.down = False
        clock.advance(1)
        eventually(lambda: clock.waits[-1] == EVERY)
        assert len(replica.served) == 1
        stop.set()
        thread.join(10)
        assert not thread.is_alive()
