"""Node agents and kube-scheduler behind the proxy of `proxied.py`. They run as usual but for their route."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from cluster import names
from devcluster.cluster import Cluster
from devcluster.faultproxy import FaultProxy
from devcluster.product import Parts, gpu_scheduler
from devcluster.product.part import Part


@contextmanager
def neighbours(proxy: FaultProxy, cluster: Cluster, parts: Parts) -> Iterator[None]:
    """All of them, the agents ready; the usual ones run again afterwards."""
    agents = [_as_it_runs(cluster, parts.agent(node).name) for node in cluster.nodes]
    scheduler = _as_it_runs(cluster, gpu_scheduler.NAME)
    try:
        _start_again(
            cluster, parts, *(_led(agent, proxy) for agent in agents), _led_scheduler(cluster, parts, proxy)
        )
        yield
    finally:
        proxy.rules.set()
        _start_again(cluster, parts, *agents, scheduler)


def _start_again(cluster: Cluster, parts: Parts, *some: Part) -> None:
    for part in some:
        cluster.daemon(part.name).kill()
        parts._start(part)
    parts.await_ready()


def _as_it_runs(cluster: Cluster, name: str) -> Part:
    """What a process was started with, to be started so once more."""
    request = cluster.processes()[name].request
    return Part(name=name, program=request.argv, environment=request.env, probes=None, node=request.node)


def _led(agent: Part, proxy: FaultProxy) -> Part:
    way = {names.setting("kube_server"): proxy.url, names.setting("kube_ca_file"): str(proxy.ca_file)}
    return replace(agent, environment={**(agent.environment or {}), **way})


def _led_scheduler(cluster: Cluster, parts: Parts, proxy: FaultProxy) -> Part:
    """kube-scheduler with another kubeconfig; its account and token are the usual ones."""
    usual = parts.folder / f"{gpu_scheduler.ACCOUNT}.kubeconfig"
    document = json.loads(usual.read_text())
    document["clusters"][0]["cluster"] = {"server": proxy.url, "certificate-authority": str(proxy.ca_file)}
    folder = proxy.ca_file.parent
    kubeconfig = folder / usual.name
    kubeconfig.write_text(json.dumps(document))
    kubebox = cluster.program("kubebox")
    return gpu_scheduler.part(kubebox=kubebox, kubeconfig=kubeconfig, folder=folder, elects=False)
