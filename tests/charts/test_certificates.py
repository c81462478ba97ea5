"""Who makes the webhook's certificate: the controller, or cert-manager."""

import pytest

from booking.controller.admission.certificate_authority import service_names
from cluster import names
from tests.charts.conftest import Render
from tests.charts.test_rendered import of_kind, rules

pytestmark = pytest.mark.component

BY_CERT_MANAGER = {"admission": {"certificates": "cert-manager"}}
INJECTED = "cert-manager.io/inject-ca-from"


def test_by_default_the_chart_uses_no_cert_manager(render: Render) -> None:
    documents = render()
    assert not of_kind(documents, "Certificate")
    webhook = of_kind(documents, "MutatingWebhookConfiguration")[names.WEBHOOK]
    assert INJECTED not in webhook["metadata"].get("annotations", {})


def test_cert_manager_fills_the_secret_that_the_controller_reads(render: Render) -> None:
    certificate = of_kind(render(BY_CERT_MANAGER), "Certificate")[names.WEBHOOK_KEYS]
    assert certificate["spec"]["secretName"] == names.WEBHOOK_KEYS
    assert tuple(certificate["spec"]["dnsNames"]) == service_names(names.WEBHOOK_SERVICE, names.NAMESPACE)


def test_a_renewed_certificate_is_signed_by_the_same_authority(render: Render) -> None:
    documents = render(BY_CERT_MANAGER)
    issuers, certificates = of_kind(documents, "Issuer"), of_kind(documents, "Certificate")
    issuer = issuers[certificates[names.WEBHOOK_KEYS]["spec"]["issuerRef"]["name"]]
    secret = issuer["spec"]["ca"]["secretName"]
    (authority,) = (c for c in certificates.values() if c["spec"]["secretName"] == secret)
    assert authority["spec"]["isCA"]


@pytest.mark.parametrize("configuration", [names.WEBHOOK, names.LAST_WEBHOOK])
def test_the_api_server_trusts_the_authority_that_cert_manager_injects(
    render: Render, configuration: str
) -> None:
    webhook = of_kind(render(BY_CERT_MANAGER), "MutatingWebhookConfiguration")[configuration]
    assert webhook["metadata"]["annotations"][INJECTED] == f"{names.NAMESPACE}/{names.WEBHOOK_KEYS}"


def test_with_cert_manager_the_controller_writes_neither_keys_nor_webhooks(render: Render) -> None:
    documents = render(BY_CERT_MANAGER)
    every = rules(documents, "Role", names.CONTROLLER) + rules(documents, "ClusterRole", names.CONTROLLER)
    touched = {
        verb
        for rule in every
        for verb in rule["verbs"]
        if {"secrets", "mutatingwebhookconfigurations"} & set(rule["resources"])
    }
    assert touched == {"get"}
