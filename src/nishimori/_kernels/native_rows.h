/* The loops over logits for one pair of number types: Z, as they are stored, and T, in which the sums are computed.

native.c includes this file once per pair. Before that it defines Z, T and FN (the suffix of all functions), and for T: VECTOR
and MASK (as many numbers and integers as the processor takes at once), WIDTH (how many), INTEGER (of the same size), DOUBLES (as many
doubles), VFMA, VMAX, ROUND, POWER, POLYNOMIAL and LEAST_SQUARED. STORED, STORED_MASK, STORED_WIDTH, STORED_INTEGER, STORED_MAX and
STORED_TAINT are the same for Z, LOGITS is a vector of as many Z as VECTOR has numbers, TO_COLUMNS transposes four columns of
TRANSPOSED rows and TO_ROWS transposes them back, and larger logits than LIMIT_OF_LOGITS have to be checked.

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

static ALWAYS_INLINE double FN(total)(DOUBLES v)
{
    double sums[WIDTH];
    memcpy(sums, &v, sizeof v);
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
    return POLYNOMIAL(r) * POWER(AS_INTEGER(shifted, MASK));
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

/* Memory for some rows: weights that one β leaves for the next, transposed rows where classes are few, and otherwise the sums of one
row at all β. */
typedef struct {
    T *weights;
    Z *columns;
    DOUBLES *lanes;
    void *memory;
} FN(room);

static int FN(is_few)(int64_t n_classes)
{
    return n_classes * (int64_t)sizeof(Z) <= FEW;
}

static int FN(open_room)(FN(room) *room, int64_t n_classes, int64_t n_betas)
{
    size_t n_columns = FN(is_few)(n_classes) ? (size_t)n_classes * LANES : 0, n_weights = n_columns ? n_columns : CHUNK;
    size_t n_lanes = n_columns ? 0 : (size_t)n_betas * N_POWERS;
    room->lanes = aligned_memory(n_lanes * sizeof(DOUBLES) + n_weights * sizeof(T) + n_columns * sizeof(Z), &room->memory);
    if (!room->lanes)
        return 0;
    room->weights = (T *)(room->lanes + n_lanes);
    room->columns = (Z *)(room->weights + n_weights);
    return 1;
}

/* --- many classes: lanes are columns ------------------------------------------------------------------------------------ */

/* Add the sums over n classes, n a multiple of 16, to the lanes of `result`. Weights that others need are kept, or taken from where
the first kept them. */
static ALWAYS_INLINE void FN(sum_columns)(const Z *z, const Z *ahead, T largest, int n, FN(constants) c, T *weights, int use, int n_powers,
                                          DOUBLES *result)
{
    FN(powers) sums = {{0}, {0}, {0}, {0}, {0}, {0}};
    for (int i = 0; i < n; i += WIDTH) {
        PREFETCH(ahead + i);
        VECTOR y = FN(scaled)(FN(load_logits)(z + i) - largest, c);
        VECTOR w = use == AGAIN ? FN(load)(weights + i) : FN(exp2)(y, c);
        if (use == FIRST)
            FN(store)(weights + i, w);
        FN(add)(&sums, y, w, n_powers);
    }
    result[0] += CONVERT(sums.a0, DOUBLES);
    if (n_powers > 1)
        result[1] += CONVERT(sums.a1, DOUBLES);
    if (n_powers > 2)
        result[2] += CONVERT(sums.a2, DOUBLES);
    if (n_powers > 3)
        result[3] += CONVERT(sums.a3, DOUBLES), result[4] += CONVERT(sums.a4, DOUBLES);
    if (n_powers > 5)
        result[5] += CONVERT(sums.a5, DOUBLES);
}

/* A call for each number of powers, `order`, which the compiler then knows. */
#define ORDER(number, ...)                                                                                                     \
    do {                                                                                                                       \
        enum { order = number };                                                                                               \
        __VA_ARGS__;                                                                                                           \
    } while (0)
#define ORDERS(...)                                                                                                            \
    do {                                                                                                                       \
        if (n_powers == 1)                                                                                                     \
            ORDER(1, __VA_ARGS__);                                                                                             \
        else if (n_powers == 2)                                                                                                \
            ORDER(2, __VA_ARGS__);                                                                                             \
        else if (n_powers == 3)                                                                                                \
            ORDER(3, __VA_ARGS__);                                                                                             \
        else if (n_powers <= 5)                                                                                                \
            ORDER(5, __VA_ARGS__);                                                                                             \
        else                                                                                                                   \
            ORDER(6, __VA_ARGS__);                                                                                             \
    } while (0)

