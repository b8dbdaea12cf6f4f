/* Power sums of rows of logits, and the sums of a fit: the kernel of NumPy arrays. `native.py` calls it through ctypes.

This file is compiled once for each set of instructions, with VARIANT = baseline, avx2 or avx512, and all are linked into one
library, whose exported names end in the name of the variant. The object of the baseline also has `nishimori_abi` and
`nishimori_supports`, which says what the processor can run.

NaN, infinities and subnormal numbers are data. So no flag may let the compiler assume that they do not occur (-ffast-math), or
change how the process rounds. Where sums may be added in any order, a pragma says so. */

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Increase it with every change of an exported function or of a struct that it takes. */
#define ABI 7

#ifndef VARIANT
#define VARIANT baseline
#define IS_BASELINE 1
#endif
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define EXPORTED(name) JOIN(name, VARIANT)

#if defined(_MSC_VER)
#define EXPORT __declspec(dllexport)
#define ALWAYS_INLINE __forceinline
#define NO_INLINE __declspec(noinline)
#define SIMD(clauses)
#define PREFETCH(address) ((void)(address))
#else
#define EXPORT __attribute__((visibility("default")))
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define NO_INLINE __attribute__((noinline)) /* one loop per function: compilers then keep its constants in registers */
#define PREFETCH(address) __builtin_prefetch(address)
#define PRAGMA(text) _Pragma(#text)
#define SIMD(clauses) PRAGMA(omp simd clauses)
#endif

/* The number of rows that are transposed at a time, if a row has at most so many bytes (128 classes in float): the columns then fit
the cache of the first level. Three of its lines: columns at distances of a power of two would all compete for the same few places
in it. */
#define LANES 48
#define FEW 512

/* Number of rows whose sums are kept before they are added up. A multiple of LANES. */
#define ROWS 240

/* Number of classes that are added in float before they go into a double sum, if lanes are rows. */
#define GROUP 25

/* How many power sums a row has at most: those of the powers 0 to 5, which a pair of observables with four derivatives needs. */
#define N_POWERS 6

/* The top class of a row that does not count. */
#define NONE (-1)

/* LARGEST in _rows/scores.py: larger numbers of double precision are refused. */
#define LIMIT 1e100

#define NO_MEMORY (-1)
#define N_SUMS 42

/* How to compute exp(β d) from d: `scale`, a power of two, brings β near 1, so that powers of d do not overflow. β·log2(e) of the
scaled d is high + low, and its inverse unit_high + unit_low. `smallest` is the scaled d whose weight is 0. */
typedef struct {
    double scale, smallest, high, low, unit_high, unit_low;
} nishimori_term;

/* How to get the sums at several β. A chain is a list of β each twice the one before: one exp, then squares. `chains` says where
in `places` each chain starts, and the end; `places` is the index of each β in the caller's list; `factors` (betas, N_POWERS) undo the
scale of each power. `at_zero` and `at_infinity` are the places of β = 0 and ∞, for half precision alone. */
typedef struct {
    int64_t n_chains, n_betas, n_at_zero, n_at_infinity;
    const nishimori_term *terms;
    const int64_t *chains, *places, *at_zero, *at_infinity;
    const double *factors;
} nishimori_plan;

/* Memory that starts with a line of the cache; vectors across two lines take twice as long. `memory` is what is freed. */
static void *aligned_memory(size_t size, void **memory)
{
    *memory = malloc(size + 64);
    return *memory ? (char *)*memory + (64 - (uintptr_t)*memory % 64) % 64 : NULL;
}

/* --- sums over rows ----------------------------------------------------------------------------------------------------- */

/* What one β gives of a row that an observable needs. */
typedef struct {
    double gap[ROWS], slope[ROWS];
} pair_gaps;

/* Add the sums of one observable over some rows to `total`, and keep its gaps and their slopes; the formulas are those of
`N_SUMS`. `sums` are power sums (N_POWERS, ROWS). Each derivative follows from those before it; see `derivatives` in
_sums/predictions.py. `weights` is null if all are 1. */
static ALWAYS_INLINE void add_confidence(const double *restrict sums, const double *restrict right, const double *restrict weights,
                                         int n, pair_gaps *restrict kept, double *restrict total)
{
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0;
    SIMD(reduction(+ : s0, s1, s2, s3, s4, s5))
    for (int i = 0; i < n; i++) {
        double w = weights ? weights[i] : 1.0, c = 1.0 / (1.0 + sums[i]);
        double m1 = sums[ROWS + i] * c, m2 = sums[2 * ROWS + i] * c, m3 = sums[3 * ROWS + i] * c, m4 = sums[4 * ROWS + i] * c;
        double gap = right[i] != 0.0 ? -sums[i] * c : c;
        double slope = -c * m1;
        double second = -c * m2 - 2.0 * slope * m1;
        double third = -c * m3 - 3.0 * (slope * m2 + second * m1);
        s0 += w * gap;
        s1 += w * fabs(gap);
        s2 += w * slope;
        s3 += w * second;
        s4 += w * third;
        s5 += w * (-c * m4 - 4.0 * (slope * m3 + third * m1) - 6.0 * second * m2);
        kept->gap[i] = gap;
        kept->slope[i] = slope;
    }
    total[0] += s0, total[1] += s1, total[2] += s2, total[3] += s3, total[4] += s4, total[34] += s5;
}

