/* A libnvidia-ml.so.1 without a GPU. It answers as NVML does (nvml.h), from tables that are generated out of the
 * simulator's; see state.h for what it remembers. Functions named shim... are the hand on the hardware. */
#define _GNU_SOURCE
#include "state.h"

#define API __attribute__((visibility("default")))
#define COPY(to, size, from) \
    do { if (strlen(from) >= (size)) return INSUFFICIENT_SIZE; strcpy(to, from); } while (0)

/* Handles are addresses in these arrays. */
typedef struct { unsigned gpu, gi, ci; } thing_t;
static thing_t GPUS[MAX_GPUS], MIGS[MAX_GPUS][MAX_INSTANCES][MAX_COMPUTE], GIS[MAX_GPUS][MAX_INSTANCES],
    CIS[MAX_GPUS][MAX_INSTANCES][MAX_COMPUTE];
static int initialized;
#ifndef DRIVER
#define DRIVER "580.82.07"
#endif

static int is_in(const void *h, const void *array, size_t size) {
    return (const char *)h >= (const char *)array && (const char *)h < (const char *)array + size;
}
static instance_t *instance(const thing_t *t) { return &S->cards[t->gpu].instances[t->gi]; }
static int is_mig(const thing_t *t) { return is_in(t, MIGS, sizeof MIGS); }

/* Why a call about a GPU or a MIG device can't be answered. */
#define CHECK(why) do { int refused_ = (why); if (refused_) return refused_; } while (0)
static int refused_card(unsigned gpu, const char *call) {
    if (gpu >= S->count || S->cards[gpu].gone) return INVALID_ARGUMENT;
    if (S->cards[gpu].lost) return GPU_IS_LOST;
    return refusal(gpu, call);
}
static int refused_by(const thing_t *t, const char *call) {
    if (!initialized) return UNINITIALIZED;
    if (!is_in(t, GPUS, sizeof GPUS) && !is_mig(t)) return INVALID_ARGUMENT;
    CHECK(refused_card(t->gpu, call));
    if (is_mig(t) && (!instance(t)->there || !instance(t)->compute[t->ci])) return INVALID_ARGUMENT;
    return SUCCESS;
}
static int refused_gpu_by(const thing_t *t, const char *call) {
    int why = refused_by(t, call);
    return why ? why : is_mig(t) ? INVALID_ARGUMENT : SUCCESS;
}
static int refused_gi_by(const thing_t *t, const char *call) {
    if (!initialized) return UNINITIALIZED;
    if (!is_in(t, GIS, sizeof GIS)) return INVALID_ARGUMENT;
    CHECK(refused_card(t->gpu, call));
    return instance(t)->there ? SUCCESS : INVALID_ARGUMENT;
}
#define refused(t) refused_by(t, __func__)
#define refused_gpu(t) refused_gpu_by(t, __func__)
#define refused_gi(t) refused_gi_by(t, __func__)

API int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    CHECK(attach());
    for (unsigned g = 0; g < MAX_GPUS; g++) {
        GPUS[g] = (thing_t){g, ALL, ALL};
        for (unsigned i = 0; i < MAX_INSTANCES; i++) {
            GIS[g][i] = (thing_t){g, i, ALL};
            for (unsigned c = 0; c < MAX_COMPUTE; c++) CIS[g][i][c] = MIGS[g][i][c] = (thing_t){g, i, c};
        }
    }
    initialized++;
    return SUCCESS;
}
API int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API int nvmlShutdown(void) {
    if (!initialized) return UNINITIALIZED;
    initialized--;
    return SUCCESS;
}
API const char *nvmlErrorString(int code) { (void)code; return "an error of the shim"; }
API int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    if (!initialized) return UNINITIALIZED;
    COPY(out, size, DRIVER);
    return SUCCESS;
}
API int nvmlSystemGetNVMLVersion(char *out, unsigned size) { COPY(out, size, "13." DRIVER); return SUCCESS; }
API int nvmlSystemGetCudaDriverVersion(int *out) { *out = 13000; return initialized ? SUCCESS : UNINITIALIZED; }
API int nvmlSystemGetCudaDriverVersion_v2(int *out) { return nvmlSystemGetCudaDriverVersion(out); }

/* --- GPUs ------------------------------------------------------------------------------------------------- */

