/* Passes over rows: squared norms about a centre, clipped integer rows, sums of bits, angles,
 * and limits on columns.
 *
 * What `clip.py` does with numpy in several passes, in one: to the last bit, for which squares are
 * added up in the order of numpy's einsum (two lanes, eight entries at a time, the last pair of
 * those first, 4096 entries to a part). Compile without contraction of a * b + c: it rounds once
 * where numpy rounds twice.
 */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef double pair __attribute__((vector_size(16)));

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx2", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif
#define INLINE static inline __attribute__((always_inline))

/* Entries of a sum; rows at a time, as additions must wait, unless they are short: then the
 * processor works on the next row by itself, and memory is read in one stream; entries that are
 * fetched ahead. */
enum { PART = 4096, TOGETHER = 4, SHORT = 512, NEAR = 4096 };

static const double ROUND = 6755399441055744.0; /* 1.5 * 2^52: adding it rounds to an integer */
static const double NO_LENGTH = 1e-290;
static const double MAX_ENTRY = 1e300; /* as in column_limits.py */
static const uint64_t ONE_NAN = 0x7ff8000000000000; /* that of numpy */

INLINE pair pair_f64(const double *x) {
    pair v;
    memcpy(&v, x, sizeof v);
    return v;
}

INLINE pair pair_f32(const float *x) { return (pair){x[0], x[1]}; }

