/* A simulated libnvidia-ml.so.1: what its parts share.
 *
 * The answers come from a text file that a test changes while programs run. Its path is the value of the
 * environment variable FAKE_NVML_STATE; without it, or without the file, nvmlInit answers "driver not loaded".
 * The file is replaced atomically and read again whenever its inode, size or modification time has changed.
 *
 * STATE FILE: one `key=value` per line, unknown keys are ignored.
 *   driver, nvml, cuda          version strings, and the CUDA version as a number (13000)
 *   init=<code>                 what nvmlInit answers (0 = success, 9 = driver not loaded, 17 = blocked by the OS)
 *   log=1                       append `<pid> <function> <uuid or ->` per call to <state>.calls
 *   gpu.<n>.uuid|name|serial    texts; n is the index that nvmlDeviceGetHandleByIndex takes
 *   gpu.<n>.pci                 PCI address with an eight digit domain, 00000000:07:00.0
 *   gpu.<n>.pci_device|pci_subsystem   numbers
 *   gpu.<n>.minor|brand|architecture   numbers
 *   gpu.<n>.compute             <major>.<minor>
 *   gpu.<n>.total|used|reserved bytes
 *   gpu.<n>.recovery            recovery action (field 230); -1 = this GPU does not know the field
 *   gpu.<n>.rows_pending|rows_failed=1   memory rows wait for a reset, or could not be replaced
 *   gpu.<n>.lost=1              every call for this GPU answers "GPU is lost"; nvmlDeviceGetFieldValues succeeds and
 *                               says so for each field that the GPU knows
 *   gpu.<n>.events              mask of supported event types
 *   gpu.<n>.gpu_util|memory_util|temperature|power    percent, percent, degrees C, milliwatts
 *   gpu.<n>.place               <processor>/<host bridge>/<switch> on the PCI bus: how near two GPUs are
 *   gpu.<n>.link.<l>            PCI address of the GPU at the other end of NVLink number l
 *   gpu.<n>.process.<p>         <pid> <bytes> <gpu instance> <compute instance> <c|m|g> (compute, MPS, graphics)
 *   gpu.<n>.mig_mode            0, 1, or -1 (this GPU cannot do MIG)
 *   gpu.<n>.mig_max             how many MIG devices it can have
 *   gpu.<n>.mig.<m>.uuid|profile|profile_id|gi|ci|memory_mib|slices|ci_slices|processors|copy_engines|decoders
 *   gpu.<n>.mig.<m>.start|size  which slices of the memory its GPU instance has
 *   call.<function>.error|delay|hang[@<gpu uuid>]=<code|seconds|1>
 *   call.nvmlDeviceGetFieldValues.field[@<gpu uuid>]=<code>   the call succeeds, each field answers the code
 *                               <function> may leave out the version suffix (_v2); a hang ends when its line goes
 *
 * EVENT FILE <state>.events: lines are appended, `<gpu uuid> <event type> <data> <gpu instance> <compute instance>`;
 * instances are 4294967295 where an event belongs to the whole GPU. An event set sees what is appended after the
 * GPU was registered with it.
 *
 * Laws of the real library that are kept: the list of GPUs is read at the first nvmlInit and stays until the last
 * nvmlShutdown; every call answers Uninitialized before, after, and in a forked child; handles stay valid.
 */
#ifndef FAKENVML_H
#define FAKENVML_H

#include <stdbool.h>
#include <stddef.h>

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9, TIMEOUT = 10, GPU_IS_LOST = 15, MEMORY = 20, ARGUMENT_VERSION_MISMATCH = 25,
};
enum { MAX_GPUS = 128, MAX_LINKS = 36, MAX_PROCESSES = 64, MAX_MIG = 16, MAX_RULES = 64, MAX_HANDLES = 1024 };
#define WHOLE_GPU 0xFFFFFFFFu
#define EXPORT __attribute__((visibility("default")))

typedef int nvmlReturn;
typedef unsigned long long u64;

/* What the library gives its callers as nvmlDevice_t: it names a GPU or a MIG device and is never freed. */
typedef struct { char uuid[96]; } Handle;

