/* The exported calls about the system and about one GPU. Answers follow a survey of a real H200 (driver 580). */
#include "fakenvml.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { FIELD_RECOVERY_ACTION = 230, VALUE_UNSIGNED = 1, MEMORY_V2 = 0x02000028, LINK_IS_GPU = 0 };

EXPORT nvmlReturn nvmlSystemGetDriverVersion(char *version, unsigned length) {
    Call call;
    if (!enter(&call, __func__)) return call.code;
    call.code = put_text(version, length, state->driver);
    return leave(&call);
}

EXPORT nvmlReturn nvmlSystemGetNVMLVersion(char *version, unsigned length) {
    Call call;
    if (!enter(&call, __func__)) return call.code;
    call.code = put_text(version, length, state->nvml);
    return leave(&call);
}

static nvmlReturn cuda_version(const char *function, int *version) {
    Call call;
    if (!enter(&call, function)) return call.code;
    if (version) *version = state->cuda;
    else call.code = INVALID_ARGUMENT;
    return leave(&call);
}
EXPORT nvmlReturn nvmlSystemGetCudaDriverVersion(int *version) { return cuda_version(__func__, version); }
EXPORT nvmlReturn nvmlSystemGetCudaDriverVersion_v2(int *version) { return cuda_version(__func__, version); }

EXPORT nvmlReturn nvmlDeviceGetCount_v2(unsigned *count) {
    Call call;
    if (!enter(&call, __func__)) return call.code;
    if (count) *count = (unsigned)roster_size();
    else call.code = INVALID_ARGUMENT;
    return leave(&call);
}

/* Gives the handle of a GPU of the frozen list, unless it is lost. */
static nvmlReturn give_handle(const char *uuid, Handle **device) {
    const Gpu *gpu = find_gpu(uuid);
    *device = handle_of(uuid);
    if (!*device) return MEMORY;
    return gpu && !gpu->lost ? SUCCESS : GPU_IS_LOST;
}

EXPORT nvmlReturn nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle **device) {
    Call call = {0};
    char uuid[96] = "-";
    lock();
    if (roster((int)index)) snprintf(uuid, sizeof uuid, "%s", roster((int)index));
    unlock();
    if (!before(__func__, uuid, &call.code) || !begin(&call)) return call.code;
    const char *known = roster((int)index);
    call.code = device && known ? give_handle(known, device) : INVALID_ARGUMENT;
    return leave(&call);
}

EXPORT nvmlReturn nvmlDeviceGetHandleByUUID(const char *uuid, Handle **device) {
    Call call = {0};
    if (!before(__func__, uuid, &call.code) || !begin(&call)) return call.code;
    call.code = uuid && device ? NOT_FOUND : INVALID_ARGUMENT;
    for (int i = 0; call.code == NOT_FOUND && i < roster_size(); i++) {
        const Gpu *gpu = find_gpu(roster(i));
        if (!strcmp(roster(i), uuid)) call.code = give_handle(uuid, device);
        for (int m = 0; gpu && call.code == NOT_FOUND && m < gpu->mig_count; m++)
            if (!strcmp(gpu->migs[m].uuid, uuid)) call.code = (*device = handle_of(uuid)) ? SUCCESS : MEMORY;
    }
    return leave(&call);
}

EXPORT nvmlReturn nvmlDeviceGetHandleByPciBusId_v2(const char *address, Handle **device) {
    Call call;
    if (!enter(&call, __func__)) return call.code;
    call.code = address && device ? NOT_FOUND : INVALID_ARGUMENT;
    for (int i = 0; call.code == NOT_FOUND && i < roster_size(); i++) {
        const Gpu *gpu = find_gpu(roster(i));
        if (gpu && (!strcmp(gpu->pci, address) || !strcmp(gpu->pci + 4, address))) call.code = give_handle(roster(i), device);
    }
    return leave(&call);
}

EXPORT nvmlReturn nvmlDeviceGetUUID(const Handle *device, char *uuid, unsigned length) {
    Call call;
    if (!enter_device(&call, __func__, device)) return call.code;
    call.code = put_text(uuid, length, device->uuid);
    return leave(&call);
}

EXPORT nvmlReturn nvmlDeviceGetName(const Handle *device, char *name, unsigned length) {
    Call call;
    char text[160];
    if (!enter_device(&call, __func__, device)) return call.code;
    if (call.mig) snprintf(text, sizeof text, "%s MIG %s", call.gpu->name, call.mig->profile);
    else snprintf(text, sizeof text, "%s", call.gpu->name);
    call.code = put_text(name, length, text);
    return leave(&call);
}

