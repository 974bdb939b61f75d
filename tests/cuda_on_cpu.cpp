// ranks.cu as a function of a shared library: see test_ranks_cuda.py.
#include "cuda_on_cpu.h"
#include "../src/rankencoder/ranks.cu"

u32 memory[1 << 16];
static struct { const float* rows; float* out; float* status; int* attention; int n, bins; float scale; } given;

static void call() {
    rank_rows(given.rows, given.out, given.status, given.attention, given.n, given.bins, given.scale);
}

extern "C" void launch(int number, int parts, int threads, int backwards, const float* rows, float* out,
                       float* status, int* attention, int n, int bins, float scale) {
    given = {rows, out, status, attention, n, bins, scale};
    body = call;
    gridDim = {parts, number, 1};
    blockDim = {threads, 1, 1};
    for (int block = 0; block < parts * number; block++) {
        const int at = backwards ? parts * number - 1 - block : block;
        blockIdx = {at % parts, at / parts, 0};
        std::fill(memory, memory + (1 << 16), 0xdeadbeef);
        run_block(threads, backwards);
    }
}
