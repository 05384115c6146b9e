/* Percentiles of any number of samples: counts by power of two, each in 128 linear steps. */
#include "load.h"

void histogram_add(struct histogram *histogram, uint64_t value)
{
    size_t bucket = value;
    if (value >> STEP_BITS) {
        int shift = 63 - __builtin_clzll(value) - STEP_BITS;
        bucket = ((size_t)shift << STEP_BITS) + (value >> shift);
    }
    histogram->counts[bucket]++;
    histogram->count++;
    if (value > histogram->max)
        histogram->max = value;
}

/* The largest value a bucket counts. */
static uint64_t find_top(size_t bucket)
{
    if (bucket < (size_t)2 << STEP_BITS)
        return bucket;
    int shift = (int)(bucket >> STEP_BITS) - 1;
    uint64_t step = (bucket & ((1 << STEP_BITS) - 1)) + (1 << STEP_BITS);
    return ((step + 1) << shift) - 1;
}

/* The smallest value that `percent` of the samples do not exceed; 0 without samples. */
static uint64_t find_percentile(const struct histogram *histogram, unsigned percent)
{
    uint64_t rank = (histogram->count * percent + 99) / 100, seen = 0;
    for (size_t bucket = 0; bucket < BUCKETS && histogram->count; bucket++) {
        seen += histogram->counts[bucket];
        if (seen >= rank) {
            uint64_t top = find_top(bucket);
            return top < histogram->max ? top : histogram->max;
        }
    }
    return 0;
}

/* A JSON member, with a comma before it. */
void histogram_print(const struct histogram *histogram, const char *name)
{
    printf(",\"%s\":{\"count\":%ju,\"p50_ns\":%ju,\"p90_ns\":%ju,\"p99_ns\":%ju,\"max_ns\":%ju}", name,
           (uintmax_t)histogram->count, (uintmax_t)find_percentile(histogram, 50),
           (uintmax_t)find_percentile(histogram, 90), (uintmax_t)find_percentile(histogram, 99),
           (uintmax_t)histogram->max);
}
