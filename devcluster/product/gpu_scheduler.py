"""The stock kube-scheduler of the profile `gpu-booking`, next to the extender that it calls."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cluster import names
from devcluster.product import extender, scheduler_profile
from devcluster.product.part import Part

NAME: Final = extender.scheduler(0)
ACCOUNT: Final = names.SCHEDULER_ACCOUNT
_PORT = 10459


def part(
    *,
    kubebox: Path,
    kubeconfig: Path,
    folder: Path,
    number: int = 0,
    elects: bool = True,
    claims: bool = False,
    arguments: Sequence[str] = (),
) -> Part:
    """How the scheduler is started; writes its configuration.

    If it elects a leader it ends when it cannot renew its Lease; in the chart the kubelet restarts it.

    Args:
        kubebox: Kubernetes' programs in one.
        kubeconfig: of its ServiceAccount.
        folder: for its files.
        number: 0 for the first, 1 for the next ...; each asks the extender of its number.
        elects: whether it schedules only while it holds the Lease.
        claims: whether the extender is asked about all pods, so about those with claims, too.
        arguments: further ones of its command line.
    """
    here = extender.scheduler(number)
    profile = scheduler_profile.configuration(
        kubeconfig=kubeconfig, extender_url=f"http://127.0.0.1:{extender.port(number)}", elects=elects
    )
    if claims:
        del profile["extenders"][0]["managedResources"]
    path = folder / f"{here}.json"
    path.write_text(json.dumps(profile, indent=1))
    command = [
        # Its name in the Lease begins with the host's name, and in the chart every pod has its own.
        *("unshare", "--uts", "sh", "-c", f'hostname {here} && exec "$@"', here),
        str(kubebox),
        "kube-scheduler",
        f"--config={path}",
        f"--secure-port={_PORT + number}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={folder / here}",
        *arguments,
    ]
    return Part(name=here, program=command, environment=None, probes=None)
