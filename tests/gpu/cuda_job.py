"""A CUDA program that needs no compiler and no package, for Python 3.10 or newer.

``cuda_job.py SECONDS [VARIABLE]`` speaks to the driver's own library (``libcuda.so.1``) by ctypes, and its
kernel is text that the driver translates for the card. Each line of its output is a JSON object: first what
it sees, with the variable that says how much of a shared GPU it may use, then every second how often it has
computed, and last how it ended. A wrong result ends it with status 1, SIGTERM with 75; without CUDA it says
why, and waits as long as it would have computed.
"""

import ctypes
import json
import os
import re
import signal
import sys
from pathlib import Path
from types import FrameType

LIBRARY = "libcuda.so.1"
FOLDERS = ("/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")
"""Where the library is searched if the loader does not find it by its name."""
ELEMENTS, THREADS, BATCH = 1 << 16, 256, 500
ADDED = 3
"""By every launch, to every element."""
TERMINATED = 75
"""The exit status of a job that was terminated."""
KERNEL = b"""
.version 6.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 where, .param .u32 amount)
{
    .reg .b32 %r<6>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [where];
    ld.param.u32 %r1, [amount];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r2, %r2, %r3, %r4;
    mul.wide.s32 %rd2, %r2, 4;
    add.s64 %rd1, %rd1, %rd2;
    ld.global.u32 %r5, [%rd1];
    add.s32 %r5, %r5, %r1;
    st.global.u32 [%rd1], %r5;
    ret;
}
"""


class CudaError(Exception):
    """CUDA refused a call, or there is none; a sentence."""


class Cuda:
    """The driver's library, with an error for every answer that is not zero."""

    def __init__(self) -> None:
        self._library = _loaded()

    def __call__(self, function: str, *arguments: object) -> None:
        """Call one of its functions."""
        code = getattr(self._library, function)(*arguments)
        if code:
            raise CudaError(f"{function} answers {code}")

    def devices(self) -> list[str]:
        """The UUIDs of the devices, as NVML writes them."""
        self("cuInit", 0)
        count = ctypes.c_int()
        self("cuDeviceGetCount", ctypes.byref(count))
        return [self._uuid(number) for number in range(count.value)]

    def _uuid(self, number: int) -> str:
        raw = (ctypes.c_ubyte * 16)()
        self("cuDeviceGetUuid", ctypes.byref(raw), self._device(number))
        digits = bytes(raw).hex()
        parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
        return "GPU-" + "-".join(parts)

    def _device(self, number: int) -> ctypes.c_int:
        device = ctypes.c_int()
        self("cuDeviceGet", ctypes.byref(device), number)
        return device

    def begin(self) -> None:
        """Use the first device from now on."""
        context = ctypes.c_void_p()
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device(0))
        self("cuCtxSetCurrent", context)


class Sum:
    """An array on the device to which the kernel adds."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self._where, self._kernel, module = ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_void_p()
        cuda("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(KERNEL))
        cuda("cuModuleGetFunction", ctypes.byref(self._kernel), module, b"add")
        cuda("cuMemAlloc_v2", ctypes.byref(self._where), ctypes.c_size_t(4 * ELEMENTS))
        cuda("cuMemsetD32_v2", self._where, ctypes.c_uint(0), ctypes.c_size_t(ELEMENTS))
        self._launches = 0

    def go_on(self) -> int:
        """Launch the kernel some times, and check every element; how often it has been launched."""
        amount = ctypes.c_uint(ADDED)
        given = (ctypes.c_void_p * 2)(
            ctypes.cast(ctypes.byref(self._where), ctypes.c_void_p),
            ctypes.cast(ctypes.byref(amount), ctypes.c_void_p),
        )
        for _ in range(BATCH):
            shape = (ELEMENTS // THREADS, 1, 1, THREADS, 1, 1, 0)
            self._cuda("cuLaunchKernel", self._kernel, *shape, None, given, None)
        self._cuda("cuCtxSynchronize")
        self._launches += BATCH
        self._check()
        return self._launches

    def _check(self) -> None:
        found = (ctypes.c_uint * ELEMENTS)()
        self._cuda("cuMemcpyDtoH_v2", found, self._where, ctypes.c_size_t(4 * ELEMENTS))
        expected = ADDED * self._launches % (1 << 32)
        if any(value != expected for value in found):
            raise CudaError(f"wrong result after {self._launches} launches: not {expected} everywhere")


class Seconds:
    """Counts the seconds since the start, and handles SIGTERM."""

    def __init__(self, length: int) -> None:
        self._left = length
        self.is_due = False
        self.is_terminated = False
        signal.signal(signal.SIGALRM, self._tick)
        signal.signal(signal.SIGTERM, self._terminate)
        signal.setitimer(signal.ITIMER_REAL, 1, 1)

    @property
    def is_over(self) -> bool:
        """Whether it is time to end."""
        return self.is_terminated or self._left <= 0

    def _tick(self, _number: int, _frame: FrameType | None) -> None:
        self._left -= 1
        self.is_due = True

    def _terminate(self, _number: int, _frame: FrameType | None) -> None:
        self.is_terminated = True


def say(**what: object) -> None:
    """One line."""
    sys.stdout.write(f"{json.dumps(what)}\n")
    sys.stdout.flush()


def main(seconds: int, variable: str) -> int:
    """See, compute, end; the status."""
    nodes = sorted(str(path) for path in Path("/dev").iterdir() if re.fullmatch(r"nvidia\d+", path.name))
    try:
        cuda = Cuda()
        uuids, why = cuda.devices(), ""
    except CudaError as error:
        uuids, why = [], str(error)
    say(uuids=uuids, nodes=nodes, why=why, memory=os.environ.get(variable))
    time = Seconds(seconds)
    launches = 0
    try:
        if uuids:
            cuda.begin()
            work = Sum(cuda)
        while not time.is_over:
            if uuids:
                launches = work.go_on()
            else:
                signal.pause()
            if time.is_due:
                time.is_due = False
                say(launches=launches)
    except CudaError as error:
        say(ended=str(error), launches=launches)
        return 1
    say(ended="terminated" if time.is_terminated else "done", launches=launches)
    return TERMINATED if time.is_terminated else 0


def _loaded() -> ctypes.CDLL:
    for path in (LIBRARY, *(f"{folder}/{LIBRARY}" for folder in FOLDERS)):
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            why = str(error)
    raise CudaError(why)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), (sys.argv[2:] or [""])[0]))
