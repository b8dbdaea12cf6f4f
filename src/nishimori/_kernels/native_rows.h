/* The loops over logits for one pair of number types: Z, as they are stored, and T, in which the sums are computed.

native.c includes this file once per pair. Before that it defines Z, T and FN (the suffix of all functions), and for T: VECTOR
and MASK (as many numbers and integers as the processor takes at once), WIDTH (how many), INTEGER (of the same size), VFMA, VMAX,
TAINT, SHIFT, ROUND, POLYNOMIAL and LEAST_SQUARED. STORED, STORED_WIDTH, STORED_MAX and STORED_TAINT are the same for Z, LOGITS is a
vector of as many Z as VECTOR has numbers, and larger logits than LIMIT_OF_LOGITS have to be checked.

The sums of a row are Σ_k d_k^j exp(β d_k) with d_k = z_k - max(z). With many classes the lanes of a vector are columns of one
row; with few classes a block of rows is transposed and the lanes are rows. */

static inline VECTOR FN(load)(const T *from)
{
    VECTOR v;
    memcpy(&v, from, sizeof v);
    return v;
}

static inline void FN(store)(T *to, VECTOR v)
{
    memcpy(to, &v, sizeof v);
}

/* As many logits as a vector has numbers. */
static inline VECTOR FN(load_logits)(const Z *from)
{
    LOGITS v;
    memcpy(&v, from, sizeof v);
    return CONVERT(v, VECTOR);
}

static inline double FN(total)(VECTOR v)
{
    T lanes[WIDTH];
    double sums[WIDTH];
    memcpy(lanes, &v, sizeof v);
    for (int i = 0; i < WIDTH; i++)
        sums[i] = lanes[i];
    for (int n = WIDTH / 2; n; n /= 2)
        for (int i = 0; i < n; i++)
            sums[i] += sums[i + n];
    return sums[0];
}

/* --- exp -------------------------------------------------------------------------------------------------------------------
exp(β d) = 2^(n + r) with n an integer and |r| <= 1/2. Adding 1.5·2^23 (float) or 1.5·2^52 (double) to a number rounds it to an
integer, which then stands in the low bits; shifted to the place of the exponent, those bits are a power of two. The integer is
n + offset, so that n = -offset gives the bits of zero and the weight is exactly 0. Smaller n are prevented by the caller. With
the usual offset (127, 1023) the smallest weights would be subnormal, which takes 100 times as long: the offset is smaller by 2,
and the polynomial is that of 4·2^r. */

typedef struct {
    T scale, smallest, high, low, unit_high, unit_low;
} FN(constants);

static inline FN(constants) FN(constants_of)(const nishimori_term *term)
{
    FN(constants) c = {(T)term->scale, (T)term->smallest, (T)term->high, (T)term->low, (T)term->unit_high, (T)term->unit_low};
    return c;
}

static ALWAYS_INLINE VECTOR FN(exp2)(VECTOR y, FN(constants) c)
{
    VECTOR zero = {0}, high = zero + c.high, round = zero + ROUND;
    VECTOR shifted = VFMA(y, high, round);
    VECTOR n = shifted - round;
#if HAVE_FMA
    VECTOR r = VFMA(y, zero + c.low, VFMA(y, high, -n));
#else
    /* A rounded product would lose the last digits of r. n times the first part of 1/high is exact. */
    VECTOR r = ((y - n * c.unit_high) - n * c.unit_low) * c.high;
#endif
    return POLYNOMIAL(r) * AS_REAL(AS_INTEGER(shifted, MASK) << SHIFT, VECTOR);
}

/* The scaled difference, no smaller than what has a weight of zero; also for NaN. */
static ALWAYS_INLINE VECTOR FN(scaled)(VECTOR d, FN(constants) c)
{
    VECTOR zero = {0};
    return VMAX(d * c.scale, zero + c.smallest);
}

/* Σ y^j w of the classes that were added. */
typedef struct {
    VECTOR a0, a1, a2, a3, a4, a5;
} FN(powers);

