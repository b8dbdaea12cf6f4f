/* Rows of text: numbers as Python's repr writes them, between texts that are given.

The digits are the fewest that read back to the same number, and of those the nearest to it. They are found by Schubfach
(R. Giulietti, "The Schubfach way to render doubles", 2020), which takes one multiplication of 64 by 128 bits for the number and
one for each end of the interval that rounds to it. Its powers of ten are computed in decimals.py, with integers of any size. */

#include <stdint.h>
#include <string.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* What stands in one place of each row: after the text `before`, a number if there are no offsets, else a text. */
typedef struct {
    const char *before;
    int64_t n_before;
    const char *data;
    int64_t stride;         /* bytes from a number to that of the next row */
    const int64_t *offsets; /* where the text of each row begins, and where the last one ends */
} Place;

enum { SMALLEST_POWER = -292 };

/* The upper 64 bits of the product with a power of ten; the last bit is set if any bit below is. */
static inline uint64_t round_to_odd(const uint64_t *power, uint64_t factor) {
#if defined(__SIZEOF_INT128__)
    unsigned __int128 low = (unsigned __int128)power[1] * factor, high = (unsigned __int128)power[0] * factor;
    high += (uint64_t)(low >> 64);
    return (uint64_t)(high >> 64) | ((uint64_t)high > 1);
#else
    uint64_t parts[2][2];
    for (int i = 0; i < 2; i++) {
        uint64_t a = power[i] >> 32, b = power[i] & 0xffffffffu, c = factor >> 32, d = factor & 0xffffffffu;
        uint64_t bd = b * d, ad = a * d, bc = b * c, middle = (bd >> 32) + (ad & 0xffffffffu) + (bc & 0xffffffffu);
        parts[i][0] = a * c + (ad >> 32) + (bc >> 32) + (middle >> 32);
        parts[i][1] = (middle << 32) | (bd & 0xffffffffu);
    }
    uint64_t sum = parts[0][1] + parts[1][0];
    return (parts[0][0] + (sum < parts[0][1])) | (sum > 1);
#endif
}

static inline int64_t floor_shift(int64_t value, int bits) {
    return value >= 0 ? value >> bits : -((-value + ((int64_t)1 << bits) - 1) >> bits);
}

/* Digits and exponent of a finite number that is not zero: digits * 10**exponent. The digits may end in zeros. */
static uint64_t shortest(uint64_t bits, const uint64_t *powers, int *exponent) {
    uint64_t fraction = bits & 0xfffffffffffffu;
    int stored = (int)(bits >> 52) & 0x7ff;
    uint64_t c = stored ? fraction | 0x10000000000000u : fraction;
    int q = (stored ? stored : 1) - 1075;
    if (stored && q <= 0 && q > -53 && !(c & (((uint64_t)1 << -q) - 1))) { /* a whole number */
        *exponent = 0;
        return c >> -q;
    }
    int is_even = !(c & 1), closer = fraction == 0 && stored > 1; /* the number below is closer than the one above */
    int k = (int)floor_shift((int64_t)q * 1262611 - (closer ? 524031 : 0), 22);
    int h = q + (int)floor_shift((int64_t)-k * 1741647, 19) + 1;
    const uint64_t *power = powers + 2 * (-k - SMALLEST_POWER);
    uint64_t lower = round_to_odd(power, (4 * c - 2 + closer) << h) + !is_even;
    uint64_t middle = round_to_odd(power, (4 * c) << h);
    uint64_t upper = round_to_odd(power, (4 * c + 2) << h) - !is_even;
    uint64_t s = middle / 4;
    if (s >= 10) { /* one digit less */
        uint64_t t = s / 10;
        int below = lower <= 40 * t, above = 40 * t + 40 <= upper;
        if (below != above) {
            *exponent = k + 1;
            return t + above;
        }
    }
    *exponent = k;
    int below = lower <= 4 * s, above = 4 * s + 4 <= upper;
    if (below != above) return s + above;
    uint64_t half = 4 * s + 2;
    return s + (middle > half || (middle == half && (s & 1)));
}

