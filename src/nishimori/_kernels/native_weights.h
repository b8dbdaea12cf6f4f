/* The sums of which scores of rows and sums of groups are made. native.c includes this file after native_rows.h, whose macros and
functions it uses, where T is double.

Over all classes but the top one, weights are summed with their squares, or with their first two moments. Where lanes are rows, the
top class was left out before. Where lanes are columns, classes at the maximum, whose weights are 1, are counted instead, and the
top class is subtracted from that number. */

typedef struct {
    VECTOR a0, a1, a2, at;
} FN(sums_below);

/* How many classes are at the maximum besides the top one. */
static ALWAYS_INLINE double FN(ties)(const FN(sums_below) *sums)
{
    double at = FN(total)(sums->at);
    return at > 1.0 ? at - 1.0 : 0.0;
}

/* --- weights and their squares, for scores ------------------------------------------------------------------------------ */

static ALWAYS_INLINE void FN(add_weights)(VECTOR d, FN(constants) c, MASK counts, FN(sums_below) *to)
{
    VECTOR zero = {0}, one = zero + (T)1;
    MASK lower = MASK_OF(d < zero);
    VECTOR w = SELECT(lower & counts, FN(exp2)(FN(scaled)(d, c), c), zero, VECTOR, MASK);
    to->a0 += w;
    to->a1 += w * w;
    to->at += SELECT(~lower & counts, one, zero, VECTOR, MASK);
}

static NO_INLINE void FN(weights_of_row)(const Z *z, int64_t n_classes, T largest, FN(constants) c, MASK is_new, double *rest,
                                         double *squares)
{
    MASK none = {0};
    int64_t whole = n_classes / WIDTH * WIDTH;
    FN(sums_below) sums = {{0}, {0}, {0}, {0}};
    for (int64_t k = 0; k < whole; k += WIDTH)
        FN(add_weights)(FN(load_logits)(z + k) - largest, c, ~none, &sums);
    if (whole < n_classes)
        FN(add_weights)(FN(load_logits)(z + n_classes - WIDTH) - largest, c, is_new, &sums);
    double ties = FN(ties)(&sums);
    *rest = FN(total)(sums.a0) + ties;
    *squares = FN(total)(sums.a1) + ties;
}

static NO_INLINE void FN(weights_of_lanes)(const Z *columns, const Z *largest, int n_classes, FN(constants) c, T *rest, T *squares)
{
    for (int i = 0; i < LANES; i += WIDTH) {
        VECTOR peak = FN(load_logits)(largest + i), sum = {0}, square = {0};
        for (int k = 0; k < n_classes; k++) {
            VECTOR w = FN(exp2)(FN(scaled)(FN(load_logits)(columns + k * LANES + i) - peak, c), c);
            sum += w;
            square += w * w;
        }
        FN(store)(rest + i, sum);
        FN(store)(squares + i, square);
    }
}

/* What scores of at most ROWS rows are made of: over all classes but the top one the sum of the weights and of their squares,
whether the top class is true, and the difference of the true class from it. Returns whether a logit or a label is unusual. */
static int FN(rows_to_score)(const Z *z, const int64_t *labels, const double *weights, int n, int64_t n_classes,
                             const nishimori_term *term, double *rest, double *squares, double *right, double *drops)
{
    FN(constants) c = FN(constants_of)(term);
    _Alignas(64) Z columns[FEW / sizeof(Z) * LANES];
    Z peak[ROWS];
    int64_t top[ROWS];
    STORED taint = {0};
    int is_unusual = 0, is_many = !FN(is_few)(n_classes);
    MASK is_new = FN(new_lanes)(n_classes);
    for (int i = 0; is_many && i < n; i++) {
        rest[i] = squares[i] = 0.0;
        top[i] = NONE;
        if (weights[i] == 0.0) /* this row may hold anything */
            continue;
        peak[i] = FN(first_maximum)(z + i * n_classes, n_classes, top + i, &taint);
        FN(weights_of_row)(z + i * n_classes, n_classes, (T)peak[i], c, is_new, rest + i, squares + i);
    }
    for (int start = 0; !is_many && start < n; start += LANES) {
        int here = n - start < LANES ? n - start : LANES, k = (int)n_classes;
        is_unusual |= FN(leave_out_tops)(z + start * k, k, here, k, weights + start, columns, peak + start, top + start);
        FN(weights_of_lanes)(columns, peak + start, k, c, rest + start, squares + start);
    }
    is_unusual |= FN(is_tainted)(taint);
    return is_unusual | FN(label_rows)(z, n_classes, labels, n, n_classes, top, peak, right, drops);
}

/* --- moments of rows that each have a β of their own, for groups --------------------------------------------------------
Of each row, with x = βd, the sums of exp(x), x exp(x) and x² exp(x) over all classes but the top one. */

