"""The booking plan: a place for every booking, over time, so that what was guaranteed can be kept. Pure.

Instants are whole seconds since 1970. Both the booking server and the extender decide with it.
"""

from cluster.decide.booking_plan.item_list import Item
from cluster.decide.booking_plan.lanes import Lane, Share, lane_pins, lanes_of, places, shares_of
from cluster.decide.booking_plan.model_plan import STEPS, Block, ModelPlan, Placed, PlanAttempt
from cluster.decide.booking_plan.pinned import (
    NO_NODE,
    OFF_PLAN,
    Pinned,
    PlannedBooking,
    is_whole,
    off_plan_pods,
    pin,
    planned,
)
from cluster.decide.booking_plan.placement_check import PlacementCheck, needs_places, placement_check
from cluster.decide.booking_plan.timeline import Timeline

__all__ = [
    "NO_NODE",
    "OFF_PLAN",
    "STEPS",
    "Block",
    "Item",
    "Lane",
    "ModelPlan",
    "Pinned",
    "Placed",
    "PlacementCheck",
    "PlanAttempt",
    "PlannedBooking",
    "Share",
    "Timeline",
    "is_whole",
    "lane_pins",
    "lanes_of",
    "needs_places",
    "off_plan_pods",
    "pin",
    "placement_check",
    "places",
    "planned",
    "shares_of",
]
