"""Explains every decision to people, from API objects only (law L8). Pure: equal objects give equal texts.

``why_waiting`` and ``hold_message`` are the messages of two Events of a pod; ``explain_pod`` is the full
explanation of a pod, and includes both.
"""

from cluster.decide.explain.pod import explain_pod
from cluster.decide.explain.snapshot import Explanation, ExplanationSnapshot
from cluster.decide.explain.waiting import hold_message, why_waiting

__all__ = ["Explanation", "ExplanationSnapshot", "explain_pod", "hold_message", "why_waiting"]
