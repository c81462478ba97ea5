/* What every exported function does first and last: injected faults, initialisation, handles.
 * Also the life cycle of the library: nvmlInit, nvmlShutdown, and the list of GPUs frozen between them. */
#include "fakenvml.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static Handle handles[MAX_HANDLES];
static int handle_count;
static char frozen[MAX_GPUS][96];
static int frozen_count;
static int users;       /* successful nvmlInit calls without their nvmlShutdown */
static pid_t owner;     /* the process that called nvmlInit: a forked child is not initialised */

static bool initialized(void) { return users > 0 && owner == getpid(); }

int roster_size(void) { return frozen_count; }
const char *roster(int index) { return index >= 0 && index < frozen_count ? frozen[index] : NULL; }

Handle *handle_of(const char *uuid) {
    for (int i = 0; i < handle_count; i++)
        if (!strcmp(handles[i].uuid, uuid)) return &handles[i];
    if (handle_count == MAX_HANDLES) return NULL;
    snprintf(handles[handle_count].uuid, sizeof handles[0].uuid, "%s", uuid);
    return &handles[handle_count++];
}

Gpu *find_gpu(const char *uuid) {
    for (int i = 0; i < state->gpu_count; i++)
        if (!strcmp(state->gpus[i].uuid, uuid)) return &state->gpus[i];
    return NULL;
}

static bool in_roster(const char *uuid) {
    for (int i = 0; i < frozen_count; i++)
        if (!strcmp(frozen[i], uuid)) return true;
    return false;
}

static Gpu *find_parent(const char *uuid, Mig **mig) {
    for (int i = 0; i < state->gpu_count; i++)
        for (int m = 0; m < state->gpus[i].mig_count; m++)
            if (!strcmp(state->gpus[i].migs[m].uuid, uuid)) {
                *mig = &state->gpus[i].migs[m];
                return &state->gpus[i];
            }
    return NULL;
}

/* A rule for nvmlDeviceGetMemoryInfo is one for nvmlDeviceGetMemoryInfo_v2 too. */
static bool names(const char *rule, const char *function) {
    size_t length = strlen(rule);
    if (strncmp(rule, function, length)) return false;
    const char *rest = function + length;
    return !*rest || (rest[0] == '_' && rest[1] == 'v' && rest[2] >= '0' && rest[2] <= '9' && !rest[3]);
}

double injected(const char *function, const char *what, const char *uuid) {
    for (int i = 0; i < state->rule_count; i++) {
        const Rule *rule = &state->rules[i];
        if (strcmp(rule->what, what) || !names(rule->function, function)) continue;
        if (!*rule->uuid || (uuid && !strcmp(rule->uuid, uuid))) return rule->value;
    }
    return 0;
}

static void log_call(const char *function, const char *uuid) {
    char path[4096], line[256];
    side_file(path, sizeof path, ".calls");
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    int length = snprintf(line, sizeof line, "%d %s %s\n", (int)getpid(), function, uuid ? uuid : "-");
    if (file >= 0 && write(file, line, (size_t)length) < 0) perror("fakenvml: call log");
    if (file >= 0) close(file);
}

bool before(const char *function, const char *uuid, nvmlReturn *code) {
    lock();
    bool present = refresh();
    double delay = present ? injected(function, "delay", uuid) : 0;
    if (present && state->log) log_call(function, uuid);
    unlock();
    if (delay > 0) pause_ms((long)(delay * 1000));
    for (bool hangs = true; hangs; ) {
        lock();
        present = refresh();
        hangs = present && injected(function, "hang", uuid) != 0;
        *code = present ? (nvmlReturn)injected(function, "error", uuid) : SUCCESS;
        unlock();
        if (hangs) pause_ms(10);
    }
    return *code == SUCCESS;
}

bool begin(Call *call) {
    *call = (Call){0};
    lock();
    if (initialized() && (refresh() || state)) return true;
    unlock();
    call->code = UNINITIALIZED;
    return false;
}

bool enter(Call *call, const char *function) {
    return before(function, NULL, &call->code) && begin(call);
}

/* The GPU that a rule or a log line may name: for a MIG device its parent. */
static void physical_uuid(const Handle *device, char *uuid, size_t length) {
    Mig *mig = NULL;
    lock();
    Gpu *gpu = device && refresh() ? find_parent(device->uuid, &mig) : NULL;
    snprintf(uuid, length, "%s", gpu ? gpu->uuid : device ? device->uuid : "-");
    unlock();
}

static nvmlReturn resolve(Call *call, const Handle *device) {
    if (!initialized() || !(refresh() || state)) return UNINITIALIZED;
    if (!device) return INVALID_ARGUMENT;
    call->gpu = find_gpu(device->uuid);
    if (!call->gpu) call->gpu = find_parent(device->uuid, &call->mig);
    if (!call->gpu) return in_roster(device->uuid) ? GPU_IS_LOST : INVALID_ARGUMENT;
    return call->gpu->lost ? GPU_IS_LOST : SUCCESS;
}

static bool enter_known(Call *call, const char *function, const Handle *device, bool even_lost) {
    char uuid[96];
    *call = (Call){0};
    physical_uuid(device, uuid, sizeof uuid);
    if (!before(function, uuid, &call->code)) return false;
    lock();
    call->code = resolve(call, device);
    if (call->code == SUCCESS || (even_lost && call->gpu && call->code == GPU_IS_LOST)) return true;
    unlock();
    return false;
}

bool enter_device(Call *call, const char *function, const Handle *device) {
    return enter_known(call, function, device, false);
}

static bool refuse_mig(Call *call) {
    if (!call->mig) return true;
    unlock();
    call->code = INVALID_ARGUMENT;
    return false;
}

bool enter_gpu(Call *call, const char *function, const Handle *device) {
    return enter_known(call, function, device, false) && refuse_mig(call);
}

bool enter_gpu_even_lost(Call *call, const char *function, const Handle *device) {
    return enter_known(call, function, device, true) && refuse_mig(call);
}

nvmlReturn leave(const Call *call) {
    unlock();
    return call->code;
}

nvmlReturn put_text(char *into, unsigned length, const char *text) {
    if (!into) return INVALID_ARGUMENT;
    if (strlen(text) + 1 > length) return INSUFFICIENT_SIZE;
    strcpy(into, text);
    return SUCCESS;
}

static void freeze_roster(void) {
    frozen_count = 0;
    for (int i = 0; i < state->gpu_count; i++)
        if (*state->gpus[i].uuid) snprintf(frozen[frozen_count++], sizeof frozen[0], "%s", state->gpus[i].uuid);
}

static nvmlReturn start(const char *function) {
    nvmlReturn code;
    if (!before(function, NULL, &code)) return code;
    lock();
    if (owner != getpid()) users = 0;
    code = users ? SUCCESS : refresh() ? state->init : DRIVER_NOT_LOADED;
    if (code == SUCCESS) {
        if (!users++) freeze_roster();
        owner = getpid();
    }
    unlock();
    return code;
}

EXPORT nvmlReturn nvmlInit_v2(void) { return start("nvmlInit"); }
EXPORT nvmlReturn nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    return start("nvmlInit");
}

EXPORT nvmlReturn nvmlShutdown(void) {
    Call call;
    if (!enter(&call, __func__)) return call.code;
    users--;
    return leave(&call);
}
