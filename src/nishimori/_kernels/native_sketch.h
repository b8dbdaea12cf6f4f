/* What a sketch keeps of rows: sums over rows at every β of a grid, without a number per row and β outside a small block.

native.c includes this file once, after the loops over logits. The formulas are those of `nishimori._sketch`. All is computed
in double. Rows are read in blocks whose tables stay in the cache: first the power sums of each row at every β, where the lanes of
a vector are rows, then what follows from them per row and β, which is added up at once. */

/* Rows of a block, a multiple of LANES, and rows whose classes are transposed together, as many as the widest vector has lanes.
With twice as many rows in a block an update is 3 % faster here, but the tables no longer fit the cache of older processors. */
#define SKETCH_ROWS (2 * LANES)
#define TILE 8

/* Classes that are in the first-level cache at a time: logits, scaled logits and weights of a tile take 24 kB. */
#define TILE_CLASSES 128

/* Sums of power 0 to 3 are kept. */
#define SKETCH_POWERS 4

/* Gaps are multiplied with gaps up to so many nodes away, on both sides. */
#define FARTHEST 4
#define N_CROSSED (2 * FARTHEST)

/* Bins are counted in four tables in turn, because an addition must wait for the one before it in the same place. A place takes
one line of the cache: w, w·right, w², nothing, w·confidence, w²(confidence - right)², nothing, nothing. */
#define BIN_TABLES 4
#define IN_BIN 8

/* How many sums there are at each β (gaps), at each node (metrics), and in each bin. */
#define N_GAP_SUMS 13
#define N_METRIC_SUMS 4
#define N_BIN_SUMS 5

/* What is known of the rows of a block besides their power sums. */
typedef struct {
    _Alignas(64) double weights[SKETCH_ROWS];
    double right[SKETCH_ROWS], drops[SKETCH_ROWS], peaks[SKETCH_ROWS];
    double for_bins[SKETCH_ROWS][4]; /* w, w·right, w² */
    int64_t top[SKETCH_ROWS];
    int n, is_even; /* n is a multiple of TILE, rows of weight zero fill it up; is_even if all weights are 0 or 1 */
} sketch_rows;

/* What is known of them at one β. */
typedef struct {
    _Alignas(64) double confidence[SKETCH_ROWS];
    double means[SKETCH_ROWS], logs[SKETCH_ROWS], labels[SKETCH_ROWS], claims[SKETCH_ROWS], squares[SKETCH_ROWS];
    int32_t places[SKETCH_ROWS];
} sketch_node;

/* Tables of a block: `lanes` for rows of few classes; logits, drops, scaled drops and weights of a tile; power sums (betas, powers,
rows), and those of both ends; gaps of confidence and logit (nodes, rows), with FARTHEST nodes of zeros before and after them. */
typedef struct {
    double *lanes, *logits, *drops, *scaled, *weights, *sums, *ends, *misses, *energies, *bins;
    void *memory;
} sketch_room;

static int open_sketch_room(sketch_room *room, const nishimori_plan *plan, int64_t n_nodes, int n_bins)
{
    const size_t lanes = LANES * FEW / sizeof(double), tile = TILE * TILE_CLASSES;
    const size_t sums = (size_t)plan->n_betas * SKETCH_POWERS * SKETCH_ROWS, ends = 2 * SKETCH_POWERS * SKETCH_ROWS;
    const size_t gaps = ((size_t)n_nodes + 2 * FARTHEST) * SKETCH_ROWS;
    const size_t bins = (size_t)n_nodes * BIN_TABLES * (size_t)n_bins * IN_BIN;
    const size_t size = (lanes + 4 * tile + sums + ends + 2 * gaps + bins) * sizeof(double);
    room->lanes = aligned_memory(size, &room->memory);
    if (!room->lanes)
        return 0;
    memset(room->lanes, 0, size);
    room->logits = room->lanes + lanes;
    room->drops = room->logits + tile;
    room->scaled = room->drops + tile;
    room->weights = room->scaled + tile;
    room->sums = room->weights + tile;
    room->ends = room->sums + sums;
    room->misses = room->ends + ends + FARTHEST * SKETCH_ROWS;
    room->energies = room->misses + gaps;
    room->bins = room->ends + ends + 2 * gaps;
    return 1;
}

/* --- power sums at every β ---------------------------------------------------------------------------------------------- */