#define SUM_COLUMNS(name, use)                                                                                                 \
    static NO_INLINE void FN(name)(const Z *z, const Z *ahead, T largest, int n, FN(constants) c, T *weights, int n_powers,    \
                                   DOUBLES *result)                                                                            \
    {                                                                                                                          \
        ORDERS(FN(sum_columns)(z, ahead, largest, n, c, weights, use, order, result));                                         \
    }
SUM_COLUMNS(sum_once, ONCE)
SUM_COLUMNS(sum_first, FIRST)
SUM_COLUMNS(sum_again, AGAIN)
#undef SUM_COLUMNS

/* Which lanes of the last vector of a row are not in the vector before. */
static ALWAYS_INLINE MASK FN(new_lanes)(int64_t n_classes)
{
    INTEGER lanes[WIDTH];
    MASK found;
    for (int i = 0; i < WIDTH; i++)
        lanes[i] = i >= WIDTH - n_classes % WIDTH ? -1 : 0;
    memcpy(&found, lanes, sizeof found);
    return found;
}

/* The first of n numbers that equals the given one, or else the last. */
static ALWAYS_INLINE int FN(first_equal)(const Z *z, int n, Z given)
{
    int k = 0;
    for (; k + 32 < n; k += 32) { /* without a branch per number */
        int some = 0;
        SIMD(reduction(| : some))
        for (int i = 0; i < 32; i++)
            some |= z[k + i] == given;
        if (some)
            break;
    }
    while (k < n - 1 && z[k] != given)
        k++;
    return k;
}

static ALWAYS_INLINE void FN(look_at)(const Z *z, STORED *most, STORED *taint)
{
    STORED new;
    memcpy(&new, z, sizeof new);
    *most = STORED_MAX(new, *most);
    *taint = STORED_TAINT(*taint, new);
}

static ALWAYS_INLINE Z FN(largest_in)(STORED v)
{
    Z lanes[STORED_WIDTH];
    memcpy(lanes, &v, sizeof v);
    for (int n = STORED_WIDTH / 2; n; n /= 2)
        for (int i = 0; i < n; i++)
            lanes[i] = lanes[i] > lanes[i + n] ? lanes[i] : lanes[i + n];
    return lanes[0];
}

/* Whether a vector of STORED_TAINT says that some logit has to be checked. */
static ALWAYS_INLINE int FN(is_tainted)(STORED taint)
{
    Z lanes[STORED_WIDTH], some = 0;
    memcpy(lanes, &taint, sizeof taint);
    for (int i = 0; i < STORED_WIDTH; i++)
        some += lanes[i];
    return some != 0; /* NaN is not 0 */
}

/* The largest of n logits; NaN is nobody's largest. Of at least a vector of logits the last may be looked at with some before it,
also with those before z, which changes nothing. */
static ALWAYS_INLINE Z FN(largest)(const Z *z, int64_t n, int has_vector, STORED *taint)
{
    STORED zero = {0}, most = zero - (Z)INFINITY;
    int64_t k = 0;
    for (; k + STORED_WIDTH <= n; k += STORED_WIDTH)
        FN(look_at)(z + k, &most, taint);
    if (k < n && has_vector) {
        FN(look_at)(z + n - STORED_WIDTH, &most, taint);
        k = n;
    }
    Z found = FN(largest_in)(most);
    for (; k < n; k++) {
        found = z[k] > found ? z[k] : found;
        if (!((z[k] < 0 ? -z[k] : z[k]) <= (Z)LIMIT_OF_LOGITS))
            *taint = zero + (Z)NAN;
    }
    return found;
}

/* The largest logit of a row and its first column. It brings the row into the cache. */
static NO_INLINE Z FN(first_maximum)(const Z *z, int64_t n_classes, int64_t *top, STORED *taint)
{
    Z largest = -(Z)INFINITY;
    int64_t begin = 0;
    for (int64_t start = 0; start < n_classes; start += CHUNK) { /* so that its column is looked for in one of them */
        Z here = FN(largest)(z + start, n_classes - start < CHUNK ? n_classes - start : CHUNK, n_classes >= STORED_WIDTH, taint);
        if (here > largest) {
            largest = here;
            begin = start;
        }
    }
    *top = begin + FN(first_equal)(z + begin, (int)(n_classes - begin < CHUNK ? n_classes - begin : CHUNK), largest);
    return largest;
}