static ALWAYS_INLINE void FN(add)(FN(powers) *to, VECTOR y, VECTOR w, int n_powers)
{
    VECTOR y2 = y * y, w2 = w * y2, w4 = w2 * y2;
    to->a0 += w;
    if (n_powers > 1)
        to->a1 += w * y;
    if (n_powers > 2)
        to->a2 += w2;
    if (n_powers > 3) {
        to->a3 += w2 * y;
        to->a4 += w4;
    }
    if (n_powers > 5)
        to->a5 += w4 * y;
}

static NO_INLINE void FN(square)(T *weights, int n)
{
    VECTOR zero = {0}, least = zero + (T)LEAST_SQUARED;
    /* Squares that would be subnormal, and therefore slow, become 0. */
    for (int i = 0; i < n; i += WIDTH) {
        VECTOR w = FN(load)(weights + i);
        FN(store)(weights + i, SELECT(w > least, w * w, zero, VECTOR, MASK));
    }
}

/* --- many classes: lanes are columns ------------------------------------------------------------------------------------ */

/* The sums over n classes, n a multiple of 16. Weights that others need are kept, or taken from where the first kept them. */
static ALWAYS_INLINE void FN(sum_columns)(const Z *z, T largest, int n, FN(constants) c, T *weights, int use, int n_powers,
                                          double *result)
{
    FN(powers) sums = {{0}, {0}, {0}, {0}, {0}, {0}};
    for (int i = 0; i < n; i += WIDTH) {
        VECTOR y = FN(scaled)(FN(load_logits)(z + i) - largest, c);
        VECTOR w = use == AGAIN ? FN(load)(weights + i) : FN(exp2)(y, c);
        if (use == FIRST)
            FN(store)(weights + i, w);
        FN(add)(&sums, y, w, n_powers);
    }
    result[0] = FN(total)(sums.a0);
    if (n_powers > 1)
        result[1] = FN(total)(sums.a1);
    if (n_powers > 2)
        result[2] = FN(total)(sums.a2);
    if (n_powers > 3)
        result[3] = FN(total)(sums.a3), result[4] = FN(total)(sums.a4);
    if (n_powers > 5)
        result[5] = FN(total)(sums.a5);
}

#define ORDERS(call)                                                                                                           \
    do {                                                                                                                       \
        if (n_powers == 1) {                                                                                                   \
            call(1);                                                                                                           \
        } else if (n_powers == 2) {                                                                                            \
            call(2);                                                                                                           \
        } else if (n_powers == 3) {                                                                                            \
            call(3);                                                                                                           \
        } else if (n_powers <= 5) {                                                                                            \
            call(5);                                                                                                           \
        } else {                                                                                                               \
            call(6);                                                                                                           \
        }                                                                                                                      \
    } while (0)

static NO_INLINE void FN(sum_once)(const Z *z, T largest, int n, FN(constants) c, int n_powers, double *result)
{
#define CALL(order) FN(sum_columns)(z, largest, n, c, NULL, ONCE, order, result)
    ORDERS(CALL);
#undef CALL
}

static NO_INLINE void FN(sum_first)(const Z *z, T largest, int n, FN(constants) c, T *weights, int n_powers, double *result)
{
#define CALL(order) FN(sum_columns)(z, largest, n, c, weights, FIRST, order, result)
    ORDERS(CALL);
#undef CALL
}

static NO_INLINE void FN(sum_again)(const Z *z, T largest, int n, FN(constants) c, T *weights, int n_powers, double *result)
{
#define CALL(order) FN(sum_columns)(z, largest, n, c, weights, AGAIN, order, result)
    ORDERS(CALL);
#undef CALL
}

