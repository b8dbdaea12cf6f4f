/* Scores of rows, and their sums over rows and per bin of confidence: what `nishimori.evaluate` is made of. native.c includes this
file once, where T is double. */

enum { WRONG, CONFIDENCE, NLL, BRIER, N_SCORES };

/* The sums of scores x: Σw and Σu, then Σwx of each score, Σux/Σu of each, and Σu(x - Σux/Σu)² of each, with u = w² or, where
weights are counts, u = w; see `nishimori._sums.spread`. */
#define N_SCORE_SUMS (2 + 3 * N_SCORES)

/* The sums of a bin of confidence c: Σw, Σwc, Σwr, Σw², Σu(c - r)², Σu(c - r), Σuc(1 - c); r is 1 where the answer is right. */
#define N_SCORE_BIN_SUMS 7

/* A confidence is first looked up in cells of equal width, most of which lie in one bin. */
#define CELLS 256

/* log(1 + x) for x >= 0, to all digits. With u = 1 + x rounded, log(1 + x) = log(u) + (x - (u - 1))/u, and with u = 2^n·m, m between
√½ and √2, and s = (m - 1)/(m + 1), log(m) = 2 artanh(s). */
static ALWAYS_INLINE vector64 log1p_vector(vector64 x)
{
    vector64 zero = {0}, one = zero + 1.0, u = x + one, lost = x - (u - one);
    mask64 none = {0}, bits = AS_INTEGER(u, mask64);
    mask64 n = (bits - (none + 0x3fe6a09e667f3bcd)) >> 52; /* the bits of √½; u is at least 1, so n is not negative */
    vector64 m = AS_REAL(bits - (n << 52), vector64);
    vector64 exponent = AS_REAL(n | (none + 0x4330000000000000), vector64) - 4503599627370496.0; /* 2^52 */
    vector64 f = m - one, s = f / (m + one), s2 = s * s;
    vector64 p = zero + 2.0 / 21.0;
    p = VFMA64(p, s2, zero + 2.0 / 19.0);
    p = VFMA64(p, s2, zero + 2.0 / 17.0);
    p = VFMA64(p, s2, zero + 2.0 / 15.0);
    p = VFMA64(p, s2, zero + 2.0 / 13.0);
    p = VFMA64(p, s2, zero + 2.0 / 11.0);
    p = VFMA64(p, s2, zero + 2.0 / 9.0);
    p = VFMA64(p, s2, zero + 2.0 / 7.0);
    p = VFMA64(p, s2, zero + 2.0 / 5.0);
    p = VFMA64(p, s2, zero + 2.0 / 3.0);
    vector64 log = VFMA64(p * s2, s, 2.0 * s);
    /* log(2) in two parts, the first of which has so few digits that its products are exact. */
    return exponent * 0x1.62e42fefa38p-1 + (log + (lost / u + exponent * 0x1.ef35793c7673p-45));
}

/* The scores (N_SCORES, ROWS) of n rows; the formulas are those of `nishimori._sums.predictions`. The arrays have room for whole vectors. */
static NO_INLINE void score_rows(double *rest, double *squares, double *right, double *drops, int n, const nishimori_term *term,
                                 double beta, double *scores)
{
    constants_double c = constants_of_double(term);
    vector64 zero = {0}, one = zero + 1.0;
    for (int i = n; i % WIDTH64; i++)
        rest[i] = squares[i] = right[i] = drops[i] = 0.0;
    for (int i = 0; i < n; i += WIDTH64) {
        vector64 r = load_double(rest + i), q = load_double(squares + i), d = load_double(drops + i), is_right = load_double(right + i);
        vector64 top = one / (one + r), true_weight = exp2_double(scaled_double(d, c), c);
        mask64 answers = MASK_OF(is_right > zero);
        vector64 others = SELECT(answers, q, one + q - true_weight * true_weight, vector64, mask64) * top * top;
        vector64 miss = SELECT(answers, r * top, one - true_weight * top, vector64, mask64);
        store_double(scores + WRONG * ROWS + i, one - is_right);
        store_double(scores + CONFIDENCE * ROWS + i, top);
        store_double(scores + NLL * ROWS + i, log1p_vector(r) - beta * d);
        store_double(scores + BRIER * ROWS + i, miss * miss + others);
    }
}

/* Add the scores of n rows to `sums`. Squares are kept around the means of what was summed so far: differences of large squares
would lose their digits. */
static NO_INLINE void add_scores(const double *restrict scores, const double *restrict weights, int n, int is_counts,
                                 double *restrict sums)
{
    double units[ROWS], weight = 0.0, unit = 0.0, before = sums[1];
    SIMD(reduction(+ : weight, unit))
    for (int i = 0; i < n; i++) {
        double w = weights[i], u = is_counts ? w : w * w;
        units[i] = u;
        weight += w;
        unit += u;
    }
    sums[0] += weight;
    sums[1] += unit;
    if (!(unit > 0.0))
        return;
    for (int j = 0; j < N_SCORES; j++) {
        const double *x = scores + j * ROWS;
        double total = 0.0, mean = 0.0, scatter = 0.0;
        SIMD(reduction(+ : total, mean))
        for (int i = 0; i < n; i++) {
            total += weights[i] * x[i];
            mean += units[i] * x[i];
        }
        mean /= unit;
        SIMD(reduction(+ : scatter))
        for (int i = 0; i < n; i++)
            scatter += units[i] * (x[i] - mean) * (x[i] - mean);
        double *means = sums + 2 + N_SCORES + j, step = mean - *means;
        sums[2 + j] += total;
        *means += step * (unit / sums[1]);
        sums[2 + 2 * N_SCORES + j] += scatter + step * step * (before * unit / sums[1]);
    }
}

