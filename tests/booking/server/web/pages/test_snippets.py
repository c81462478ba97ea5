"""The hint is a pod that the booking covers, in whichever way its GPUs are given."""

import pytest
import yaml

from booking.server.web.pages.form_result import model_title
from booking.server.web.pages.snippets import expression_of, snippet
from cluster import names
from cluster.decide.claims.expressions import judged
from tests.booking.server.web.pages.site import DAY, Site
from tests.fakes.objects import A100

BY_CLAIM = names.claimed_model(A100)
SLICE = names.claimed_model(f"{A100}{names.MIG_MODEL}1g.10gb")


@pytest.mark.parametrize(
    ("model", "attributes", "is_accepted"),
    [
        (BY_CLAIM, {"productName": A100.replace("-", " ")}, True),
        (BY_CLAIM, {"productName": A100.replace("-", " ", 1)}, True),
        (BY_CLAIM, {"productName": "NVIDIA H100"}, False),
        (SLICE, {"profile": "1g.10gb"}, True),
        (SLICE, {"profile": "2g.20gb"}, False),
    ],
)
def test_the_claim_of_the_hint_accepts_devices_of_the_model(
    model: str, attributes: dict[str, str], *, is_accepted: bool
) -> None:
    device = {"attributes": {name: {"string": value} for name, value in attributes.items()}}
    assert judged(expression_of(model, names.DRA_DRIVER), names.DRA_DRIVER, device) is is_accepted


@pytest.mark.parametrize(("model", "kind"), [(BY_CLAIM, "gpu"), (SLICE, "mig")])
def test_a_booking_of_gpus_by_claim_is_used_by_a_claim(site: Site, model: str, kind: str) -> None:
    now = site.clock.now()
    record = site.add(now, now + DAY, user="alice", model=model, count=2, node="node-a")
    text = snippet(record, names.CLAIM_RESOURCE, gpus=2)
    template, pod = yaml.safe_load_all(text.split("END'", 1)[1].rsplit("END", 1)[0])
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    requested = request["exactly"]
    assert (requested["deviceClassName"], requested["count"]) == (f"{kind}.nvidia.com", 2)
    assert requested["selectors"] == [{"cel": {"expression": expression_of(model, names.DRA_DRIVER)}}]
    (claim,) = pod["spec"]["resourceClaims"]
    assert claim["resourceClaimTemplateName"] == template["metadata"]["name"]
    (container,) = pod["spec"]["containers"]
    assert container["resources"] == {"claims": [{"name": claim["name"]}]}


def test_a_booking_of_shares_by_claim_is_used_by_a_claim_for_so_much(site: Site) -> None:
    now = site.clock.now()
    record = site.add(now, now + DAY, user="alice", model=BY_CLAIM, count=2, memory=20480, node="node-a")
    text = snippet(record, names.CLAIM_RESOURCE, gpus=2)
    template, _ = yaml.safe_load_all(text.split("END'", 1)[1].rsplit("END", 1)[0])
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["capacity"] == {"requests": {"memory": "20480Mi"}}
    assert request["exactly"]["count"] == 1


def test_people_read_by_which_way_a_booking_is_used(site: Site) -> None:
    now = site.clock.now()
    site.add(now, now + DAY, user="alice", model=BY_CLAIM, node="node-a")
    assert "A100 SXM4 80GB, by claim" in site.see("/mine").text
    assert model_title(SLICE) == "A100 SXM4 80GB MIG 1g.10gb, by claim"
