"""Would kube-scheduler place a pod on a node, devices aside, once some pods had left?

The reclaimer asks it of every node that it plans with: a pod that the scheduler would not put there must
not cost anybody work. Source: kube-scheduler 1.37. What is looked at, one file each: ``resources`` (CPU,
memory, storage, extended resources but GPUs, number of pods), ``ports`` of the host, ``volumes``,
``inter_pod_affinity`` (both ways), ``pod_topology_spread``; and ``cluster.decide.node_fit``: readiness,
taints, node selector and affinity.

    around = picture.around()                       # Picture.keep_surroundings() once, at the start
    checker = prepared(pod, around)                 # what is done once per pod
    why = checker.why_not(node, without=victims)    # None: it would be placed there; else a constant sentence
    around = around.placing(pod, node.metadata.name, without=victims)   # for the next pod of one plan

``without`` names uids. Pods that have been told to go already count as gone. ``placing`` gives the
surroundings as they will be; call it as well for holds that stand (their pod, their node, their victims).
``unsuited(pod, node, around, without=...)`` is the same question for one node.

Not looked at: how many CSI volumes a node can attach, storage capacity, dynamic resource allocation, volumes
written into the pod itself (``gcePersistentDisk`` and the like), pods nominated by preemption, and a resize
of a running pod that is under way (its spec counts).
"""

from cluster.decide.scheduler_filters.checker import Checker, checker_for, unsuited
from cluster.decide.scheduler_filters.cluster_objects import ClusterObjects
from cluster.decide.scheduler_filters.existing_pods import ExistingPod, NodePods, load_of, other_of

__all__ = [
    "Checker",
    "ClusterObjects",
    "ExistingPod",
    "NodePods",
    "checker_for",
    "load_of",
    "other_of",
    "unsuited",
]