static int FN(by_columns)(const Z *z, int64_t apart, int64_t n_rows, int64_t n_classes, const double *weights,
                          const nishimori_plan *plan, int n_powers, int64_t stride, FN(room) room, int64_t *top, Z *peak,
                          double *sums)
{
    STORED taint = {0};
    Z part[CHUNK];
    for (int64_t i = 0; i < n_rows; i++, z += apart) {
        if (weights && weights[i] == 0.0) { /* this row may hold anything */
            for (int64_t b = 0; b < plan->n_betas * n_powers; b++)
                sums[b * stride + i] = 0.0;
            top[i] = NONE;
            continue;
        }
        const Z *ahead = i + 1 < n_rows ? z + apart : z;
        peak[i] = FN(first_maximum)(z, n_classes, top + i, &taint);
        T largest = (T)peak[i];
        memset(room.lanes, 0, (size_t)plan->n_betas * N_POWERS * sizeof *room.lanes);
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
                    DOUBLES *found = room.lanes + b * N_POWERS;
                    if (first + 1 == last) {
                        FN(sum_once)(from, ahead + start, largest, padded, c, NULL, n_powers, found);
                    } else if (b == first) {
                        FN(sum_first)(from, ahead + start, largest, padded, c, room.weights, n_powers, found);
                    } else {
                        FN(square)(room.weights, padded);
                        FN(sum_again)(from, ahead + start, largest, padded, c, room.weights, n_powers, found);
                    }
                }
            }
        }
        for (int64_t b = 0; b < plan->n_betas; b++) {
            double *to = sums + plan->places[b] * n_powers * stride + i;
            for (int j = 0; j < n_powers; j++)
                to[j * stride] = FN(total)(room.lanes[b * N_POWERS + j]) * plan->factors[N_POWERS * b + j];
        }
    }
    return FN(is_tainted)(taint);
}

/* --- few classes: lanes are rows ---------------------------------------------------------------------------------------- */

/* Rows, which begin `apart` numbers after each other, as columns; lanes beyond the last row are zero. */
static NO_INLINE void FN(transpose)(const Z *restrict z, int64_t apart, int n_rows, int n_classes, Z *restrict columns)
{
    int begin = 0;
#ifdef HAVE_SHUFFLES
    for (; n_classes >= 4 && begin + TRANSPOSED <= n_rows; begin += TRANSPOSED) {
        const Z *rows = z + begin * apart;
        for (int k = 0; k + 4 <= n_classes; k += 4)
            TO_COLUMNS(rows + k, apart, columns + k * LANES + begin);
        if (n_classes % 4) /* some columns once more */
            TO_COLUMNS(rows + n_classes - 4, apart, columns + (n_classes - 4) * LANES + begin);
    }
#endif
    for (int i = begin; i < LANES; i++)
        for (int k = 0; k < n_classes; k++)
            columns[k * LANES + i] = i < n_rows ? z[i * apart + k] : 0;
}

/* The largest logit of each lane, its first class, and NaN where some logit has to be checked. */
static NO_INLINE void FN(lane_maxima)(const Z *columns, int n_classes, Z *largest, STORED_INTEGER *place, Z *tainted)
{
    for (int i = 0; i < LANES; i += STORED_WIDTH) {
        STORED zero = {0}, most = zero - (Z)INFINITY, taint = zero;
        STORED_MASK none = {0}, at = none;
        for (int k = 0; k < n_classes; k++) {
            STORED z;
            memcpy(&z, columns + k * LANES + i, sizeof z);
            taint = STORED_TAINT(taint, z);
            at = SELECT_INTEGER(z > most, none + (STORED_INTEGER)k, at);
            most = STORED_MAX(z, most);
        }
        memcpy(largest + i, &most, sizeof most);
        memcpy(place + i, &at, sizeof at);
        memcpy(tainted + i, &taint, sizeof taint);
    }
}