/* The largest logit of each row that counts, and its first column. Returns whether some logit has to be checked. */
static int find_tops(int is_double, const void *z, const double *weights, int n, int64_t n_classes, double *scratch,
                     sketch_rows *rows)
{
    int64_t *top = rows->top;
    double *peaks = rows->peaks;
    if (!(is_double ? is_few_double(n_classes) : is_few_widened(n_classes))) {
        vector32 taint = {0};
        vector64 taint_of_doubles = {0};
        for (int i = 0; i < n; i++) {
            if (weights[i] == 0.0)
                continue;
            if (is_double)
                peaks[i] = first_maximum_double((const double *)z + i * n_classes, n_classes, top + i, &taint_of_doubles);
            else
                peaks[i] = first_maximum_widened((const float *)z + i * n_classes, n_classes, top + i, &taint);
        }
        return is_tainted_double(taint_of_doubles) | is_tainted_widened(taint);
    }
    int is_unusual = 0;
    for (int start = 0; start < n; start += LANES) { /* the arrays of rows have room for whole lanes */
        int here = n - start < LANES ? n - start : LANES, k = (int)n_classes;
        const double *some = weights + start;
        if (is_double) {
            is_unusual |= leave_out_tops_double((const double *)z + start * k, k, here, k, some, scratch, peaks + start, top + start);
        } else {
            float largest[LANES];
            is_unusual |= leave_out_tops_widened((const float *)z + start * k, k, here, k, some, (float *)scratch, largest, top + start);
            for (int i = 0; i < LANES; i++)
                peaks[start + i] = largest[i];
        }
    }
    return is_unusual;
}

/* What n rows hold besides their power sums. Returns whether something has to be checked first. */
static int read_rows(int is_double, const void *z, const int64_t *labels, const double *weights, int n, int64_t n_classes,
                     double *scratch, sketch_rows *rows, double *counts)
{
    memset(rows, 0, sizeof *rows);
    rows->n = (n + TILE - 1) / TILE * TILE;
    rows->is_even = 1;
    if (find_tops(is_double, z, weights, n, n_classes, scratch, rows))
        return 1;
    for (int i = 0; i < rows->n; i++) {
        if (i >= n || weights[i] == 0.0) { /* this row may hold anything */
            rows->top[i] = NONE;
            rows->peaks[i] = 0.0;
            continue;
        }
        if (labels[i] < 0 || labels[i] >= n_classes)
            return 1;
        int64_t at = i * n_classes + labels[i];
        double w = weights[i], right = labels[i] == rows->top[i];
        rows->weights[i] = w;
        rows->right[i] = right;
        rows->drops[i] = (is_double ? ((const double *)z)[at] : (double)((const float *)z)[at]) - rows->peaks[i];
        rows->for_bins[i][0] = w, rows->for_bins[i][1] = w * right, rows->for_bins[i][2] = w * w;
        rows->is_even &= w == 1.0;
        counts[0] += 1.0;
        counts[1] += right;
        counts[2] += w * right;
        counts[3] += w * (1.0 - right);
        counts[4] += w * w * right;
        counts[5] += w * w * (1.0 - right);
        counts[6] += w * rows->drops[i];
    }
    return 0;
}

/* Some classes of the rows of a tile, transposed, as differences from the largest logit; 0 in rows that do not count. */
static NO_INLINE void load_tile(int is_double, const void *z, int64_t n_classes, int64_t first_row, const sketch_rows *rows,
                                int64_t start, int n, double *restrict logits, double *restrict drops)
{
    for (int i = 0; i < TILE; i++) {
        int64_t row = first_row + i, at = row * n_classes + start;
        double *to = logits + i * TILE_CLASSES;
        if (rows->top[row] == NONE)
            memset(to, 0, (size_t)n * sizeof *to);
        else if (is_double)
            memcpy(to, (const double *)z + at, (size_t)n * sizeof *to);
        else
            for (int k = 0; k < n; k++)
                to[k] = ((const float *)z)[at + k];
    }
    const double *peaks = rows->peaks + first_row;
    for (int k = 0; k < n; k++)
        for (int i = 0; i < TILE; i++)
            drops[k * TILE + i] = logits[i * TILE_CLASSES + k] - peaks[i];
}