EXPORT nvmlReturn nvmlDeviceGetSerial(const Handle *device, char *serial, unsigned length) {
    Call call;
    if (!enter_gpu(&call, __func__, device)) return call.code;
    call.code = *call.gpu->serial ? put_text(serial, length, call.gpu->serial) : NOT_SUPPORTED;
    return leave(&call);
}

EXPORT nvmlReturn nvmlDeviceGetIndex(const Handle *device, unsigned *index) {
    Call call;
    if (!enter_device(&call, __func__, device)) return call.code;
    call.code = INVALID_ARGUMENT;
    for (int i = 0; index && !call.mig && i < roster_size(); i++)
        if (!strcmp(roster(i), call.gpu->uuid)) *index = (unsigned)i, call.code = SUCCESS;
    if (index && call.mig) *index = (unsigned)(call.mig - call.gpu->migs), call.code = SUCCESS;
    return leave(&call);
}

/* Calls whose whole answer is one unsigned number of the GPU. */
#define NUMBER_OF_GPU(function, member)                              \
    EXPORT nvmlReturn function(const Handle *device, unsigned *value) { \
        Call call;                                                   \
        if (!enter_gpu(&call, __func__, device)) return call.code;   \
        if (value) *value = call.gpu->member;                        \
        else call.code = INVALID_ARGUMENT;                           \
        return leave(&call);                                         \
    }
NUMBER_OF_GPU(nvmlDeviceGetMinorNumber, minor)
NUMBER_OF_GPU(nvmlDeviceGetBrand, brand)
NUMBER_OF_GPU(nvmlDeviceGetArchitecture, architecture)
NUMBER_OF_GPU(nvmlDeviceGetPowerUsage, power)

EXPORT nvmlReturn nvmlDeviceGetTemperature(const Handle *device, unsigned sensor, unsigned *value) {
    Call call;
    if (!enter_gpu(&call, __func__, device)) return call.code;
    if (value && sensor == 0) *value = call.gpu->temperature;
    else call.code = INVALID_ARGUMENT;
    return leave(&call);
}

EXPORT nvmlReturn nvmlDeviceGetUtilizationRates(const Handle *device, nvmlUtilization_t *value) {
    Call call;
    if (!enter_gpu(&call, __func__, device)) return call.code;
    if (value) *value = (nvmlUtilization_t){call.gpu->gpu_util, call.gpu->memory_util};
    else call.code = INVALID_ARGUMENT;
    return leave(&call);
}

/* NUMA comes from sysfs: this call is for GPUs that are a NUMA node themselves. */
EXPORT nvmlReturn nvmlDeviceGetNumaNodeId(const Handle *device, unsigned *node) {
    Call call;
    (void)node;
    if (!enter_gpu(&call, __func__, device)) return call.code;
    call.code = NOT_SUPPORTED;
    return leave(&call);
}

EXPORT nvmlReturn nvmlDeviceGetCudaComputeCapability(const Handle *device, int *major, int *minor) {
    Call call;
    if (!enter_device(&call, __func__, device)) return call.code;
    if (major && minor) *major = call.gpu->compute_major, *minor = call.gpu->compute_minor;
    else call.code = INVALID_ARGUMENT;
    return leave(&call);
}

static nvmlMemory_v2_t memory_of(const Call *call) {
    nvmlMemory_v2_t memory = {.version = MEMORY_V2};
    if (call->mig) {
        memory.total = call->mig->memory_mib << 20;
        for (int i = 0; i < call->gpu->process_count; i++) {
            const Process *one = &call->gpu->processes[i];
            if (one->gi == call->mig->gi && one->ci == call->mig->ci) memory.used += one->bytes;
        }
        memory.free = memory.total - memory.used;
        return memory;
    }
    memory.total = call->gpu->total;
    memory.used = call->gpu->used;
    memory.reserved = call->gpu->reserved;
    memory.free = memory.total - memory.used - memory.reserved;
    return memory;
}

/* The first version counts what the driver keeps for itself as used. */
EXPORT nvmlReturn nvmlDeviceGetMemoryInfo(const Handle *device, nvmlMemory_t *memory) {
    Call call;
    if (!enter_device(&call, __func__, device)) return call.code;
    nvmlMemory_v2_t now = memory_of(&call);
    if (memory) *memory = (nvmlMemory_t){now.total, now.free, now.used + now.reserved};
    else call.code = INVALID_ARGUMENT;
    return leave(&call);
}

