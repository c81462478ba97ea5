"""Everybody tries at a real API server what they must not: refused, and reported to administrators."""

import pytest
import urllib3

from cluster import names
from cluster.fake.clock import eventually
from tests.e2e.playground import PATIENCE
from tests.long.controlplane.policies.policed import BLIND, STRATEGIC, Answer, a_pod, pods, seen
from tests.long.security.attempts import ATTEMPTS, OTHERS, THEIRS, Attempt
from tests.long.security.conftest import Site

pytestmark = pytest.mark.controlplane

DENIALS = "apiserver_validating_admission_policy_check_total"
"""Kubernetes' own metric, by policy."""


def tried(site: Site, attempt: Attempt) -> Answer:
    somebody, path = site.tries[attempt.who], path_of(site, attempt)
    match attempt.verb:
        case "get":
            return somebody.get(path)
        case "create":
            return somebody.create(path, attempt.body)
        case "patch":
            return somebody.patch(path, attempt.body, attempt.how)
        case "delete":
            return somebody.delete(path)


def path_of(site: Site, attempt: Attempt) -> str:
    return attempt.path.replace(THEIRS, site.theirs)


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=str)
def test_l7_every_attempt_is_refused(site: Site, attempt: Attempt) -> None:
    answer = tried(site, attempt)
    assert answer.status == 403, answer
    assert ("denied request: " in answer.message) == (attempt.policy is not None), answer.message
    assert attempt.policy is None or any(one in answer.message for one in attempt.policies)


@pytest.mark.parametrize("attempt", [one for one in ATTEMPTS if one.policy][::5], ids=str)
def test_a_refusal_by_a_policy_is_reported_with_the_policys_name_and_the_user(
    site: Site, attempt: Attempt
) -> None:
    user, path = site.users[attempt.who], path_of(site, attempt).partition("?")[0]
    before = denials(site, str(attempt.policy))
    assert tried(site, attempt).status == 403
    assert denials(site, str(attempt.policy)) > before

    def written_down() -> bool:
        return any(
            call.user == user and attempt.policy in call.policies and path.startswith(call.path)
            for call in site.trail.refusals()
        )

    eventually(written_down, deadline=PATIENCE)


@pytest.mark.parametrize("who", ["nobody", "user", "namespace administrator"])
def test_an_attempt_without_the_right_is_reported_with_its_user(site: Site, who: str) -> None:
    attempt = next(one for one in ATTEMPTS if one.who == who and one.verb == "create")
    assert tried(site, attempt).status == 403
    user = site.users[who]
    eventually(
        lambda: any(call.user == user and call.path == attempt.path for call in site.trail.refusals()),
        deadline=PATIENCE,
    )


def test_l4_no_pod_is_so_full_of_keys_that_our_controller_may_not_write_it(site: Site) -> None:
    """Its owner would else have made it safe from ever being evicted."""
    keys = {f"e.org/k{number}": "" for number in range(20_000)}
    path = f"{pods(OTHERS)}/full"
    assert site.people.root.create(pods(OTHERS), a_pod(name="full", annotations=keys)).status == 201
    controller = site.tries[names.CONTROLLER]
    assert controller.change(path, {"annotations": {names.NOTICE: "Soon."}}).status == 200
    condition = {"type": names.DISRUPTION_TARGET, "status": "True", "reason": "Evicted", "message": "Soon."}
    assert controller.patch(f"{path}/status", {"status": {"conditions": [condition]}}).status == 200
    assert controller.delete(path).status == 200


def test_l7_an_ephemeral_container_of_a_pod_with_gpus_sees_none_but_its_own(site: Site) -> None:
    """The webhook is asked about new pods alone, and such a container is added to an old one."""
    made = site.people.alice.create(pods(BLIND), a_pod(gpus=1))
    path = f"{pods(BLIND)}/{made.body['metadata']['name']}"
    everything = {"name": names.VISIBLE_DEVICES_VARIABLE, "value": "all"}
    debugger = {"name": "debug", "image": "example.invalid/none", "env": [everything]}
    added = {"spec": {"ephemeralContainers": [debugger]}}
    assert site.people.operator.patch(f"{path}/ephemeralcontainers", added, STRATEGIC).status == 200
    assert seen(site.people.root.get(path), "ephemeralContainers") == [["void"]]


def denials(site: Site, policy: str) -> float:
    """How often a policy has refused something, as the API server's metrics say."""
    answer = urllib3.PoolManager(ca_certs=str(site.cluster.ca_file)).request(
        "GET",
        f"{site.cluster.api_server}/metrics",
        headers={"Authorization": f"Bearer {site.cluster.administrator_token}"},
    )
    lines = answer.data.decode().splitlines()
    wanted = (f'policy="{policy}"', 'enforcement_action="deny"')
    found = [line for line in lines if line.startswith(DENIALS) and all(word in line for word in wanted)]
    return sum(float(line.rpartition(" ")[2]) for line in found)