static ALWAYS_INLINE void FN(add_moments)(VECTOR d, VECTOR beta, FN(constants) c, MASK counts, FN(sums_below) *to)
{
    VECTOR zero = {0}, one = zero + (T)1, x = FN(scaled)(d * beta, c); /* finite, whatever the row holds */
    MASK lower = MASK_OF(d < zero);
    VECTOR w = SELECT(lower & counts, FN(exp2)(x, c), zero, VECTOR, MASK);
    to->a0 += w;
    to->a1 += w * x;
    to->a2 += w * x * x;
    to->at += SELECT(~lower & counts, one, zero, VECTOR, MASK);
}

static NO_INLINE void FN(moments_of_row)(const Z *z, int64_t n_classes, T largest, T beta, FN(constants) c, MASK is_new,
                                         double *rest, double *first, double *second)
{
    VECTOR zero = {0}, betas = zero + beta;
    MASK none = {0};
    int64_t whole = n_classes / WIDTH * WIDTH;
    FN(sums_below) sums = {{0}, {0}, {0}, {0}};
    for (int64_t k = 0; k < whole; k += WIDTH)
        FN(add_moments)(FN(load_logits)(z + k) - largest, betas, c, ~none, &sums);
    if (whole < n_classes)
        FN(add_moments)(FN(load_logits)(z + n_classes - WIDTH) - largest, betas, c, is_new, &sums);
    *rest = FN(total)(sums.a0) + FN(ties)(&sums);
    *first = FN(total)(sums.a1);
    *second = FN(total)(sums.a2);
}

static NO_INLINE void FN(moments_of_lanes)(const Z *columns, const Z *largest, const T *betas, int n_classes, FN(constants) c,
                                           T *rest, T *first, T *second)
{
    for (int i = 0; i < LANES; i += WIDTH) {
        VECTOR peak = FN(load_logits)(largest + i), beta = FN(load)(betas + i), a0 = {0}, a1 = {0}, a2 = {0};
        for (int k = 0; k < n_classes; k++) {
            VECTOR x = FN(scaled)((FN(load_logits)(columns + k * LANES + i) - peak) * beta, c), w = FN(exp2)(x, c), wx = w * x;
            a0 += w;
            a1 += wx;
            a2 += wx * x;
        }
        FN(store)(rest + i, a0);
        FN(store)(first + i, a1);
        FN(store)(second + i, a2);
    }
}

/* The group of a row, or 0 if it is not the number of one, which is then unusual. */
static ALWAYS_INLINE int64_t FN(group_of)(const int64_t *codes, int64_t i, int64_t top, int64_t n_groups, int *is_unusual)
{
    int64_t group = codes ? codes[i] : top;
    if (top == NONE)
        return 0;
    *is_unusual |= group < 0 || group >= n_groups;
    return group < 0 || group >= n_groups ? 0 : group;
}

/* Fill arrays (ROWS) with what n rows give. The β of a row is that of its group, which goes to `groups`: `codes`, or the top class
if that is null. Returns whether a logit, a label or a group of a row that counts is unusual. */
static int FN(rows_of_groups)(const Z *z, const int64_t *labels, const int64_t *codes, const double *weights, int n,
                              int64_t n_classes, const double *betas, int64_t n_groups, const nishimori_term *one_term,
                              int64_t *groups, double *rest, double *first, double *second, double *right, double *drops)
{
    FN(constants) c = FN(constants_of)(one_term);
    _Alignas(64) Z columns[FEW / sizeof(Z) * LANES];
    Z peak[ROWS];
    int64_t top[ROWS];
    double row_betas[LANES];
    STORED taint = {0};
    int is_unusual = 0, is_many = !FN(is_few)(n_classes);
    MASK is_new = FN(new_lanes)(n_classes);
    for (int i = 0; is_many && i < n; i++) {
        rest[i] = first[i] = second[i] = 0.0;
        top[i] = NONE;
        groups[i] = 0;
        if (weights[i] == 0.0) /* this row may hold anything */
            continue;
        const Z *row = z + i * n_classes;
        peak[i] = FN(first_maximum)(row, n_classes, top + i, &taint);
        groups[i] = FN(group_of)(codes, i, top[i], n_groups, &is_unusual);
        FN(moments_of_row)(row, n_classes, (T)peak[i], betas[groups[i]], c, is_new, rest + i, first + i, second + i);
    }
    for (int start = 0; !is_many && start < n; start += LANES) {
        int here = n - start < LANES ? n - start : LANES, k = (int)n_classes;
        is_unusual |= FN(leave_out_tops)(z + start * k, k, here, k, weights + start, columns, peak + start, top + start);
        for (int i = 0; i < LANES; i++)
            row_betas[i] = 1.0;
        for (int i = start; i < start + here; i++) {
            groups[i] = FN(group_of)(codes, i, top[i], n_groups, &is_unusual);
            row_betas[i - start] = betas[groups[i]];
        }
        FN(moments_of_lanes)(columns, peak + start, row_betas, k, c, rest + start, first + start, second + start);
    }
    is_unusual |= FN(is_tainted)(taint);
    return is_unusual | FN(label_rows)(z, n_classes, labels, n, n_classes, top, peak, right, drops);
}
