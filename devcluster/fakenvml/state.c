/* Keeps the state file in memory and reads it again when it has been replaced. */
#include "fakenvml.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct stat seen;
State *state;

void lock(void) { pthread_mutex_lock(&mutex); }
void unlock(void) { pthread_mutex_unlock(&mutex); }

/* The thread that held the lock does not exist in a forked child. */
static void fresh_lock(void) { pthread_mutex_init(&mutex, NULL); }
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, fresh_lock); }

const char *state_path(void) {
    const char *path = getenv("FAKE_NVML_STATE");
    return path && *path ? path : NULL;
}

void side_file(char *path, size_t length, const char *suffix) {
    const char *base = state_path();
    snprintf(path, length, "%s%s", base ? base : "/nonexistent", suffix);
}

void pause_ms(long milliseconds) {
    struct timespec rest = {milliseconds / 1000, (milliseconds % 1000) * 1000000L};
    while (nanosleep(&rest, &rest) && errno == EINTR) {}
}

static bool unchanged(const struct stat *now) {
    return state && now->st_ino == seen.st_ino && now->st_dev == seen.st_dev && now->st_size == seen.st_size &&
           now->st_mtim.tv_sec == seen.st_mtim.tv_sec && now->st_mtim.tv_nsec == seen.st_mtim.tv_nsec;
}

static char *read_all(int file, size_t size) {
    char *text = malloc(size + 1);
    size_t have = 0;
    while (text && have < size) {
        ssize_t got = read(file, text + have, size - have);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        have += (size_t)got;
    }
    if (text) text[have] = 0;
    return text;
}

bool refresh(void) {
    struct stat now;
    const char *path = state_path();
    if (!path || stat(path, &now)) return false;
    if (unchanged(&now)) return true;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    char *text = fstat(file, &now) ? NULL : read_all(file, (size_t)now.st_size);
    close(file);
    if (!state) state = calloc(1, sizeof *state);
    if (text && state) {
        parse_state(state, text);
        seen = now;
    }
    free(text);
    return state != NULL;
}