static ALWAYS_INLINE void FN(sum_lanes)(const Z *columns, const Z *largest, const Z *ahead, int64_t apart, int first, int last, FN(constants) c,
                                        const T *weights, int use, int n_powers, T *result)
{
    for (int i = 0; i < LANES; i += WIDTH) {
        VECTOR peak = FN(load_logits)(largest + i);
        FN(powers) sums = {{0}, {0}, {0}, {0}, {0}, {0}};
        for (int k = first; k < last; k++) {
            PREFETCH(ahead + (i + k % WIDTH) * apart + k / WIDTH * WIDTH);
            VECTOR y = FN(scaled)(FN(load_logits)(columns + k * LANES + i) - peak, c);
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

static NO_INLINE void FN(sum_lanes_once)(const Z *columns, const Z *largest, const Z *ahead, int64_t apart, int first, int last, FN(constants) c, int n_powers,
                                         T *result)
{
    ORDERS(FN(sum_lanes)(columns, largest, ahead, apart, first, last, c, NULL, ONCE, order, result));
}

static NO_INLINE void FN(sum_lanes_again)(const Z *columns, const Z *largest, const Z *ahead, int64_t apart, int first, int last, FN(constants) c,
                                          const T *weights, int n_powers, T *result)
{
    ORDERS(FN(sum_lanes)(columns, largest, ahead, apart, first, last, c, weights, AGAIN, order, result));
}

static NO_INLINE void FN(weigh_lanes)(const Z *columns, const Z *largest, int n_classes, FN(constants) c, T *weights)
{
    for (int k = 0; k < n_classes; k++)
        for (int i = 0; i < LANES; i += WIDTH) {
            VECTOR d = FN(load_logits)(columns + k * LANES + i) - FN(load_logits)(largest + i);
            FN(store)(weights + k * LANES + i, FN(exp2)(FN(scaled)(d, c), c));
        }
}

static NO_INLINE void FN(add_lanes)(const T *restrict parts, const double *factors, int n_powers, int n, int is_first,
                                    int64_t stride, double *restrict sums)
{
    for (int j = 0; j < n_powers; j++) {
        double factor = factors[j];
        SIMD()
        for (int i = 0; i < n; i++)
            sums[j * stride + i] = parts[j * LANES + i] * factor + (is_first ? 0.0 : sums[j * stride + i]);
    }
}

/* Rows as columns without their top classes. Fills `largest` (LANES) with the logits of these and `top` with their columns, NONE
for rows of weight zero, and returns whether some logit of the other rows has to be checked. `weights` may be null. */
static int FN(leave_out_tops)(const Z *z, int64_t apart, int n_rows, int n_classes, const double *weights, Z *columns, Z *largest,
                              int64_t *top)
{
    Z tainted[LANES], some = 0;
    STORED_INTEGER place[LANES];
    FN(transpose)(z, apart, n_rows, n_classes, columns);
    FN(lane_maxima)(columns, n_classes, largest, place, tainted);
    for (int i = 0; i < LANES; i++)
        columns[place[i] * LANES + i] = -(Z)INFINITY;
    for (int i = 0; i < n_rows; i++)
        top[i] = place[i];
    for (int i = 0; weights && i < n_rows; i++)
        if (weights[i] == 0.0) { /* this row may hold anything */
            top[i] = NONE;
            tainted[i] = 0;
        }
    for (int i = 0; i < n_rows; i++)
        some += tainted[i];
    return some != 0; /* NaN is not 0 */
}

static int FN(by_rows)(const Z *z, int64_t apart, int n_rows, int n_classes, const double *weights, const nishimori_plan *plan,
                       int n_powers, int64_t stride, FN(room) room, const Z *ahead, int64_t *top, Z *peak, double *sums)
{
    Z *columns = room.columns, largest[LANES];
    T parts[N_POWERS * LANES];
    int is_unusual = FN(leave_out_tops)(z, apart, n_rows, n_classes, weights, columns, largest, top);
    memcpy(peak, largest, (size_t)n_rows * sizeof(Z));
    for (int64_t chain = 0; chain < plan->n_chains; chain++) {
        int64_t begin = plan->chains[chain], end = plan->chains[chain + 1];
        FN(constants) c = FN(constants_of)(plan->terms + chain);
        int single = begin + 1 == end;
        if (!single)
            FN(weigh_lanes)(columns, largest, n_classes, c, room.weights);
        for (int64_t b = begin; b < end; b++) {
            double *to = sums + plan->places[b] * n_powers * stride;
            if (b > begin)
                FN(square)(room.weights, n_classes * LANES);
            for (int first = 0; first < n_classes; first += GROUP) {
                int last = first + GROUP < n_classes ? first + GROUP : n_classes;
                if (single)
                    FN(sum_lanes_once)(columns, largest, ahead, apart, first, last, c, n_powers, parts);
                else
                    FN(sum_lanes_again)(columns, largest, ahead, apart, first, last, c, room.weights, n_powers, parts);
                FN(add_lanes)(parts, plan->factors + N_POWERS * b, n_powers, n_rows, first == 0, stride, to);
            }
        }
    }
    for (int i = 0; weights && i < n_rows; i++)
        for (int64_t b = 0; weights[i] == 0.0 && b < plan->n_betas * n_powers; b++)
            sums[b * stride + i] = 0.0;
    return is_unusual;
}

/* --- both layouts ------------------------------------------------------------------------------------------------------- */

/* Fill `top`, `peak` and `sums` (betas, powers, stride) with what n rows give, which begin `apart` numbers after each other. `weights` may be null. Rows of weight zero have sums of
zero, and their top class is NONE. Returns whether some logit in another row is NaN, infinite, or too large. */
static int FN(fill)(const Z *z, int64_t apart, int64_t n, int64_t n_classes, const double *weights, const nishimori_plan *plan,
                    int n_powers, int64_t stride, FN(room) room, int64_t *top, Z *peak, double *sums)
{
    int is_unusual = 0;
    if (!FN(is_few)(n_classes))
        return FN(by_columns)(z, apart, n, n_classes, weights, plan, n_powers, stride, room, top, peak, sums);
    for (int64_t start = 0; start < n; start += LANES) {
        int here = (int)(n - start < LANES ? n - start : LANES);
        const double *some = weights ? weights + start : NULL;
        const Z *rows = z + start * apart, *ahead = start + 2 * LANES <= n ? rows + LANES * apart : rows;
        is_unusual |= FN(by_rows)(rows, apart, here, (int)n_classes, some, plan, n_powers, stride, room, ahead, top + start, peak + start, sums + start);
    }
    return is_unusual;
}

static int FN(power_sums)(const Z *z, int64_t n, int64_t n_classes, const nishimori_plan *plan, int n_powers, Z *peak,
                          int64_t *top, double *sums)
{
    FN(room) room;
    if (!FN(open_room)(&room, n_classes, plan->n_betas))
        return NO_MEMORY;
    FN(fill)(z, n_classes, n, n_classes, NULL, plan, n_powers, n, room, top, peak, sums);
    free(room.memory);
    return 0;
}

/* Whether the top class of each row is true, and how far the logit of its true class lies below the largest. Rows that do not
count have neither. Returns whether some label is not the number of a class. */
static NO_INLINE int FN(label_rows)(const Z *z, int64_t apart, const int64_t *labels, int64_t n, int64_t n_classes, const int64_t *top, const Z *peak,
                          double *right, double *drops)
{
    int64_t some_left_out = 0, is_unusual = 0;
    SIMD(reduction(| : some_left_out))
    for (int64_t i = 0; i < n; i++) /* one test for each of the usual rows would take as long as the rest */
        some_left_out |= (top[i] == NONE) | (labels[i] < 0) | (labels[i] >= n_classes);
    if (!some_left_out) {
        for (int64_t i = 0; i < n; i++) /* loads alone: gathering vectors takes longer */
            drops[i] = (double)z[i * apart + labels[i]];
        SIMD()
        for (int64_t i = 0; i < n; i++) {
            right[i] = labels[i] == top[i] ? 1.0 : 0.0;
            drops[i] -= (double)peak[i];
        }
        return 0;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t label = labels[i];
        right[i] = drops[i] = 0.0;
        if (top[i] == NONE)
            continue;
        if (label < 0 || label >= n_classes) {
            is_unusual = 1;
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
    FN(room) room;
    double sums[2 * N_POWERS * ROWS], right[ROWS], drops[ROWS];
    int64_t top[ROWS];
    Z peak[ROWS];
    int is_unusual = 0;
    if (!FN(open_room)(&room, n_classes, plan->n_betas))
        return NO_MEMORY;
    for (int64_t start = 0; start < n; start += ROWS) {
        int here = (int)(n - start < ROWS ? n - start : ROWS);
        const Z *rows = z + start * apart;
        const double *some = weights ? weights + start : NULL;
        is_unusual |= FN(fill)(rows, apart, here, n_classes, some, plan, N_POWERS, ROWS, room, top, peak, sums);
        is_unusual |= FN(label_rows)(rows, apart, labels + start, here, n_classes, top, peak, right, drops);
        add_rows(sums, sums + (plan->n_betas - 1) * N_POWERS * ROWS, right, drops, some, here, total);
    }
    free(room.memory);
    return is_unusual;
}

#undef ORDER
#undef ORDERS