EXPORT nvmlReturn nvmlDeviceGetMemoryInfo_v2(const Handle *device, nvmlMemory_v2_t *memory) {
    Call call;
    if (!enter_device(&call, __func__, device)) return call.code;
    if (!memory) call.code = INVALID_ARGUMENT;
    else if (memory->version != MEMORY_V2) call.code = ARGUMENT_VERSION_MISMATCH;
    else *memory = memory_of(&call);
    return leave(&call);
}

static nvmlReturn put_pci(nvmlPciInfo_t *into, const char *address) {
    unsigned domain, bus, slot, function;
    if (!into || sscanf(address, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4) return INVALID_ARGUMENT;
    memset(into, 0, sizeof *into);
    into->domain = domain;
    into->bus = bus;
    into->device = slot;
    snprintf(into->busId, sizeof into->busId, "%08X:%02X:%02X.%X", domain, bus & 0xFF, slot & 0xFF, function & 7);
    snprintf(into->busIdLegacy, sizeof into->busIdLegacy, "%04X:%02X:%02X.%X", domain & 0xFFFF, bus & 0xFF, slot & 0xFF,
             function & 7);
    return SUCCESS;
}

EXPORT nvmlReturn nvmlDeviceGetPciInfo_v3(const Handle *device, nvmlPciInfo_t *info) {
    Call call;
    if (!enter_gpu(&call, __func__, device)) return call.code;
    call.code = put_pci(info, call.gpu->pci);
    if (call.code == SUCCESS) {
        info->pciDeviceId = call.gpu->pci_device;
        info->pciSubSystemId = call.gpu->pci_subsystem;
    }
    return leave(&call);
}

/* NULL and the reason: GPUs without any link do not know NVLink at all. */
static const char *link_end(Call *call, unsigned link) {
    call->code = !call->gpu->link_count ? NOT_SUPPORTED : link >= MAX_LINKS ? INVALID_ARGUMENT : SUCCESS;
    return call->code == SUCCESS ? call->gpu->links[link] : NULL;
}

/* How many of three numbers, with slashes between them, are the same in both from the front. */
static int shared_parts(const char *one, const char *other) {
    int a[3] = {-1, -1, -1}, b[3] = {-2, -2, -2}, same = 0;
    sscanf(one, "%d/%d/%d", &a[0], &a[1], &a[2]);
    sscanf(other, "%d/%d/%d", &b[0], &b[1], &b[2]);
    while (same < 3 && a[same] == b[same]) same++;
    return same;
}

EXPORT nvmlReturn nvmlDeviceGetNvLinkState(const Handle *device, unsigned link, unsigned *active) {
    Call call;
    if (!enter_gpu(&call, __func__, device)) return call.code;
    const char *end = link_end(&call, link);
    if (end && active) *active = *end != 0;
    else if (end) call.code = INVALID_ARGUMENT;
    return leave(&call);
}

EXPORT nvmlReturn nvmlDeviceGetNvLinkRemotePciInfo_v2(const Handle *device, unsigned link, nvmlPciInfo_t *info) {
    Call call;
    if (!enter_gpu(&call, __func__, device)) return call.code;
    const char *end = link_end(&call, link);
    if (end) call.code = *end ? put_pci(info, end) : NOT_SUPPORTED;
    return leave(&call);
}

EXPORT nvmlReturn nvmlDeviceGetNvLinkRemoteDeviceType(const Handle *device, unsigned link, unsigned *type) {
    Call call;
    if (!enter_gpu(&call, __func__, device)) return call.code;
    const char *end = link_end(&call, link);
    if (end && *end && type) *type = LINK_IS_GPU;
    else if (end) call.code = type ? NOT_SUPPORTED : INVALID_ARGUMENT;
    return leave(&call);
}

/* As far as both addresses in the machine are the same: processor, host bridge, switch. */
EXPORT nvmlReturn nvmlDeviceGetTopologyCommonAncestor(const Handle *device, const Handle *other, int *level) {
    static const int levels[] = {50, 40, 30, 10};
    Call call;
    if (!enter_gpu(&call, __func__, device)) return call.code;
    const Gpu *end = other ? find_gpu(other->uuid) : NULL;
    if (!end || !level) call.code = INVALID_ARGUMENT;
    else if (end == call.gpu || !*end->place || !*call.gpu->place) call.code = NOT_SUPPORTED;
    else if (end->lost) call.code = GPU_IS_LOST;
    else *level = levels[shared_parts(call.gpu->place, end->place)];
    return leave(&call);
}

static void put_field_value(nvmlFieldValue_t *field, const Gpu *gpu, nvmlReturn fault) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    field->timestamp = (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000;
    field->latencyUsec = 1;
    field->valueType = VALUE_UNSIGNED;
    field->value.ullVal = 0;
    field->nvmlReturnCode = NOT_SUPPORTED;
    if (field->fieldId != FIELD_RECOVERY_ACTION || gpu->recovery < 0) return;
    field->nvmlReturnCode = fault;
    if (fault != SUCCESS) return;
    field->value.uiVal = (unsigned)gpu->recovery;
}

/* The call succeeds even for a lost GPU: each field has an answer of its own. */
EXPORT nvmlReturn nvmlDeviceGetFieldValues(const Handle *device, int count, nvmlFieldValue_t *fields) {
    Call call;
    if (!enter_gpu_even_lost(&call, __func__, device)) return call.code;
    nvmlReturn fault = (nvmlReturn)injected(__func__, "field", call.gpu->uuid);
    if (call.code != SUCCESS) fault = call.code;
    call.code = count < 1 || !fields ? INVALID_ARGUMENT : SUCCESS;
    for (int i = 0; call.code == SUCCESS && i < count; i++) put_field_value(&fields[i], call.gpu, fault);
    return leave(&call);
}

EXPORT nvmlReturn nvmlDeviceGetRemappedRows(
    const Handle *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    Call call;
    if (!enter_gpu(&call, __func__, device)) return call.code;
    *corrected = 0;
    *uncorrected = call.gpu->rows_pending || call.gpu->rows_failed;
    *pending = call.gpu->rows_pending != 0;
    *failed = call.gpu->rows_failed != 0;
    return leave(&call);
}

/* Asked twice: with too little room it only answers how much is needed. */
static nvmlReturn processes(const char *function, const Handle *device, char kind, unsigned *count, nvmlProcessInfo_t *into) {
    Call call;
    unsigned room, found = 0;
    if (!enter_device(&call, function, device)) return call.code;
    room = count && into ? *count : 0;
    for (int i = 0; count && i < call.gpu->process_count; i++) {
        const Process *one = &call.gpu->processes[i];
        if (one->kind != kind || (call.mig && (one->gi != call.mig->gi || one->ci != call.mig->ci))) continue;
        if (found < room) into[found] = (nvmlProcessInfo_t){one->pid, one->bytes, one->gi, one->ci};
        found++;
    }
    if (count) *count = found;
    call.code = !count ? INVALID_ARGUMENT : found > room ? INSUFFICIENT_SIZE : SUCCESS;
    return leave(&call);
}
EXPORT nvmlReturn nvmlDeviceGetComputeRunningProcesses_v3(const Handle *device, unsigned *count, nvmlProcessInfo_t *into) {
    return processes(__func__, device, 'c', count, into);
}
EXPORT nvmlReturn nvmlDeviceGetMPSComputeRunningProcesses_v3(const Handle *device, unsigned *count, nvmlProcessInfo_t *into) {
    return processes(__func__, device, 'm', count, into);
}
EXPORT nvmlReturn nvmlDeviceGetGraphicsRunningProcesses_v3(const Handle *device, unsigned *count, nvmlProcessInfo_t *into) {
    return processes(__func__, device, 'g', count, into);
}

/* Not part of NVML: lets a test compare our structures with those of pynvml and of the survey. 0 = unknown name. */
EXPORT unsigned fakeNvmlSizeOf(const char *name) {
    static const struct { const char *name; unsigned size; } table[] = {
        {"c_nvmlMemory_t", sizeof(nvmlMemory_t)}, {"c_nvmlMemory_v2_t", sizeof(nvmlMemory_v2_t)},
        {"nvmlPciInfo_t", sizeof(nvmlPciInfo_t)}, {"c_nvmlEventData_t", sizeof(nvmlEventData_t)},
        {"c_nvmlProcessInfo_v2_t", sizeof(nvmlProcessInfo_t)}, {"c_nvmlProcessInfo_v3_t", sizeof(nvmlProcessInfo_t)},
        {"c_nvmlUtilization_t", sizeof(nvmlUtilization_t)}, {"c_nvmlDeviceAttributes", sizeof(nvmlDeviceAttributes_t)},
        {"c_nvmlFieldValue_t", sizeof(nvmlFieldValue_t)},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].name, name)) return table[i].size;
    return 0;
}
