/* Probabilities of rows of logits, written where the caller wants them, and the sums that scores of rows are made of. native.c
includes this file after native_rows.h, whose macros and functions it uses.

The classes at the maximum, whose weights are 1, are counted, and the weights of all others are summed apart from them: added
to 1 in float, each would lose up to 6e-8. */

/* From so many classes on, lanes are columns. Measured: with fewer vectors in a row, sums over the lanes of one cost more than two
transpositions. */
#define MANY (3 * WIDTH)

/* A logit is unusual if it is NaN or infinite, or larger in size than the limit. */
static ALWAYS_INLINE MASK FN(unusual)(VECTOR z)
{
    VECTOR zero = {0}, size = VMAX(z, -z); /* NaN if z is */
    return ~MASK_OF(size <= zero + (T)LIMIT_OF_LOGITS);
}

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

/* Whether one of n probabilities is 0. */
static NO_INLINE int FN(has_zero)(const T *p, int64_t n)
{
    VECTOR zero = {0}, most = zero - (T)1;
    T lanes[WIDTH];
    int64_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH)
        most = VMAX(-FN(load)(p + i), most);
    memcpy(lanes, &most, sizeof most);
    for (int lane = 0; lane < WIDTH; lane++)
        if (lanes[lane] == 0)
            return 1;
    for (; i < n; i++)
        if (p[i] == 0)
            return 1;
    return 0;
}

/* Fill in probabilities that are too small for `exp2` above, which gave 0 for them: they may be subnormal numbers. */
static NO_INLINE void FN(fill_small)(const Z *z, int64_t n_rows, int64_t n_classes, FN(constants) c, T *to)
{
    if (!FN(has_zero)(to, n_rows * n_classes))
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
            if (to[k] == 0 && z[k] > -(Z)INFINITY)
                to[k] = (T)(exp2(((double)z[k] - (double)largest) * rate) * (double)most);
    }
}

/* --- many classes: lanes are columns ------------------------------------------------------------------------------------
Rows have at least one vector of numbers. The last vector of a row ends with the row, and so may hold some numbers of the one
before again, which are not summed twice. */

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
    MASK bad = {0}, is_new = FN(new_lanes)(n_classes);
    INTEGER each[WIDTH], some = 0;
    int64_t whole = n_classes / WIDTH * WIDTH, last = n_classes - WIDTH;
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
        FN(fill_small)(z, 1, n_classes, c, to);
    }
    memcpy(each, &bad, sizeof bad);
    for (int i = 0; i < WIDTH; i++)
        some |= each[i];
    return some != 0;
}

/* --- few classes: lanes are rows ---------------------------------------------------------------------------------------- */

/* The largest logit of each lane, and whether some logit of it is unusual. */
static NO_INLINE void FN(largest_of_lanes)(const T *columns, int n_classes, T *largest, INTEGER *is_unusual)
{
    for (int i = 0; i < LANES; i += WIDTH) {
        VECTOR zero = {0}, most = zero - (T)INFINITY;
        MASK bad = {0};
        for (int k = 0; k < n_classes; k++) {
            VECTOR z = FN(load)(columns + k * LANES + i);
            bad |= FN(unusual)(z);
            most = VMAX(z, most);
        }
        FN(store)(largest + i, most);
        memcpy(is_unusual + i, &bad, sizeof bad);
    }
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
    TRANSPOSE_QUADS(a, b, c, d, t0, t1, t2, t3);
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
    _Alignas(64) T columns[MANY * LANES];
    T largest[LANES];
    INTEGER unusual[LANES];
    int is_unusual = 0;
    if (n_classes >= MANY)
        return FN(softmax_by_columns)(z, n_rows, n_classes, c, to);
    for (int64_t start = 0; start < n_rows; start += LANES) {
        int here = (int)(n_rows - start < LANES ? n_rows - start : LANES), k = (int)n_classes;
        FN(transpose)(z + start * n_classes, n_classes, here, k, columns);
        FN(largest_of_lanes)(columns, k, largest, unusual);
        for (int i = 0; i < here; i++)
            is_unusual |= unusual[i] != 0;
        FN(softmax_lanes)(columns, largest, k, c);
        FN(restore_rows)(columns, here, k, to + start * n_classes);
        FN(fill_small)(z + start * n_classes, here, n_classes, c, to + start * n_classes);
    }
    return is_unusual;
}

#ifdef IS_IN_DOUBLE

