/* Reads the text of the state file into a State. The format is described in fakenvml.h. */
#include "fakenvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { TEXT, INT, UNSIGNED, BYTES } Kind;
typedef struct { const char *key; Kind kind; size_t offset, length; } Field;

#define FIELD(type, key, kind, member) {key, kind, offsetof(type, member), sizeof(((type *)0)->member)}

static const Field STATE_FIELDS[] = {
    FIELD(State, "driver", TEXT, driver), FIELD(State, "nvml", TEXT, nvml), FIELD(State, "cuda", INT, cuda),
    FIELD(State, "init", INT, init), FIELD(State, "log", INT, log), {0},
};
static const Field GPU_FIELDS[] = {
    FIELD(Gpu, "uuid", TEXT, uuid), FIELD(Gpu, "name", TEXT, name), FIELD(Gpu, "serial", TEXT, serial),
    FIELD(Gpu, "pci", TEXT, pci), FIELD(Gpu, "place", TEXT, place), FIELD(Gpu, "pci_device", UNSIGNED, pci_device),
    FIELD(Gpu, "pci_subsystem", UNSIGNED, pci_subsystem), FIELD(Gpu, "minor", UNSIGNED, minor),
    FIELD(Gpu, "brand", UNSIGNED, brand), FIELD(Gpu, "architecture", UNSIGNED, architecture),
    FIELD(Gpu, "total", BYTES, total), FIELD(Gpu, "used", BYTES, used), FIELD(Gpu, "reserved", BYTES, reserved),
    FIELD(Gpu, "recovery", INT, recovery), FIELD(Gpu, "lost", INT, lost),
    FIELD(Gpu, "rows_pending", INT, rows_pending), FIELD(Gpu, "rows_failed", INT, rows_failed), FIELD(Gpu, "events", BYTES, events),
    FIELD(Gpu, "gpu_util", UNSIGNED, gpu_util), FIELD(Gpu, "memory_util", UNSIGNED, memory_util),
    FIELD(Gpu, "temperature", UNSIGNED, temperature), FIELD(Gpu, "power", UNSIGNED, power),
    FIELD(Gpu, "mig_mode", INT, mig_mode), FIELD(Gpu, "mig_max", UNSIGNED, mig_max), {0},
};
static const Field MIG_FIELDS[] = {
    FIELD(Mig, "uuid", TEXT, uuid), FIELD(Mig, "profile", TEXT, profile), FIELD(Mig, "gi", UNSIGNED, gi),
    FIELD(Mig, "ci", UNSIGNED, ci), FIELD(Mig, "profile_id", UNSIGNED, profile_id),
    FIELD(Mig, "memory_mib", BYTES, memory_mib), FIELD(Mig, "start", UNSIGNED, start), FIELD(Mig, "size", UNSIGNED, size),
    FIELD(Mig, "slices", UNSIGNED, slices), FIELD(Mig, "ci_slices", UNSIGNED, ci_slices),
    FIELD(Mig, "processors", UNSIGNED, processors), FIELD(Mig, "copy_engines", UNSIGNED, copy_engines),
    FIELD(Mig, "decoders", UNSIGNED, decoders), {0},
};

static bool put_field(void *into, const Field *fields, const char *key, const char *value) {
    for (const Field *field = fields; field->key; field++) {
        char *member = (char *)into + field->offset;
        if (strcmp(field->key, key)) continue;
        if (field->kind == TEXT) snprintf(member, field->length, "%s", value);
        if (field->kind == INT) *(int *)member = atoi(value);
        if (field->kind == UNSIGNED) *(unsigned *)member = (unsigned)strtoul(value, NULL, 0);
        if (field->kind == BYTES) *(u64 *)member = strtoull(value, NULL, 0);
        return true;
    }
    return false;
}

static void put_mig(Gpu *gpu, const char *key, const char *value) {
    int number, length = 0;
    if (sscanf(key, "%d.%n", &number, &length) != 1 || !length || number < 0 || number >= MAX_MIG) return;
    put_field(&gpu->migs[number], MIG_FIELDS, key + length, value);
    if (number >= gpu->mig_count) gpu->mig_count = number + 1;
}

static void put_process(Gpu *gpu, const char *value) {
    if (gpu->process_count == MAX_PROCESSES) return;
    Process *process = &gpu->processes[gpu->process_count];
    if (sscanf(value, "%u %llu %u %u %c", &process->pid, &process->bytes, &process->gi, &process->ci, &process->kind) == 5)
        gpu->process_count++;
}

static void put_gpu(State *into, const char *key, const char *value) {
    int number, length = 0;
    if (sscanf(key, "%d.%n", &number, &length) != 1 || !length || number < 0 || number >= MAX_GPUS) return;
    Gpu *gpu = &into->gpus[number];
    key += length;
    if (number >= into->gpu_count) into->gpu_count = number + 1;
    if (put_field(gpu, GPU_FIELDS, key, value)) return;
    if (!strcmp(key, "compute")) sscanf(value, "%d.%d", &gpu->compute_major, &gpu->compute_minor);
    if (!strncmp(key, "process.", 8)) put_process(gpu, value);
    if (!strncmp(key, "mig.", 4)) put_mig(gpu, key + 4, value);
    if (!strncmp(key, "link.", 5) && sscanf(key + 5, "%d", &number) == 1 && number >= 0 && number < MAX_LINKS) {
        snprintf(gpu->links[number], sizeof gpu->links[number], "%s", value);
        gpu->link_count++;
    }
}

static void put_rule(State *into, const char *key, const char *value) {
    if (into->rule_count == MAX_RULES) return;
    Rule *rule = &into->rules[into->rule_count];
    if (sscanf(key, "%63[^.].%7[^@]@%95s", rule->function, rule->what, rule->uuid) < 2) return;
    rule->value = strtod(value, NULL);
    into->rule_count++;
}

void parse_state(State *into, char *text) {
    memset(into, 0, sizeof *into);
    char *rest = text;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *value = strchr(line, '=');
        if (!value) continue;
        *value++ = 0;
        if (!strncmp(line, "gpu.", 4)) put_gpu(into, line + 4, value);
        else if (!strncmp(line, "call.", 5)) put_rule(into, line + 5, value);
        else put_field(into, STATE_FIELDS, line, value);
    }
}
