"""msgspec prepares a type at its first read; two threads that do so at once crash the process."""

import subprocess
import sys

MODULES = (
    "booking.controller.admission.admission_review",
    "cluster.kube.client",
    "cluster.kube.token_review",
    "cluster.objects.hold",
    "cluster.objects.inventory",
    "cluster.objects.replaced_fields",
    "deviceplugin.kubelet.checkpoint",
    "extender.wire",
)
"""Of everything that is read off the wire by several threads."""
ONLY_WRITTEN = {
    *("AdmissionAnswer", "ExtenderBindingResult", "ContainerNeed"),
    *("HostPriority", "Partial", "ExtenderPreemptionResult", "Refusal", "Response", "_Wire"),
}
SCRIPT = """
import importlib, sys
for module in sys.argv[1].split():
    importlib.import_module(module)
import msgspec

def below(kind):
    for one in kind.__subclasses__():
        yield one
        yield from below(one)

learning = []

def profiled(frame, event, _):
    if frame.f_code.co_name == "get_class_annotations":
        learning.append(event)

sys.setprofile(profiled)
for kind in [*below(msgspec.Struct)]:
    learning.clear()
    if kind.__module__.partition(".")[0] != "msgspec":
        msgspec.json.Decoder(kind)
    if learning:
        print(kind.__name__)
"""


def test_every_type_read_off_the_wire_is_prepared_when_its_module_is_imported() -> None:
    command = [sys.executable, "-c", SCRIPT, " ".join(MODULES)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert sorted(set(output.split()) - ONLY_WRITTEN) == []