static ALWAYS_INLINE void add_energy(const double *restrict sums, const double *restrict label_d, const double *restrict weights,
                                     int n, pair_gaps *restrict kept, double *restrict total)
{
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0;
    SIMD(reduction(+ : s0, s1, s2, s3, s4, s5))
    for (int i = 0; i < n; i++) {
        double w = weights ? weights[i] : 1.0, c = 1.0 / (1.0 + sums[i]);
        double m1 = sums[ROWS + i] * c, m2 = sums[2 * ROWS + i] * c, m3 = sums[3 * ROWS + i] * c, m4 = sums[4 * ROWS + i] * c;
        double m5 = sums[5 * ROWS + i] * c;
        double gap = m1 - label_d[i];
        double slope = m2 - m1 * m1;
        double second = m3 - m1 * m2 - 2.0 * slope * m1;
        double third = m4 - m1 * m3 - 3.0 * (slope * m2 + second * m1);
        s0 += w * gap;
        s1 += w * (fabs(m1) + fabs(label_d[i]));
        s2 += w * slope;
        s3 += w * second;
        s4 += w * third;
        s5 += w * (m5 - m1 * m4 - 4.0 * (slope * m3 + third * m1) - 6.0 * second * m2);
        kept->gap[i] = gap;
        kept->slope[i] = slope;
    }
    total[6] += s0, total[7] += s1, total[8] += s2, total[9] += s3, total[10] += s4, total[35] += s5;
}

/* Fill `products` with the sums of products of gaps and slopes of both observables, with weights or their squares. */
static ALWAYS_INLINE void sum_products(const pair_gaps *restrict e, const pair_gaps *restrict t,
                                       const double *restrict weights, int n, double *restrict products)
{
    double ee = 0, tt = 0, et = 0, ss = 0, vv = 0, sv = 0, es = 0, tv = 0, ev = 0, xs = 0;
    SIMD(reduction(+ : ee, tt, et, ss, vv, sv, es, tv, ev, xs))
    for (int i = 0; i < n; i++) {
        double w = weights ? weights[i] : 1.0, gap = w * e->gap[i], excess = w * t->gap[i];
        double slope = w * e->slope[i], variance = w * t->slope[i];
        ee += gap * e->gap[i];
        tt += excess * t->gap[i];
        et += gap * t->gap[i];
        ss += slope * e->slope[i];
        vv += variance * t->slope[i];
        sv += slope * t->slope[i];
        es += gap * e->slope[i];
        tv += excess * t->slope[i];
        ev += gap * t->slope[i];
        xs += excess * e->slope[i];
    }
    const double found[10] = {ee, tt, et, ss, vv, sv, es, tv, ev, xs};
    for (int j = 0; j < 10; j++)
        products[j] = found[j];
}

static ALWAYS_INLINE void add_counts(const double *restrict right, const double *restrict label_d, const double *restrict weights,
                                     int n, double *restrict total)
{
    double sw = 0, sww = 0, sr = 0, sl = 0, wrong = 0, right_squares = 0, wrong_squares = 0, n_right = 0, n_at_masks = 0;
    SIMD(reduction(+ : sw, sww, sr, sl, wrong, right_squares, wrong_squares, n_right, n_at_masks))
    for (int i = 0; i < n; i++) {
        double w = weights ? weights[i] : 1.0, r = right[i], d = label_d[i];
        sw += w;
        sww += w * w;
        sr += w * r;
        sl += w * d;
        wrong += w * (1.0 - r);
        right_squares += w * w * r;
        wrong_squares += w * w * (1.0 - r);
        n_right += r;
        n_at_masks += d == -INFINITY ? 1.0 : 0.0;
    }
    total[18] += sw, total[19] += sww, total[20] += sr, total[21] += sl, total[36] += sr, total[37] += wrong;
    total[38] += right_squares, total[39] += wrong_squares, total[40] += n_right, total[41] += n_at_masks;
}

/* Add all sums of a pair of observables over some rows to `total`. `ec` and `ts` are the power sums at the β of each. */
static NO_INLINE void add_rows(const double *ec, const double *ts, const double *right, const double *label_d,
                               const double *weights, int n, double *total)
{
    static const int places[10] = {12, 13, 14, 22, 23, 24, 25, 26, 27, 28}, places_squared[10] = {15, 16, 17, 5, 11, 29, 30, 31, 32, 33};
    pair_gaps e, t;
    double products[10], squared[ROWS];
    if (!weights) { /* all of this without products with 1 */
        add_confidence(ec, right, NULL, n, &e, total);
        add_energy(ts, label_d, NULL, n, &t, total);
        sum_products(&e, &t, NULL, n, products);
        add_counts(right, label_d, NULL, n, total);
    } else {
        add_confidence(ec, right, weights, n, &e, total);
        add_energy(ts, label_d, weights, n, &t, total);
        sum_products(&e, &t, weights, n, products);
        add_counts(right, label_d, weights, n, total);
    }
    for (int j = 0; j < 10; j++)
        total[places[j]] += products[j];
    if (weights) {
        for (int i = 0; i < n; i++)
            squared[i] = weights[i] * weights[i];
        sum_products(&e, &t, squared, n, products);
    }
    for (int j = 0; j < 10; j++)
        total[places_squared[j]] += products[j];
}

/* --- vectors ------------------------------------------------------------------------------------------------------------
As many numbers as the processor takes at once, by the vector types of GCC and Clang, whose operators work on all numbers. Where
there are none (MSVC), one number stands for a vector. */

