/* Event sets: what a test appends to the event file reaches the sets that registered the GPU for that type. */
#include "fakenvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { SLICE_MS = 20, LINE = 256 };

typedef struct { char uuid[96]; u64 types; long since; } Registration;
typedef struct { Registration registrations[MAX_GPUS]; int count; long offset; } EventSet;
typedef struct { char uuid[96]; u64 type, data; unsigned gi, ci; } Event;

static long file_end(void) {
    char path[4096];
    struct stat now;
    side_file(path, sizeof path, ".events");
    return stat(path, &now) ? 0 : (long)now.st_size;
}

EXPORT nvmlReturn nvmlEventSetCreate(EventSet **set) {
    Call call;
    if (!enter(&call, __func__)) return call.code;
    if (!set) call.code = INVALID_ARGUMENT;
    else if (!(*set = calloc(1, sizeof **set))) call.code = MEMORY;
    else (*set)->offset = file_end();
    return leave(&call);
}

EXPORT nvmlReturn nvmlEventSetFree(EventSet *set) {
    Call call;
    if (!enter(&call, __func__)) return call.code;
    if (set) free(set);
    else call.code = INVALID_ARGUMENT;
    return leave(&call);
}

EXPORT nvmlReturn nvmlDeviceGetSupportedEventTypes(const Handle *device, u64 *types) {
    Call call;
    if (!enter_gpu(&call, __func__, device)) return call.code;
    if (types) *types = call.gpu->events;
    else call.code = INVALID_ARGUMENT;
    return leave(&call);
}

static Registration *registration(EventSet *set, const char *uuid) {
    for (int i = 0; i < set->count; i++)
        if (!strcmp(set->registrations[i].uuid, uuid)) return &set->registrations[i];
    if (set->count == MAX_GPUS) return NULL;
    Registration *fresh = &set->registrations[set->count++];
    snprintf(fresh->uuid, sizeof fresh->uuid, "%s", uuid);
    fresh->since = file_end();
    return fresh;
}

EXPORT nvmlReturn nvmlDeviceRegisterEvents(const Handle *device, u64 types, EventSet *set) {
    Call call;
    if (!enter_gpu(&call, __func__, device)) return call.code;
    if (!set) call.code = INVALID_ARGUMENT;
    else if (types & ~call.gpu->events) call.code = NOT_SUPPORTED;
    else {
        Registration *entry = registration(set, call.gpu->uuid);
        if (entry) entry->types |= types;
        else call.code = MEMORY;
    }
    return leave(&call);
}

static bool wanted(const EventSet *set, const Event *event, long position) {
    for (int i = 0; i < set->count; i++) {
        const Registration *one = &set->registrations[i];
        if (!strcmp(one->uuid, event->uuid)) return (one->types & event->type) && position >= one->since;
    }
    return false;
}

/* Reads whole lines from where this set stopped; a half-written line is read the next time. */
static bool next_event(EventSet *set, Event *event) {
    char path[4096], line[LINE];
    side_file(path, sizeof path, ".events");
    long end = file_end();
    if (end < set->offset) set->offset = 0;
    if (end == set->offset) return false;
    FILE *file = fopen(path, "re");
    bool found = false;
    if (!file) return false;
    fseek(file, set->offset, SEEK_SET);
    while (!found && fgets(line, sizeof line, file) && strchr(line, '\n')) {
        long position = set->offset;
        set->offset += (long)strlen(line);
        int fields = sscanf(line, "%95s %llu %llu %u %u", event->uuid, &event->type, &event->data, &event->gi, &event->ci);
        found = fields == 5 && wanted(set, event, position);
    }
    fclose(file);
    return found;
}

static bool any_lost(const EventSet *set) {
    for (int i = 0; i < set->count; i++) {
        const Gpu *gpu = find_gpu(set->registrations[i].uuid);
        if (!gpu || gpu->lost) return true;
    }
    return false;
}

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000L + now.tv_nsec / 1000000L;
}

/* TIMEOUT: nothing yet. Events come before the error that a GPU of the set is lost. */
static nvmlReturn poll_once(EventSet *set, nvmlEventData_t *data) {
    Call call;
    Event event;
    if (!begin(&call)) return call.code;
    call.code = any_lost(set) ? GPU_IS_LOST : TIMEOUT;
    if (next_event(set, &event)) {
        *data = (nvmlEventData_t){handle_of(event.uuid), event.type, event.data, event.gi, event.ci};
        call.code = SUCCESS;
    }
    return leave(&call);
}

EXPORT nvmlReturn nvmlEventSetWait_v2(EventSet *set, nvmlEventData_t *data, unsigned timeout) {
    nvmlReturn code;
    long deadline = now_ms() + (long)timeout;
    if (!before(__func__, NULL, &code)) return code;
    if (!set || !data) return INVALID_ARGUMENT;
    for (;;) {
        code = poll_once(set, data);
        long left = deadline - now_ms();
        if (code != TIMEOUT || left <= 0) return code;
        pause_ms(left < SLICE_MS ? left : SLICE_MS);
    }
}
