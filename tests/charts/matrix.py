"""Sets of values that administrators give; of each, all parts run in pods."""

from typing import Any, Final

import yaml

from cluster import names
from devcluster.paths import CHECKOUT

DISTRIBUTIONS: Final = ("kubeadm", "k3s", "rke2", "microk8s", "openshift", "talos", "gke", "eks", "aks")

MATRIX: Final[dict[str, dict[str, Any]]] = {
    "defaults": {},
    "claims": {"dra": {"enabled": True}, "nodeAgent": {"devicePlugin": "dra"}},
    "existing": {"scheduler": {"mode": "existing", "name": "default-scheduler"}},
    "postgresql": {
        "server": {
            "database": {
                "url": "postgresql://booking@db:5432/booking?password_file=/etc/gpu-booking/database/password",
                "passwordSecret": "database",
            }
        }
    },
    "a claim of one's own": {"server": {"database": {"existingClaim": "bookings"}}},
    "a policy": {"server": {"policy": {"version": 1, "defaults": {"cooldown": "P7D"}}}},
    "OIDC": {
        "server": {
            "url": "https://gpus.example.org",
            "oidc": {"issuer": "https://id.example.org", "clientId": "gpus", "clientSecret": "oidc"},
        }
    },
    "MAIA": {"maia": {"enabled": True, "namespaces": ["maia"], "tokenSecret": "maia"}},
    "MAIA's own values": {
        "apiUrl": f"http://{names.BOOKING_SERVER}.{names.NAMESPACE}/maia-api/gpu-schedulability/",
        "gpuStatsUrl": f"http://{names.BOOKING_SERVER}.{names.NAMESPACE}/maia/resources/gpu_status_summary/",
        "apiToken": "secret",
        "namespace": names.NAMESPACE,
    },
    "a registry": {
        "image": {"registry": "registry.example.org", "tag": "2.0", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
    },
    "a driver container": {
        "nodeAgent": {"nvidiaDriverRoot": "/run/nvidia/driver", "runtimeClassName": "nvidia"}
    },
    "identity": {"identityRules": [{"source": "kubernetes", "match": "(?!system:).+"}]},
    "other settings": {
        "controller": {
            "settings": {"end_action_with_controller": "delete", "warn_before": ["PT1H"]},
            "replicas": 3,
        },
        "extender": {"settings": {"threads": 32}, "placement": "spread"},
        "nodeAgent": {"settings": {"recovery_seconds": 120}, "tolerations": [{"operator": "Exists"}]},
        "server": {"settings": {"requests_per_second": 50}, "nodeSelector": {"tier": "system"}},
        "networkPolicies": {"enabled": False},
    },
    **{f"on {name}": {"distribution": name} for name in DISTRIBUTIONS},
    "kind": yaml.safe_load((CHECKOUT / "kind" / "values.yaml").read_text()),
    "a site's own": {
        "commonLabels": {"team": "platform"},
        "administrators": [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "gpu-admins"},
            {"kind": "ServiceAccount", "name": "robot", "namespace": "ops"},
        ],
        "nodeAgent": {"podLabels": {"tier": "node"}},
        "extender": {
            "serviceAccount": {"annotations": {"site": "north"}},
            "podDisruptionBudget": {"maxUnavailable": "50%"},
        },
        "controller": {
            "hostNetwork": True,
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "ScheduleAnyway",
                }
            ],
            "podDisruptionBudget": {"enabled": False},
        },
        "server": {
            "url": "https://gpus.example.org",
            "extraVolumes": [{"name": "authority", "configMap": {"name": "authority"}}],
            "extraVolumeMounts": [{"name": "authority", "mountPath": "/etc/authority"}],
            "settings": {"oidc_ca_file": "/etc/authority/ca.crt"},
            "service": {"type": "NodePort", "nodePort": 30080, "annotations": {"balancer": "internal"}},
            "ingress": {
                "enabled": True,
                "className": "nginx",
                "annotations": {"cert-manager.io/cluster-issuer": "site"},
                "tlsSecret": "gpus-tls",
            },
        },
    },
}
