"""How many GPUs of each model nobody holds now. Pure."""

from collections.abc import Collection, Mapping

from cluster.cache.node_snapshots import NodeSnapshot


def free_gpus(node_snapshots: Mapping[str, NodeSnapshot], cordoned: Collection[str] = ()) -> dict[str, int]:
    """Model -> devices; of every model that there is.

    A node whose agent is not alive, or on which nothing new may start, has none. Devices of which nobody has
    said which pods hold them are taken off every model that they may be of (law L6).
    """
    free: dict[str, int] = {}
    for name, (view, agent) in sorted(node_snapshots.items()):
        is_open = agent == "alive" and view.fault is None and name not in cordoned
        for resource, models in view.all_by_model.items():
            for model in models:
                found = len(view.free_by_model.get(resource, {}).get(model, ()))
                left = max(0, found - view.unknown.get(resource, 0)) if is_open else 0
                free[model] = free.get(model, 0) + left
    return free
