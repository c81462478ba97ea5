"""Writes ``deviceplugin/kubeletapi/`` from the contracts in this folder. Run by ``make proto``.

Usage: ``python proto/generate.py [folder]``. The folder is used as the repository root (default: the real
one); a test generates into a temporary folder and compares.
"""

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = Path("deviceplugin/kubeletapi")
SOURCES = {
    "deviceplugin_v1beta1": "proto/kubelet/deviceplugin_v1beta1",
    "podresources_v1": "proto/kubelet/podresources_v1",
    "dra_v1": "proto/kubelet/dra_v1",
    "dra_health_v1": "proto/kubelet/dra_health_v1",
    "pluginregistration_v1": "proto/kubelet/pluginregistration_v1",
    "pods_v1alpha1": "proto/kubelet/pods_v1alpha1",
    "core_v1": "proto/kubernetes/core_v1",
}
"""Package below ``deviceplugin/kubeletapi`` -> folder of its contract."""

_ROOT_DOC = '"""Generated from proto/ by proto/generate.py: do not edit. Sources: proto/UPSTREAM.md."""\n'


def generate(into: Path) -> None:
    """Compile every contract into ``into / deviceplugin/kubeletapi``.

    The files are mapped below the package's own path, so that each has a name of its own in protobuf's pool
    and the generated imports are those of the package.

    Raises:
        SystemExit: the compiler refused a contract; it has said why.
    """
    out = into / PACKAGE
    for name in ("", *SOURCES):
        (out / name).mkdir(parents=True, exist_ok=True)
        (out / name / "__init__.py").write_text(_ROOT_DOC)
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        *(f"-I{PACKAGE / name}={REPOSITORY / folder}" for name, folder in SOURCES.items()),
        f"--python_out={into}",
        f"--grpc_python_out={into}",
        f"--mypy_out=quiet:{into}",
        f"--mypy_grpc_out=quiet:{into}",
        *(f"{REPOSITORY / folder}/api.proto" for folder in SOURCES.values()),
    ]
    plugins = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    if subprocess.run(command, env={**os.environ, "PATH": plugins}, check=False).returncode:
        raise SystemExit("proto/generate.py: the protobuf compiler refused a contract (see above).")
    for leftover in (out / "core_v1").glob("api_pb2_grpc.py*"):  # messages alone: no service to generate
        leftover.unlink()


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else REPOSITORY)
