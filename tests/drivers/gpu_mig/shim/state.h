/* What the cards of the shim are like: one file that all processes map, so that a process that is killed leaves
 * the hardware as it was, and everybody sees the same. The file's lock is the kernel's: it dies with its holder. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 6, INSUFFICIENT_SIZE,
       DRIVER_NOT_LOADED = 9, TIMEOUT, GPU_IS_LOST = 15, RESET_REQUIRED, IN_USE = 19, INSUFFICIENT_RESOURCES = 23,
       VERSION_MISMATCH = 25 };
enum { MAX_GPUS = 16, MAX_INSTANCES = 15, MAX_COMPUTE = 7, MAX_PROCESSES = 16, MAX_EVENTS = 128, MAX_STARTS = 8 };
#define ALL 0xFFFFFFFFu

typedef struct {
    unsigned slot, id, memory, slices, sm, ce, dec, enc, jpeg, ofa, most, size, nstarts, starts[MAX_STARTS];
    const char *name;
} profile_t;

typedef struct {
    const char *key, *name;
    unsigned brand, architecture, major, minor, pci, memory, compute_slices, memory_slices, reset, nprofiles;
    const profile_t *profiles;
} model_t;

#include "tables.h"

typedef struct { int there; unsigned profile, start, compute[MAX_COMPUTE]; /* slices, 0: none */ } instance_t;
typedef struct { unsigned pid, gi, ci; uint64_t memory; } process_t;
typedef struct {
    unsigned model, mig, pending, lost, gone, mode, slice;
    unsigned virtualization; /* nvmlGpuVirtualizationMode_t */
    unsigned addressing; /* nvmlDeviceAddressingModeType_t, and one; 0: not supported */
    unsigned fabric, clique; /* 1: it has a fabric, 2: and is registered; its clique */
    unsigned recovery; /* the recovery action; ALL: the driver does not report it */
    char refusing[64]; /* the call about it that is refused; empty: every one */
    int refusal, refusal_skip, refusals; /* the answer, 0: none; after so many calls; how often, -1: always */
    unsigned placeless; /* the profile whose placements are refused */
    int placeless_code; /* the answer, 0: none is */
    instance_t instances[MAX_INSTANCES];
    process_t processes[MAX_PROCESSES];
} card_t;
typedef struct { uint64_t number, type, data; unsigned gpu, gi, ci; } event_t;
typedef struct {
    unsigned ready, count;
    uint64_t told;
    card_t cards[MAX_GPUS];
    event_t events[MAX_EVENTS];
    char fault[80]; /* the call that fails, after so many that don't; code -9 kills the process */
    int fault_skip, fault_code, fault_after;
} state_t;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static state_t *S;
static int file = -1;
static char attached[512];

static void lock(void) { pthread_mutex_lock(&mutex); if (file >= 0) flock(file, LOCK_EX); }
static void unlock(void) { if (file >= 0) flock(file, LOCK_UN); pthread_mutex_unlock(&mutex); }

static void first_state(void) {
    const char *cards = getenv("NVML_SHIM_CARDS"), *mig = getenv("NVML_SHIM_MIG");
    char names[256];
    snprintf(names, sizeof names, "%s", cards ? cards : MODELS[0].key);
    for (char *save, *name = strtok_r(names, ",", &save); name; name = strtok_r(NULL, ",", &save))
        for (unsigned i = 0; i < sizeof MODELS / sizeof *MODELS; i++)
            if (!strcmp(MODELS[i].key, name) && S->count < MAX_GPUS) {
                card_t *card = &S->cards[S->count++];
                card->model = i;
                card->mig = card->pending = MODELS[i].nprofiles && mig && *mig == '1';
            }
    S->ready = 1;
}

/* Maps the file that NVML_SHIM_STATE names; another one than before if it names another one now. */
static int attach(void) {
    const char *path = getenv("NVML_SHIM_STATE");
    if (!path) return DRIVER_NOT_LOADED;
    lock();
    if (!S || strcmp(path, attached)) {
        if (S) { munmap(S, sizeof *S); flock(file, LOCK_UN); close(file); S = NULL; }
        file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (file >= 0) flock(file, LOCK_EX);
        if (file < 0 || ftruncate(file, sizeof *S)) { unlock(); return DRIVER_NOT_LOADED; }
        S = mmap(NULL, sizeof *S, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        snprintf(attached, sizeof attached, "%s", path);
        if (!S->ready) first_state();
    }
    unlock();
    return SUCCESS;
}

static void tell(unsigned gpu, uint64_t type, uint64_t data, unsigned gi, unsigned ci) {
    event_t *event = &S->events[S->told % MAX_EVENTS];
    *event = (event_t){S->told + 1, type, data, gpu, gi, ci};
    S->told++;
}

static const model_t *model_of(unsigned gpu) { return &MODELS[S->cards[gpu].model]; }
static const profile_t *profile_of(unsigned gpu, unsigned id) {
    const model_t *model = model_of(gpu);
    for (unsigned i = 0; i < model->nprofiles; i++)
        if (model->profiles[i].id == id) return &model->profiles[i];
    return NULL;
}

/* Numbers that look like those of a UUID, the same for the same words. */
static void uuid_of(char *out, size_t size, const char *prefix, const char *words) {
    uint64_t a = 0xcbf29ce484222325u, b;
    for (; *words; words++) a = (a ^ (unsigned char)*words) * 0x100000001b3u;
    b = (a ^ (a >> 31)) * 0x94d049bb133111ebu;
    b ^= b >> 29;
    snprintf(out, size, "%s-%08x-%04x-5%03x-a%03x-%012llx", prefix, (unsigned)a, (unsigned)(a >> 32) & 0xffff,
             (unsigned)(a >> 48) & 0xfff, (unsigned)b & 0xfff, (unsigned long long)(b >> 16));
}
static void gpu_uuid(unsigned gpu, char *out, size_t size) {
    char words[96];
    const char *node = getenv("NVML_SHIM_NODE");
    snprintf(words, sizeof words, "%s/%u", node ? node : "node", gpu);
    uuid_of(out, size, "GPU", words);
}
static void mig_uuid(unsigned gpu, unsigned gi, unsigned ci, char *out, size_t size) {
    char words[160];
    gpu_uuid(gpu, words, 96);
    snprintf(words + strlen(words), 32, "/%u/%u", gi, ci);
    uuid_of(out, size, "MIG", words);
}

/* Whether a call about a GPU is refused, and with what. */
static int refusal(unsigned gpu, const char *call) {
    card_t *card = &S->cards[gpu];
    if (!card->refusal || !card->refusals || (*card->refusing && strcmp(card->refusing, call))) return SUCCESS;
    if (card->refusal_skip-- > 0) return SUCCESS;
    if (card->refusals > 0) card->refusals--;
    return card->refusal;
}

/* Faults. Calls that change something, and some others, ask first; the former again when they have changed it. */
static int fault(const char *call, int after) {
    if (strcmp(S->fault, call) || S->fault_after != after || S->fault_skip-- > 0) return SUCCESS;
    S->fault[0] = 0;
    if (S->fault_code == -9) raise(SIGKILL);
    return S->fault_code;
}