API int nvmlDeviceGetCount_v2(unsigned *out) {
    *out = 0;
    for (unsigned g = 0; S && g < S->count; g++) *out += !S->cards[g].gone;
    return initialized ? SUCCESS : UNINITIALIZED;
}
API int nvmlDeviceGetHandleByIndex_v2(unsigned index, thing_t **out) {
    if (!initialized) return UNINITIALIZED;
    for (unsigned g = 0; g < S->count; g++)
        if (!S->cards[g].gone && index-- == 0) { *out = &GPUS[g]; return refused_card(g, __func__); }
    return INVALID_ARGUMENT;
}
API int nvmlDeviceGetUUID(const thing_t *t, char *out, unsigned size) {
    char uuid[64];
    CHECK(refused(t));
    if (is_mig(t)) mig_uuid(t->gpu, t->gi, t->ci, uuid, sizeof uuid);
    else gpu_uuid(t->gpu, uuid, sizeof uuid);
    COPY(out, size, uuid);
    return SUCCESS;
}
API int nvmlDeviceGetHandleByUUID(const char *uuid, thing_t **out) {
    char each[64];
    if (!initialized) return UNINITIALIZED;
    CHECK(fault(__func__, 0));
    for (unsigned g = 0; g < S->count; g++) {
        if (S->cards[g].gone) continue;
        gpu_uuid(g, each, sizeof each);
        if (!strcmp(each, uuid)) { *out = &GPUS[g]; return refused_card(g, __func__); }
        for (unsigned i = 0; i < MAX_INSTANCES; i++)
            for (unsigned c = 0; c < MAX_COMPUTE; c++) {
                mig_uuid(g, i, c, each, sizeof each);
                *out = &MIGS[g][i][c];
                if (!strcmp(each, uuid) && !refused(*out)) return SUCCESS;
            }
    }
    return strncmp(uuid, "GPU-", 4) && strncmp(uuid, "MIG-", 4) ? INVALID_ARGUMENT : NOT_FOUND;
}
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci_t;
static unsigned bus_of(unsigned gpu) { return 7 + 8 * gpu; }
API int nvmlDeviceGetPciInfo_v3(const thing_t *t, pci_t *out) {
    CHECK(refused(t));
    *out = (pci_t){.bus = bus_of(t->gpu), .id = model_of(t->gpu)->pci};
    snprintf(out->legacy, sizeof out->legacy, "0000:%02X:00.0", out->bus);
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", out->bus);
    return SUCCESS;
}
API int nvmlDeviceGetHandleByPciBusId_v2(const char *id, thing_t **out) {
    unsigned domain, bus, device;
    if (!initialized) return UNINITIALIZED;
    if (sscanf(id, "%x:%x:%x", &domain, &bus, &device) != 3) return INVALID_ARGUMENT;
    for (unsigned g = 0; g < S->count; g++)
        if (!domain && !device && bus == bus_of(g)) { *out = &GPUS[g]; return SUCCESS; }
    return NOT_FOUND;
}
API int nvmlDeviceGetName(const thing_t *t, char *out, unsigned size) {
    char name[96];
    CHECK(refused(t));
    const model_t *model = model_of(t->gpu);
    if (is_mig(t)) snprintf(name, sizeof name, "%s MIG %s", model->name, profile_of(t->gpu, instance(t)->profile)->name);
    else snprintf(name, sizeof name, "%s", model->name);
    COPY(out, size, name);
    return SUCCESS;
}
API int nvmlDeviceGetIndex(const thing_t *t, unsigned *out) {
    CHECK(refused(t));
    *out = t->gpu;
    if (!is_mig(t)) return SUCCESS;
    *out = 0;
    for (unsigned i = 0; i <= t->gi; i++)
        for (unsigned c = 0; c < MAX_COMPUTE && (i < t->gi || c < t->ci); c++) {
            const instance_t *each = &S->cards[t->gpu].instances[i];
            *out += each->there && each->compute[c];
        }
    return SUCCESS;
}
API int nvmlDeviceGetMinorNumber(const thing_t *t, unsigned *out) { CHECK(refused(t)); *out = t->gpu; return SUCCESS; }
API int nvmlDeviceGetCudaComputeCapability(const thing_t *t, int *major, int *minor) {
    CHECK(refused(t));
    *major = (int)model_of(t->gpu)->major, *minor = (int)model_of(t->gpu)->minor;
    return SUCCESS;
}
typedef struct { unsigned long long total, free, used; } memory_t;
API int nvmlDeviceGetMemoryInfo(const thing_t *t, memory_t *out) {
    CHECK(refused(t));
    unsigned mib = is_mig(t) ? profile_of(t->gpu, instance(t)->profile)->memory : model_of(t->gpu)->memory;
    *out = (memory_t){(unsigned long long)mib << 20, (unsigned long long)mib << 20, 0};
    return SUCCESS;
}
API int nvmlDeviceGetVirtualizationMode(const thing_t *t, unsigned *out) {
    CHECK(refused(t));
    *out = S->cards[t->gpu].virtualization;
    return SUCCESS;
}
#ifndef OLD_DRIVER /* what the first drivers that knew MIG did not have */
typedef struct { unsigned version, value; } addressing_mode_t;
API int nvmlDeviceGetAddressingMode(const thing_t *t, addressing_mode_t *out) {
    CHECK(refused(t));
    if (!S->cards[t->gpu].addressing) return NOT_SUPPORTED;
    out->value = S->cards[t->gpu].addressing - 1;
    return SUCCESS;
}
typedef struct { unsigned version; uint8_t cluster[16]; int status; uint32_t clique; uint8_t state; uint32_t health; } fabric_t;
API int nvmlDeviceGetGpuFabricInfoV(const thing_t *t, fabric_t *out) {
    CHECK(refused(t));
    const card_t *card = &S->cards[t->gpu];
    if (!card->fabric) return NOT_SUPPORTED;
    memset(out->cluster, card->fabric == 2 ? 0xC1 : 0, sizeof out->cluster);
    out->state = card->fabric == 2 ? 3 : 2; /* completed, in progress */
    out->clique = card->clique, out->status = SUCCESS, out->health = 0;
    return SUCCESS;
}
API int nvmlDeviceGetBrand(const thing_t *t, unsigned *out) { CHECK(refused(t)); *out = model_of(t->gpu)->brand; return SUCCESS; }
API int nvmlDeviceGetArchitecture(const thing_t *t, unsigned *out) { CHECK(refused(t)); *out = model_of(t->gpu)->architecture; return SUCCESS; }
#endif
typedef struct { unsigned id, scope; long long timestamp, latency; unsigned type; int answer; unsigned long long value; } field_t;
#define RECOVERY_ACTION 230
#ifndef OLD_DRIVER
API int nvmlDeviceGetFieldValues(const thing_t *t, int count, field_t *fields) {
    CHECK(refused_gpu(t));
    for (int i = 0; i < count; i++) {
        unsigned action = S->cards[t->gpu].recovery;
        fields[i].answer = fields[i].id == RECOVERY_ACTION && action != ALL ? SUCCESS : NOT_SUPPORTED;
        fields[i].type = 1, fields[i].value = action;
    }
    return SUCCESS;
}
#endif
API int nvmlDeviceGetComputeMode(const thing_t *t, unsigned *out) { CHECK(refused(t)); *out = S->cards[t->gpu].mode; return SUCCESS; }
API int nvmlDeviceSetComputeMode(const thing_t *t, unsigned mode) {
    CHECK(refused(t));
    if (mode > 3 || mode == 1) return INVALID_ARGUMENT;
    if (S->cards[t->gpu].mig && !is_mig(t)) return NOT_SUPPORTED;
    S->cards[t->gpu].mode = mode;
    return SUCCESS;
}
typedef struct { unsigned pid; unsigned long long memory; unsigned gi, ci; } process_info_t;
API int nvmlDeviceGetComputeRunningProcesses_v3(const thing_t *t, unsigned *count, process_info_t *out) {
    unsigned room = *count;
    CHECK(refused(t));
    *count = 0;
    for (unsigned i = 0; i < MAX_PROCESSES; i++) {
        const process_t *p = &S->cards[t->gpu].processes[i];
        if (!p->pid || (is_mig(t) && (p->gi != t->gi || p->ci != t->ci))) continue;
        if (*count < room) out[*count] = (process_info_t){p->pid, p->memory, p->gi, p->ci};
        ++*count;
    }
    return *count > room ? INSUFFICIENT_SIZE : SUCCESS;
}