#if defined(_MSC_VER) && !defined(__clang__)
#define VECTOR_BYTES 0
typedef float vector32;
typedef double vector64;
typedef int32_t mask32;
typedef int64_t mask64;
typedef float half_vector32;
typedef double doubles32;
#define CONVERT(v, type) ((type)(v))
#define MASK_OF(condition) (-(condition))
#define SELECT(condition, a, b, vector, mask) ((condition) ? (a) : (b))
#define SELECT_INTEGER(condition, a, b) ((condition) ? (a) : (b))
static __forceinline mask32 as_mask32(vector32 v) { mask32 m; memcpy(&m, &v, sizeof m); return m; }
static __forceinline mask64 as_mask64(vector64 v) { mask64 m; memcpy(&m, &v, sizeof m); return m; }
static __forceinline vector32 as_vector32(mask32 m) { vector32 v; memcpy(&v, &m, sizeof v); return v; }
static __forceinline vector64 as_vector64(mask64 m) { vector64 v; memcpy(&v, &m, sizeof v); return v; }
#define AS_INTEGER(v, mask) JOIN(as, mask)(v)
#define AS_REAL(m, vector) JOIN(as, vector)(m)
#define VMAX32(a, b) ((a) > (b) ? (a) : (b))
#define VMAX64(a, b) ((a) > (b) ? (a) : (b))
#else
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
typedef float vector32 __attribute__((vector_size(VECTOR_BYTES)));
typedef double vector64 __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t mask32 __attribute__((vector_size(VECTOR_BYTES)));
typedef int64_t mask64 __attribute__((vector_size(VECTOR_BYTES)));
typedef float half_vector32 __attribute__((vector_size(VECTOR_BYTES / 2))); /* becomes a vector64 */
typedef double doubles32 __attribute__((vector_size(VECTOR_BYTES * 2))); /* from a vector32 */
#define CONVERT(v, type) __builtin_convertvector(v, type)
#define MASK_OF(condition) (condition)
#define AS_INTEGER(v, mask) ((mask)(v))
#define AS_REAL(m, vector) ((vector)(m))
#define SELECT(condition, a, b, vector, mask) ((vector)(((mask)(a) & (condition)) | ((mask)(b) & ~(condition))))
#define SELECT_INTEGER(condition, a, b) (((a) & (condition)) | ((b) & ~(condition)))

/* The larger one, and b if a is NaN. Instructions by name, because compilers do not recognise them in what SELECT writes. */
#if defined(__AVX512F__)
#include <immintrin.h>
#define VMAX32(a, b) ((vector32)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define VMAX64(a, b) ((vector64)_mm512_max_pd((__m512d)(a), (__m512d)(b)))
#define VFMA32(a, b, c) ((vector32)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define VFMA64(a, b, c) ((vector64)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#elif defined(__AVX2__)
#include <immintrin.h>
#define VMAX32(a, b) ((vector32)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define VMAX64(a, b) ((vector64)_mm256_max_pd((__m256d)(a), (__m256d)(b)))
#define VFMA32(a, b, c) ((vector32)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define VFMA64(a, b, c) ((vector64)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#elif defined(__SSE2__)
#include <emmintrin.h>
#define VMAX32(a, b) ((vector32)_mm_max_ps((__m128)(a), (__m128)(b)))
#define VMAX64(a, b) ((vector64)_mm_max_pd((__m128d)(a), (__m128d)(b)))
#else
#define VMAX32(a, b) SELECT((a) > (b), a, b, vector32, mask32)
#define VMAX64(a, b) SELECT((a) > (b), a, b, vector64, mask64)
#if defined(__aarch64__)
#include <arm_neon.h>
#define VFMA32(a, b, c) ((vector32)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#define VFMA64(a, b, c) ((vector64)vfmaq_f64((float64x2_t)(c), (float64x2_t)(a), (float64x2_t)(b)))
#endif
#endif
#endif

#if defined(VFMA32)
#define HAVE_FMA 1
#else
#define HAVE_FMA 0
#define VFMA32(a, b, c) ((a) * (b) + (c))
#define VFMA64(a, b, c) ((a) * (b) + (c))
#endif

/* Number of columns that are added before they go into a double sum, if lanes are columns: 16 in each lane of float. With 64,
sums had errors of 4e-7. A multiple of 16. */
#define CHUNK (VECTOR_BYTES ? 4 * VECTOR_BYTES : 16)
#if VECTOR_BYTES && defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector) && __has_builtin(__builtin_convertvector)
#define HAVE_SHUFFLES
#endif
#endif
#define WIDTH32 (VECTOR_BYTES ? VECTOR_BYTES / 4 : 1)
#define WIDTH64 (VECTOR_BYTES ? VECTOR_BYTES / 8 : 1)

#ifdef HAVE_SHUFFLES
/* Four columns of some rows, which begin `apart` numbers after each other, to four columns that are LANES apart. Vectors hold
four numbers of every fourth row, so that transposing each 16 bytes by themselves gives whole columns. */

