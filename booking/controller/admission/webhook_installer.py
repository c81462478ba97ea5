"""Keeps the webhook installed: keys in their Secret, trusted by the API server, served by the webhook server.

Level-triggered; every replica runs it. The order within a round matters: a certificate is served only after
its authority is in the webhook's configuration, where the API server reads it.
"""

import base64
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import structlog

from booking.controller.admission.certificate_authority import is_whole
from booking.controller.admission.keys import OF_TYPE, Keys, data_of, keys_in, renewed
from cluster import names
from cluster.kube.backoff import Backoff
from cluster.kube.errors import ApiError, Conflict, Forbidden, NotFound
from cluster.kube.interface import Kube
from cluster.kube.resources import MUTATING_WEBHOOKS, SECRETS, Secret
from cluster.process.certificates import KeyPair
from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

EVERY: Final = 60.0
"""Seconds between two rounds."""
ATTEMPTS: Final = 3
"""Attempts to write the Secret in one round, since other replicas write it too."""


class WebhookInstaller:
    """The installation, as one replica maintains it."""

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        present: Callable[[KeyPair], None],
        *,
        namespace: str,
        hosts: Sequence[str],
        makes_keys: bool = True,
    ) -> None:
        """Create it.

        Args:
            kube: the API server.
            clock: for the rounds, and for what is due.
            present: serves with this certificate from now on; returns once it is served.
            namespace: where the Secret is.
            hosts: names and addresses by which the API server calls the webhook.
            makes_keys: False where another tool (cert-manager) writes the Secret and the caBundle.
        """
        self._kube = kube
        self._clock = clock
        self._present = present
        self._namespace = namespace
        self._hosts = tuple(hosts)
        self._makes_keys = makes_keys
        self._backoff = Backoff()
        self._served: KeyPair | None = None
        self._problem = "The webhook has not been installed yet."

    def problem(self) -> str | None:
        """Why nothing is served yet: for the readiness probe. None once the first certificate is served."""
        return None if self._served else self._problem

    def run(self, stop: threading.Event) -> None:
        """Reconcile until ``stop`` is set.

        Raises:
            ServeError: the certificate cannot be served, because the address is taken.
        """
        while not stop.is_set():
            self._clock.wait(stop, self._attempt())

    def _attempt(self) -> float:
        """Run one round; returns the seconds until the next."""
        try:
            self.round()
        except ApiError as error:
            self._problem = str(error)
            log.warning("the webhook is not installed", error=str(error))
            return self._backoff.next()
        self._backoff.reset()
        return EVERY

    def round(self) -> None:
        """Bring the installation into the desired state.

        Raises:
            ApiError: the API server is unreachable, or refuses.
        """
        if self._makes_keys:
            keys = self._keys()
            self._publish_authorities(keys.authorities)
            self._serve(keys.server)
            return
        secret = self._kube.get(SECRETS, names.WEBHOOK_KEYS, namespace=self._namespace)
        pair = keys_in(secret.data).server
        if is_whole(pair):
            self._serve(pair)
        else:
            self._problem = f"The Secret {names.WEBHOOK_KEYS} holds no certificate with its key yet."
            log.warning("the webhook has no certificate to serve", reason=self._problem)

    def _serve(self, pair: KeyPair) -> None:
        if pair != self._served:
            self._present(pair)
            self._served = pair
            log.info("the webhook serves a new certificate", hosts=self._hosts)

    def _keys(self) -> Keys:
        """The keys of all replicas: read, made or renewed."""
        for attempt in range(ATTEMPTS):
            try:
                return self._stored()
            except Conflict:
                if attempt + 1 == ATTEMPTS:
                    raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _stored(self) -> Keys:
        now = self._clock.now()
        try:
            secret: Secret = self._kube.get(SECRETS, names.WEBHOOK_KEYS, namespace=self._namespace)
        except NotFound:
            keys = renewed(None, self._hosts, now)
            metadata: dict[str, Any] = {"name": names.WEBHOOK_KEYS}
            body = {"metadata": metadata, "type": OF_TYPE, "data": data_of(keys)}
            self._kube.create(SECRETS, body, namespace=self._namespace)
            return keys
        present = keys_in(secret.data)
        keys = renewed(present, self._hosts, now)
        if keys != present:
            metadata = {"resourceVersion": secret.metadata.resource_version}
            body = {"metadata": metadata, "data": data_of(keys)}
            self._kube.patch(SECRETS, names.WEBHOOK_KEYS, body, namespace=self._namespace)
        return keys

    def _publish_authorities(self, authorities: bytes) -> None:
        """Make the API server trust these authorities, and no others."""
        self._publish_in(names.WEBHOOK, authorities)
        # A manifest of the release before has no second configuration, and gives no right to it.
        with suppress(NotFound, Forbidden):
            self._publish_in(names.LAST_WEBHOOK, authorities)

    def _publish_in(self, configuration: str, authorities: bytes) -> None:
        found = self._kube.get(MUTATING_WEBHOOKS, configuration)
        bundle = base64.b64encode(authorities).decode()
        webhooks = [_with_bundle(webhook, bundle) for webhook in found.webhooks]
        if webhooks == found.webhooks:
            return
        metadata = {"resourceVersion": found.metadata.resource_version}
        self._kube.patch(MUTATING_WEBHOOKS, configuration, {"metadata": metadata, "webhooks": webhooks})
        log.info("the CA bundle of the webhook configuration was updated", configuration=configuration)


def _with_bundle(webhook: dict[str, Any], bundle: str) -> dict[str, Any]:
    return {**webhook, "clientConfig": {**(webhook.get("clientConfig") or {}), "caBundle": bundle}}
