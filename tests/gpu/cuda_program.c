/* Runs on the first GPU that it sees, and prints what it finds: `cuda-program ACTION [NUMBER]`.
 *
 *   add            adds numbers on the GPU, and prints the sum
 *   allocate MIB   allocates memory of the GPU, and prints the status
 *   fault          writes to an address that is not mapped, and prints the status
 *   hold           allocates 64 MiB, prints "ready", and waits for the end of its input
 *
 * libcuda is loaded as CUDA programs load it. Neither CUDA's headers nor its compiler are needed.
 */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long address;

enum { MULTIPROCESSOR_COUNT = 16, BLOCKS = 64, THREADS = 64 };

static const char KERNEL[] =
    ".version 6.3\n"
    ".target sm_75\n"
    ".address_size 64\n"
    ".visible .entry add_one(.param .u64 sum)\n"
    "{\n"
    "    .reg .u64 %to;\n"
    "    .reg .u32 %old;\n"
    "    ld.param.u64 %to, [sum];\n"
    "    cvta.to.global.u64 %to, %to;\n"
    "    atom.global.add.u32 %old, [%to], 1;\n"
    "    ret;\n"
    "}\n";

static void *library;

static int call(const char *name, void *a, void *b, void *c)
{
    int (*function)(void *, void *, void *) = (int (*)(void *, void *, void *))dlsym(library, name);
    return function ? function(a, b, c) : -1;
}

static void require(const char *name, int status)
{
    if (status == 0)
        return;
    printf("%s %d\n", name, status);
    exit(1);
}

static int run_kernel(address sum)
{
    void *module, *kernel, *arguments[] = {&sum};
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                  void **) = dlsym(library, "cuLaunchKernel");
    require("cuModuleLoadData", call("cuModuleLoadData", &module, (void *)KERNEL, 0));
    require("cuModuleGetFunction", call("cuModuleGetFunction", &kernel, module, "add_one"));
    require("cuLaunchKernel", launch(kernel, BLOCKS, 1, 1, THREADS, 1, 1, 0, 0, arguments, 0));
    return call("cuCtxSynchronize", 0, 0, 0);
}

static void print_device(long device)
{
    unsigned char id[16];
    int count = 0;
    require("cuDeviceGetUuid_v2", call("cuDeviceGetUuid_v2", id, (void *)device, 0));
    require("cuDeviceGetAttribute",
            call("cuDeviceGetAttribute", &count, (void *)MULTIPROCESSOR_COUNT, (void *)device));
    printf("uuid GPU-");
    for (int index = 0; index < 16; index++)
        printf(index == 4 || index == 6 || index == 8 || index == 10 ? "-%02x" : "%02x", id[index]);
    printf("\nmultiprocessors %d\n", count);
}

int main(int count, char **words)
{
    const char *action = count > 1 ? words[1] : "add";
    int device = 0, sum = 0;
    void *context;
    address memory = 0;
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        printf("%s\n", dlerror());
        return 1;
    }
    require("cuInit", call("cuInit", 0, 0, 0));
    require("cuDeviceGet", call("cuDeviceGet", &device, 0, 0));
    require("cuDevicePrimaryCtxRetain", call("cuDevicePrimaryCtxRetain", &context, (void *)(long)device, 0));
    require("cuCtxSetCurrent", call("cuCtxSetCurrent", context, 0, 0));
    print_device(device);
    if (strcmp(action, "allocate") == 0) {
        long size = count > 2 ? atol(words[2]) << 20 : 1;
        printf("status %d\n", call("cuMemAlloc_v2", &memory, (void *)size, 0));
    } else if (strcmp(action, "fault") == 0) {
        printf("status %d\n", run_kernel(0));
    } else if (strcmp(action, "hold") == 0) {
        require("cuMemAlloc_v2", call("cuMemAlloc_v2", &memory, (void *)(64L << 20), 0));
        puts("ready");
        fflush(stdout);
        while (getchar() != EOF)
            ;
    } else {
        require("cuMemAlloc_v2", call("cuMemAlloc_v2", &memory, (void *)sizeof sum, 0));
        require("cuMemcpyHtoD_v2", call("cuMemcpyHtoD_v2", (void *)memory, &sum, (void *)sizeof sum));
        require("the kernel", run_kernel(memory));
        require("cuMemcpyDtoH_v2", call("cuMemcpyDtoH_v2", &sum, (void *)memory, (void *)sizeof sum));
        printf("sum %d\n", sum);
    }
    return 0;
}