#define FOR_TYPE(T, NAME)                                                                          \
    /* Squared norms of m rows about the centre c. */                                              \
    INLINE void squares_##NAME(int m, const T *x, ptrdiff_t step, const double *c, ptrdiff_t d,    \
                               double *out) {                                                      \
        const ptrdiff_t ahead = TOGETHER * step < NEAR ? TOGETHER * step : NEAR / 8;               \
        for (int r = 0; r < m; r++) out[r] = 0.0;                                                  \
        for (ptrdiff_t first = 0; first < d; first += PART) {                                      \
            const ptrdiff_t last = d - first < PART ? d : first + PART;                            \
            pair sums[TOGETHER];                                                                   \
            for (int r = 0; r < m; r++) sums[r] = (pair){0.0, 0.0};                                \
            ptrdiff_t j = first;                                                                   \
            for (; j + 8 <= last; j += 8) {                                                        \
                for (int r = 0; m > 1 && r < m; r++)                                               \
                    __builtin_prefetch(x + r * step + j + ahead);                                  \
                for (int v = 6; v >= 0; v -= 2) {                                                  \
                    const pair centre = pair_f64(c + j + v);                                       \
                    for (int r = 0; r < m; r++) {                                                  \
                        const pair moved = pair_##NAME(x + r * step + j + v) - centre;             \
                        sums[r] += moved * moved;                                                  \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
            for (; j + 2 <= last; j += 2)                                                          \
                for (int r = 0; r < m; r++) {                                                      \
                    const pair moved = pair_##NAME(x + r * step + j) - pair_f64(c + j);            \
                    sums[r] += moved * moved;                                                      \
                }                                                                                  \
            if (j < last)                                                                          \
                for (int r = 0; r < m; r++) {                                                      \
                    const double moved = (double)x[r * step + j] - c[j];                           \
                    sums[r] += (pair){moved * moved, 0.0};                                         \
                }                                                                                  \
            for (int r = 0; r < m; r++) out[r] += sums[r][0] + sums[r][1];                         \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    INLINE void all_squares_##NAME(const T *x, ptrdiff_t n, ptrdiff_t d, ptrdiff_t step,           \
                                   const double *c, double *out) {                                 \
        ptrdiff_t i = 0;                                                                           \
        for (; d >= SHORT && i + TOGETHER <= n; i += TOGETHER)                                     \
            squares_##NAME(TOGETHER, x + i * step, step, c, d, out + i);                           \
        for (; i < n; i++) squares_##NAME(1, x + i * step, step, c, d, out + i);                   \
    }                                                                                              \
                                                                                                   \
    FOR_EACH_PROCESSOR void row_squares_##NAME(const T *x, ptrdiff_t n, ptrdiff_t d,               \
                                               ptrdiff_t step, const double *c, double *out) {     \
        all_squares_##NAME(x, n, d, step, c, out);                                                 \
    }                                                                                              \
                                                                                                   \
    /* Integers of one row, all zero should they leave the ball; returns the sum of squares. */    \
    INLINE double integers_##NAME(const T *x, ptrdiff_t d, const double *c, double factor,         \
                                  double most, double *k) {                                        \
        double sums[4] = {0.0, 0.0, 0.0, 0.0}; /* of integers: exact within 2^53 */                \
        ptrdiff_t j = 0;                                                                           \
        for (; j + 4 <= d; j += 4)                                                                 \
            for (int v = 0; v < 4; v++) {                                                          \
                const double moved = ((double)x[j + v] - c[j + v]) * factor;                       \
                const double whole = (moved + ROUND) - ROUND;                                      \
                k[j + v] = whole;                                                                  \
                sums[v] += whole * whole;                                                          \
            }                                                                                      \
        for (; j < d; j++) {                                                                       \
            const double moved = ((double)x[j] - c[j]) * factor;                                   \
            const double whole = (moved + ROUND) - ROUND;                                          \
            k[j] = whole;                                                                          \
            sums[0] += whole * whole;                                                              \
        }                                                                                          \
        const double sum = sums[0] + sums[1] + sums[2] + sums[3];                                  \
        if (!(sum <= most))                                                                        \
            for (j = 0; j < d; j++) k[j] = 0.0;                                                    \
        return sum;                                                                                \
    }                                                                                              \
                                                                                                   \
    /* Integers of n rows, or their sum; 0 where a squared norm is not finite: numpy has to look.  \
     * Integers of a row as it is whose squares add up to at most `well` tell that it is not       \
     * clipped, and its squared norm need not be known: tried while rows before were not. */       \
    FOR_EACH_PROCESSOR int row_integers_##NAME(                                                    \
        const T *restrict x, ptrdiff_t n, ptrdiff_t d, ptrdiff_t step, const double *restrict c,   \
        double ball, double scale, int normalise, double most, double well, double *restrict k,    \
        ptrdiff_t k_step, double *restrict sum) {                                                  \
        double squares[TOGETHER];                                                                  \
        int inside = !normalise;                                                                   \
        for (ptrdiff_t i = 0; i < n; i += TOGETHER) {                                              \
            const int m = n - i < TOGETHER ? (int)(n - i) : TOGETHER;                              \
            const int guess = inside, alone = m < TOGETHER || guess;                               \
            const T *rows = x + i * step;                                                          \
            if (!alone) all_squares_##NAME(rows, m, d, step, c, squares);                 \
            inside = !normalise;                                                                   \
            for (int r = 0; r < m; r++) {                                                          \
                double *row = k + (i + r) * k_step;                                                \
                const T *one = rows + r * step;                                                    \
                if (!guess || !(integers_##NAME(one, d, c, scale, most, row) <= well)) {           \
                    if (alone)                                                                     \
                        squares_##NAME(1, one, step, c, d, squares + r);                           \
                    if (!isfinite(squares[r])) return 0;                                           \
                    double factor = ball / sqrt(squares[r]);                                       \
                    if (normalise)                                                                 \
                        factor = squares[r] < NO_LENGTH ? 0.0 : factor;                            \
                    else if (factor < 1.0)                                                         \
                        inside = 0;                                                                \
                    else                                                                           \
                        factor = 1.0;                                                              \
                    integers_##NAME(one, d, c, factor * scale, most, row);                         \
                }                                                                                  \
                if (sum)                                                                           \
                    for (ptrdiff_t j = 0; j < d; j++) sum[j] += row[j];                            \
            }                                                                                      \
        }                                                                                          \
        return 1;                                                                                  \
    }                                                                                              \
                                                                                                   \
    /* Of n rows, what `readings.py` adds up of the bits of their entries. */                      \
    FOR_EACH_PROCESSOR void row_bits_##NAME(const T *x, ptrdiff_t n, ptrdiff_t d, ptrdiff_t step,  \
                                            const uint64_t *weights, uint64_t *out) {              \
        for (ptrdiff_t i = 0; i < n; i++, x += step) {                                             \
            uint64_t sum = 0;                                                                      \
            for (ptrdiff_t j = 0; j < d; j++) {                                                    \
                const double entry = (double)x[j] + 0.0; /* one zero */                            \
                uint64_t bits = ONE_NAN;                                                           \
                if (entry == entry) memcpy(&bits, &entry, sizeof bits);                            \
                sum += (bits ^ (bits >> 32)) * weights[j];                                         \
            }                                                                                      \
            out[i] = sum;                                                                          \
        }                                                                                          \
    }

FOR_TYPE(double, f64)
FOR_TYPE(float, f32)

/* Angles doubled: cosines and sines of d angles, from one array to another or in place. */
INLINE void doubled(ptrdiff_t d, const double *from, double *to) {
    for (ptrdiff_t j = 0; j < d; j++) {
        const double cosine = from[j], sine = from[d + j], product = cosine * sine;
        to[j] = cosine * cosine - sine * sine;
        to[d + j] = product + product;
    }
}

/* The coefficients and other numbers of circles.py. */
typedef struct {
    int circles, doublings, terms, first;
    double eighth;
    const double *longest, *cosine, *sine;
} angles;

/* Points of one row on all circles; returns whether an entry is not finite. */
INLINE int points(const double *restrict x, ptrdiff_t d, const angles *about,
                  double *restrict out) {
    double *last = out + 2 * d * (about->circles - 1);
    const double *longest = about->longest;
    int broken = 0;
    for (ptrdiff_t j = 0; j < d; j++) {
        const double turns = x[j] / longest[j];
        const double away = turns - ((turns + ROUND) - ROUND);
        last[j] = fabs(away) <= 0.5 ? away : 0.0;
        broken |= !(x[j] - x[j] == 0.0);
    }
    for (ptrdiff_t j = 0; j < d; j++) {
        const double turn = last[j], angle = turn * about->eighth, square = angle * angle;
        double c = about->cosine[about->terms - 1], s = about->sine[about->terms - 1];
        for (int k = about->terms - 2; k >= 0; k--) {
            c = c * square + about->cosine[k];
            s = s * square + about->sine[k];
        }
        last[j] = c;
        last[d + j] = turn * s;
    }
    for (int k = 0; k < about->first; k++) doubled(d, last, last);
    for (double *to = last - 2 * d; to >= out; to -= 2 * d) {
        doubled(d, to + 2 * d, to);
        for (int k = 1; k < about->doublings; k++) doubled(d, to, to);
    }
    return broken;
}

/* `points_on_circles` of circles.py. */
FOR_EACH_PROCESSOR void row_circles(const double *x, ptrdiff_t n, ptrdiff_t d, ptrdiff_t step,
                                    const angles *about, double *out) {
    const ptrdiff_t halves = 2 * about->circles;
    for (ptrdiff_t i = 0; i < n; i++, x += step, out += halves * d) {
        if (!points(x, d, about, out)) continue;
        for (ptrdiff_t k = 0; k < halves; k++)
            for (ptrdiff_t j = 0; j < d; j++)
                if (!(x[j] - x[j] == 0.0)) out[k * d + j] = x[j];
    }
}

/* The sum of integers of such points about c, none of them clipped; 0 where one may be, or an entry
 * is not finite. `row` holds two rows of points. */
FOR_EACH_PROCESSOR int circle_sum(const double *x, ptrdiff_t n, ptrdiff_t d, ptrdiff_t step,
                                  const angles *about, const double *c, double scale, double well,
                                  double *row, double *sum) {
    const ptrdiff_t wide = 2 * about->circles * d;
    for (ptrdiff_t i = 0; i < n; i++, x += step) {
        if (points(x, d, about, row)) return 0;
        if (!(integers_f64(row, wide, c, scale, well, row + wide) <= well)) return 0;
        for (ptrdiff_t j = 0; j < wide; j++) sum[j] += row[wide + j];
    }
    return 1;
}

/* `limited_rows` of column_limits.py; marks rows that are changed. */
FOR_EACH_PROCESSOR void row_limits(const double *restrict x, ptrdiff_t n, ptrdiff_t d,
                                   ptrdiff_t step, const double *restrict scale,
                                   const double *restrict ends, const double *restrict turn,
                                   const double *restrict fill, double *restrict out,
                                   char *restrict changed) {
    const double *low = ends, *high = ends + d, *least = ends + 2 * d, *most = ends + 3 * d;
    for (ptrdiff_t i = 0; i < n; i++, x += step, out += d) {
        ptrdiff_t away = 0;
        for (ptrdiff_t j = 0; j < d; j++) {
            double y = x[j] / scale[j];
            y = y < -MAX_ENTRY ? -MAX_ENTRY : y;
            y = y > MAX_ENTRY ? MAX_ENTRY : y;
            out[j] = y;
            const int inside = (y >= low[j]) & (y <= high[j]) & (y >= least[j]) & (y <= most[j]);
            away |= !(inside & (x[j] - x[j] == 0.0));
        }
        changed[i] = 0;
        for (ptrdiff_t j = 0; away && j < d; j++) {
            double y = out[j];
            if (x[j] - x[j] != 0.0) {
                out[j] = fill && x[j] != x[j] ? fill[j] : x[j] / scale[j];
                continue;
            }
            if (!(y >= low[j] && y <= high[j])) {
                double part = fmod(y - low[j], turn[j]);
                if (part < 0.0) part += turn[j];
                y = low[j] + part;
                y = y < low[j] ? low[j] : y > high[j] ? high[j] : y;
                changed[i] = 1;
            }
            if (y < least[j] || y > most[j]) changed[i] = 1;
            out[j] = y < least[j] ? least[j] : y > most[j] ? most[j] : y;
        }
    }
}