#if VECTOR_BYTES == 64
#define UNPACK_LOW(a, b) ((vector32)_mm512_unpacklo_ps((__m512)(a), (__m512)(b)))
#define UNPACK_HIGH(a, b) ((vector32)_mm512_unpackhi_ps((__m512)(a), (__m512)(b)))
#define JOIN_LOW(a, b) ((vector32)_mm512_shuffle_ps((__m512)(a), (__m512)(b), 0x44))
#define JOIN_HIGH(a, b) ((vector32)_mm512_shuffle_ps((__m512)(a), (__m512)(b), 0xee))
#elif VECTOR_BYTES == 32
#define UNPACK_LOW(a, b) ((vector32)_mm256_unpacklo_ps((__m256)(a), (__m256)(b)))
#define UNPACK_HIGH(a, b) ((vector32)_mm256_unpackhi_ps((__m256)(a), (__m256)(b)))
#define JOIN_LOW(a, b) ((vector32)_mm256_shuffle_ps((__m256)(a), (__m256)(b), 0x44))
#define JOIN_HIGH(a, b) ((vector32)_mm256_shuffle_ps((__m256)(a), (__m256)(b), 0xee))
#else
#define UNPACK_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define UNPACK_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define JOIN_LOW(a, b) __builtin_shufflevector(a, b, 0, 1, 4, 5)
#define JOIN_HIGH(a, b) __builtin_shufflevector(a, b, 2, 3, 6, 7)
#endif

static ALWAYS_INLINE vector32 every_fourth_row(const float *z, int64_t apart)
{
#if VECTOR_BYTES == 64
    __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(z));
    v = _mm512_insertf32x4(v, _mm_loadu_ps(z + 4 * apart), 1);
    v = _mm512_insertf32x4(v, _mm_loadu_ps(z + 8 * apart), 2);
    return (vector32)_mm512_insertf32x4(v, _mm_loadu_ps(z + 12 * apart), 3);
#elif VECTOR_BYTES == 32
    return (vector32)_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(z)), _mm_loadu_ps(z + 4 * apart), 1);
#else
    vector32 v;
    (void)apart;
    memcpy(&v, z, sizeof v);
    return v;
#endif
}

static ALWAYS_INLINE void store_every_fourth_row(vector32 v, float *to, int64_t apart)
{
#if VECTOR_BYTES == 64
    _mm_storeu_ps(to, _mm512_castps512_ps128((__m512)v));
    _mm_storeu_ps(to + 4 * apart, _mm512_extractf32x4_ps((__m512)v, 1));
    _mm_storeu_ps(to + 8 * apart, _mm512_extractf32x4_ps((__m512)v, 2));
    _mm_storeu_ps(to + 12 * apart, _mm512_extractf32x4_ps((__m512)v, 3));
#elif VECTOR_BYTES == 32
    _mm_storeu_ps(to, _mm256_castps256_ps128((__m256)v));
    _mm_storeu_ps(to + 4 * apart, _mm256_extractf128_ps((__m256)v, 1));
#else
    (void)apart;
    memcpy(to, &v, sizeof v);
#endif
}

#define TRANSPOSE_QUADS(a, b, c, d)                                                                                            \
    do {                                                                                                                       \
        vector32 low = UNPACK_LOW(a, b), high = UNPACK_HIGH(a, b), low_of_next = UNPACK_LOW(c, d);                             \
        vector32 high_of_next = UNPACK_HIGH(c, d);                                                                             \
        a = JOIN_LOW(low, low_of_next), b = JOIN_HIGH(low, low_of_next);                                                       \
        c = JOIN_LOW(high, high_of_next), d = JOIN_HIGH(high, high_of_next);                                                   \
    } while (0)

static ALWAYS_INLINE void rows_to_columns32(const float *z, int64_t apart, float *columns)
{
    vector32 a = every_fourth_row(z, apart), b = every_fourth_row(z + apart, apart);
    vector32 c = every_fourth_row(z + 2 * apart, apart), d = every_fourth_row(z + 3 * apart, apart);
    TRANSPOSE_QUADS(a, b, c, d);
    memcpy(columns, &a, sizeof a);
    memcpy(columns + LANES, &b, sizeof b);
    memcpy(columns + 2 * LANES, &c, sizeof c);
    memcpy(columns + 3 * LANES, &d, sizeof d);
}

static ALWAYS_INLINE void columns_to_rows32(const float *columns, float *to, int64_t apart)
{
    vector32 a, b, c, d;
    memcpy(&a, columns, sizeof a);
    memcpy(&b, columns + LANES, sizeof b);
    memcpy(&c, columns + 2 * LANES, sizeof c);
    memcpy(&d, columns + 3 * LANES, sizeof d);
    TRANSPOSE_QUADS(a, b, c, d);
    store_every_fourth_row(a, to, apart);
    store_every_fourth_row(b, to + apart, apart);
    store_every_fourth_row(c, to + 2 * apart, apart);
    store_every_fourth_row(d, to + 3 * apart, apart);
}

/* Four columns of four rows. */
typedef double four64 __attribute__((vector_size(32)));

static ALWAYS_INLINE void transpose64(const double *from, int64_t from_apart, double *to, int64_t to_apart)
{
    four64 a, b, c, d, t0, t1, t2, t3;
    memcpy(&a, from, sizeof a);
    memcpy(&b, from + from_apart, sizeof b);
    memcpy(&c, from + 2 * from_apart, sizeof c);
    memcpy(&d, from + 3 * from_apart, sizeof d);
    t0 = __builtin_shufflevector(a, b, 0, 4, 2, 6), t1 = __builtin_shufflevector(a, b, 1, 5, 3, 7);
    t2 = __builtin_shufflevector(c, d, 0, 4, 2, 6), t3 = __builtin_shufflevector(c, d, 1, 5, 3, 7);
    a = __builtin_shufflevector(t0, t2, 0, 1, 4, 5), b = __builtin_shufflevector(t1, t3, 0, 1, 4, 5);
    c = __builtin_shufflevector(t0, t2, 2, 3, 6, 7), d = __builtin_shufflevector(t1, t3, 2, 3, 6, 7);
    memcpy(to, &a, sizeof a);
    memcpy(to + to_apart, &b, sizeof b);
    memcpy(to + 2 * to_apart, &c, sizeof c);
    memcpy(to + 3 * to_apart, &d, sizeof d);
}