typedef struct { unsigned pid, gi, ci; u64 bytes; char kind; } Process;
typedef struct {
    char uuid[96], profile[32];
    unsigned gi, ci, profile_id, start, size, slices, ci_slices, processors, copy_engines, decoders;
    u64 memory_mib;
} Mig;
typedef struct {
    char uuid[96], name[96], serial[30], pci[32], place[32], links[MAX_LINKS][32];
    unsigned minor, brand, architecture, pci_device, pci_subsystem;
    unsigned gpu_util, memory_util, temperature, power, mig_max;
    int compute_major, compute_minor, mig_mode, recovery, lost, rows_pending, rows_failed;
    u64 total, used, reserved, events;
    int link_count, process_count, mig_count;
    Process processes[MAX_PROCESSES];
    Mig migs[MAX_MIG];
} Gpu;
typedef struct { char function[64], what[8], uuid[96]; double value; } Rule;
typedef struct {
    char driver[80], nvml[80];
    int cuda, init, log, gpu_count, rule_count;
    Gpu gpus[MAX_GPUS];
    Rule rules[MAX_RULES];
} State;

/* state.c: the file. `refresh` and what it fills belong to the lock. */
void lock(void);
void unlock(void);
bool refresh(void);               /* false: there is no state file */
extern State *state;
const char *state_path(void);
void side_file(char *path, size_t length, const char *suffix);
void pause_ms(long milliseconds);
void parse_state(State *into, char *text);   /* parse.c */

/* call.c: what every exported function does first and last. */
typedef struct { nvmlReturn code; Gpu *gpu; Mig *mig; } Call;
bool enter(Call *call, const char *function);                           /* calls without a device */
bool begin(Call *call);                                                 /* the same without injected faults */
bool enter_device(Call *call, const char *function, const Handle *device);
bool enter_gpu(Call *call, const char *function, const Handle *device); /* refuses MIG devices: InvalidArgument */
bool enter_gpu_even_lost(Call *call, const char *function, const Handle *device); /* its code says if it is lost */
nvmlReturn leave(const Call *call);
bool before(const char *function, const char *uuid, nvmlReturn *code); /* injected faults, without the lock */
double injected(const char *function, const char *what, const char *uuid);  /* a rule's value or 0; needs the lock */
nvmlReturn put_text(char *into, unsigned length, const char *text);
Handle *handle_of(const char *uuid);
const char *roster(int index);    /* uuid of GPU number index as of nvmlInit, NULL past the end */
int roster_size(void);
Gpu *find_gpu(const char *uuid);

/* Structures of the wire, as the NVML headers lay them out. */
typedef struct { u64 total, free, used; } nvmlMemory_t;
typedef struct { unsigned version; u64 total, reserved, free, used; } nvmlMemory_v2_t;
typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;
typedef struct { Handle *device; u64 eventType, eventData; unsigned gpuInstanceId, computeInstanceId; } nvmlEventData_t;
typedef struct { unsigned pid; u64 usedGpuMemory; unsigned gpuInstanceId, computeInstanceId; } nvmlProcessInfo_t;
typedef struct { unsigned gpu, memory; } nvmlUtilization_t;
typedef struct {
    unsigned multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount;
    unsigned sharedOfaCount, gpuInstanceSliceCount, computeInstanceSliceCount;
    u64 memorySizeMB;
} nvmlDeviceAttributes_t;
typedef union { double dVal; unsigned uiVal; unsigned long ulVal; u64 ullVal; long long sllVal; int siVal; } nvmlValue_t;
typedef struct {
    unsigned fieldId, scopeId;
    long long timestamp, latencyUsec;
    unsigned valueType;
    nvmlReturn nvmlReturnCode;
    nvmlValue_t value;
} nvmlFieldValue_t;

_Static_assert(sizeof(nvmlMemory_t) == 24, "nvmlMemory_t");
_Static_assert(sizeof(nvmlMemory_v2_t) == 40, "nvmlMemory_v2_t");
_Static_assert(sizeof(nvmlPciInfo_t) == 68, "nvmlPciInfo_t");
_Static_assert(sizeof(nvmlEventData_t) == 32, "nvmlEventData_t");
_Static_assert(sizeof(nvmlProcessInfo_t) == 24, "nvmlProcessInfo_t");
_Static_assert(sizeof(nvmlUtilization_t) == 8, "nvmlUtilization_t");
_Static_assert(sizeof(nvmlDeviceAttributes_t) == 40, "nvmlDeviceAttributes_t");
_Static_assert(sizeof(nvmlFieldValue_t) == 40, "nvmlFieldValue_t");

#endif