/* --- what scores are made of --------------------------------------------------------------------------------------------
Of each row the largest logit, how many classes have it, and over all others the sum of the weights and of their squares. */

static ALWAYS_INLINE void FN(add_weights)(VECTOR d, MASK counts, FN(constants) c, VECTOR *below, VECTOR *squares, VECTOR *at)
{
    VECTOR zero = {0}, one = zero + (T)1;
    MASK lower = MASK_OF(d < zero);
    VECTOR w = SELECT(lower & counts, FN(exp2)(FN(scaled)(d, c), c), zero, VECTOR, MASK);
    *below += w;
    *squares += w * w;
    *at += SELECT(~lower & counts, one, zero, VECTOR, MASK);
}

static NO_INLINE int FN(weights_by_columns)(const Z *z, int n_rows, int64_t n_classes, const double *weights, FN(constants) c,
                                            double *peak, double *ties, double *rest, double *squares)
{
    VECTOR zero = {0}, lowest = zero - (T)INFINITY;
    MASK bad = {0}, all = ~bad, is_new = FN(new_lanes)(n_classes);
    INTEGER each[WIDTH], some = 0;
    int64_t whole = n_classes / WIDTH * WIDTH, last = n_classes - WIDTH;
    for (int i = 0; i < n_rows; i++, z += n_classes) {
        peak[i] = ties[i] = rest[i] = squares[i] = 0.0;
        if (weights[i] == 0.0) /* this row may hold anything */
            continue;
        VECTOR most = FN(load_logits)(z + last), at = zero;
        bad |= FN(unusual)(most);
        for (int64_t k = 0; k < whole; k += WIDTH) {
            VECTOR new = FN(load_logits)(z + k);
            bad |= FN(unusual)(new);
            most = VMAX(new, most);
        }
        T largest = FN(largest_in)(VMAX(most, lowest));
        for (int64_t start = 0; start < whole; start += CHUNK) {
            int64_t end = whole < start + CHUNK ? whole : start + CHUNK;
            VECTOR below = zero, square = zero;
            for (int64_t k = start; k < end; k += WIDTH)
                FN(add_weights)(FN(load_logits)(z + k) - largest, all, c, &below, &square, &at);
            if (end == whole && whole < n_classes)
                FN(add_weights)(FN(load_logits)(z + last) - largest, is_new, c, &below, &square, &at);
            rest[i] += FN(total)(below);
            squares[i] += FN(total)(square);
        }
        peak[i] = largest;
        ties[i] = FN(total)(at);
    }
    memcpy(each, &bad, sizeof bad);
    for (int i = 0; i < WIDTH; i++)
        some |= each[i];
    return some != 0;
}

static NO_INLINE void FN(weights_of_lanes)(const T *columns, const T *largest, int n_classes, FN(constants) c, T *ties, T *rest,
                                           T *squares)
{
    for (int i = 0; i < LANES; i += WIDTH) {
        VECTOR zero = {0}, peak = FN(load)(largest + i), below = zero, square = zero, at = zero;
        MASK none = {0};
        for (int k = 0; k < n_classes; k++)
            FN(add_weights)(FN(load)(columns + k * LANES + i) - peak, ~none, c, &below, &square, &at);
        FN(store)(ties + i, at);
        FN(store)(rest + i, below);
        FN(store)(squares + i, square);
    }
}

/* Fill arrays (ROWS) with what n rows give, and return whether some logit of a row that counts is unusual. */
static int FN(weights_of_rows)(const Z *z, int n, int64_t n_classes, const double *weights, FN(constants) c, double *peak,
                               double *ties, double *rest, double *squares)
{
    _Alignas(64) T columns[MANY * LANES];
    INTEGER unusual[LANES], some = 0;
    if (n_classes >= MANY)
        return FN(weights_by_columns)(z, n, n_classes, weights, c, peak, ties, rest, squares);
    for (int start = 0; start < n; start += LANES) {
        int here = n - start < LANES ? n - start : LANES, k = (int)n_classes;
        FN(transpose)(z + start * n_classes, n_classes, here, k, columns);
        FN(largest_of_lanes)(columns, k, peak + start, unusual);
        FN(weights_of_lanes)(columns, peak + start, k, c, ties + start, rest + start, squares + start);
        for (int i = 0; i < here; i++)
            some |= weights[start + i] != 0.0 ? unusual[i] : 0; /* a row without weight may hold anything */
    }
    return some != 0;
}

