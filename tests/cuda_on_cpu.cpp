// A CUDA driver that runs ranks.cu on a CPU: see test_ranks_cuda.py.
#include "cuda_on_cpu.h"
#include "../src/rankencoder/ranks.cu"

u32 memory[1 << 16];
static struct { const float* rows; float* out; float* status; int* attention; int n, bins; float scale; } given;

static void call() {
    rank_rows(given.rows, given.out, given.status, given.attention, given.n, given.bins, given.scale);
}

// What ranks_cuda.py calls of CUDA's driver.
extern "C" {
int backwards = 0;
int cuCtxPushCurrent_v2(void*) { return 0; }
int cuCtxPopCurrent_v2(void*) { return 0; }
int cuStreamSynchronize(void*) { return 0; }
int cuLaunchKernel(void*, int parts, int number, int, int threads, int, int, int, void*, void** given_to, void*) {
    given = {*(const float**)given_to[0], *(float**)given_to[1], *(float**)given_to[2], *(int**)given_to[3],
             *(int*)given_to[4], *(int*)given_to[5], *(float*)given_to[6]};
    body = call;
    gridDim = {parts, number, 1};
    blockDim = {threads, 1, 1};
    for (int block = 0; block < parts * number; block++) {
        const int at = backwards ? parts * number - 1 - block : block;
        blockIdx = {at % parts, at / parts, 0};
        std::fill(memory, memory + (1 << 16), 0xdeadbeef);
        run_block(threads, backwards);
    }
    return 0;
}
}
