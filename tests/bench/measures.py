"""Everything that ``make bench`` measures, in this order. A new measure is added here."""

from typing import Final

from tests.bench import (
    bench_admission,
    bench_agent,
    bench_beside,
    bench_booked,
    bench_bursts,
    bench_calendar,
    bench_churn,
    bench_claims,
    bench_claims_memory,
    bench_claims_node,
    bench_cluster,
    bench_command_line,
    bench_decisions,
    bench_demo,
    bench_evictions,
    bench_extender,
    bench_fair_shares,
    bench_filter,
    bench_first_share,
    bench_growth,
    bench_links,
    bench_packing,
    bench_page,
    bench_plan,
    bench_pods,
    bench_preferred,
    bench_prepare,
    bench_recovery,
    bench_rejected,
    bench_schedule,
    bench_share_pods,
    bench_shares,
    bench_starved,
    bench_takeover,
    bench_turns,
    bench_turns_pass,
    bench_waiting,
    bench_writers,
    bench_writers_cluster,
)
from tests.bench.measure import Measure
from tests.bench.rows import Kind

MEASURES: Final[tuple[Measure, ...]] = (
    bench_filter.MEASURE,
    bench_shares.MEASURE,
    bench_packing.MEASURE,
    bench_extender.MEASURE,
    bench_rejected.MEASURE,
    bench_decisions.MEASURE,
    bench_plan.MEASURE,
    bench_growth.MEASURE,
    bench_fair_shares.MEASURE,
    bench_turns_pass.MEASURE,
    bench_page.MEASURE,
    bench_calendar.MEASURE,
    bench_command_line.MEASURE,
    bench_demo.MEASURE,
    bench_preferred.MEASURE,
    bench_prepare.MEASURE,
    bench_links.MEASURE,
    bench_writers.MEASURE,
    bench_schedule.MEASURE,
    bench_bursts.MEASURE,
    bench_waiting.MEASURE,
    bench_turns.MEASURE,
    bench_cluster.MEASURE,
    bench_pods.MEASURE,
    bench_share_pods.MEASURE,
    bench_admission.MEASURE,
    bench_booked.MEASURE,
    bench_evictions.MEASURE,
    bench_starved.MEASURE,
    bench_agent.MEASURE,
    bench_beside.MEASURE,
    bench_first_share.MEASURE,
    bench_claims.MEASURE,
    bench_recovery.MEASURE,
    bench_takeover.MEASURE,
    bench_churn.MEASURE,
    bench_writers_cluster.MEASURE,
)
NEWER_THAN_THE_RESULTS: Final = frozenset(
    kind.name
    for kinds in (
        bench_claims_node.KINDS,
        bench_claims_memory.KINDS,
    )
    for kind in kinds
)
"""Rows that the last whole run (bench/results.json) did not have yet; the next one empties this."""
KINDS: Final[dict[str, Kind]] = {kind.name: kind for measure in MEASURES for kind in measure.kinds}
