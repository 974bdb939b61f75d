// Exact rank vectors of rows of float32, in one launch and without sorting. Compiled by ranks_cuda.py.
//
// Block (c, r) of the grid (C, B) finds the ranks of the c-th part of row r, by value:
//   1. count the whole row into bins that increase with the values; prefix sums make bins places;
//   2. take the bins that begin at places n c / C to n (c + 1) / C, and gather their values, bin by bin;
//   3. compare each of these values with those of its own bin: smaller ones, equal ones, hence its rank;
//   4. write the ranks where the values came from.
// Bins need not be even for that to be right, only for it to be fast. Rows that would be slow are refused, or
// finished slowly.

typedef unsigned int u32;
typedef unsigned short u16;

#define BATCH 16              // loads in flight
#define SAMPLE 1024           // values that place the bins
#define ELSEWHERE 0xffffu     // the place of a value that another block ranks
#define MOST_COMPARED 512.0f  // comparisons a value, on average
#define NEGLIGIBLE 1e-7f      // the share of the ranks' variance that ties take without changing float32 norms
#define NOT_FINITE __uint_as_float(0x7fc00000u)  // NaN instead of a row's ties: it has NaN or infinity
#define UNEVEN __uint_as_float(0x7f800000u)      // infinity: its bins are too uneven, so sort it

__shared__ float partial[32];
__shared__ u32 mine[4];  // my first bin, my first value's place in the row, and those after my last

// The sum over a block, the same to the last bit in all threads and all blocks.
__device__ float block_sum(float value) {
    for (int lane = 16; lane; lane /= 2) value += __shfl_xor_sync(~0u, value, lane);
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0;
    for (int warp = 0; warp < blockDim.x / 32; warp++) value += partial[warp];
    return value;
}

// Sums of smaller counts below 2^24 are exact as floats, too.
__device__ float block_prefix(float value, float* total) {
    float sum = value;
    for (int lane = 1; lane < 32; lane *= 2) {
        float left = __shfl_up_sync(~0u, sum, lane);
        if (threadIdx.x % 32 >= lane) sum += left;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 31) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    float before = sum - value;
    *total = 0;
    for (int warp = 0; warp < blockDim.x / 32; warp++) {
        if (warp < threadIdx.x / 32) before += partial[warp];
        *total += partial[warp];
    }
    return before;
}

// A normal distribution's tail is nearly (1 - |z| / 5)^4 / 2. Every step is rounded monotonically, so bins
// are in the order of the values whatever is rounded; NaN, of a deviation of 0, can only be the mean itself.
__device__ u32 bin_of(float value, float mean, float scale, u32 bins) {
    float z = __fmul_rn(__fsub_rn(value, mean), scale);
    float tail = fmaxf(__fsub_rn(1.0f, fabsf(z)), 0.0f);
    tail = __fmul_rn(tail, tail);
    tail = __fmul_rn(__fmul_rn(tail, tail), 0.5f * bins);
    const float position = z < 0 ? tail : __fsub_rn((float)bins, tail);
    return min(__float_as_uint(__fadd_rd(position, 8388608.0f)) - 0x4b000000, bins - 1);  // rounded down
}

// Store a block's ties, and draw attention to those that change ranks: the row's norm, or its refusal.
__device__ void report(float* status, int* attention, int n, float ties) {
    if (threadIdx.x > 0) return;
    status[blockIdx.y * gridDim.x + blockIdx.x] = ties;
    if (attention && !(ties <= NEGLIGIBLE * n * n * n / gridDim.x)) *attention = 1;
}

// Find the ranks of a part of the row by comparing each of its values with all.
__device__ void rank_slowly(const float* row, float* out, int n, float half_inverse_norm) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const float value = row[i];
        int twice = -n;
        for (int other = 0; other < n; other++) twice += (row[other] < value) + (row[other] <= value);
        out[i] = twice * half_inverse_norm;
    }
}

