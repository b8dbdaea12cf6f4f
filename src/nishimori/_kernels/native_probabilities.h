/* Probabilities of rows of logits, written where the caller wants them: for float and for double, as native_rows.h, whose macros
and functions this file uses.

The classes at the maximum, whose weights are 1, are counted, and the weights of all others are summed apart from them: added
to 1 in float, each would lose up to 6e-8. */

/* Weights of one vector of differences, and their sums: of those below the maximum, and of those at it. NaN counts as at it, so
that no sum is zero. */
static ALWAYS_INLINE VECTOR FN(weigh)(VECTOR d, FN(constants) c, VECTOR *below, VECTOR *at)
{
    VECTOR zero = {0}, one = zero + (T)1;
    VECTOR w = FN(exp2)(FN(scaled)(d, c), c);
    MASK lower = MASK_OF(d < zero);
    *below += SELECT(lower, w, zero, VECTOR, MASK);
    *at += SELECT(lower, zero, one, VECTOR, MASK);
    return w;
}

/* --- many classes: lanes are columns ------------------------------------------------------------------------------------
Rows have at least one vector of numbers. The last vector of a row ends with the row, and so may hold some numbers of the one
before again, which are not summed twice. */

static ALWAYS_INLINE T FN(largest_in)(VECTOR v)
{
    T lanes[WIDTH];
    memcpy(lanes, &v, sizeof v);
    for (int n = WIDTH / 2; n; n /= 2)
        for (int i = 0; i < n; i++)
            lanes[i] = lanes[i] > lanes[i + n] ? lanes[i] : lanes[i + n];
    return lanes[0];
}

/* The sum of two vectors, in double. */
static ALWAYS_INLINE double FN(total_of_both)(VECTOR v, VECTOR w)
{
    T first[WIDTH], second[WIDTH];
    double sums[WIDTH];
    memcpy(first, &v, sizeof v);
    memcpy(second, &w, sizeof w);
    for (int i = 0; i < WIDTH; i++)
        sums[i] = (double)first[i] + (double)second[i];
    for (int n = WIDTH / 2; n; n /= 2)
        for (int i = 0; i < n; i++)
            sums[i] += sums[i + n];
    return sums[0];
}

static NO_INLINE int FN(softmax_by_columns)(const Z *z, int64_t n_rows, int64_t n_classes, FN(constants) c, T *to)
{
    VECTOR zero = {0}, lowest = zero - (T)INFINITY;
    MASK bad = {0}, is_new;
    INTEGER new_lanes[WIDTH], each[WIDTH], some = 0;
    int64_t whole = n_classes / WIDTH * WIDTH, last = n_classes - WIDTH;
    for (int i = 0; i < WIDTH; i++)
        new_lanes[i] = last + i >= whole ? -1 : 0;
    memcpy(&is_new, new_lanes, sizeof is_new);
    for (int64_t row = 0; row < n_rows; row++, z += n_classes, to += n_classes) {
        VECTOR most = FN(load_logits)(z + last);
        bad |= FN(unusual)(most);
        for (int64_t k = 0; k < whole; k += WIDTH) {
            VECTOR new = FN(load_logits)(z + k);
            bad |= FN(unusual)(new);
            most = VMAX(new, most);
        }
        T largest = FN(largest_in)(VMAX(most, lowest)); /* NaN is nobody's largest */
        VECTOR at = zero;
        double total = 0.0;
        for (int64_t start = 0; start < whole; start += CHUNK) {
            int64_t end = whole < start + CHUNK ? whole : start + CHUNK;
            VECTOR below = zero;
            for (int64_t k = start; k < end; k += WIDTH)
                FN(store)(to + k, FN(weigh)(FN(load_logits)(z + k) - largest, c, &below, &at));
            if (end == whole && whole < n_classes) {
                VECTOR last_below = zero, last_at = zero;
                FN(store)(to + last, FN(weigh)(FN(load_logits)(z + last) - largest, c, &last_below, &last_at));
                below += SELECT(is_new, last_below, zero, VECTOR, MASK);
                at += SELECT(is_new, last_at, zero, VECTOR, MASK);
            }
            /* What is counted comes last, so that each of many small sums keeps its digits. */
            total += FN(total_of_both)(below, end == whole ? at : zero);
        }
        T factor = (T)(1.0 / total);
        VECTOR end = FN(load)(to + last) * factor;
        for (int64_t k = 0; k < whole; k += WIDTH)
            FN(store)(to + k, FN(load)(to + k) * factor);
        FN(store)(to + last, end);
    }
    memcpy(each, &bad, sizeof bad);
    for (int i = 0; i < WIDTH; i++)
        some |= each[i];
    return some != 0;
}

/* --- few classes: lanes are rows ---------------------------------------------------------------------------------------- */

/* The largest logit of each lane, and whether some logit of the first `n_rows` is unusual. */
static NO_INLINE int FN(largest_of_lanes)(const T *columns, int n_rows, int n_classes, T *largest)
{
    INTEGER each[LANES], some = 0;
    for (int i = 0; i < LANES; i += WIDTH) {
        VECTOR zero = {0}, most = zero - (T)INFINITY;
        MASK bad = {0};
        for (int k = 0; k < n_classes; k++) {
            VECTOR z = FN(load)(columns + k * LANES + i);
            bad |= FN(unusual)(z);
            most = VMAX(z, most);
        }
        FN(store)(largest + i, most);
        memcpy(each + i, &bad, sizeof bad);
    }
    for (int i = 0; i < n_rows; i++)
        some |= each[i];
    return some != 0;
}

