"""The rules beside ours do what they are described as doing."""

from cluster.decide.fairshare.settings import DAY
from tests.fairness.machines import Machines
from tests.fairness.rivals import Fifo, Kai, Literal
from tests.fairness.simulation import Simulation, job


def test_the_articles_rule_by_the_letter_evicts_two_big_pods_for_each_other_every_minute() -> None:
    """The livelock that two classes of taking back prevent."""
    measures = Simulation(
        jobs=[job("a", "alice", 8), job("b", "bob", 8, at=60)],
        machines=Machines(1, 8),
        rule=Literal(),
        until=DAY,
    ).go()
    assert measures.evictions > 1_400


def test_whole_shares_starve_users_when_there_are_more_of_them_than_gpus() -> None:
    """KAI's rule: four users have a GPU all day, six have none."""
    measures = Simulation(
        jobs=[job(f"j{i}", f"u{i}", at=i) for i in range(10)], machines=Machines(1, 4), rule=Kai(), until=DAY
    ).go()
    assert sorted(round(held / DAY) for held in measures.delivered.values()) == [0] * 6 + [1] * 4


def test_by_age_whoever_submits_many_pods_first_has_all() -> None:
    """What kube-scheduler does with equal priorities."""
    jobs = [job(f"b{i}", "bob") for i in range(8)] + [job("a", "alice", at=60)]
    measures = Simulation(jobs=jobs, machines=Machines(1, 4), rule=Fifo(), until=DAY).go()
    assert [tenant.user for tenant, held in measures.delivered.items() if held] == ["bob"]
