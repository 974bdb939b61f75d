// ranks.cu as a function of a shared library: see test_ranks_cuda.py.
#include "cuda_on_cpu.h"
#include "../src/rankencoder/ranks.cu"

u32 memory[1 << 16];
static struct { const float* rows; float* out; u16* places; float* status; int n, bins, finish; float scale; } given;

static void call() {
    rank_rows(given.rows, given.out, given.places, given.status, given.n, given.bins, given.finish, given.scale);
}

extern "C" void launch(int number, int parts, int threads, int backwards, const float* rows, float* out,
                       u16* places, float* status, int n, int bins, int finish, float scale) {
    given = {rows, out, places, status, n, bins, finish, scale};
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
