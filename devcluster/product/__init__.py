"""Our parts in a development cluster: host processes with ServiceAccount tokens and the chart's RBAC.

A node agent runs inside its node's mount namespace, the extender next to the GPU profile's kube-scheduler,
booking server and controller behind the chart's Services. None of them has an administrator's token.
The people who use them are in `people.py`.
"""

from devcluster.product.deploy import Parts

__all__ = ["Parts"]
