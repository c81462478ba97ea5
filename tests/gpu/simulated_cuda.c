/*
 * What tests/gpu/cuda_job.py needs of libcuda.so.1, without a card: "device memory" is this process's own, and
 * the one kernel that there is adds in a loop. It sees one device for each UUID that GPU_BOOKING_DEVICES names
 * if a device node is there too, and none where no node is. Real CUDA is NOT tried with it: it rehearses pods.
 */
#include <glob.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, NO_DEVICE = 100, UUID_DIGITS = 32 };

static int nodes(void)
{
    glob_t found;
    int count = glob("/dev/nvidia[0-9]*", 0, NULL, &found) ? 0 : (int)found.gl_pathc;
    globfree(&found);
    return count;
}

/* The start of a UUID's digits, behind "GPU-". */
static const char *named(int index)
{
    const char *at = getenv("GPU_BOOKING_DEVICES");
    for (; at && index > 0; index--) {
        at = strchr(at, ',');
        at = at ? at + 1 : NULL;
    }
    return at && !strncmp(at, "GPU-", 4) ? at + 4 : NULL;
}

int cuInit(unsigned flags)
{
    (void)flags;
    return nodes() && named(0) ? SUCCESS : NO_DEVICE;
}

int cuDeviceGetCount(int *count)
{
    int limit = nodes();
    for (*count = 0; *count < limit && named(*count);) ++*count;
    return SUCCESS;
}

int cuDeviceGet(int *device, int index)
{
    *device = index;
    return named(index) ? SUCCESS : INVALID_VALUE;
}

int cuDeviceGetUuid(unsigned char *raw, int device)
{
    char digits[UUID_DIGITS + 1] = "";
    const char *at = named(device);
    for (int count = 0; at && *at && *at != ',' && count < UUID_DIGITS; at++)
        if (*at != '-') digits[count++] = *at;
    for (int index = 0; index < UUID_DIGITS / 2; index++)
        if (sscanf(digits + 2 * index, "%2hhx", raw + index) != 1) return INVALID_VALUE;
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(void **context, int device) { *context = NULL; return device ? INVALID_VALUE : SUCCESS; }
int cuCtxSetCurrent(void *context) { (void)context; return SUCCESS; }
int cuModuleLoadData(void **module, const char *image) { *module = NULL; return strstr(image, ".entry add(") ? SUCCESS : INVALID_VALUE; }
int cuModuleGetFunction(void **function, void *module, const char *name) { (void)module; *function = NULL; return strcmp(name, "add") ? INVALID_VALUE : SUCCESS; }
int cuMemAlloc_v2(uint64_t *where, size_t bytes) { *where = (uint64_t)(uintptr_t)malloc(bytes); return *where ? SUCCESS : INVALID_VALUE; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) { memcpy(to, (void *)(uintptr_t)from, bytes); return SUCCESS; }

int cuMemsetD32_v2(uint64_t where, unsigned value, size_t count)
{
    for (size_t index = 0; index < count; index++) ((uint32_t *)(uintptr_t)where)[index] = value;
    return SUCCESS;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **given, void **extra)
{
    uint32_t *array = (uint32_t *)(uintptr_t)*(uint64_t *)given[0];
    unsigned amount = *(unsigned *)given[1], count = gx * gy * gz * bx * by * bz;
    (void)function, (void)shared, (void)stream, (void)extra;
    for (unsigned index = 0; index < count; index++) array[index] += amount;
    return SUCCESS;
}

/* The machine has better things to do than to play a busy card. */
int cuCtxSynchronize(void) { usleep(500000); return SUCCESS; }