/* --- MIG -------------------------------------------------------------------------------------------------- */

API int nvmlDeviceGetMigMode(const thing_t *t, unsigned *current, unsigned *pending) {
    CHECK(refused_gpu(t));
    if (!model_of(t->gpu)->nprofiles) return NOT_SUPPORTED;
    *current = S->cards[t->gpu].mig, *pending = S->cards[t->gpu].pending;
    return SUCCESS;
}
static void apply_pending(card_t *card) {
    card->mig = card->pending;
    memset(card->instances, 0, sizeof card->instances);
}
API int nvmlDeviceSetMigMode(const thing_t *t, unsigned mode, int *status) {
    CHECK(refused_gpu(t));
    if (mode > 1) return INVALID_ARGUMENT;
    if (!model_of(t->gpu)->nprofiles) return NOT_SUPPORTED;
    lock();
    card_t *card = &S->cards[t->gpu];
    int why = fault(__func__, 0), used = 0;
    for (unsigned i = 0; i < MAX_PROCESSES; i++) used |= card->processes[i].pid != 0;
    *status = SUCCESS;
    if (!why && used) *status = IN_USE;
    else if (!why) {
        card->pending = mode;
        if (card->mig != mode && model_of(t->gpu)->reset) *status = RESET_REQUIRED;
        else if (card->mig != mode) { apply_pending(card); tell(t->gpu, 0x100, 0, ALL, ALL); }
        why = fault(__func__, 1);
    }
    unlock();
    return why;
}
API int nvmlDeviceIsMigDeviceHandle(const thing_t *t, unsigned *out) {
    if (!initialized) return UNINITIALIZED;
    *out = (unsigned)is_mig(t);
    return SUCCESS;
}
API int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(const thing_t *t, thing_t **out) {
    CHECK(refused(t));
    *out = &GPUS[t->gpu];
    return is_mig(t) ? SUCCESS : INVALID_ARGUMENT;
}
API int nvmlDeviceGetGpuInstanceId(const thing_t *t, unsigned *out) { CHECK(refused(t)); *out = t->gi; return is_mig(t) ? SUCCESS : INVALID_ARGUMENT; }
API int nvmlDeviceGetComputeInstanceId(const thing_t *t, unsigned *out) { CHECK(refused(t)); *out = t->ci; return is_mig(t) ? SUCCESS : INVALID_ARGUMENT; }
API int nvmlDeviceGetMaxMigDeviceCount(const thing_t *t, unsigned *out) {
    CHECK(refused_gpu(t));
    *out = S->cards[t->gpu].mig ? model_of(t->gpu)->compute_slices : 0;
    return SUCCESS;
}
API int nvmlDeviceGetMigDeviceHandleByIndex(const thing_t *t, unsigned index, thing_t **out) {
    CHECK(refused_gpu(t));
    for (unsigned i = 0; i < MAX_INSTANCES; i++)
        for (unsigned c = 0; c < MAX_COMPUTE; c++) {
            const instance_t *each = &S->cards[t->gpu].instances[i];
            if (each->there && each->compute[c] && index-- == 0) { *out = &MIGS[t->gpu][i][c]; return SUCCESS; }
        }
    return NOT_FOUND;
}
typedef struct { unsigned sm, ce, dec, enc, jpeg, ofa, gi_slices, ci_slices; unsigned long long memory; } attributes_t;
API int nvmlDeviceGetAttributes_v2(const thing_t *t, attributes_t *out) {
    CHECK(refused(t));
    if (!is_mig(t)) return NOT_SUPPORTED;
    const profile_t *p = profile_of(t->gpu, instance(t)->profile);
    unsigned mine = instance(t)->compute[t->ci];
    *out = (attributes_t){p->sm * mine / p->slices, p->ce, p->dec, p->enc, p->jpeg, p->ofa, p->slices, mine, p->memory};
    return SUCCESS;
}
typedef struct { unsigned id, p2p, slices, most, sm, ce, dec, enc, jpeg, ofa; unsigned long long memory; } info_t;
typedef struct { unsigned version, id, p2p, slices, most, sm, ce, dec, enc, jpeg, ofa; unsigned long long memory; char name[96]; } info_v2_t;
static int find_slot(const thing_t *t, unsigned slot, const profile_t **out, const char *call) {
    CHECK(refused_gpu_by(t, call));
    const model_t *model = model_of(t->gpu);
    if (slot >= 0x12 && model->nprofiles) return INVALID_ARGUMENT;
    for (unsigned i = 0; i < model->nprofiles; i++)
        if (model->profiles[i].slot == slot) { *out = &model->profiles[i]; return SUCCESS; }
    return NOT_SUPPORTED;
}
API int nvmlDeviceGetGpuInstanceProfileInfo(const thing_t *t, unsigned slot, info_t *out) {
    const profile_t *p = NULL;
    CHECK(find_slot(t, slot, &p, __func__));
    *out = (info_t){p->id, 0, p->slices, p->most, p->sm, p->ce, p->dec, p->enc, p->jpeg, p->ofa, p->memory};
    return SUCCESS;
}
#ifndef OLD_DRIVER
static int fill_v2(const profile_t *p, info_v2_t *out) {
    if (out->version != 0x02000098) return VERSION_MISMATCH;
    *out = (info_v2_t){out->version, p->id, 0, p->slices, p->most, p->sm, p->ce, p->dec, p->enc, p->jpeg, p->ofa, p->memory, ""};
    snprintf(out->name, sizeof out->name, "MIG %s", p->name);
    return SUCCESS;
}
API int nvmlDeviceGetGpuInstanceProfileInfoV(const thing_t *t, unsigned slot, info_v2_t *out) {
    const profile_t *p = NULL;
    CHECK(find_slot(t, slot, &p, __func__));
    return fill_v2(p, out);
}
API int nvmlDeviceGetGpuInstanceProfileInfoByIdV(const thing_t *t, unsigned id, info_v2_t *out) {
    CHECK(refused_gpu(t));
    const profile_t *p = profile_of(t->gpu, id);
    return p ? fill_v2(p, out) : NOT_SUPPORTED;
}
#endif
typedef struct { unsigned start, size; } placement_t;
API int nvmlDeviceGetGpuInstancePossiblePlacements_v2(const thing_t *t, unsigned id, placement_t *out, unsigned *count) {
    CHECK(refused_gpu(t));
    const profile_t *p = profile_of(t->gpu, id);
    if (!p) return NOT_SUPPORTED;
    if (S->cards[t->gpu].placeless_code && S->cards[t->gpu].placeless == id) return S->cards[t->gpu].placeless_code;
    if (out && *count < p->nstarts) return INSUFFICIENT_SIZE;
    *count = p->nstarts;
    for (unsigned i = 0; out && i < p->nstarts; i++) out[i] = (placement_t){p->starts[i], p->size};
    return SUCCESS;
}
static int fits(unsigned gpu, const profile_t *new, unsigned start) {
    unsigned slices = new->slices, same = 0;
    for (unsigned i = 0; i < MAX_INSTANCES; i++) {
        const instance_t *each = &S->cards[gpu].instances[i];
        if (!each->there) continue;
        const profile_t *p = profile_of(gpu, each->profile);
        slices += p->slices, same += p == new;
        if (each->start < start + new->size && start < each->start + p->size) return 0;
    }
    return slices <= model_of(gpu)->compute_slices && same < new->most;
}
static int create_instance(const thing_t *t, const profile_t *p, unsigned start, thing_t **out) {
    /* The card numbers its instances by the tree that halves its memory. */
    unsigned id = model_of(t->gpu)->memory_slices / p->size - 1 + start / p->size;
    if (!fits(t->gpu, p, start)) return INSUFFICIENT_RESOURCES;
    S->cards[t->gpu].instances[id] = (instance_t){.there = 1, .profile = p->id, .start = start};
    *out = &GIS[t->gpu][id];
    tell(t->gpu, 0x100, 0, ALL, ALL);
    return SUCCESS;
}
static int creatable(const thing_t *t, unsigned id, const profile_t **out) {
    CHECK(refused_gpu(t));
    if (!S->cards[t->gpu].mig) return NOT_SUPPORTED;
    *out = profile_of(t->gpu, id);
    return *out ? SUCCESS : NOT_SUPPORTED;
}
API int nvmlDeviceCreateGpuInstanceWithPlacement(const thing_t *t, unsigned id, const placement_t *place, thing_t **out) {
    const profile_t *p = NULL;
    int known = 0;
    CHECK(creatable(t, id, &p));
    for (unsigned i = 0; i < p->nstarts; i++) known |= p->starts[i] == place->start && p->size == place->size;
    if (!known) return INVALID_ARGUMENT;
    lock();
    int why = fault(__func__, 0);
    if (!why) why = create_instance(t, p, place->start, out);
    if (!why) why = fault(__func__, 1);
    unlock();
    return why;
}
API int nvmlDeviceCreateGpuInstance(const thing_t *t, unsigned id, thing_t **out) {
    const profile_t *p = NULL;
    int why = INSUFFICIENT_RESOURCES;
    CHECK(creatable(t, id, &p));
    lock();
    for (unsigned i = p->nstarts; why && i--;) why = create_instance(t, p, p->starts[i], out);
    unlock();
    return why;
}
API int nvmlDeviceGetGpuInstances(const thing_t *t, unsigned id, thing_t **out, unsigned *count) {
    CHECK(refused_gpu(t));
    if (!S->cards[t->gpu].mig) return NOT_SUPPORTED;
    *count = 0;
    for (unsigned i = 0; i < MAX_INSTANCES; i++)
        if (S->cards[t->gpu].instances[i].there && S->cards[t->gpu].instances[i].profile == id) out[(*count)++] = &GIS[t->gpu][i];
    return SUCCESS;
}
API int nvmlDeviceGetGpuInstanceById(const thing_t *t, unsigned id, thing_t **out) {
    CHECK(refused_gpu(t));
    if (!S->cards[t->gpu].mig) return NOT_SUPPORTED;
    if (id >= MAX_INSTANCES || !S->cards[t->gpu].instances[id].there) return NOT_FOUND;
    *out = &GIS[t->gpu][id];
    return SUCCESS;
}
API int nvmlDeviceGetGpuInstanceRemainingCapacity(const thing_t *t, unsigned id, unsigned *out) {
    const profile_t *p = NULL;
    CHECK(creatable(t, id, &p));
    *out = 0;
    for (unsigned i = 0; i < p->nstarts; i++) *out += (unsigned)fits(t->gpu, p, p->starts[i]);
    return SUCCESS;
}
typedef struct { const thing_t *device; unsigned id, profile; placement_t placement; } gi_info_t;
API int nvmlGpuInstanceGetInfo(const thing_t *t, gi_info_t *out) {
    CHECK(refused_gi(t));
    const profile_t *p = profile_of(t->gpu, instance(t)->profile);
    *out = (gi_info_t){&GPUS[t->gpu], t->gi, p->id, {instance(t)->start, p->size}};
    return SUCCESS;
}
API int nvmlGpuInstanceDestroy(const thing_t *t) {
    CHECK(refused_gi(t));
    lock();
    int why = fault(__func__, 0);
    for (unsigned c = 0; c < MAX_COMPUTE && !why; c++) why = instance(t)->compute[c] ? IN_USE : SUCCESS;
    if (!why) { instance(t)->there = 0; tell(t->gpu, 0x100, 0, ALL, ALL); why = fault(__func__, 1); }
    unlock();
    return why;
}