/* Add the sums of powers 0 and 1 at both ends: all classes count at β = 0, and those that are at the top at β = ∞. */
static NO_INLINE void add_ends(const double *drops, int n, double *at_zero, double *at_infinity)
{
    for (int i = 0; i < TILE; i += WIDTH) {
        vector64 zero = {0}, one = zero + 1.0, sum = zero, ties = zero;
        for (int k = 0; k < n; k++) {
            vector64 d = load_double(drops + k * TILE + i);
            sum += d;
            ties += SELECT(d == zero, one, zero, vector64, mask64);
        }
        store_double(at_zero + i, load_double(at_zero + i) + (double)n);
        store_double(at_zero + SKETCH_ROWS + i, load_double(at_zero + SKETCH_ROWS + i) + sum);
        store_double(at_infinity + i, load_double(at_infinity + i) + ties);
    }
}

static NO_INLINE void weigh_tile(const double *drops, int n, constants_double c, double *scaled, double *weights)
{
    for (int i = 0; i < n; i += WIDTH) {
        vector64 y = scaled_double(load_double(drops + i), c);
        store_double(scaled + i, y);
        store_double(weights + i, exp2_double(y, c));
    }
}

/* Add power sums, and square the weights for the next β of the chain. */
static NO_INLINE void sum_tile(const double *scaled, double *weights, int n, const double *factors, double *sums)
{
    const vector64 zero = {0}, least = zero + LEAST_SQUARED;
    for (int i = 0; i < TILE; i += WIDTH) {
        vector64 a0 = zero, a1 = zero, a2 = zero, a3 = zero;
        for (int k = 0; k < n; k++) {
            vector64 y = load_double(scaled + k * TILE + i), w = load_double(weights + k * TILE + i);
            vector64 w1 = w * y, w2 = w1 * y;
            store_double(weights + k * TILE + i, SELECT(w > least, w * w, zero, vector64, mask64));
            a0 += w;
            a1 += w1;
            a2 += w2;
            a3 += w2 * y;
        }
        double *to = sums + i;
        store_double(to, load_double(to) + a0 * factors[0]);
        store_double(to + SKETCH_ROWS, load_double(to + SKETCH_ROWS) + a1 * factors[1]);
        store_double(to + 2 * SKETCH_ROWS, load_double(to + 2 * SKETCH_ROWS) + a2 * factors[2]);
        store_double(to + 3 * SKETCH_ROWS, load_double(to + 3 * SKETCH_ROWS) + a3 * factors[3]);
    }
}

/* The same at the end of a chain, which is beyond the grid: powers 0 and 1 are all that is needed there. */
static NO_INLINE void sum_last_tile(const double *scaled, const double *weights, int n, const double *factors, double *sums)
{
    for (int i = 0; i < TILE; i += WIDTH) {
        vector64 a0 = {0}, a1 = {0};
        for (int k = 0; k < n; k++) {
            vector64 w = load_double(weights + k * TILE + i);
            a0 += w;
            a1 += w * load_double(scaled + k * TILE + i);
        }
        double *to = sums + i;
        store_double(to, load_double(to) + a0 * factors[0]);
        store_double(to + SKETCH_ROWS, load_double(to + SKETCH_ROWS) + a1 * factors[1]);
    }
}

/* Fill the power sums of a block. */
static void fill_sums(int is_double, const void *z, int64_t n_classes, const sketch_rows *rows, const nishimori_plan *plan,
                      sketch_room *room)
{
    double *at_zero = room->ends, *at_infinity = room->ends + SKETCH_POWERS * SKETCH_ROWS;
    memset(room->sums, 0, (size_t)plan->n_betas * SKETCH_POWERS * SKETCH_ROWS * sizeof(double));
    memset(room->ends, 0, 2 * SKETCH_POWERS * SKETCH_ROWS * sizeof(double));
    for (int first = 0; first < rows->n; first += TILE)
        for (int64_t start = 0; start < n_classes; start += TILE_CLASSES) {
            int n = (int)(n_classes - start < TILE_CLASSES ? n_classes - start : TILE_CLASSES);
            load_tile(is_double, z, n_classes, first, rows, start, n, room->logits, room->drops);
            add_ends(room->drops, n, at_zero + first, at_infinity + first);
            for (int i = 0; i < TILE; i++) {
                int64_t top = rows->top[first + i] - start;
                if (0 <= top && top < n)
                    room->drops[top * TILE + i] = -(double)INFINITY; /* the top class is left out: it has no weight */
            }
            for (int64_t chain = 0; chain < plan->n_chains; chain++) {
                int64_t last = plan->chains[chain + 1] - 1;
                weigh_tile(room->drops, n * TILE, constants_of_double(plan->terms + chain), room->scaled, room->weights);
                for (int64_t b = plan->chains[chain]; b <= last; b++) {
                    double *to = room->sums + plan->places[b] * SKETCH_POWERS * SKETCH_ROWS + first;
                    if (b < last)
                        sum_tile(room->scaled, room->weights, n, plan->factors + N_POWERS * b, to);
                    else
                        sum_last_tile(room->scaled, room->weights, n, plan->factors + N_POWERS * b, to);
                }
            }
        }
    for (int i = 0; i < rows->n; i++) {
        at_zero[i] -= 1.0;
        at_infinity[i] -= 1.0;
    }
}

