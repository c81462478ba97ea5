/* System events: GPUs that are bound to the driver, or unbound. They stand in the event file under the name SYSTEM:
 * `SYSTEM <1 unbound, 2 bound> <gpu id> 0 0`. A set sees what is appended after it was made. */
#include "fakenvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct { long offset; u64 types; } SystemSet;
typedef struct { unsigned version; SystemSet *set; } SetRequest;
typedef struct { unsigned version; u64 types; SystemSet *set; } RegisterRequest;
typedef struct { u64 type; unsigned gpu; } SystemEvent;
typedef struct { unsigned version, timeout; SystemSet *set; SystemEvent *data; unsigned size, found; } WaitRequest;

_Static_assert(sizeof(SetRequest) == 16, "nvmlSystemEventSetCreateRequest_t");
_Static_assert(sizeof(RegisterRequest) == 24, "nvmlSystemRegisterEventRequest_t");
_Static_assert(sizeof(WaitRequest) == 32, "nvmlSystemEventSetWaitRequest_t");

static FILE *events(long *end) {
    char path[4096];
    struct stat now;
    side_file(path, sizeof path, ".events");
    FILE *file = fopen(path, "re");
    *end = file && !fstat(fileno(file), &now) ? (long)now.st_size : 0;
    return file;
}

EXPORT nvmlReturn nvmlSystemEventSetCreate(SetRequest *request) {
    Call call;
    if (!enter(&call, __func__)) return call.code;
    if (!request) call.code = INVALID_ARGUMENT;
    else if (!(request->set = calloc(1, sizeof *request->set))) call.code = MEMORY;
    else {
        FILE *file = events(&request->set->offset);
        if (file) fclose(file);
    }
    return leave(&call);
}

EXPORT nvmlReturn nvmlSystemEventSetFree(SetRequest *request) {
    Call call;
    if (!enter(&call, __func__)) return call.code;
    if (request && request->set) free(request->set);
    else call.code = INVALID_ARGUMENT;
    return leave(&call);
}

EXPORT nvmlReturn nvmlSystemRegisterEvents(RegisterRequest *request) {
    Call call;
    if (!enter(&call, __func__)) return call.code;
    if (request && request->set) request->set->types |= request->types;
    else call.code = INVALID_ARGUMENT;
    return leave(&call);
}

/* It never waits: those who ask for both kinds of events wait for the others. */
EXPORT nvmlReturn nvmlSystemEventSetWait(WaitRequest *request) {
    Call call;
    char line[256], name[96];
    long end;
    if (!enter(&call, __func__)) return call.code;
    if (!request || !request->set || !request->data) {
        call.code = INVALID_ARGUMENT;
        return leave(&call);
    }
    FILE *file = events(&end);
    request->found = 0;
    if (end < request->set->offset) request->set->offset = 0;
    if (file) fseek(file, request->set->offset, SEEK_SET);
    while (file && request->found < request->size && fgets(line, sizeof line, file) && strchr(line, '\n')) {
        SystemEvent *event = &request->data[request->found];
        request->set->offset += (long)strlen(line);
        if (sscanf(line, "%95s %llu %u", name, &event->type, &event->gpu) == 3 && !strcmp(name, "SYSTEM"))
            request->found += (event->type & request->set->types) != 0;
    }
    if (file) fclose(file);
    call.code = request->found ? SUCCESS : TIMEOUT;
    return leave(&call);
}