#define rows_to_columns64(z, apart, columns) transpose64(z, apart, columns, LANES)
#define columns_to_rows64(columns, to, apart) transpose64(columns, LANES, to, apart)
#endif

/* `taint`, which starts as zeros, is NaN where some z has to be checked: one that is NaN or infinite, or a double beyond the
limit. A finite z minus itself adds nothing to it. */

static ALWAYS_INLINE vector32 taint32(vector32 taint, vector32 z)
{
    return taint + (z - z);
}

static ALWAYS_INLINE vector64 taint64(vector64 taint, vector64 z)
{
    vector64 zero = {0}, size = VMAX64(z, -z); /* NaN if z is */
    vector64 finite = SELECT(MASK_OF(size <= zero + LIMIT), zero, zero + INFINITY, vector64, mask64);
    return taint + (finite - finite);
}

#define ROUND32 (12582912.0f + 125.0f)
#define power32(shifted) AS_REAL((shifted) << 23, vector32)

/* Fits of 4·2^r. The first is a least-squares fit of the relative error in which each coefficient was rounded to float before the
next was fitted, so that the mean error over every quarter of the interval stays below 1e-9. The second has a relative error of at
most 2.2e-16. */

static ALWAYS_INLINE vector32 polynomial32(vector32 r)
{
    static const float coefficients[] = {0.00061002915f, 0.005354798f, 0.03847491f, 0.22201471f, 0.96090585f, 2.7725887f, 4.0f};
    vector32 zero = {0}, p = zero + coefficients[0];
    for (int j = 1; j < 7; j++)
        p = VFMA32(p, r, zero + coefficients[j]);
    return p;
}

#if VECTOR_BYTES == 64
/* Rounded to 1/16 instead of 1, a number leaves |r| <= 1/32, for which six coefficients are enough, and the power of two of the
sixteenths comes from two registers. Its bits are those of the exponent and of the first digits, which a shift brings to their place
too: the table has the difference. */
#define ROUND64 (422212465065984.0 + 1021.0)

static const double coefficients64[] = {0.0006161489592299703, 0.005333512630713707, 0.03847251642767815, 0.2220164346265572,
                                        0.960906027836403,     2.772588722239783,    4.0};

static ALWAYS_INLINE vector64 power64(mask64 shifted)
{
    const mask64 low = {0,                -0x4aa7930676f1,  -0x8d47c382ae85,  -0xc785918a9dc8,
                        -0xf901f5ce48eb,  -0x12159b3edcbde, -0x140252ac9d5d9, -0x154f822b7abd7};
    const mask64 high = {-0x15f619980c433, -0x15eeb8c14fe79, -0x1531abdd55f25, -0x13b6e7d5c0f70,
                         -0x1176066a52c53, -0xe664227aad64,  -0xa7e723045b79,  -0x5b505d5b6f26};
    mask64 of_sixteenths = (mask64)_mm512_permutex2var_epi64((__m512i)low, (__m512i)shifted, (__m512i)high);
    return (vector64)((shifted << 48) + of_sixteenths);
}
#else
#define ROUND64 (6755399441055744.0 + 1021.0)
#define power64(shifted) AS_REAL((shifted) << 52, vector64)

static const double coefficients64[] = {
    2.8152732311069347e-08, 4.083329422235877e-07, 5.2862614316200155e-06, 6.10106376978027e-05, 0.0006161411997705468, 0.005333423290322647,
    0.038472516431932564,   0.2220164346579271,    0.960906027836364,      2.7725887222397967,   4.0};
#endif

static ALWAYS_INLINE vector64 polynomial64(vector64 r)
{
    vector64 zero = {0}, p = zero + coefficients64[0];
    for (size_t j = 1; j < sizeof coefficients64 / sizeof *coefficients64; j++)
        p = VFMA64(p, r, zero + coefficients64[j]);
    return p;
}

/* --- float, double, and float computed in double ------------------------------------------------------------------------ */

/* Whether weights serve one β, or are kept for the next of a chain, or were. */
enum { ONCE, FIRST, AGAIN };

/* Z is the type of the logits, and T that of the arithmetic. All else follows from how many bits they have, which OF_Z and OF_T
add to a name. */
#define STORED OF_Z(vector)
#define STORED_MASK OF_Z(mask)
#define STORED_INTEGER OF_Z(integer)
#define STORED_WIDTH OF_Z(WIDTH)
#define STORED_MAX OF_Z(VMAX)
#define STORED_TAINT OF_Z(taint)
#define LIMIT_OF_LOGITS OF_Z(LIMIT)
#define TRANSPOSED OF_Z(TRANSPOSED)
#define TO_COLUMNS OF_Z(rows_to_columns)
#define TO_ROWS OF_Z(columns_to_rows)
#define VECTOR OF_T(vector)
#define MASK OF_T(mask)
#define WIDTH OF_T(WIDTH)
#define INTEGER OF_T(integer)
#define ROUND OF_T(ROUND)
#define POWER OF_T(power)
#define POLYNOMIAL OF_T(polynomial)
#define VFMA OF_T(VFMA)
#define VMAX OF_T(VMAX)
#define DOUBLES OF_T(doubles)
#define LEAST_SQUARED OF_T(LEAST_SQUARED)
#define LEAST_WEIGHT OF_T(LEAST_WEIGHT)