/* --- sums over rows at one β -------------------------------------------------------------------------------------------- */

/* Gaps of the confidence and of the logit, and their sums; also of β = 0 and ∞. */
static NO_INLINE void add_gaps(const double *restrict sums, const sketch_rows *restrict rows, sketch_node *restrict at,
                               double *restrict misses, double *restrict energies, double *restrict total)
{
    double wrong = 0, right = 0, slope = 0, bend = 0, first = 0, second = 0, third = 0;
    double mm = 0, me = 0, ee = 0, mmw = 0, mew = 0, eew = 0;
    int n = rows->n;
    SIMD(reduction(+ : wrong, right, slope, bend, first, second, third, mm, me, ee, mmw, mew, eew))
    for (int i = 0; i < n; i++) {
        double w = rows->weights[i], r = rows->right[i], c = 1.0 / (1.0 + sums[i]), doubt = sums[i] * c;
        double m1 = sums[SKETCH_ROWS + i] * c, m2 = sums[2 * SKETCH_ROWS + i] * c, m3 = sums[3 * SKETCH_ROWS + i] * c;
        double miss = r != 0.0 ? -doubt : c; /* with all digits of the doubt */
        double energy = m1 - rows->drops[i], wm = w * miss, we = w * energy;
        at->confidence[i] = c;
        at->means[i] = m1;
        misses[i] = miss;
        energies[i] = energy;
        wrong += w * (1.0 - r) * c;
        right += w * r * doubt;
        slope += w * c * m1;
        bend += w * c * (2.0 * m1 * m1 - m2);
        first += w * m1;
        second += w * (m2 - m1 * m1);
        third += w * (m3 + m1 * (2.0 * m1 * m1 - 3.0 * m2));
        mm += wm * miss;
        me += wm * energy;
        ee += we * energy;
        mmw += wm * wm;
        mew += wm * we;
        eew += we * we;
    }
    const double values[N_GAP_SUMS] = {wrong, right, slope, bend, first, second, third, mm, me, ee, mmw, mew, eew};
    for (int j = 0; j < N_GAP_SUMS; j++)
        total[j] += values[j];
}

/* log(x) of finite x >= 1, to the last digit but one: 2^k·(1 + f) with f between -0.3 and 0.42. The series in s = f / (2 + f) and
its coefficients are those of FreeBSD's libm. */
static ALWAYS_INLINE vector64 log_double(vector64 x)
{
    const vector64 zero = {0};
    const mask64 none = {0};
    mask64 bits = AS_INTEGER(x, mask64);
    mask64 k = (bits - (none + 0x3fe6a09e667f3bcd)) >> 52; /* the bits of the root of 1/2 */
    vector64 f = AS_REAL(bits - (k << 52), vector64) - 1.0;
    vector64 n = AS_REAL(k + (none + 0x4330000000000000), vector64) - 4503599627370496.0; /* 2^52 + k, minus 2^52 */
    vector64 s = f / (f + 2.0), s2 = s * s, half = 0.5 * f * f;
    vector64 p = zero + 1.479819860511658591e-01;
    p = VFMA64(p, s2, zero + 1.531383769920937332e-01);
    p = VFMA64(p, s2, zero + 1.818357216161805012e-01);
    p = VFMA64(p, s2, zero + 2.222219843214978396e-01);
    p = VFMA64(p, s2, zero + 2.857142874366239149e-01);
    p = VFMA64(p, s2, zero + 3.999999999940941908e-01);
    p = VFMA64(p, s2, zero + 6.666666666666735130e-01);
    return n * 6.93147180369123816490e-01 - ((half - (s * (half + p * s2) + n * 1.90821492927058770002e-10)) - f);
}

/* log(1 + rest) of each row: the logarithm of what that rounds to, and what was rounded away. */
static NO_INLINE void fill_logs(const double *rest, int n, sketch_node *at)
{
    for (int i = 0; i < n; i += WIDTH) {
        vector64 r = load_double(rest + i), x = r + 1.0;
        store_double(at->logs + i, log_double(x) + (r - (x - 1.0)) * load_double(at->confidence + i));
    }
}