/* How many of the edges between bins lie below each edge of a cell. */
static void count_edges(const double *inner, int64_t n_bins, int64_t *below)
{
    int64_t number = 0;
    for (int cell = 0; cell < CELLS; cell++) {
        while (number < n_bins - 1 && inner[number] < (double)cell / CELLS)
            number++;
        below[cell] = number;
    }
    below[CELLS] = n_bins - 1;
}

/* The bin of a confidence: how many edges lie below it. */
static ALWAYS_INLINE int64_t bin_of(double confidence, const double *inner, const int64_t *below)
{
    int cell = (int)(confidence * CELLS);
    cell = cell < 0 ? 0 : cell >= CELLS ? CELLS - 1 : cell;
    int64_t low = below[cell], high = below[cell + 1];
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (inner[middle] < confidence)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static NO_INLINE void add_to_bins(const double *restrict confidence, const double *restrict right, const double *restrict weights,
                                  int n, int is_counts, const double *restrict inner, const int64_t *restrict below,
                                  double *restrict bins)
{
    for (int i = 0; i < n; i++) {
        double w = weights[i], c = confidence[i], r = right[i], u = is_counts ? w : w * w, gap = c - r;
        double *bin = bins + N_SCORE_BIN_SUMS * bin_of(c, inner, below);
        bin[0] += w;
        bin[1] += w * c;
        bin[2] += w * r;
        bin[3] += w * w;
        bin[4] += u * gap * gap;
        bin[5] += u * gap;
        bin[6] += u * (c * (1.0 - c));
    }
}

/* The probability of the second of two classes, and 1 where it is true: the answer is that class if it is right as often as its
label is 1. */
static NO_INLINE void claim_positive(const double *restrict confidence, const double *restrict rest, const double *restrict right,
                                     const int64_t *restrict labels, int n, double *restrict claimed, double *restrict is_true)
{
    for (int i = 0; i < n; i++) {
        is_true[i] = labels[i] == 1;
        claimed[i] = (right[i] > 0.0) == (labels[i] == 1) ? confidence[i] : rest[i] * confidence[i];
    }
}

/* Whether some number is infinite. */
static NO_INLINE int has_infinite(const double *x, int n)
{
    int some = 0;
    SIMD(reduction(| : some))
    for (int i = 0; i < n; i++)
        some |= !(fabs(x[i]) <= DBL_MAX);
    return some;
}

/* Add the scores of all rows at the β of `term` to `sums` (N_SCORE_SUMS), and their sums per bin to `bins` (n_bins, N_SCORE_BIN_SUMS).
`inner` are the n_bins - 1 edges between bins. Where there are two classes, n_positive further bins, with the edges `positive`
between them, are those of the probability of the second class, and of whether it is true; 0 for none. `kind` is WIDENED or DOUBLE. A
loss that is infinite has to be checked, too. */
EXPORT int EXPORTED(nishimori_score_sums)(int kind, const void *z, const int64_t *labels, const double *weights, int64_t n,
                                          int64_t n_classes, const nishimori_term *term, double beta, int is_counts,
                                          const double *inner, int64_t n_bins, const double *positive, int64_t n_positive,
                                          double *sums, double *bins)
{
    double rest[ROWS], squares[ROWS], right[ROWS], drops[ROWS], scores[N_SCORES * ROWS], claimed[ROWS], is_true[ROWS];
    int64_t below[CELLS + 1], below_positive[CELLS + 1];
    int is_unusual = 0;
    if (n_classes < 1)
        return n > 0;
    count_edges(inner, n_bins, below);
    if (n_positive > 0)
        count_edges(positive, n_positive, below_positive);
    for (int64_t start = 0; start < n; start += ROWS) {
        int here = (int)(n - start < ROWS ? n - start : ROWS);
        const int64_t *true_classes = labels + start;
        const double *some = weights + start;
        if (kind == WIDENED)
            is_unusual |= rows_to_score_widened((const float *)z + start * n_classes, true_classes, some, here, n_classes, term,
                                                rest, squares, right, drops);
        else
            is_unusual |= rows_to_score_double((const double *)z + start * n_classes, true_classes, some, here, n_classes, term,
                                               rest, squares, right, drops);
        score_rows(rest, squares, right, drops, here, term, beta, scores);
        is_unusual |= has_infinite(scores + NLL * ROWS, here);
        add_scores(scores, some, here, is_counts, sums);
        add_to_bins(scores + CONFIDENCE * ROWS, right, some, here, is_counts, inner, below, bins);
        if (n_positive > 0) {
            claim_positive(scores + CONFIDENCE * ROWS, rest, right, true_classes, here, claimed, is_true);
            add_to_bins(claimed, is_true, some, here, is_counts, positive, below_positive, bins + N_SCORE_BIN_SUMS * n_bins);
        }
    }
    return is_unusual;
}