/* The largest logit of a row, its first column, and whether some logit is unusual. It brings the row into the cache. */
static NO_INLINE Z FN(first_maximum)(const Z *z, int64_t n_classes, int64_t *top, int *is_unusual)
{
    /* In the type of the logits, of which a vector may hold twice as many as of the type of the sums. */
    Z largest = -(Z)INFINITY, each[STORED_WIDTH], some = 0;
    int64_t begin = 0;
    STORED none = {0}, taint = none;
    for (int64_t start = 0; start < n_classes; start += CHUNK) {
        int n = (int)(n_classes - start < CHUNK ? n_classes - start : CHUNK), k = 0;
        const Z *part = z + start;
        Z here = -(Z)INFINITY;
        STORED most = none - (Z)INFINITY;
        for (; k + STORED_WIDTH <= n; k += STORED_WIDTH) {
            STORED new;
            memcpy(&new, part + k, sizeof new);
            most = STORED_MAX(new, most);
            taint = STORED_TAINT(taint, new);
        }
        memcpy(each, &most, sizeof most);
        for (int i = 0; i < STORED_WIDTH; i++)
            here = each[i] > here ? each[i] : here;
        for (; k < n; k++) {
            here = part[k] > here ? part[k] : here;
            if (!((part[k] < 0 ? -part[k] : part[k]) <= (Z)LIMIT_OF_LOGITS))
                some = (Z)NAN;
        }
        if (here > largest) {
            largest = here;
            begin = start;
        }
    }
    memcpy(each, &taint, sizeof taint);
    for (int i = 0; i < STORED_WIDTH; i++)
        some += each[i];
    int n = (int)(n_classes - begin < CHUNK ? n_classes - begin : CHUNK), place = 0;
    while (place < n - 1 && z[begin + place] != largest)
        place++;
    *top = begin + place;
    *is_unusual = some != 0; /* NaN is not 0 */
    return largest;
}

static int FN(by_columns)(const Z *z, int64_t apart, int64_t n_rows, int64_t n_classes, const double *weights,
                          const nishimori_plan *plan, int n_powers, int64_t stride, T *scratch, int64_t *top, Z *peak, double *sums)
{
    int is_unusual = 0;
    Z part[CHUNK];
    for (int64_t i = 0; i < n_rows; i++, z += apart) {
        for (int64_t b = 0; b < plan->n_betas * n_powers; b++)
            sums[b * stride + i] = 0.0;
        if (weights && weights[i] == 0.0) { /* this row may hold anything */
            top[i] = NONE;
            continue;
        }
        int unusual;
        peak[i] = FN(first_maximum)(z, n_classes, top + i, &unusual);
        T largest = (T)peak[i];
        is_unusual |= unusual;
        for (int64_t start = 0; start < n_classes; start += CHUNK) {
            int n = (int)(n_classes - start < CHUNK ? n_classes - start : CHUNK), padded = (n + 15) / 16 * 16;
            const Z *from = z + start;
            if (padded > n || (start <= top[i] && top[i] < start + n)) { /* the top class is left out */
                memcpy(part, from, (size_t)n * sizeof(Z));
                for (int k = n; k < padded; k++)
                    part[k] = -(Z)INFINITY;
                if (start <= top[i] && top[i] < start + n)
                    part[top[i] - start] = -(Z)INFINITY;
                from = part;
            }
            for (int64_t chain = 0; chain < plan->n_chains; chain++) {
                int64_t first = plan->chains[chain], last = plan->chains[chain + 1];
                FN(constants) c = FN(constants_of)(plan->terms + chain);
                for (int64_t b = first; b < last; b++) {
                    double found[N_POWERS];
                    if (first + 1 == last) {
                        FN(sum_once)(from, largest, padded, c, n_powers, found);
                    } else if (b == first) {
                        FN(sum_first)(from, largest, padded, c, scratch, n_powers, found);
                    } else {
                        FN(square)(scratch, padded);
                        FN(sum_again)(from, largest, padded, c, scratch, n_powers, found);
                    }
                    double *to = sums + plan->places[b] * n_powers * stride + i;
                    for (int j = 0; j < n_powers; j++)
                        to[j * stride] += found[j] * plan->factors[N_POWERS * b + j];
                }
            }
        }
    }
    return is_unusual;
}

/* --- few classes: lanes are rows ---------------------------------------------------------------------------------------- */