/* exp(βd) of the true classes. */
static NO_INLINE void weigh_labels(const double *drops, int n, constants_double c, double *labels)
{
    for (int i = 0; i < n; i += WIDTH)
        store_double(labels + i, exp2_double(scaled_double(load_double(drops + i), c), c));
}

/* Confidence, log-likelihood without the label's part, Brier score and half of its slope; and what goes into which bin. `doubled`
are the sums at twice the β. */
static NO_INLINE void add_metrics(const double *restrict misses, const double *restrict doubled, const sketch_rows *restrict rows,
                                  double bin_scale, sketch_node *restrict at, double *restrict total)
{
    double sure = 0, log = 0, brier = 0, slope = 0;
    int n = rows->n;
    SIMD(reduction(+ : sure, log, brier, slope))
    for (int i = 0; i < n; i++) {
        double w = rows->weights[i], c = at->confidence[i], m = at->means[i], miss = misses[i], c2 = c * c;
        double others = doubled[i] * c2, true_p = at->labels[i] * c, wm = w * miss;
        int is_right = rows->right[i] != 0.0;
        sure += w * c;
        log += w * at->logs[i];
        brier += w * (others + (is_right ? miss * miss : 1.0 - 2.0 * true_p + c2));
        double own = is_right ? c * m * miss : m * c2 + true_p * (rows->drops[i] - m); /* of the top and the true class */
        slope += w * (doubled[SKETCH_ROWS + i] * c2 - m * others - own);
        double place = c * bin_scale; /* above 0; a confidence on an edge is in the bin below it */
        int32_t below = (int32_t)place;
        at->places[i] = below - (place == (double)below);
        at->claims[i] = w * c;
        at->squares[i] = wm * wm;
    }
    total[0] += sure, total[1] += log, total[2] += brier, total[3] += slope;
}

static NO_INLINE void add_bins(const sketch_rows *restrict rows, const sketch_node *restrict at, int n_bins, double *restrict bins)
{
    for (int i = 0; i < rows->n; i += BIN_TABLES)
        for (int table = 0; table < BIN_TABLES; table++) {
            double *to = bins + (table * n_bins + at->places[i + table]) * IN_BIN;
            const double *row = rows->for_bins[i + table];
            for (int j = 0; j < 4; j++)
                to[j] += row[j];
            to[4] += at->claims[i + table];
            to[5] += at->squares[i + table];
        }
}

/* Add the products of the confidence's gaps at a node with those of the logit at the nodes around it, with weights w and w². */
static ALWAYS_INLINE void add_some_crossed(const double *misses, const double *energies, const double *weights, int n,
                                           int squared, double *total)
{
    const int64_t far = FARTHEST;
    for (int64_t side = 0; side < 2; side++) { /* as many sums as there are registers for */
        const double *around = energies + (side ? 1 : -far) * SKETCH_ROWS;
        vector64 s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
        for (int i = 0; i < n; i += WIDTH) {
            vector64 w = load_double(weights + i), gap = load_double(misses + i) * (squared ? w * w : w);
            s0 += gap * load_double(around + i);
            s1 += gap * load_double(around + SKETCH_ROWS + i);
            s2 += gap * load_double(around + 2 * SKETCH_ROWS + i);
            s3 += gap * load_double(around + 3 * SKETCH_ROWS + i);
        }
        total[4 * side] += total_double(s0);
        total[4 * side + 1] += total_double(s1);
        total[4 * side + 2] += total_double(s2);
        total[4 * side + 3] += total_double(s3);
    }
}

static NO_INLINE void add_crossed(const double *misses, const double *energies, const sketch_rows *rows, double *total)
{
    if (rows->is_even) { /* w² is w */
        double both[N_CROSSED] = {0};
        add_some_crossed(misses, energies, rows->weights, rows->n, 0, both);
        for (int j = 0; j < N_CROSSED; j++) {
            total[j] += both[j];
            total[N_CROSSED + j] += both[j];
        }
        return;
    }
    add_some_crossed(misses, energies, rows->weights, rows->n, 0, total);
    add_some_crossed(misses, energies, rows->weights, rows->n, 1, total + N_CROSSED);
}

