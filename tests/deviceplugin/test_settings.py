"""Invalid settings are refused in a sentence: which one, its value, and what is allowed."""

import msgspec
import pytest

from cluster import names
from cluster.process.settings import SettingsError, load
from deviceplugin.settings import Settings

HOSTILE = {
    "node_name": ("../etc", "matching regex"),
    "instance": ("a/../../b", "matching regex"),
    "namespace": ("x" * 64, "length <= 63"),
    "device_plugin": ("theirs", "Allowed: ours, existing, dra."),
    "dra_driver": ("GPU!", "matching regex"),
    "dra_shares": ("perhaps", "Allowed: true, false."),
    "dra_counters": ("perhaps", "Allowed: true, false."),
    "book_claims": ("perhaps", "Allowed: true, false."),
    "device_list_strategy": ("magic", "Allowed: cdi, environment, device-nodes."),
    "mig_strategy": ("all", "Allowed: none, single, mixed."),
    "mig_packing": ("tight", "Allowed: distributed, packed."),
    "mig_capabilities": ("proc/driver", "an absolute path of 1 to 4095 bytes"),
    "node_labels": ("some", "Allowed: "),
    "sharing_slots": ("65", "Allowed: 0 to 64."),
    "sharing_reserve_mib": ("-1", "Allowed: 0 to 999999."),
    "sharing_hook": ('{"library": "/x"}', "unknown field"),
    "sharing_gpushare_status": ("MB", "Allowed: "),
    "mps_root": ("mps", "an absolute path of 1 to 4095 bytes"),
    "sharing_reservation_pods": ("some", "Allowed: "),
    "own_dev_root": ("dev", "an absolute path of 1 to 4095 bytes"),
    "kubelet_root": ("/deep" * 20, "an absolute path of 1 to 80 bytes"),
    "kubelet_state": ("kubelet", "an absolute path of 1 to 4095 bytes"),
    "device_plugins": ("/deep" * 20, "an absolute path of 1 to 69 bytes"),
    "cdi_dir": ("var/run/cdi", "an absolute path of 1 to 4095 bytes"),
    "host_cdi_dirs": ("/etc/cdi,cdi", "an absolute path of 1 to 4095 bytes"),
    "dev_root": ("/dev\0", "an absolute path of 1 to 4095 bytes"),
    "host_dev_root": (".", "an absolute path of 1 to 4095 bytes"),
    "sys_root": ("~", "an absolute path of 1 to 4095 bytes"),
    "driver_root": (f"/{'x' * 5000}", "an absolute path of 1 to 4095 bytes"),
    "host_driver_root": ("..", "an absolute path of 1 to 4095 bytes"),
    "nvml_library": ("libnvidia-ml.so.1", "an absolute path of 1 to 4095 bytes"),
    "on_missing_gpus": ("panic", "Allowed: wait, fail."),
    "nvml_deadline_seconds": ("nan", "Allowed: 1 to 50."),
    "recovery_seconds": ("inf", "Allowed: 0 to 86400."),
    "ignore_xids": ("79,-1", "`int` >= 0"),
    "critical_xids": ("65536", "`int` <= 65535"),
    "proc_root": ("proc", "an absolute path of 1 to 4095 bytes"),
    "tolerated_processes": ("x" * 65, "length <= 64"),
    "metrics_include_users": ("perhaps", "Allowed: true, false."),
    "usage_report_seconds": ("-1", "Allowed: 0 to 60."),
    "host": ("0.0.0.0; rm", "matching regex"),
    "port": ("70000", "Allowed: 0 to 65535."),
    "kube_server": ("file:///etc/passwd", "matching regex"),
    "kube_ca_file": ("ca.crt", "an absolute path of 1 to 4095 bytes"),
    "kube_token_file": ("token", "an absolute path of 1 to 4095 bytes"),
    "log_level": ("loud", "Allowed: debug, info, warning, error."),
    "log_style": ("xml", "Allowed: json, console."),
}
"""Field -> a value that it may not have, and how the sentence says what it may be."""

USUAL = {names.setting("node_name"): "node-a", names.setting("instance"): "a"}


def test_every_field_is_tested() -> None:
    assert {field.name for field in msgspec.structs.fields(Settings)} <= HOSTILE.keys()


@pytest.mark.parametrize("field", [field.name for field in msgspec.structs.fields(Settings)])
def test_an_invalid_value_is_refused_with_field_value_and_range(field: str) -> None:
    value, allowed = HOSTILE[field]
    with pytest.raises(SettingsError) as refused:
        load(Settings, {**USUAL, names.setting(field): value})
    (message,) = str(refused.value).splitlines()
    assert names.setting(field) in message
    assert allowed in message
    assert repr(value.split(",")[-1])[1:-1] in message


def test_several_paths_are_reported_at_once() -> None:
    with pytest.raises(SettingsError) as refused:
        load(Settings, {**USUAL, names.setting("dev_root"): "dev", names.setting("sys_root"): "sys"})
    assert len(str(refused.value).splitlines()) == 2


def test_the_list_of_folders_for_specifications_of_the_host_may_be_empty() -> None:
    assert load(Settings, {**USUAL, names.setting("host_cdi_dirs"): "[]"}).host_cdi_dirs == ()