#ifdef HAVE_SHUFFLES
/* Four rows of four numbers as four columns. */
static ALWAYS_INLINE void FN(transpose_quads)(const Z *z, int64_t apart, T *columns)
{
    typedef Z rows_of_4 __attribute__((vector_size(4 * sizeof(Z))));
    typedef T columns_of_4 __attribute__((vector_size(4 * sizeof(T))));
    rows_of_4 a, b, c, d, t0, t1, t2, t3;
    columns_of_4 column;
    memcpy(&a, z, sizeof a);
    memcpy(&b, z + apart, sizeof b);
    memcpy(&c, z + 2 * apart, sizeof c);
    memcpy(&d, z + 3 * apart, sizeof d);
    TRANSPOSE_QUADS(a, b, c, d, t0, t1, t2, t3);
    column = CONVERT(a, columns_of_4), memcpy(columns, &column, sizeof column);
    column = CONVERT(b, columns_of_4), memcpy(columns + LANES, &column, sizeof column);
    column = CONVERT(c, columns_of_4), memcpy(columns + 2 * LANES, &column, sizeof column);
    column = CONVERT(d, columns_of_4), memcpy(columns + 3 * LANES, &column, sizeof column);
}
#endif

/* Rows, which begin `apart` numbers after each other, as columns; lanes beyond the last row are zero. */
static NO_INLINE void FN(transpose)(const Z *restrict z, int64_t apart, int n_rows, int n_classes, T *restrict columns)
{
    int begin = 0;
#ifdef HAVE_SHUFFLES
    for (; n_classes >= 4 && begin + 4 <= n_rows; begin += 4) {
        const Z *rows = z + begin * apart;
        for (int k = 0; k + 4 <= n_classes; k += 4)
            FN(transpose_quads)(rows + k, apart, columns + k * LANES + begin);
        if (n_classes % 4) /* some columns once more */
            FN(transpose_quads)(rows + n_classes - 4, apart, columns + (n_classes - 4) * LANES + begin);
    }
#endif
    for (int i = begin; i < LANES; i++)
        for (int k = 0; k < n_classes; k++)
            columns[k * LANES + i] = i < n_rows ? (T)z[i * apart + k] : 0;
}

static NO_INLINE void FN(lane_maxima)(const T *columns, int n_classes, T *largest, INTEGER *place, T *tainted)
{
    for (int i = 0; i < LANES; i += WIDTH) {
        VECTOR zero = {0}, most = zero - (T)INFINITY, taint = zero;
        MASK none = {0}, at = none;
        for (int k = 0; k < n_classes; k++) {
            VECTOR z = FN(load)(columns + k * LANES + i);
            taint = TAINT(taint, z);
            at = SELECT_INTEGER(z > most, none + (INTEGER)k, at);
            most = VMAX(z, most);
        }
        FN(store)(largest + i, most);
        memcpy(place + i, &at, sizeof at);
        FN(store)(tainted + i, taint);
    }
}

static ALWAYS_INLINE void FN(sum_lanes)(const T *columns, const T *largest, int first, int last, FN(constants) c,
                                        const T *weights, int use, int n_powers, T *result)
{
    for (int i = 0; i < LANES; i += WIDTH) {
        VECTOR peak = FN(load)(largest + i);
        FN(powers) sums = {{0}, {0}, {0}, {0}, {0}, {0}};
        for (int k = first; k < last; k++) {
            VECTOR y = FN(scaled)(FN(load)(columns + k * LANES + i) - peak, c);
            FN(add)(&sums, y, use == AGAIN ? FN(load)(weights + k * LANES + i) : FN(exp2)(y, c), n_powers);
        }
        FN(store)(result + i, sums.a0);
        if (n_powers > 1)
            FN(store)(result + LANES + i, sums.a1);
        if (n_powers > 2)
            FN(store)(result + 2 * LANES + i, sums.a2);
        if (n_powers > 3) {
            FN(store)(result + 3 * LANES + i, sums.a3);
            FN(store)(result + 4 * LANES + i, sums.a4);
        }
        if (n_powers > 5)
            FN(store)(result + 5 * LANES + i, sums.a5);
    }
}

static NO_INLINE void FN(sum_lanes_once)(const T *columns, const T *largest, int first, int last, FN(constants) c, int n_powers,
                                         T *result)
{
#define CALL(order) FN(sum_lanes)(columns, largest, first, last, c, NULL, ONCE, order, result)
    ORDERS(CALL);
#undef CALL
}