/* Whether the true class of each row is the first of its largest, and its difference from the largest; of rows that do not count
this means nothing. Returns whether some label is not the number of a class. */
static int FN(compare_labels)(const Z *z, const int64_t *labels, int n, int64_t n_classes, const double *weights,
                              const double *peak, const double *ties, double *right, double *drops)
{
    int is_unusual = 0;
    for (int i = 0; i < n; i++) {
        drops[i] = 0.0;
        if (weights[i] == 0.0)
            continue;
        if (labels[i] < 0 || labels[i] >= n_classes)
            is_unusual = 1;
        else
            drops[i] = (double)z[i * n_classes + labels[i]] - peak[i];
    }
    SIMD() /* a loop of its own: as a branch in the other, it would be mispredicted in every wrong answer */
    for (int i = 0; i < n; i++)
        right[i] = drops[i] == 0.0 ? 1.0 : 0.0;
    for (int i = 0; i < n; i++)
        if (ties[i] > 1.0 && weights[i] != 0.0 && !is_unusual)
            for (int64_t k = 0; k < labels[i]; k++)
                if ((double)z[i * n_classes + k] == peak[i])
                    right[i] = 0.0;
    return is_unusual;
}

/* What scores of at most ROWS rows are made of: over all classes but the top one the sum of the weights and of their squares,
whether the top class is true, and the difference of the true class from it. Returns whether a logit or a label is unusual. */
static int FN(rows_to_score)(const Z *z, const int64_t *labels, const double *weights, int n, int64_t n_classes,
                             const nishimori_term *term, double *rest, double *squares, double *right, double *drops)
{
    double peak[ROWS], ties[ROWS];
    int is_unusual = FN(weights_of_rows)(z, n, n_classes, weights, FN(constants_of)(term), peak, ties, rest, squares);
    is_unusual |= FN(compare_labels)(z, labels, n, n_classes, weights, peak, ties, right, drops);
    for (int i = 0; i < n; i++) {
        double others = ties[i] > 1.0 ? ties[i] - 1.0 : 0.0;
        rest[i] += others;
        squares[i] += others;
    }
    return is_unusual;
}

/* --- rows that each have a β of their own -------------------------------------------------------------------------------
Of each row, with x = βd, the sums of exp(x), x exp(x) and x² exp(x) over all classes below the largest. The β of a row is that of
its group: `codes`, or the first column of its largest logit if that is null. */

typedef struct {
    VECTOR a0, a1, a2, at;
} FN(moments);

static ALWAYS_INLINE void FN(add_moments)(VECTOR d, VECTOR beta, MASK counts, FN(constants) c, FN(moments) *to)
{
    VECTOR zero = {0}, one = zero + 1.0, x = FN(scaled)(d * beta, c); /* finite, whatever the row holds */
    MASK lower = MASK_OF(d < zero);
    VECTOR w = SELECT(lower & counts, FN(exp2)(x, c), zero, VECTOR, MASK);
    to->a0 += w;
    to->a1 += w * x;
    to->a2 += w * x * x;
    to->at += SELECT(~lower & counts, one, zero, VECTOR, MASK);
}

/* Of one row, at least a vector long. */
static NO_INLINE void FN(moments_of_row)(const Z *z, int64_t n_classes, T largest, T beta, FN(constants) c, MASK is_new,
                                         double *found)
{
    VECTOR zero = {0}, betas = zero + beta;
    MASK none = {0};
    int64_t whole = n_classes / WIDTH * WIDTH, last = n_classes - WIDTH;
    FN(moments) sums = {{0}, {0}, {0}, {0}};
    for (int64_t k = 0; k < whole; k += WIDTH)
        FN(add_moments)(FN(load_logits)(z + k) - largest, betas, ~none, c, &sums);
    if (whole < n_classes)
        FN(add_moments)(FN(load_logits)(z + last) - largest, betas, is_new, c, &sums);
    found[0] = FN(total)(sums.a0), found[1] = FN(total)(sums.a1), found[2] = FN(total)(sums.a2), found[3] = FN(total)(sums.at);
}