/* --- compute instances ------------------------------------------------------------------------------------ */

static const unsigned SLICES[] = {1, 2, 3, 4, 7}; /* by slot, which is the id too */
static int compute_profile(const thing_t *t, unsigned slot, unsigned *slices, const char *call) {
    CHECK(refused_gi_by(t, call));
    if (slot > 8) return INVALID_ARGUMENT;
    if (slot > 4 || SLICES[slot] > profile_of(t->gpu, instance(t)->profile)->slices) return NOT_SUPPORTED;
    *slices = SLICES[slot];
    return SUCCESS;
}
typedef struct { unsigned id, slices, most, sm, ce, dec, enc, jpeg, ofa; } ci_profile_t;
typedef struct { unsigned version, id, slices, most, sm, ce, dec, enc, jpeg, ofa; char name[96]; } ci_profile_v2_t;
API int nvmlGpuInstanceGetComputeInstanceProfileInfo(const thing_t *t, unsigned slot, unsigned engine, ci_profile_t *out) {
    unsigned mine = 0;
    if (engine) return INVALID_ARGUMENT;
    CHECK(compute_profile(t, slot, &mine, __func__));
    const profile_t *p = profile_of(t->gpu, instance(t)->profile);
    *out = (ci_profile_t){slot, mine, p->slices / mine, p->sm * mine / p->slices, p->ce, p->dec, p->enc, p->jpeg, p->ofa};
    return SUCCESS;
}
#ifndef OLD_DRIVER
API int nvmlGpuInstanceGetComputeInstanceProfileInfoV(const thing_t *t, unsigned slot, unsigned engine, ci_profile_v2_t *out) {
    ci_profile_t v1;
    if (out->version != 0x02000088) return VERSION_MISMATCH;
    CHECK(nvmlGpuInstanceGetComputeInstanceProfileInfo(t, slot, engine, &v1));
    memcpy(&out->id, &v1, sizeof v1);
    const profile_t *p = profile_of(t->gpu, instance(t)->profile);
    if (v1.slices == p->slices) snprintf(out->name, sizeof out->name, "MIG %s", p->name);
    else snprintf(out->name, sizeof out->name, "MIG %uc.%s", v1.slices, p->name);
    return SUCCESS;
}
#endif
API int nvmlGpuInstanceCreateComputeInstance(const thing_t *t, unsigned id, thing_t **out) {
    unsigned wanted = 0, used = 0, free = ALL;
    CHECK(compute_profile(t, id, &wanted, __func__));
    lock();
    int why = fault(__func__, 0);
    for (unsigned c = MAX_COMPUTE; c--;) {
        used += instance(t)->compute[c];
        if (!instance(t)->compute[c]) free = c;
    }
    if (!why && used + wanted > profile_of(t->gpu, instance(t)->profile)->slices) why = INSUFFICIENT_RESOURCES;
    if (!why) {
        instance(t)->compute[free] = wanted;
        *out = &CIS[t->gpu][t->gi][free];
        tell(t->gpu, 0x100, 0, ALL, ALL);
        why = fault(__func__, 1);
    }
    unlock();
    return why;
}
API int nvmlGpuInstanceGetComputeInstances(const thing_t *t, unsigned id, thing_t **out, unsigned *count) {
    unsigned wanted = 0;
    CHECK(compute_profile(t, id, &wanted, __func__));
    *count = 0;
    for (unsigned c = 0; c < MAX_COMPUTE; c++)
        if (instance(t)->compute[c] == wanted) out[(*count)++] = &CIS[t->gpu][t->gi][c];
    return SUCCESS;
}
API int nvmlGpuInstanceGetComputeInstanceById(const thing_t *t, unsigned id, thing_t **out) {
    CHECK(refused_gi(t));
    if (id >= MAX_COMPUTE || !instance(t)->compute[id]) return NOT_FOUND;
    *out = &CIS[t->gpu][t->gi][id];
    return SUCCESS;
}
static int refused_ci_by(const thing_t *t, const char *call) {
    if (!initialized) return UNINITIALIZED;
    if (!is_in(t, CIS, sizeof CIS)) return INVALID_ARGUMENT;
    CHECK(refused_card(t->gpu, call));
    return instance(t)->there && instance(t)->compute[t->ci] ? SUCCESS : INVALID_ARGUMENT;
}
typedef struct { const thing_t *device, *gi; unsigned id, profile; placement_t placement; } ci_info_t;
#define refused_ci(t) refused_ci_by(t, __func__)
API int nvmlComputeInstanceGetInfo_v2(const thing_t *t, ci_info_t *out) {
    unsigned slices, slot = 0;
    CHECK(refused_ci(t));
    slices = instance(t)->compute[t->ci];
    while (SLICES[slot] != slices) slot++;
    *out = (ci_info_t){&MIGS[t->gpu][t->gi][t->ci], &GIS[t->gpu][t->gi], t->ci, slot, {t->ci, slices}};
    return SUCCESS;
}
API int nvmlComputeInstanceDestroy(const thing_t *t) {
    CHECK(refused_ci(t));
    lock();
    int why = fault(__func__, 0);
    for (unsigned i = 0; i < MAX_PROCESSES && !why; i++) {
        const process_t *p = &S->cards[t->gpu].processes[i];
        why = p->pid && p->gi == t->gi && p->ci == t->ci ? IN_USE : SUCCESS;
    }
    if (!why) { instance(t)->compute[t->ci] = 0; tell(t->gpu, 0x100, 0, ALL, ALL); why = fault(__func__, 1); }
    unlock();
    return why;
}