static NO_INLINE void FN(sum_lanes_again)(const T *columns, const T *largest, int first, int last, FN(constants) c,
                                          const T *weights, int n_powers, T *result)
{
#define CALL(order) FN(sum_lanes)(columns, largest, first, last, c, weights, AGAIN, order, result)
    ORDERS(CALL);
#undef CALL
}

static NO_INLINE void FN(weigh_lanes)(const T *columns, const T *largest, int n_classes, FN(constants) c, T *weights)
{
    for (int k = 0; k < n_classes; k++)
        for (int i = 0; i < LANES; i += WIDTH) {
            VECTOR d = FN(load)(columns + k * LANES + i) - FN(load)(largest + i);
            FN(store)(weights + k * LANES + i, FN(exp2)(FN(scaled)(d, c), c));
        }
}

static NO_INLINE void FN(add_lanes)(const T *restrict parts, const double *factors, int n_powers, int n, int64_t stride,
                                    double *restrict sums)
{
    for (int j = 0; j < n_powers; j++) {
        double factor = factors[j];
        SIMD()
        for (int i = 0; i < n; i++)
            sums[j * stride + i] += parts[j * LANES + i] * factor;
    }
}

static int FN(by_rows)(const Z *z, int64_t apart, int n_rows, int n_classes, const double *weights, const nishimori_plan *plan,
                       int n_powers, int64_t stride, T *scratch, int64_t *top, Z *peak, double *sums)
{
    T *columns = scratch, *known = scratch + (size_t)n_classes * LANES;
    T largest[LANES], tainted[LANES], parts[N_POWERS * LANES];
    INTEGER place[LANES];
    FN(transpose)(z, apart, n_rows, n_classes, columns);
    FN(lane_maxima)(columns, n_classes, largest, place, tainted);
    for (int i = 0; i < LANES; i++)
        columns[place[i] * LANES + i] = -(T)INFINITY; /* the top class is left out */
    for (int64_t chain = 0; chain < plan->n_chains; chain++) {
        int64_t begin = plan->chains[chain], end = plan->chains[chain + 1];
        FN(constants) c = FN(constants_of)(plan->terms + chain);
        int single = begin + 1 == end;
        if (!single)
            FN(weigh_lanes)(columns, largest, n_classes, c, known);
        for (int64_t b = begin; b < end; b++) {
            double *to = sums + plan->places[b] * n_powers * stride;
            if (b > begin)
                FN(square)(known, n_classes * LANES);
            for (int j = 0; j < n_powers; j++)
                memset(to + j * stride, 0, (size_t)n_rows * sizeof(double));
            for (int first = 0; first < n_classes; first += GROUP) {
                int last = first + GROUP < n_classes ? first + GROUP : n_classes;
                if (single)
                    FN(sum_lanes_once)(columns, largest, first, last, c, n_powers, parts);
                else
                    FN(sum_lanes_again)(columns, largest, first, last, c, known, n_powers, parts);
                FN(add_lanes)(parts, plan->factors + N_POWERS * b, n_powers, n_rows, stride, to);
            }
        }
    }
    int some_left_out = 0;
    for (int i = 0; weights && i < n_rows; i++)
        some_left_out |= weights[i] == 0.0;
    for (int i = 0; i < n_rows; i++) {
        top[i] = place[i];
        peak[i] = (Z)largest[i];
    }
    for (int i = 0; some_left_out && i < n_rows; i++) {
        if (weights[i] != 0.0)
            continue;
        top[i] = NONE; /* this row may hold anything */
        tainted[i] = 0;
        for (int64_t b = 0; b < plan->n_betas * n_powers; b++)
            sums[b * stride + i] = 0.0;
    }
    T some = 0;
    for (int i = 0; i < n_rows; i++)
        some += tainted[i];
    return some != 0; /* NaN is not 0 */
}

/* --- both layouts ------------------------------------------------------------------------------------------------------- */