/* Where sums over rows are added: counts (7), gaps (nodes and both ends, N_GAP_SUMS), metrics (nodes, N_METRIC_SUMS), crossed
(nodes, 2, N_CROSSED), bins (nodes, bins, N_BIN_SUMS). */
typedef struct {
    double *counts, *gaps, *metrics, *crossed, *bins;
} sketch_totals;

static void add_block(const sketch_rows *rows, const nishimori_plan *plan, int64_t n_nodes, int n_bins, double bin_scale,
                      sketch_room *room, const sketch_totals *total)
{
    const int64_t stride = SKETCH_POWERS * SKETCH_ROWS;
    sketch_node at;
    for (int64_t end = 0; end < 2; end++) /* the gaps of the ends are summed, and nothing else */
        add_gaps(room->ends + end * stride, rows, &at, at.claims, at.squares, total->gaps + end * (n_nodes + 1) * N_GAP_SUMS);
    for (int64_t chain = 0; chain < plan->n_chains; chain++)
        for (int64_t b = plan->chains[chain]; b + 1 < plan->chains[chain + 1]; b++) {
            int64_t node = plan->places[b];
            const double *sums = room->sums + node * stride, *doubled = room->sums + plan->places[b + 1] * stride;
            double *misses = room->misses + node * SKETCH_ROWS, *energies = room->energies + node * SKETCH_ROWS;
            if (b == plan->chains[chain])
                weigh_labels(rows->drops, rows->n, constants_of_double(plan->terms + chain), at.labels);
            else
                square_double(at.labels, rows->n);
            add_gaps(sums, rows, &at, misses, energies, total->gaps + (node + 1) * N_GAP_SUMS);
            fill_logs(sums, rows->n, &at);
            add_metrics(misses, doubled, rows, bin_scale, &at, total->metrics + node * N_METRIC_SUMS);
            add_bins(rows, &at, n_bins, room->bins + node * BIN_TABLES * n_bins * IN_BIN);
        }
    for (int64_t node = 0; node < n_nodes; node++)
        add_crossed(room->misses + node * SKETCH_ROWS, room->energies + node * SKETCH_ROWS, rows,
                    total->crossed + node * 2 * N_CROSSED);
}

static void collect_bins(const sketch_room *room, int64_t n_nodes, int n_bins, double *total)
{
    static const int order[N_BIN_SUMS] = {0, 4, 1, 2, 5};
    for (int64_t node = 0; node < n_nodes; node++)
        for (int table = 0; table < BIN_TABLES; table++)
            for (int bin = 0; bin < n_bins; bin++)
                for (int j = 0; j < N_BIN_SUMS; j++)
                    total[(node * n_bins + bin) * N_BIN_SUMS + j] +=
                        room->bins[((node * BIN_TABLES + table) * n_bins + bin) * IN_BIN + order[j]];
}

/* Add what a sketch keeps of all rows to the totals. Returns NO_MEMORY, or whether some logit or label has to be checked: then the
totals are of no use. `kind` is WIDENED or DOUBLE. The plan's first n_nodes places are the grid's nodes, and the β after each of
them in its chain is there, too. A confidence c is in the bin ceil(c·bin_scale) - 1. */
EXPORT int EXPORTED(nishimori_node_sums)(int kind, const void *z, const int64_t *labels, const double *weights, int64_t n,
                                         int64_t n_classes, const nishimori_plan *plan, int64_t n_nodes, int n_bins,
                                         double bin_scale, double *counts, double *gaps, double *metrics, double *crossed,
                                         double *bins)
{
    sketch_rows rows;
    sketch_room room;
    const sketch_totals total = {counts, gaps, metrics, crossed, bins};
    int is_double = kind == DOUBLE, is_unusual = 0;
    if (n_classes < 1)
        return n > 0;
    if (!open_sketch_room(&room, plan, n_nodes, n_bins))
        return NO_MEMORY;
    for (int64_t start = 0; start < n && !is_unusual; start += SKETCH_ROWS) {
        int here = (int)(n - start < SKETCH_ROWS ? n - start : SKETCH_ROWS);
        const void *from = (const char *)z + (size_t)(start * n_classes) * (is_double ? sizeof(double) : sizeof(float));
        is_unusual = read_rows(is_double, from, labels + start, weights + start, here, n_classes, room.lanes, &rows, counts);
        if (is_unusual)
            break;
        fill_sums(is_double, from, n_classes, &rows, plan, &room);
        add_block(&rows, plan, n_nodes, n_bins, bin_scale, &room, &total);
    }
    collect_bins(&room, n_nodes, n_bins, bins);
    free(room.memory);
    return is_unusual;
}