/* Turn logits into probabilities in their place. */
static NO_INLINE void FN(softmax_lanes)(T *columns, const T *largest, int n_classes, FN(constants) c)
{
    for (int i = 0; i < LANES; i += WIDTH) {
        VECTOR zero = {0}, one = zero + (T)1, peak = FN(load)(largest + i), sum = zero, at = zero;
        for (int first = 0; first < n_classes; first += GROUP) {
            int last = first + GROUP < n_classes ? first + GROUP : n_classes;
            VECTOR below = zero;
            for (int k = first; k < last; k++) {
                T *place = columns + k * LANES + i;
                FN(store)(place, FN(weigh)(FN(load)(place) - peak, c, &below, &at));
            }
            sum += below;
        }
        /* A step of Newton's method, from a quotient whose divisor was rounded twice. */
        VECTOR total = at + sum, lost = sum - (total - at), factor = one / total;
        factor += factor * (VFMA(-total, factor, one) - lost * factor);
        for (int k = 0; k < n_classes; k++) {
            T *place = columns + k * LANES + i;
            FN(store)(place, FN(load)(place) * factor);
        }
    }
}

#ifdef HAVE_SHUFFLES
/* Four columns of four numbers as four rows. */
static ALWAYS_INLINE void FN(restore_quads)(const T *columns, int n_classes, T *to)
{
    typedef T four __attribute__((vector_size(4 * sizeof(T))));
    four a, b, c, d, t0, t1, t2, t3;
    memcpy(&a, columns, sizeof a);
    memcpy(&b, columns + LANES, sizeof b);
    memcpy(&c, columns + 2 * LANES, sizeof c);
    memcpy(&d, columns + 3 * LANES, sizeof d);
    if (sizeof(T) == 4) { /* as in `transpose_quads` */
        t0 = __builtin_shufflevector(a, b, 0, 4, 1, 5), t1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
        t2 = __builtin_shufflevector(c, d, 0, 4, 1, 5), t3 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
        a = __builtin_shufflevector(t0, t2, 0, 1, 4, 5), b = __builtin_shufflevector(t0, t2, 2, 3, 6, 7);
        c = __builtin_shufflevector(t1, t3, 0, 1, 4, 5), d = __builtin_shufflevector(t1, t3, 2, 3, 6, 7);
    } else {
        t0 = __builtin_shufflevector(a, b, 0, 4, 2, 6), t1 = __builtin_shufflevector(a, b, 1, 5, 3, 7);
        t2 = __builtin_shufflevector(c, d, 0, 4, 2, 6), t3 = __builtin_shufflevector(c, d, 1, 5, 3, 7);
        a = __builtin_shufflevector(t0, t2, 0, 1, 4, 5), b = __builtin_shufflevector(t1, t3, 0, 1, 4, 5);
        c = __builtin_shufflevector(t0, t2, 2, 3, 6, 7), d = __builtin_shufflevector(t1, t3, 2, 3, 6, 7);
    }
    memcpy(to, &a, sizeof a);
    memcpy(to + n_classes, &b, sizeof b);
    memcpy(to + 2 * n_classes, &c, sizeof c);
    memcpy(to + 3 * n_classes, &d, sizeof d);
}
#endif

/* Columns as rows again. */
static NO_INLINE void FN(restore_rows)(const T *restrict columns, int n_rows, int n_classes, T *restrict to)
{
    int begin = 0;
#ifdef HAVE_SHUFFLES
    for (; n_classes >= 4 && begin + 4 <= n_rows; begin += 4) {
        T *rows = to + begin * n_classes;
        for (int k = 0; k + 4 <= n_classes; k += 4)
            FN(restore_quads)(columns + k * LANES + begin, n_classes, rows + k);
        if (n_classes % 4) /* some columns once more */
            FN(restore_quads)(columns + (n_classes - 4) * LANES + begin, n_classes, rows + n_classes - 4);
    }
#endif
    for (int i = begin; i < n_rows; i++)
        for (int k = 0; k < n_classes; k++)
            to[i * n_classes + k] = columns[k * LANES + i];
}

/* --- both layouts ------------------------------------------------------------------------------------------------------- */

static int FN(softmax)(const Z *z, int64_t n_rows, int64_t n_classes, const nishimori_term *term, T *to)
{
    FN(constants) c = FN(constants_of)(term);
    T *memory, *columns, largest[LANES];
    int is_unusual = 0;
    if (n_classes >= 3 * WIDTH) /* measured: with fewer vectors, sums over the lanes of one cost more than two transpositions */
        return FN(softmax_by_columns)(z, n_rows, n_classes, c, to);
    columns = aligned_memory((size_t)n_classes * LANES * sizeof(T), (void **)&memory);
    if (!columns)
        return NO_MEMORY;
    for (int64_t start = 0; start < n_rows; start += LANES) {
        int here = (int)(n_rows - start < LANES ? n_rows - start : LANES), k = (int)n_classes;
        FN(transpose)(z + start * n_classes, here, k, columns);
        is_unusual |= FN(largest_of_lanes)(columns, here, k, largest);
        FN(softmax_lanes)(columns, largest, k, c);
        FN(restore_rows)(columns, here, k, to + start * n_classes);
    }
    free(memory);
    return is_unusual;
}
