/* The exported calls about MIG mode and MIG devices. */
#include "fakenvml.h"

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