static NO_INLINE void FN(moments_of_lanes)(const T *columns, const T *largest, const T *betas, int n_classes, FN(constants) c,
                                           T *rest, T *first, T *second, T *ties)
{
    for (int i = 0; i < LANES; i += WIDTH) {
        VECTOR peak = FN(load)(largest + i), beta = FN(load)(betas + i);
        MASK none = {0};
        FN(moments) sums = {{0}, {0}, {0}, {0}};
        for (int k = 0; k < n_classes; k++)
            FN(add_moments)(FN(load)(columns + k * LANES + i) - peak, beta, ~none, c, &sums);
        FN(store)(rest + i, sums.a0);
        FN(store)(first + i, sums.a1);
        FN(store)(second + i, sums.a2);
        FN(store)(ties + i, sums.at);
    }
}

/* The largest logit of a row that is at least a vector long, and whether some logit is unusual. */
static ALWAYS_INLINE T FN(largest_of_row)(const Z *z, int64_t n_classes, MASK *bad)
{
    VECTOR zero = {0}, most = FN(load_logits)(z + n_classes - WIDTH);
    *bad |= FN(unusual)(most);
    for (int64_t k = 0; k + WIDTH <= n_classes; k += WIDTH) {
        VECTOR new = FN(load_logits)(z + k);
        *bad |= FN(unusual)(new);
        most = VMAX(new, most);
    }
    return FN(largest_in)(VMAX(most, zero - (T)INFINITY)); /* NaN is nobody's largest */
}

static ALWAYS_INLINE int64_t FN(first_at)(const Z *z, int64_t n_classes, double largest)
{
    int64_t k = 0;
    while (k < n_classes - 1 && (double)z[k] != largest)
        k++;
    return k;
}

/* Fill arrays (ROWS) with what n rows give; `groups` with the group of each. Returns whether a logit, a label or a group of a row
that counts is unusual. */
static int FN(rows_of_groups)(const Z *z, const int64_t *labels, const int64_t *codes, const double *weights, int n,
                              int64_t n_classes, const double *betas, int64_t n_groups, const nishimori_term *one_term,
                              int64_t *groups, double *rest, double *first, double *second, double *right, double *drops)
{
    FN(constants) c = FN(constants_of)(one_term);
    _Alignas(64) T columns[MANY * LANES];
    double peak[ROWS], ties[ROWS], row_betas[LANES];
    INTEGER unusual[LANES], each[WIDTH], some = 0;
    MASK bad = {0}, is_new = FN(new_lanes)(n_classes);
    int is_unusual = 0, is_many = n_classes >= MANY;
    for (int start = 0; start < n; start += LANES) {
        int here = n - start < LANES ? n - start : LANES;
        const Z *rows = z + start * n_classes;
        if (!is_many) {
            FN(transpose)(rows, n_classes, here, (int)n_classes, columns);
            FN(largest_of_lanes)(columns, (int)n_classes, peak + start, unusual);
        }
        for (int i = 0; i < LANES; i++) {
            int row = start + i;
            int64_t group = 0;
            row_betas[i] = 1.0;
            if (i >= here)
                continue;
            if (weights[row] == 0.0) { /* this row may hold anything; its sums are finite, and do not count */
                groups[row] = 0;
                if (is_many)
                    peak[row] = 0.0, ties[row] = 1.0, rest[row] = first[row] = second[row] = 0.0;
                continue;
            }
            if (is_many)
                peak[row] = FN(largest_of_row)(rows + i * n_classes, n_classes, &bad);
            else
                some |= unusual[i];
            group = codes ? codes[row] : FN(first_at)(rows + i * n_classes, n_classes, peak[row]);
            if (group < 0 || group >= n_groups) {
                is_unusual = 1;
                group = 0;
            }
            groups[row] = group;
            row_betas[i] = betas[group];
            if (is_many) {
                double found[4];
                FN(moments_of_row)(rows + i * n_classes, n_classes, peak[row], betas[group], c, is_new, found);
                rest[row] = found[0], first[row] = found[1], second[row] = found[2], ties[row] = found[3];
            }
        }
        if (!is_many)
            FN(moments_of_lanes)(columns, peak + start, row_betas, (int)n_classes, c, rest + start, first + start, second + start,
                                 ties + start);
    }
    memcpy(each, &bad, sizeof bad);
    for (int i = 0; i < WIDTH; i++)
        some |= each[i];
    is_unusual |= some != 0;
    is_unusual |= FN(compare_labels)(z, labels, n, n_classes, weights, peak, ties, right, drops);
    for (int i = 0; i < n; i++)
        rest[i] += ties[i] > 1.0 ? ties[i] - 1.0 : 0.0;
    return is_unusual;
}

#endif

#undef MANY