#define TRANSPOSED32 WIDTH32
#define TRANSPOSED64 4
#define LIMIT32 FLT_MAX
#define LIMIT64 LIMIT
typedef vector64 doubles64;
typedef int32_t integer32;
typedef int64_t integer64;
#define LEAST_SQUARED32 1.0842021724855044e-19 /* 2^-63 */
#define LEAST_SQUARED64 2.983336292480083e-154 /* 2^-510 */
#define LEAST_WEIGHT32 (4 * FLT_MIN) /* polynomials are of 4·2^r, and the power of two is a normal number */
#define LEAST_WEIGHT64 (4 * DBL_MIN)

#define Z float
#define OF_Z(name) name##32
#define T float
#define OF_T(name) name##32
#define FN(name) name##_float
#define LOGITS vector32
#include "native_rows.h"
#include "native_probabilities.h"
#undef T
#undef OF_T
#undef FN
#undef LOGITS

#define T double
#define OF_T(name) name##64
#define FN(name) name##_widened
#define LOGITS half_vector32
#include "native_rows.h"
#include "native_weights.h"
#undef Z
#undef OF_Z
#undef FN
#undef LOGITS

#define Z double
#define OF_Z(name) name##64
#define FN(name) name##_double
#define LOGITS vector64
#include "native_rows.h"
#include "native_probabilities.h"
#include "native_weights.h"

/* --- half precision ----------------------------------------------------------------------------------------------------------
A number of 16 bits has one of 65,536 values, and a long row has far fewer. So a row is read once, to count how often each
occurs, and all sums follow from these values in double; see `MANY` in `native.py`. `values` says what each pattern stands for. */

#define N_PATTERNS 65536
#define RUN 64 /* patterns that are looked at together: most of such runs do not occur in a row */

typedef struct {
    uint32_t *counts;
    double *found, *numbers, *weights;
    void *memory;
} counted_row;

static int open_counted_row(counted_row *row)
{
    char *start = aligned_memory(N_PATTERNS * (sizeof(uint32_t) + 3 * sizeof(double)), &row->memory);
    if (!start)
        return 0;
    row->counts = (uint32_t *)start;
    row->found = (double *)(start + N_PATTERNS * sizeof(uint32_t));
    row->numbers = row->found + N_PATTERNS;
    row->weights = row->numbers + N_PATTERNS;
    memset(row->counts, 0, N_PATTERNS * sizeof(uint32_t));
    return 1;
}

/* The values that occur in a row and how often, -inf left out; the counts are zero again after it. */
typedef struct {
    int n, at_largest, bits_of_largest, is_unusual;
} present_values;

static NO_INLINE present_values count_values(const uint16_t *z, int64_t n_classes, const double *values, counted_row *row)
{
    present_values present = {0, 0, 0, 0};
    for (int64_t k = 0; k < n_classes; k++)
        row->counts[z[k]]++;
    for (int start = 0; start < N_PATTERNS; start += RUN) {
        uint32_t some = 0;
        SIMD(reduction(| : some))
        for (int j = start; j < start + RUN; j++)
            some |= row->counts[j];
        if (!some)
            continue;
        for (int j = start; j < start + RUN; j++) {
            uint32_t number = row->counts[j];
            double value = values[j];
            if (number == 0)
                continue;
            row->counts[j] = 0;
            present.is_unusual |= !(fabs(value) <= LIMIT);
            if (value == -INFINITY)
                continue;
            row->found[present.n] = value;
            row->numbers[present.n] = number;
            if (present.n == 0 || value > row->found[present.at_largest]) {
                present.at_largest = present.n;
                present.bits_of_largest = j;
            }
            present.n++;
        }
    }
    return present;
}

static NO_INLINE int64_t column_of(const uint16_t *z, int64_t n_classes, uint16_t bits)
{
    for (int64_t start = 0; start < n_classes; start += 1024) {
        int n = (int)(n_classes - start < 1024 ? n_classes - start : 1024);
        uint16_t some = 0;
        SIMD(reduction(| : some))
        for (int k = 0; k < n; k++)
            some |= (uint16_t)(z[start + k] == bits);
        for (int k = 0; some && k < n; k++)
            if (z[start + k] == bits)
                return start + k;
    }
    return n_classes;
}

/* The first column of the largest value, whose bits are given. Zero has two patterns. */
static int64_t first_column(const uint16_t *z, int64_t n_classes, const double *values, int bits)
{
    if (values[bits] != 0.0)
        return column_of(z, n_classes, (uint16_t)bits);
    int64_t plus = column_of(z, n_classes, 0), minus = column_of(z, n_classes, N_PATTERNS / 2);
    return plus < minus ? plus : minus;
}