static const char PAIRS[] =
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354555657585960"
    "616263646566676869707172737475767778798081828384858687888990919293949596979899";

static inline void write_eight(char *out, uint32_t value) {
    uint32_t high = value / 10000, low = value % 10000;
    memcpy(out, PAIRS + 2 * (high / 100), 2);
    memcpy(out + 2, PAIRS + 2 * (high % 100), 2);
    memcpy(out + 4, PAIRS + 2 * (low / 100), 2);
    memcpy(out + 6, PAIRS + 2 * (low % 100), 2);
}

/* The number as Python's repr writes it, with another decimal mark; at most 25 bytes.

Copies of a fixed length are much faster than those of the length that is needed, so up to 24 bytes after the end are written. */
static char *write_number(char *out, double value, char mark, const uint64_t *powers) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    if (bits >> 63) *out++ = '-';
    bits &= 0x7fffffffffffffffu;
    if (!bits) {
        out[0] = '0', out[1] = mark, out[2] = '0';
        return out + 3;
    }
    int exponent;
    uint64_t digits = shortest(bits, powers, &exponent);
    char text[48];
    uint64_t top = digits / 10000000000000000u, rest = digits % 10000000000000000u; /* of at most 17 digits: 1, 8 and 8 */
    text[7] = (char)('0' + top);
    write_eight(text + 8, (uint32_t)(rest / 100000000u));
    write_eight(text + 16, (uint32_t)(rest % 100000000u));
    int first = 7, last = 24;
    while (text[first] == '0') first++;
    while (text[last - 1] == '0') last--;
    int n = last - first, point = 24 - first + exponent; /* digits before the decimal mark */
    const char *found = text + first;
    if (-4 < point && point <= 0) {
        *out++ = '0', *out++ = mark;
        for (int i = point; i < 0; i++) *out++ = '0';
        memcpy(out, found, 24);
        return out + n;
    }
    if (0 < point && point <= 16) {
        if (n <= point) {
            memcpy(out, found, 24);
            memset(out + n, '0', point - n);
            out[point] = mark, out[point + 1] = '0';
            return out + point + 2;
        }
        memcpy(out, found, 24);
        memcpy(out + point + 1, found + point, 24);
        out[point] = mark;
        return out + n + 1;
    }
    *out++ = found[0];
    if (n > 1) {
        *out++ = mark;
        memcpy(out, found + 1, 24);
        out += n - 1;
    }
    int power = point - 1;
    *out++ = 'e', *out++ = power < 0 ? '-' : '+';
    power = power < 0 ? -power : power;
    if (power >= 100) *out++ = (char)('0' + power / 100);
    memcpy(out, PAIRS + 2 * (power % 100), 2);
    return out + 2;
}

/* Write rows and return how many bytes they take. All numbers are finite, and `out` has 24 bytes more than they can take. */
EXPORT int64_t nishimori_write_rows(int64_t n_rows, int64_t n_places, const Place *places, const char *end, int64_t n_end, char mark,
                                    const uint64_t *powers, char *out) {
    char *start = out;
    for (int64_t row = 0; row < n_rows; row++) {
        for (int64_t i = 0; i < n_places; i++) {
            const Place *place = places + i;
            if (place->n_before == 1) {
                *out++ = *place->before;
            } else {
                memcpy(out, place->before, place->n_before);
                out += place->n_before;
            }
            if (place->offsets) {
                int64_t length = place->offsets[row + 1] - place->offsets[row];
                memcpy(out, place->data + place->offsets[row], length);
                out += length;
            } else {
                double value;
                memcpy(&value, place->data + row * place->stride, 8);
                out = write_number(out, value, mark, powers);
            }
        }
        memcpy(out, end, n_end);
        out += n_end;
    }
    return out - start;
}