/* How many numbers the scratch of some rows has. */
static size_t FN(scratch_size)(int64_t n_classes)
{
    return n_classes * (int64_t)sizeof(T) <= FEW ? 2 * (size_t)n_classes * LANES : CHUNK;
}

/* Fill `top`, `peak` and `sums` (betas, powers, stride) with what n rows give, which begin `apart` numbers after each other. `weights` may be null. Rows of weight zero have sums of
zero, and their top class is NONE. Returns whether some logit in another row is NaN, infinite, or too large. */
static int FN(fill)(const Z *z, int64_t apart, int64_t n, int64_t n_classes, const double *weights, const nishimori_plan *plan,
                    int n_powers, int64_t stride, T *scratch, int64_t *top, Z *peak, double *sums)
{
    int is_unusual = 0;
    if (n_classes * (int64_t)sizeof(T) > FEW)
        return FN(by_columns)(z, apart, n, n_classes, weights, plan, n_powers, stride, scratch, top, peak, sums);
    for (int64_t start = 0; start < n; start += LANES) {
        int here = (int)(n - start < LANES ? n - start : LANES);
        const double *some = weights ? weights + start : NULL;
        is_unusual |= FN(by_rows)(z + start * apart, apart, here, (int)n_classes, some, plan, n_powers, stride, scratch,
                                  top + start, peak + start, sums + start);
    }
    return is_unusual;
}

static int FN(power_sums)(const Z *z, int64_t n, int64_t n_classes, const nishimori_plan *plan, int n_powers, Z *peak,
                          int64_t *top, double *sums)
{
    T *memory, *scratch = aligned_memory(FN(scratch_size)(n_classes) * sizeof(T), (void **)&memory);
    if (!scratch)
        return NO_MEMORY;
    FN(fill)(z, n_classes, n, n_classes, NULL, plan, n_powers, n, scratch, top, peak, sums);
    free(memory);
    return 0;
}

/* Whether the top class of each row is true, and how far the logit of its true class lies below the largest. Rows that do not
count have neither. Returns whether some label is not the number of a class. */
static int FN(label_rows)(const Z *z, int64_t apart, const int64_t *labels, int64_t n, int64_t n_classes, const int64_t *top, const Z *peak,
                          double *right, double *drops)
{
    int64_t some_left_out = 0, is_unusual = 0;
    SIMD(reduction(| : some_left_out))
    for (int64_t i = 0; i < n; i++) /* one test for each of the usual rows would take as long as the rest */
        some_left_out |= (top[i] == NONE) | (labels[i] < 0) | (labels[i] >= n_classes);
    for (int64_t i = 0; i < n; i++) {
        int64_t label = labels[i];
        if (some_left_out && (top[i] == NONE || label < 0 || label >= n_classes)) {
            right[i] = drops[i] = 0.0;
            is_unusual |= top[i] != NONE;
            continue;
        }
        right[i] = label == top[i];
        drops[i] = (double)z[i * apart + label] - (double)peak[i];
    }
    return is_unusual != 0;
}

static int FN(block_sums)(const Z *z, int64_t apart, const int64_t *labels, const double *weights, int64_t n, int64_t n_classes,
                          const nishimori_plan *plan, double *total)
{
    T *memory, *scratch = aligned_memory(FN(scratch_size)(n_classes) * sizeof(T), (void **)&memory);
    double sums[2 * N_POWERS * ROWS], right[ROWS], drops[ROWS];
    int64_t top[ROWS];
    Z peak[ROWS];
    int is_unusual = 0;
    if (!scratch)
        return NO_MEMORY;
    for (int64_t start = 0; start < n; start += ROWS) {
        int here = (int)(n - start < ROWS ? n - start : ROWS);
        const Z *rows = z + start * apart;
        is_unusual |= FN(fill)(rows, apart, here, n_classes, weights + start, plan, N_POWERS, ROWS, scratch, top, peak, sums);
        is_unusual |= FN(label_rows)(rows, apart, labels + start, here, n_classes, top, peak, right, drops);
        add_rows(sums, sums + (plan->n_betas - 1) * N_POWERS * ROWS, right, drops, weights + start, here, total);
    }
    free(memory);
    return is_unusual;
}

#undef ORDERS