/* Turn values into differences from the largest and leave out one class of it. Returns how many more there are of it. */
static double leave_out_largest(counted_row *row, present_values present)
{
    double peak = row->found[present.at_largest], ties = 0.0;
    row->numbers[present.at_largest] -= 1.0;
    for (int j = 0; j < present.n; j++) {
        row->found[j] -= peak;
        ties += row->found[j] == 0.0 ? row->numbers[j] : 0.0;
    }
    return ties;
}

static NO_INLINE void weigh_counted(const double *d, int n, constants_double c, double *weights)
{
    for (int i = 0; i < n; i += WIDTH)
        store_double(weights + i, exp2_double(scaled_double(load_double(d + i), c), c));
}

/* Σ y^j w over n values that occur several times, n a multiple of 8. */
static NO_INLINE void sum_counted(const double *d, const double *numbers, const double *weights, int n, constants_double c,
                                  double *result)
{
    powers_double sums = {{0}, {0}, {0}, {0}, {0}, {0}};
    for (int i = 0; i < n; i += WIDTH)
        add_double(&sums, scaled_double(load_double(d + i), c), load_double(weights + i) * load_double(numbers + i), N_POWERS);
    result[0] = total_double(sums.a0), result[1] = total_double(sums.a1), result[2] = total_double(sums.a2);
    result[3] = total_double(sums.a3), result[4] = total_double(sums.a4), result[5] = total_double(sums.a5);
}

/* The sums of one row at all β. */
static void fill_counted(counted_row *row, int n, double ties, const nishimori_plan *plan, int n_powers, int64_t stride,
                         double *sums)
{
    double found[N_POWERS];
    for (; n % 8; n++)
        row->found[n] = row->numbers[n] = 0.0; /* up to whole vectors; there are fewer values than patterns */
    for (int64_t chain = 0; chain < plan->n_chains; chain++) {
        constants_double c = constants_of_double(plan->terms + chain);
        for (int64_t b = plan->chains[chain]; b < plan->chains[chain + 1]; b++) {
            if (b == plan->chains[chain])
                weigh_counted(row->found, n, c, row->weights);
            else
                square_double(row->weights, n);
            sum_counted(row->found, row->numbers, row->weights, n, c, found);
            for (int j = 0; j < n_powers; j++)
                sums[(plan->places[b] * n_powers + j) * stride] = found[j] * plan->factors[N_POWERS * b + j];
        }
    }
    if (plan->n_at_zero) {
        constants_double as_they_are = {1.0, -DBL_MAX, 0.0, 0.0, 0.0, 0.0};
        for (int i = 0; i < n; i++)
            row->weights[i] = 1.0;
        sum_counted(row->found, row->numbers, row->weights, n, as_they_are, found);
        for (int64_t b = 0; b < plan->n_at_zero; b++)
            for (int j = 0; j < n_powers; j++)
                sums[(plan->at_zero[b] * n_powers + j) * stride] = found[j];
    }
    for (int64_t b = 0; b < plan->n_at_infinity; b++)
        for (int j = 0; j < n_powers; j++)
            sums[(plan->at_infinity[b] * n_powers + j) * stride] = j ? 0.0 : ties;
}

static void fill_nothing(int64_t n_sums, int64_t stride, double *sums)
{
    for (int64_t b = 0; b < n_sums; b++)
        sums[b * stride] = 0.0;
}

/* The sums of some rows, and what their labels say: whether the top class is true, and the label's d. */
static int fill_half(const uint16_t *z, const double *values, const int64_t *labels, const double *weights, int n_rows,
                     int64_t n_classes, const nishimori_plan *plan, int n_powers, int64_t stride, counted_row *row, double *sums,
                     double *right, double *drops)
{
    int is_unusual = 0;
    for (int i = 0; i < n_rows; i++, z += n_classes) {
        right[i] = drops[i] = 0.0;
        fill_nothing(plan->n_betas * n_powers, stride, sums + i);
        if (weights && weights[i] == 0.0) /* this row may hold anything */
            continue;
        present_values present = count_values(z, n_classes, values, row);
        int is_bad = labels[i] < 0 || labels[i] >= n_classes;
        is_unusual |= present.is_unusual | is_bad;
        if (present.n == 0 || is_bad)
            continue;
        drops[i] = values[z[labels[i]]] - values[present.bits_of_largest];
        double ties = leave_out_largest(row, present);
        if (drops[i] == 0.0)
            right[i] = ties == 0.0 || labels[i] == first_column(z, n_classes, values, present.bits_of_largest);
        fill_counted(row, present.n, ties, plan, n_powers, stride, sums + i);
    }
    return is_unusual;
}

/* --- what is exported ----------------------------------------------------------------------------------------------------
Each returns NO_MEMORY (-1), or whether some logit or label has to be checked: a logit that is NaN, infinite or too large, or a
label that is not the number of a class. Logits lie in memory row after row. `kind` says of which type they are, and in which
they are computed. */

enum { FLOAT = 0, WIDENED = 1, DOUBLE = 2 };

