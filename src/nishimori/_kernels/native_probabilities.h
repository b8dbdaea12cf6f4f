/* Probabilities of rows of logits, written where the caller wants them. native.c includes this file after native_rows.h, whose macros
and functions it uses, where Z is T. LEAST_WEIGHT is the least weight of which `exp2` has all digits.

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

/* Whether one of n probabilities is so small that `exp2` may have given anything below it. */
static NO_INLINE int FN(has_small)(const T *p, int64_t n)
{
    VECTOR zero = {0}, most = zero - (T)1;
    T lanes[WIDTH];
    int64_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH)
        most = VMAX(-FN(load)(p + i), most);
    memcpy(lanes, &most, sizeof most);
    for (int lane = 0; lane < WIDTH; lane++)
        if (lanes[lane] > -LEAST_WEIGHT)
            return 1;
    for (; i < n; i++)
        if (p[i] < LEAST_WEIGHT)
            return 1;
    return 0;
}

/* Fill in probabilities that are too small for `exp2` above: they may be subnormal numbers. It gave 0 for them, or something too
small where the power of two of its table has no exponent left. */
static NO_INLINE void FN(fill_small)(const Z *z, int64_t n_rows, int64_t n_classes, FN(constants) c, T *to)
{
    if (!FN(has_small)(to, n_rows * n_classes))
        return;
    for (int64_t row = 0; row < n_rows; row++, z += n_classes, to += n_classes) {
        Z largest = -(Z)INFINITY;
        T most = 0;
        for (int64_t k = 0; k < n_classes; k++) {
            largest = z[k] > largest ? z[k] : largest;
            most = to[k] > most ? to[k] : most;
        }
        double rate = ((double)c.high + (double)c.low) * (double)c.scale;
        for (int64_t k = 0; k < n_classes; k++)
            if (to[k] < LEAST_WEIGHT && z[k] > -(Z)INFINITY)
                to[k] = (T)(exp2(((double)z[k] - (double)largest) * rate) * (double)most);
    }
}

/* --- many classes: lanes are columns ------------------------------------------------------------------------------------
Rows have at least one vector of numbers. The last vector of a row ends with the row, and so may hold some numbers of the one
before again, which are not summed twice. */

/* The sum of two vectors, in double. */
static ALWAYS_INLINE double FN(total_of_both)(VECTOR v, VECTOR w)
{
    return FN(total)(CONVERT(v, DOUBLES) + CONVERT(w, DOUBLES));
}

static NO_INLINE int FN(softmax_by_columns)(const Z *z, int64_t n_rows, int64_t n_classes, FN(constants) c, T *to)
{
    VECTOR zero = {0};
    MASK is_new = FN(new_lanes)(n_classes);
    STORED taint = {0};
    int64_t whole = n_classes / WIDTH * WIDTH, last = n_classes - WIDTH;
    for (int64_t row = 0; row < n_rows; row++, z += n_classes, to += n_classes) {
        T largest = FN(largest)(z, n_classes, 1, &taint);
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
        FN(fill_small)(z, 1, n_classes, c, to);
    }
    return FN(is_tainted)(taint);
}

/* --- few classes: lanes are rows ---------------------------------------------------------------------------------------- */

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
        /* A step of Newton's method, from a quotient whose divisor was rounded twice. Rounded products would say nothing. */
        VECTOR total = at + sum, lost = sum - (total - at), factor = one / total;
        factor += factor * ((HAVE_FMA ? VFMA(-total, factor, one) : zero) - lost * factor);
        for (int k = 0; k < n_classes; k++) {
            T *place = columns + k * LANES + i;
            FN(store)(place, FN(load)(place) * factor);
        }
    }
}

/* Columns as rows again. */
static NO_INLINE void FN(restore_rows)(const T *restrict columns, int n_rows, int n_classes, T *restrict to)
{
    int begin = 0;
#ifdef HAVE_SHUFFLES
    for (; n_classes >= 4 && begin + TRANSPOSED <= n_rows; begin += TRANSPOSED) {
        T *rows = to + begin * n_classes;
        for (int k = 0; k + 4 <= n_classes; k += 4)
            TO_ROWS(columns + k * LANES + begin, rows + k, n_classes);
        if (n_classes % 4) /* some columns once more */
            TO_ROWS(columns + (n_classes - 4) * LANES + begin, rows + n_classes - 4, n_classes);
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
    _Alignas(64) T columns[FEW / sizeof(T) * LANES];
    T largest[LANES], tainted[LANES], some = 0;
    INTEGER place[LANES];
    if (!FN(is_few)(n_classes))
        return FN(softmax_by_columns)(z, n_rows, n_classes, c, to);
    for (int64_t start = 0; start < n_rows; start += LANES) {
        int here = (int)(n_rows - start < LANES ? n_rows - start : LANES), k = (int)n_classes;
        FN(transpose)(z + start * n_classes, n_classes, here, k, columns);
        FN(lane_maxima)(columns, k, largest, place, tainted);
        for (int i = 0; i < here; i++)
            some += tainted[i];
        FN(softmax_lanes)(columns, largest, k, c);
        FN(restore_rows)(columns, here, k, to + start * n_classes);
        FN(fill_small)(z + start * n_classes, here, n_classes, c, to + start * n_classes);
    }
    return some != 0; /* NaN is not 0 */
}
