"""What MAIA's own tools find: nothing, unless an administrator wants it."""

import re
from base64 import b64decode
from typing import Any

import pytest
import yaml

from booking.controller.settings import ControllerSettings
from booking.server.settings import ServerSettings
from booking.server.web import maia
from cluster import names
from cluster.process.settings import load
from devcluster.errors import ClusterError
from tests.charts.conftest import Render
from tests.charts.test_rendered import of_kind
from tests.long.charts.test_pods_rendered import environment, workloads

pytestmark = pytest.mark.component

TERMINATOR = "pod-terminator"
DOOR = f"{names.PRODUCT}-{TERMINATOR}"
OURS = f"http://{names.BOOKING_SERVER}.{names.NAMESPACE}"
TOKEN_SECRET = f"{names.PRODUCT}-maia"
ON = {"maia": {"enabled": True, "namespaces": ["maia"]}}


def test_by_default_there_is_no_service_for_maias_tools(render: Render) -> None:
    documents = render()
    assert TERMINATOR not in of_kind(documents, "Service")
    assert DOOR not in of_kind(documents, "NetworkPolicy")


def test_maias_tools_find_the_service_under_its_known_name_and_port(render: Render) -> None:
    service = of_kind(render(ON), "Service")[TERMINATOR]
    (port,) = service["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (8080, ControllerSettings().maia_port)


def test_only_the_named_namespaces_reach_maias_port_and_the_webhook_stays_open(render: Render) -> None:
    policy = of_kind(render(ON), "NetworkPolicy")[DOOR]
    opened = {
        port["port"]: yaml.safe_dump(rule.get("from"))
        for rule in policy["spec"]["ingress"]
        for port in rule["ports"]
    }
    settings = ControllerSettings()
    assert opened.keys() == {settings.webhook_port, settings.probe_port, settings.maia_port}
    assert "maia" in opened[settings.maia_port]
    assert "maia" not in opened[settings.webhook_port]


def test_without_a_namespace_only_our_own_reaches_maias_port(render: Render) -> None:
    policy = of_kind(render({"maia": {"enabled": True}}), "NetworkPolicy")[DOOR]
    (door,) = (rule for rule in policy["spec"]["ingress"] if rule.get("from"))
    (who,) = door["from"]
    assert who["namespaceSelector"]["matchExpressions"][0]["values"] == [names.NAMESPACE]


def test_no_other_policy_opens_maias_port(render: Render) -> None:
    others = {name: p for name, p in of_kind(render(ON), "NetworkPolicy").items() if name != DOOR}
    component = {name: p["spec"]["podSelector"]["matchLabels"] for name, p in others.items()}
    assert others
    for name, policy in others.items():
        if component[name][names.COMPONENT] == "controller":
            opened = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
            assert ControllerSettings().maia_port not in opened


def test_an_invalid_namespace_is_refused(render: Render) -> None:
    with pytest.raises(ClusterError):
        render({"maia": {"enabled": True, "namespaces": [""]}})


def served(documents: list[dict[str, Any]]) -> tuple[ServerSettings, ControllerSettings]:
    """The settings of the server and the controller."""
    found = {part: environment(pod["spec"]["containers"][0]) for part, pod in workloads(documents).items()}
    return load(ServerSettings, found["server"]), load(ControllerSettings, found["controller"])


@pytest.mark.parametrize(
    ("address", "ending", "stats", "more"),
    [
        (OURS, "/", maia.STATS[1], {}),
        (f"{OURS}.svc.cluster.local:80", "", maia.STATS[0], {}),
        (f"http://{names.BOOKING_SERVER}", "", maia.STATS[1], {}),
        ("https://gpus.example.org", "/", maia.STATS[0], {"server": {"url": "https://gpus.example.org"}}),
    ],
)
def test_maias_values_are_accepted_where_their_addresses_are_ours(
    render: Render, address: str, ending: str, stats: str, more: dict[str, Any]
) -> None:
    theirs = {
        "apiUrl": address + maia.SCHEDULABILITY + ending,
        "gpuStatsUrl": address + stats + ending,
        "apiToken": "secret",
    }
    documents = render({**theirs, "namespace": names.NAMESPACE, **more})
    server, controller = served(documents)
    assert (server.maia, controller.maia) == (True, True)
    assert TERMINATOR in of_kind(documents, "Service")
    secret = of_kind(documents, "Secret")[TOKEN_SECRET]
    assert b64decode(secret["data"]["token"]) == b"secret"
    pod = workloads(documents)["server"]["spec"]
    (volume,) = (v["name"] for v in pod["volumes"] if v.get("secret", {}).get("secretName") == TOKEN_SECRET)
    (mount,) = (m["mountPath"] for m in pod["containers"][0]["volumeMounts"] if m["name"] == volume)
    assert str(server.maia_token_file) == f"{mount}/token"


@pytest.mark.parametrize("value", [{"apiToken": "secret"}, {"maia": {"enabled": True}}])
def test_any_of_maias_values_switches_the_mode_on(render: Render, value: dict[str, Any]) -> None:
    server, controller = served(render(value))
    assert (server.maia, controller.maia) == (True, True)


def test_no_secret_is_created_where_the_site_names_its_own(render: Render) -> None:
    values = {"apiUrl": OURS + maia.SCHEDULABILITY, "maia": {"tokenSecret": "mine"}}
    documents = render(values)
    assert TOKEN_SECRET not in of_kind(documents, "Secret")
    assert served(documents)[0].maia_token_file is not None


THEIRS = f"https://maia.example.org{maia.SCHEDULABILITY}/"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"apiUrl": THEIRS, "apiToken": "secret"},
            f"apiUrl is {THEIRS}, and GPU Booking asks no other service",
        ),
        (
            {"apiUrl": THEIRS, "apiToken": "secret"},
            f"answers MAIA's webhook at {OURS}{maia.SCHEDULABILITY}/. Give MAIA's webhook that address, and",
        ),
        (
            {"gpuStatsUrl": THEIRS, "apiToken": "secret"},
            f"at {OURS}{maia.STATS[1]}/. Give MAIA's webhook that address, and leave gpuStatsUrl out",
        ),
        ({"apiUrl": f"{OURS}{maia.STATS[0]}", "apiToken": "secret"}, "Give MAIA's webhook that address"),
        ({"apiUrl": OURS + maia.SCHEDULABILITY}, "answer nobody without a token: give apiToken, or a Secret"),
        ({"apiToken": "S#perS3crEt_007"}, "which everybody knows. Choose another"),
        (
            {"apiToken": "secret", "maia": {"tokenSecret": "mine"}},
            "apiToken and maia.tokenSecret both say what MAIA's webhook shows: leave one of them out.",
        ),
        (
            {"namespace": "gpus"},
            f"namespace is gpus, and this release goes into {names.NAMESPACE}: a release's namespace is said",
        ),
        ({"namespace": "gpus"}, "Leave namespace out, or install with --namespace gpus."),
        ({"image": {"pod_terminator": {"tag": "1.4"}}}, "image holds the values of MAIA's chart"),
        (
            {"image": {"repository": "maia/gpu-booking-admission-controller", "tag": "1.6"}},
            "Leave image.repository, image.tag and image.pod_terminator out",
        ),
    ],
)
def test_values_that_we_do_not_serve_are_refused_with_a_remedy(
    render: Render, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClusterError, match=re.escape(message)):
        render(values)


