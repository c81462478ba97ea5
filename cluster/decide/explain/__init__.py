"""Every decision told in sentences, from API objects alone (law L8). Pure: the same objects, the same words.

``why_waiting`` is one sentence for a pod's Event, ``kept_for`` another; ``explain_pod`` is all there is to
say about a pod, these two among it.
"""

from cluster.decide.explain.pod import explain_pod
from cluster.decide.explain.snapshot import Explanation, ExplanationSnapshot
from cluster.decide.explain.waiting import kept_for, why_waiting

__all__ = ["Explanation", "ExplanationSnapshot", "explain_pod", "kept_for", "why_waiting"]