/* --- events ----------------------------------------------------------------------------------------------- */

#define EVENTS 0x910BULL
typedef struct { uint64_t heard, types[MAX_GPUS]; } set_t;
typedef struct { const thing_t *device; unsigned long long type, data; unsigned gi, ci; } event_data_t;
API int nvmlEventSetCreate(set_t **out) {
    if (!initialized) return UNINITIALIZED;
    *out = calloc(1, sizeof **out);
    (*out)->heard = S->told;
    return SUCCESS;
}
API int nvmlEventSetFree(set_t *set) { free(set); return SUCCESS; }
API int nvmlDeviceGetSupportedEventTypes(const thing_t *t, unsigned long long *out) { CHECK(refused_gpu(t)); *out = EVENTS; return SUCCESS; }
API int nvmlDeviceRegisterEvents(const thing_t *t, unsigned long long types, set_t *set) {
    CHECK(refused_gpu(t));
    CHECK(fault(__func__, 0));
    if (types & ~EVENTS) return NOT_SUPPORTED;
    set->types[t->gpu] |= types;
    return SUCCESS;
}
static int next_event(set_t *set, event_data_t *out) {
    if (!initialized) return UNINITIALIZED;
    for (unsigned g = 0; g < S->count; g++)
        if (set->types[g] && S->cards[g].lost) return GPU_IS_LOST;
    if (S->told > set->heard + MAX_EVENTS) set->heard = S->told - MAX_EVENTS;
    while (set->heard < S->told) {
        const event_t *e = &S->events[set->heard++ % MAX_EVENTS];
        if (!(set->types[e->gpu] & e->type)) continue;
        *out = (event_data_t){&GPUS[e->gpu], e->type, e->data, e->gi, e->ci};
        return SUCCESS;
    }
    return TIMEOUT;
}
API int nvmlEventSetWait_v2(set_t *set, event_data_t *out, unsigned milliseconds) {
    for (unsigned waited = 0;; waited += 5) {
        lock();
        int answer = next_event(set, out);
        unlock();
        if (answer != TIMEOUT || waited >= milliseconds) return answer;
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
}

/* --- the hand on the hardware: for tests, from any process ------------------------------------------------- */

#define TOUCH(gpu) do { CHECK(attach()); if ((gpu) >= S->count) return INVALID_ARGUMENT; } while (0)
API int shimEvent(unsigned gpu, unsigned long long type, unsigned long long data, unsigned gi, unsigned ci) {
    TOUCH(gpu);
    lock(); tell(gpu, type, data, gi, ci); unlock();
    return SUCCESS;
}
API int shimLose(unsigned gpu) { TOUCH(gpu); S->cards[gpu].lost = 1; return SUCCESS; }
API int shimRemove(unsigned gpu) { TOUCH(gpu); S->cards[gpu].gone = 1; return SUCCESS; }
API int shimRefuse(unsigned gpu, const char *call, int code, int skip, int times) {
    TOUCH(gpu);
    lock();
    card_t *card = &S->cards[gpu];
    snprintf(card->refusing, sizeof card->refusing, "%s", call);
    card->refusal = code, card->refusal_skip = skip, card->refusals = times;
    unlock();
    return SUCCESS;
}
API int shimRefusePlacements(unsigned gpu, unsigned profile, int code) {
    TOUCH(gpu);
    lock(); S->cards[gpu].placeless = profile, S->cards[gpu].placeless_code = code; unlock();
    return SUCCESS;
}
API int shimReset(unsigned gpu) {
    TOUCH(gpu);
    lock();
    card_t *card = &S->cards[gpu];
    card->lost = card->gone = card->mode = card->slice = 0;
    if (card->recovery != ALL) card->recovery = 0;
    card->refusal = 0;
    memset(card->processes, 0, sizeof card->processes);
    apply_pending(card);
    tell(gpu, 0x100, 0, ALL, ALL);
    unlock();
    return SUCCESS;
}
API int shimUse(unsigned gpu, unsigned place, unsigned pid, unsigned long long memory, unsigned gi, unsigned ci) {
    TOUCH(gpu);
    if (place >= MAX_PROCESSES) return INVALID_ARGUMENT;
    lock(); S->cards[gpu].processes[place] = (process_t){pid, gi, ci, memory}; unlock();
    return SUCCESS;
}
API int shimVirtualization(unsigned gpu, unsigned mode) {
    TOUCH(gpu);
    lock();
    S->cards[gpu].virtualization = mode;
    unlock();
    return SUCCESS;
}
API int shimMemoryAndFabric(unsigned gpu, unsigned addressing, unsigned fabric, unsigned clique) {
    TOUCH(gpu);
    lock();
    S->cards[gpu].addressing = addressing, S->cards[gpu].fabric = fabric, S->cards[gpu].clique = clique;
    unlock();
    return SUCCESS;
}
API int shimRecovery(unsigned gpu, unsigned action) {
    TOUCH(gpu);
    lock();
    S->cards[gpu].recovery = action;
    if (action != ALL) tell(gpu, 0x8000, 0, ALL, ALL);
    unlock();
    return SUCCESS;
}
API int shimTimeSlice(unsigned gpu, unsigned slice) { TOUCH(gpu); S->cards[gpu].slice = slice; return SUCCESS; }
API int shimFault(const char *call, int skip, int code, int after) {
    TOUCH(0);
    lock();
    snprintf(S->fault, sizeof S->fault, "%s", call);
    S->fault_skip = skip, S->fault_code = code, S->fault_after = after;
    unlock();
    return SUCCESS;
}