def test_jupyterhubs_are_informed_with_the_tokens_of_their_secrets(render: Render) -> None:
    hubs = [
        {"url": "http://hub.a:8081/hub/api", "tokenSecret": "one", "namespace": "a"},
        {"url": "https://hub.example.org/hub/api", "tokenSecret": "two"},
    ]
    documents = render({"controller": {"hubs": hubs}})
    _, controller = served(documents)
    assert [(hub.url, hub.namespace) for hub in controller.hubs] == [
        ("http://hub.a:8081/hub/api", "a"),
        ("https://hub.example.org/hub/api", ""),
    ]
    pod = workloads(documents)["controller"]["spec"]
    mounts = {m["name"]: m["mountPath"] for m in pod["containers"][0]["volumeMounts"]}
    secrets = {v["secret"]["secretName"]: mounts[v["name"]] for v in pod["volumes"] if "secret" in v}
    assert [str(hub.token_file) for hub in controller.hubs] == [f"{secrets[s]}/token" for s in ("one", "two")]


def test_by_default_nothing_of_maia_is_rendered(render: Render) -> None:
    documents = render()
    server, controller = served(documents)
    assert (server.maia, controller.maia, server.maia_token_file) == (False, False, None)
    assert TOKEN_SECRET not in of_kind(documents, "Secret")
