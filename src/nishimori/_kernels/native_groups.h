/* Sums over each group of rows, whose groups have a β of their own: what `nishimori._sums.groups` is made of. native.c includes
this file once, where T is double. */

/* The sums of a group: the number of its rows, Σw, Σw·gap, Σw·slope, Σu·variance, Σu·gap², with u = w² or, where weights are
counts, u = w. */
#define N_GROUP_SUMS 6

enum { EXPECTATION_CONSISTENCY = 0, TEMPERATURE_SCALING = 1 };

/* Turn `rest`, `first` and `second` of n rows into the gap, its slope in log β, and the variance of the observable. */
static NO_INLINE void gaps_of_rows(int method, const double *restrict right, const double *restrict drops, int n,
                                   double *restrict rest, double *restrict first, double *restrict second)
{
    if (method == EXPECTATION_CONSISTENCY) {
        SIMD()
        for (int i = 0; i < n; i++) {
            double top = 1.0 / (1.0 + rest[i]), doubt = rest[i] * top;
            rest[i] = right[i] != 0.0 ? -doubt : top;
            first[i] = -top * (first[i] * top);
            second[i] = top * doubt;
        }
    } else {
        SIMD()
        for (int i = 0; i < n; i++) {
            double top = 1.0 / (1.0 + rest[i]), mean = first[i] * top, variance = second[i] * top - mean * mean;
            rest[i] = mean - drops[i];
            first[i] = second[i] = variance;
        }
    }
}

/* Add the sums of each group to `sums` (n_groups, N_GROUP_SUMS). `one` is the term of β = 1; the groups have `betas`. `codes` are the
groups of rows; if it is null, the group of a row is its first column of the largest logit. */
EXPORT int EXPORTED(nishimori_group_sums)(int kind, const void *z, const int64_t *labels, const int64_t *codes,
                                          const double *weights, int64_t n, int64_t n_classes, const nishimori_term *one,
                                          const double *betas, int64_t n_groups, int method, int is_counts, double *sums)
{
    double rest[ROWS], first[ROWS], second[ROWS], right[ROWS], drops[ROWS];
    int64_t groups[ROWS];
    int is_unusual = 0;
    if (n_classes < 1 || n_groups < 1)
        return n > 0;
    for (int64_t start = 0; start < n; start += ROWS) {
        int here = (int)(n - start < ROWS ? n - start : ROWS);
        const int64_t *some_codes = codes ? codes + start : NULL;
        const double *some = weights + start;
        if (kind == WIDENED)
            is_unusual |= rows_of_groups_widened((const float *)z + start * n_classes, labels + start, some_codes, some, here,
                                                 n_classes, betas, n_groups, one, groups, rest, first, second, right, drops);
        else
            is_unusual |= rows_of_groups_double((const double *)z + start * n_classes, labels + start, some_codes, some, here,
                                                n_classes, betas, n_groups, one, groups, rest, first, second, right, drops);
        for (int i = 0; i < here; i++)
            drops[i] *= betas[groups[i]];
        gaps_of_rows(method, right, drops, here, rest, first, second);
        for (int i = 0; i < here; i++) {
            double w = some[i], u = is_counts ? w : w * w, gap = rest[i], *group = sums + N_GROUP_SUMS * groups[i];
            group[0] += w != 0.0;
            group[1] += w;
            group[2] += w * gap;
            group[3] += w * first[i];
            group[4] += u * second[i];
            group[5] += u * gap * gap;
        }
    }
    return is_unusual;
}
