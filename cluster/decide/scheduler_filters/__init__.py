"""Would kube-scheduler place a pod on a node, devices aside, once some pods had left?

The reclaimer checks every node that it plans with: nothing may be evicted for a pod that the scheduler would
not put there. Source: kube-scheduler 1.37. There is one file for each check: ``node_resources_fit`` (CPU,
memory, storage, extended resources but GPUs, number of pods), ``node_ports`` of the host, ``volume_binding``,
``inter_pod_affinity`` (both ways), ``pod_topology_spread``; and ``cluster.decide.node_fit``: readiness,
taints, node selector and affinity.

    objects = cache.cluster_objects()               # ClusterCache.keep_scheduling_objects() once, before
    checker = checker_for(pod, objects)             # the part that is done once per pod
    why = checker.why_not(node, without=victims)    # None: it would be placed there; else a constant message
    objects = objects.placing(pod, node.metadata.name, without=victims)    # for the next pod of one plan

``without`` has uids. Terminating pods count as gone already. ``placing`` returns the cluster as it will be;
call it for existing holds, too (their pod, their node, their victims).

Not checked: how many CSI volumes a node can attach, storage capacity, dynamic resource allocation, volumes
written into the pod itself (``gcePersistentDisk`` and the like), pods nominated by preemption, and a resize
of a running pod that is under way (its spec counts).
"""

from cluster.decide.scheduler_filters.checker import Checker, checker_for
from cluster.decide.scheduler_filters.cluster_objects import ClusterObjects
from cluster.decide.scheduler_filters.existing_pods import ExistingPod, NodePods, node_pods_of, other_of

__all__ = [
    "Checker",
    "ClusterObjects",
    "ExistingPod",
    "NodePods",
    "checker_for",
    "node_pods_of",
    "other_of",
]
