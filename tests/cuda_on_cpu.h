// Runs a CUDA kernel on a CPU, block after block, each thread as a coroutine that yields at every barrier.
#include <ucontext.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>
using std::max;
using std::min;
#define __global__
#define __device__
#define __shared__
#define __launch_bounds__(threads)

struct dim3 { int x, y, z; };
static dim3 threadIdx, blockIdx, blockDim, gridDim;

enum Wait { NOTHING, BLOCK, WARP, END };
struct Thread { ucontext_t context; std::vector<char> stack; Wait wait; int calls; };
static std::vector<Thread> threads_;
static ucontext_t scheduler;
static void (*body)();
static float exchanged[1024];
static int any_of[4];

static void yield(Wait wait) {
    const int t = threadIdx.x;
    threads_[t].wait = wait;
    swapcontext(&threads_[t].context, &scheduler);
}
static void run_thread() { body(); yield(END); }

static inline void __syncthreads() { yield(BLOCK); }
static inline int __syncthreads_or(int value) {
    const int call = threads_[threadIdx.x].calls++;
    any_of[(call + 2) % 4] = 0;
    any_of[call % 4] |= value;
    yield(BLOCK);
    return any_of[call % 4];
}
static inline float exchange(float value, int from) {
    const int t = threadIdx.x;
    exchanged[t] = value;
    yield(WARP);
    value = exchanged[from / 32 == t / 32 ? from : t];
    yield(WARP);
    return value;
}
static inline float __shfl_xor_sync(unsigned, float value, int lanes) {
    return exchange(value, threadIdx.x ^ lanes);
}
static inline float __shfl_up_sync(unsigned, float value, int lanes) {
    return exchange(value, (int)threadIdx.x - lanes < 0 ? threadIdx.x : threadIdx.x - lanes);
}
static inline unsigned atomicAdd(unsigned* at, unsigned value) { return (*at += value) - value; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fsub_rn(float a, float b) { return a - b; }

static inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
static inline float __fadd_rd(float a, float b) {  // of a small a and an integer b
    return std::floor(a) + b;
}
static inline unsigned __float_as_uint(float value) {
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float __uint_as_float(unsigned bits) {
    float value;
    std::memcpy(&value, &bits, sizeof bits);
    return value;
}

static void run_block(int threads, bool backwards) {
    threads_.resize(threads);
    std::fill(any_of, any_of + 4, 0);
    for (auto& thread : threads_) {
        thread.stack.resize(1 << 15);
        thread.wait = NOTHING;
        thread.calls = 0;
        getcontext(&thread.context);
        thread.context.uc_stack.ss_sp = thread.stack.data();
        thread.context.uc_stack.ss_size = thread.stack.size();
        thread.context.uc_link = nullptr;
        makecontext(&thread.context, run_thread, 0);
    }
    auto release = [](int from, int to, Wait wait) {
        for (int t = from; t < to; t++) if (threads_[t].wait != wait) return;
        for (int t = from; t < to; t++) threads_[t].wait = NOTHING;
    };
    for (int ended = 0; ended < threads;) {
        ended = 0;
        for (int i = 0; i < threads; i++) {
            const int t = backwards ? threads - 1 - i : i;
            if (threads_[t].wait == NOTHING) {
                threadIdx = {t, 0, 0};
                swapcontext(&scheduler, &threads_[t].context);
            }
            ended += threads_[t].wait == END;
        }
        for (int warp = 0; warp < threads; warp += 32) release(warp, warp + 32, WARP);
        release(0, threads, BLOCK);
    }
}
