/* The exported calls about MIG mode and MIG devices. */
#include "fakenvml.h"

#include <stdio.h>
#include <string.h>

/* The ids of the profiles that cards have, by the number under which NVML is asked for them: of 1, 2, 3, 4 and 7
 * slices, 7 is 1g+me, 9 is 1g with twice the memory (as read from an H200, and the same on an A100). */
static const int PROFILE_IDS[] = {19, 14, 9, 5, 0, -1, -1, 20, -1, 15};
enum { PROFILES = sizeof PROFILE_IDS / sizeof *PROFILE_IDS, LAST_PROFILE = 16 };

typedef struct { Handle *device; unsigned id, profileId, start, size; } nvmlGpuInstanceInfo_t;
typedef struct {
    unsigned version, id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount;
    unsigned copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
    u64 memorySizeMB;
    char name[96];
} nvmlGpuInstanceProfileInfo_v2_t;
_Static_assert(sizeof(nvmlGpuInstanceInfo_t) == 24, "nvmlGpuInstanceInfo_t");
_Static_assert(sizeof(nvmlGpuInstanceProfileInfo_v2_t) == 152, "nvmlGpuInstanceProfileInfo_v2_t");

EXPORT nvmlReturn nvmlDeviceGetMigMode(const Handle *device, unsigned *current, unsigned *pending) {
    Call call;
    if (!enter_gpu(&call, __func__, device)) return call.code;
    if (!current || !pending) call.code = INVALID_ARGUMENT;
    else if (call.gpu->mig_mode < 0) call.code = NOT_SUPPORTED;
    else *current = *pending = (unsigned)call.gpu->mig_mode;
    return leave(&call);
}

/* Zero while MIG is off, on a GPU that can do MIG too (seen on an H200). */
EXPORT nvmlReturn nvmlDeviceGetMaxMigDeviceCount(const Handle *device, unsigned *count) {
    Call call;
    if (!enter_gpu(&call, __func__, device)) return call.code;
    if (count) *count = call.gpu->mig_mode == 1 ? call.gpu->mig_max : 0;
    else call.code = INVALID_ARGUMENT;
    return leave(&call);
}

EXPORT nvmlReturn nvmlDeviceGetMigDeviceHandleByIndex(const Handle *device, unsigned index, Handle **mig) {
    Call call;
    if (!enter_gpu(&call, __func__, device)) return call.code;
    bool exists = call.gpu->mig_mode == 1 && index < (unsigned)call.gpu->mig_count && *call.gpu->migs[index].uuid;
    if (!mig) call.code = INVALID_ARGUMENT;
    else if (!exists) call.code = NOT_FOUND;
    else if (!(*mig = handle_of(call.gpu->migs[index].uuid))) call.code = MEMORY;
    return leave(&call);
}

EXPORT nvmlReturn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(const Handle *mig, Handle **device) {
    Call call;
    if (!enter_device(&call, __func__, mig)) return call.code;
    if (!device || !call.mig) call.code = INVALID_ARGUMENT;
    else if (!(*device = handle_of(call.gpu->uuid))) call.code = MEMORY;
    return leave(&call);
}

EXPORT nvmlReturn nvmlDeviceIsMigDeviceHandle(const Handle *device, unsigned *answer) {
    Call call;
    if (!enter_device(&call, __func__, device)) return call.code;
    if (answer) *answer = call.mig != NULL;
    else call.code = INVALID_ARGUMENT;
    return leave(&call);
}

EXPORT nvmlReturn nvmlDeviceGetGpuInstanceId(const Handle *device, unsigned *id) {
    Call call;
    if (!enter_device(&call, __func__, device)) return call.code;
    if (id && call.mig) *id = call.mig->gi;
    else call.code = INVALID_ARGUMENT;
    return leave(&call);
}

EXPORT nvmlReturn nvmlDeviceGetComputeInstanceId(const Handle *device, unsigned *id) {
    Call call;
    if (!enter_device(&call, __func__, device)) return call.code;
    if (id && call.mig) *id = call.mig->ci;
    else call.code = INVALID_ARGUMENT;
    return leave(&call);
}

EXPORT nvmlReturn nvmlDeviceGetAttributes_v2(const Handle *device, nvmlDeviceAttributes_t *into) {
    Call call;
    if (!enter_device(&call, __func__, device)) return call.code;
    if (!into) call.code = INVALID_ARGUMENT;
    else if (!call.mig) call.code = NOT_SUPPORTED;
    else *into = (nvmlDeviceAttributes_t){
        .multiprocessorCount = call.mig->processors, .sharedCopyEngineCount = call.mig->copy_engines,
        .sharedDecoderCount = call.mig->decoders, .gpuInstanceSliceCount = call.mig->slices,
        .computeInstanceSliceCount = call.mig->ci_slices, .memorySizeMB = call.mig->memory_mib,
    };
    return leave(&call);
}

/* A GPU instance is named by its first MIG device: what is asked of it is the same for all. */
EXPORT nvmlReturn nvmlDeviceGetGpuInstanceById(const Handle *device, unsigned id, Handle **instance) {
    Call call;
    if (!enter_gpu(&call, __func__, device)) return call.code;
    call.code = instance ? NOT_FOUND : INVALID_ARGUMENT;
    for (int i = 0; instance && i < call.gpu->mig_count && call.code == NOT_FOUND; i++)
        if (call.gpu->migs[i].gi == id && (*instance = handle_of(call.gpu->migs[i].uuid))) call.code = SUCCESS;
    return leave(&call);
}

EXPORT nvmlReturn nvmlGpuInstanceGetInfo(const Handle *instance, nvmlGpuInstanceInfo_t *into) {
    Call call;
    if (!enter_device(&call, __func__, instance)) return call.code;
    if (!into || !call.mig) call.code = INVALID_ARGUMENT;
    else *into = (nvmlGpuInstanceInfo_t){
        handle_of(call.gpu->uuid), call.mig->gi, call.mig->profile_id, call.mig->start, call.mig->size,
    };
    return leave(&call);
}

EXPORT nvmlReturn nvmlDeviceGetGpuInstanceProfileInfoV(
    const Handle *device, unsigned profile, nvmlGpuInstanceProfileInfo_v2_t *into) {
    Call call;
    if (!enter_gpu(&call, __func__, device)) return call.code;
    if (!into || profile > LAST_PROFILE) call.code = INVALID_ARGUMENT;
    else if (call.gpu->mig_mode < 0 || profile >= PROFILES || PROFILE_IDS[profile] < 0) call.code = NOT_SUPPORTED;
    else into->id = (unsigned)PROFILE_IDS[profile];
    return leave(&call);
}