// n < 2^17; bins: a multiple of twice the threads. There must be shared memory for the bins and for the values
// of a part, which are fewer than 2^16: n / C and a full bin. Scratch memory has a float of status and n places
// for each block. Without a place for attention, what would be refused is ranked slowly.
extern "C" __global__ void __launch_bounds__(1024) rank_rows(
    const float* __restrict__ rows, float* __restrict__ out, float* __restrict__ status, int* attention,
    int n, int bins, float half_inverse_norm) {
    extern __shared__ u32 memory[];
    u32* counts = memory;  // two bins to a word
    float* values = (float*)(memory + bins / 2);
    const int t = threadIdx.x, threads = blockDim.x;
    const int part = blockIdx.x, parts = gridDim.x;
    const float* row = rows + (long long)blockIdx.y * n;
    out += (long long)blockIdx.y * n;
    u16* places = (u16*)(status + gridDim.y * parts) + ((long long)blockIdx.y * parts + part) * n;

    for (int word = t; word < bins / 2; word += threads) counts[word] = 0;
    const int stride = max(1, n / SAMPLE), sampled = min(n, SAMPLE);
    float sum = 0;
    for (int i = t; i < sampled; i += threads) sum += row[i * stride];
    const float mean = block_sum(sum) / sampled;
    sum = 0;
    for (int i = t; i < sampled; i += threads) sum += fabsf(row[i * stride] - mean);
    const float deviation = 1.2533f * block_sum(sum) / sampled;  // as of a normal distribution
    const float scale = 1 / (5 * deviation);

    float zeros = 0;  // or NaN, once one value is not finite
    for (int start = t; start < n; start += BATCH * threads) {
        float batch[BATCH];
        #pragma unroll
        for (int k = 0; k < BATCH; k++) batch[k] = start + k * threads < n ? row[start + k * threads] : 0;
        #pragma unroll
        for (int k = 0; k < BATCH; k++) {
            zeros = __fmaf_rn(batch[k], 0.0f, zeros);
            const u32 bin = bin_of(batch[k], mean, scale, bins);
            atomicAdd(&counts[bin / 2], (u32)(start + k * threads < n) << 16 * (bin % 2));
        }
    }
    if (t == 0) {
        mine[0] = mine[2] = bins;
        mine[1] = mine[3] = n;
    }
    if (__syncthreads_or(zeros != 0)) {
        report(status, attention, n, NOT_FINITE);
        if (!attention) rank_slowly(row, out, n, half_inverse_norm);
        return;
    }

    const int words = bins / 2 / threads;
    float counted = 0, compared = 0, most = 0;
    for (int word = t * words; word < (t + 1) * words; word++) {
        const float low = counts[word] & 0xffff, high = counts[word] >> 16;
        counted += low + high;
        compared += low * low + high * high;
        most = fmaxf(most, fmaxf(low, high));
    }
    float total;
    const float first = block_prefix(counted, &total);
    compared = block_sum(compared);
    // a bin of 2^16 values would have spilt over, and the total with it
    if (__syncthreads_or(most > threads || total != n || compared > MOST_COMPARED * n)) {
        report(status, attention, n, UNEVEN);
        if (!attention) rank_slowly(row, out, n, half_inverse_norm);
        return;
    }
    const u32 from = (long long)n * part / parts, to = (long long)n * (part + 1) / parts;
    u32 place = first, previous = 0;  // where the bin before begins: before `from`, if it was not mine
    if (t > 0) {
        const u32 last = counts[t * words - 1] >> 16;
        previous = place - last;
    }
    for (int bin = 2 * t * words; bin < 2 * (t + 1) * words; bin++) {
        const bool none = bin == 0;
        if (place >= from && (none || previous < from)) mine[0] = bin, mine[1] = place;
        if (place >= to && previous < to && !none) mine[2] = bin, mine[3] = place;
        previous = place;
        place += (counts[bin / 2] >> 16 * (bin % 2)) & 0xffff;
    }
    __syncthreads();
    const u32 begin = mine[0], base = mine[1], end = mine[2];
    const int size = mine[3] - base;
    u32 offset = (u32)first - base;
    for (int word = t * words; word < (t + 1) * words; word++) {
        const u32 low = counts[word] & 0xffff, high = counts[word] >> 16;
        counts[word] = (offset & 0xffff) | (offset + low) << 16;
        offset += low + high;
    }
    __syncthreads();

    for (int start = t; start < n; start += BATCH * threads) {
        float batch[BATCH];
        #pragma unroll
        for (int k = 0; k < BATCH; k++) batch[k] = start + k * threads < n ? row[start + k * threads] : 0;
        #pragma unroll
        for (int k = 0; k < BATCH; k++) {
            if (start + k * threads >= n) break;
            const u32 bin = bin_of(batch[k], mean, scale, bins);
            u32 to_place = ELSEWHERE;
            if (bin - begin < end - begin) {
                to_place = atomicAdd(&counts[bin / 2], 1u << 16 * (bin % 2)) >> 16 * (bin % 2) & 0xffff;
                values[to_place] = batch[k];
            }
            places[start + k * threads] = to_place;
        }
    }
    __syncthreads();

    // Ranks replace the values, one round late: what is in the bins of later rounds is still compared with.
    float ties = 0, rank = 0;
    int held = -1;
    for (int at = t; at - t < size; at += threads) {
        float found = 0;
        if (at < size) {
            const float value = values[at];
            const u32 bin = bin_of(value, mean, scale, bins);
            int less = 0, equal = 0;
            const u32 before = bin - 1;  // its places end where those of this bin begin
            int other = bin > begin ? counts[before / 2] >> 16 * (before % 2) & 0xffff : 0;
            const int stop = counts[bin / 2] >> 16 * (bin % 2) & 0xffff;
            less = other;
            for (; other < stop; other++) {
                less += values[other] < value;
                equal += values[other] == value;
            }
            found = (2 * (int)(base + less) + equal - n) * half_inverse_norm;
            ties += (float)equal * equal - 1;
        }
        __syncthreads();
        if (held >= 0) values[held] = rank;
        rank = found;
        held = at < size ? at : -1;
    }
    if (held >= 0) values[held] = rank;
    report(status, attention, n, block_sum(ties));

    for (int start = t; start < n; start += BATCH * threads) {
        u32 batch[BATCH];
        #pragma unroll
        for (int k = 0; k < BATCH; k++)
            batch[k] = start + k * threads < n ? places[start + k * threads] : ELSEWHERE;
        #pragma unroll
        for (int k = 0; k < BATCH; k++)
            if (batch[k] != ELSEWHERE) out[start + k * threads] = values[batch[k]];
    }
}
