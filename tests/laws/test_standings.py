"""What users deserve: the watcher and the product reckon it in different ways, and agree."""

from fractions import Fraction
from random import Random

import pytest

from booking.fair_shares.standing import tree_of
from booking.policy.fair_shares import FairShares, ShareGroup, Standing
from cluster.decide import fairshare
from cluster.decide.fairshare.shares import deserve
from tests.laws.standings import Pool, Standings, Tenant
from tests.seeded import seeded

MODEL = "NVIDIA-A100"
USERS = "abcdefg"


def a_policy(random: Random) -> FairShares:
    """Some users and two groups have a standing of their own."""

    def standing() -> Standing:
        return Standing(
            weight=Fraction(random.randint(1, 6), random.randint(1, 3)),
            quota=random.choice([{}, {"*": random.randint(0, 5)}, {MODEL: 3}]),
            limit=random.choice([{}, {}, {"*": random.randint(5, 9)}]),
        )

    groups = tuple(ShareGroup(name=name, standing=standing()) for name in ("lab", "class"))
    return FairShares(users={user: standing() for user in USERS[:5]}, groups=groups)


@pytest.mark.parametrize("seed", range(100))
def test_what_is_deserved_is_what_the_product_says(seed: int) -> None:
    random = seeded(seed)
    shares = a_policy(random)
    pool = Pool(MODEL, Standings(shares), random.randint(0, 20))
    for user in USERS:
        tenant, holds = Tenant(user, random.choice(["", "lab", "class"])), random.randint(0, 4)
        pool.holds[tenant] += holds
        pool.wants[tenant] += holds + random.randint(0, 6)
    held = {fairshare.Tenant(*one): pool.holds[one] for one in pool.wants}
    wanted = {fairshare.Tenant(*one): pool.wants[one] - pool.holds[one] for one in pool.wants}
    theirs = deserve(tree_of(shares, MODEL), pool.capacity, held, wanted).deserved
    assert {one: theirs.get(fairshare.Tenant(*one), 0) for one in pool.deserved()} == pool.deserved()