#define BY_KIND(name, ...)                                                                                                     \
    (n_classes < 1     ? n > 0                                                                                                 \
     : kind == FLOAT   ? name##_float(__VA_ARGS__)                                                                             \
     : kind == WIDENED ? name##_widened(__VA_ARGS__)                                                                           \
                       : name##_double(__VA_ARGS__))

/* The largest logit of each row, its first column, and the sums (betas, powers, n). */
EXPORT int EXPORTED(nishimori_power_sums)(int kind, const void *z, int64_t n, int64_t n_classes, const nishimori_plan *plan,
                                          int n_powers, void *peak, int64_t *top, double *sums)
{
    return BY_KIND(power_sums, z, n, n_classes, plan, n_powers, peak, top, sums);
}

/* Add the sums of a pair of observables over all rows to `total` (42). Rows begin `apart` numbers after each other.
`weights` is null if all are 1. */
EXPORT int EXPORTED(nishimori_block_sums)(int kind, const void *z, int64_t apart, const int64_t *labels, const double *weights,
                                          int64_t n, int64_t n_classes, const nishimori_plan *plan, double *total)
{
    return BY_KIND(block_sums, z, apart, labels, weights, n, n_classes, plan, total);
}

EXPORT int EXPORTED(nishimori_half_power_sums)(const uint16_t *z, const double *values, int64_t n, int64_t n_classes,
                                               const nishimori_plan *plan, int n_powers, float *peak, int64_t *top, double *sums)
{
    counted_row row;
    if (n_classes < 1)
        return n > 0;
    if (!open_counted_row(&row))
        return NO_MEMORY;
    for (int64_t i = 0; i < n; i++, z += n_classes) {
        present_values present = count_values(z, n_classes, values, &row);
        peak[i] = (float)(present.n ? values[present.bits_of_largest] : -INFINITY);
        top[i] = 0;
        fill_nothing((plan->n_betas + plan->n_at_zero + plan->n_at_infinity) * n_powers, n, sums + i);
        if (present.n == 0)
            continue;
        top[i] = first_column(z, n_classes, values, present.bits_of_largest);
        fill_counted(&row, present.n, leave_out_largest(&row, present), plan, n_powers, n, sums + i);
    }
    free(row.memory);
    return 0;
}

EXPORT int EXPORTED(nishimori_half_block_sums)(const uint16_t *z, const double *values, const int64_t *labels,
                                               const double *weights, int64_t n, int64_t n_classes, const nishimori_plan *plan,
                                               double *total)
{
    counted_row row;
    double sums[2 * N_POWERS * ROWS], right[ROWS], drops[ROWS];
    int is_unusual = 0;
    if (n_classes < 1)
        return n > 0;
    if (!open_counted_row(&row))
        return NO_MEMORY;
    for (int64_t start = 0; start < n; start += ROWS) {
        int here = (int)(n - start < ROWS ? n - start : ROWS);
        const double *some = weights ? weights + start : NULL;
        is_unusual |= fill_half(z + start * n_classes, values, labels + start, some, here, n_classes, plan, N_POWERS, ROWS, &row,
                                sums, right, drops);
        add_rows(sums, sums + (plan->n_betas - 1) * N_POWERS * ROWS, right, drops, some, here, total);
    }
    free(row.memory);
    return is_unusual;
}

/* --- what a sketch keeps ------------------------------------------------------------------------------------------------ */

#include "native_sketch.h"

/* The probabilities of each row, (n, n_classes), of the type of the logits, which is FLOAT or DOUBLE. */
EXPORT int EXPORTED(nishimori_softmax)(int kind, const void *z, int64_t n, int64_t n_classes, const nishimori_term *term,
                                       void *probabilities)
{
    if (n_classes < 1)
        return n > 0;
    if (kind == FLOAT)
        return softmax_float(z, n, n_classes, term, probabilities);
    return softmax_double(z, n, n_classes, term, probabilities);
}

#include "native_scores.h"
#include "native_groups.h"

/* --- once for the library ----------------------------------------------------------------------------------------------- */

#ifdef IS_BASELINE

#ifndef VARIANTS
#define VARIANTS "baseline"
#endif
#ifndef SOURCE
#define SOURCE "unknown"
#endif

EXPORT int nishimori_abi(void)
{
    return ABI;
}

/* The variants that were compiled, with spaces between. */
EXPORT const char *nishimori_variants(void)
{
    return VARIANTS;
}

/* A digest of the files that it was compiled from. */
EXPORT const char *nishimori_source(void)
{
    return SOURCE;
}

#if defined(_MSC_VER) && defined(_M_X64)
#include <immintrin.h>
#include <intrin.h>

static int processor_has(int is_avx512)
{
    int leaf1[4], leaf7[4];
    unsigned long long saved;
    __cpuidex(leaf1, 1, 0);
    if (!(leaf1[2] & 1 << 27) || !(leaf1[2] & 1 << 12)) /* OSXSAVE, FMA */
        return 0;
    saved = _xgetbv(0); /* which registers the operating system saves */
    __cpuidex(leaf7, 7, 0);
    if (!is_avx512)
        return (saved & 6) == 6 && (leaf7[1] & 1 << 5);
    return (saved & 0xe6) == 0xe6 && (leaf7[1] & 1 << 16) && (leaf7[1] & 1 << 17) && (leaf7[1] & 1 << 30) &&
           (leaf7[1] & (int)(1u << 31));
}
#elif defined(__x86_64__)
static int processor_has(int is_avx512)
{
    __builtin_cpu_init();
    if (!is_avx512)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
}
#else
static int processor_has(int is_avx512)
{
    (void)is_avx512;
    return 0;
}
#endif

/* Whether this processor, and its operating system, can run a variant. */
EXPORT int nishimori_supports(const char *variant)
{
    if (!strcmp(variant, "baseline"))
        return 1;
    if (!strcmp(variant, "avx2"))
        return processor_has(0);
    return !strcmp(variant, "avx512") && processor_has(1);
}

#endif
