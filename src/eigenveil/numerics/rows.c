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
#define HAS_TARGETS
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

/* The coefficients and other numbers of circles.py. */
typedef struct {
    int circles, doublings, terms, first;
    double eighth;
    const double *longest, *cosine, *sine;
} angles;

/* Parts of a turn of the longest circle, of one row; returns whether an entry is not finite. */
INLINE int parts_of_turns(const double *restrict x, ptrdiff_t d, const double *restrict longest,
                          double *restrict parts) {
    ptrdiff_t broken = 0;
    for (ptrdiff_t j = 0; j < d; j++) {
        const double turns = x[j] / longest[j];
        const double away = turns - ((turns + ROUND) - ROUND);
        parts[j] = fabs(away) <= 0.5 ? away : 0.0;
        broken |= !(x[j] - x[j] == 0.0);
    }
    return broken != 0;
}

/* Angles of a block of columns stay in registers while they are doubled, LANES to a vector. */
enum { BLOCK = 16 };

#define FOR_LANES(LANES, NAME)                                                                     \
    typedef double NAME __attribute__((vector_size(8 * LANES)));                                   \
    enum { NAME##_VECTORS = BLOCK / LANES };                                                       \
                                                                                                   \
    /* Adds integers of a block of points to sums, and their squares to `squares`. */              \
    INLINE void add_integers_##NAME(const NAME *point, const NAME *scale, double *sum,             \
                                    NAME *squares) {                                               \
        for (int v = 0; v < NAME##_VECTORS; v++) {                                                 \
            NAME sums;                                                                             \
            memcpy(&sums, sum + v * LANES, sizeof sums);                                           \
            const NAME whole = (point[v] * scale[v] + ROUND) - ROUND;                              \
            *squares += whole * whole;                                                             \
            sums += whole;                                                                         \
            memcpy(sum + v * LANES, &sums, sizeof sums);                                           \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* Points of a block of columns on all circles, the first `count` of them real: written to     \
     * `out`, or added up as integers. The sines of a circle are `step` behind its cosines. */     \
    INLINE void points_##NAME(const double *parts, ptrdiff_t count, ptrdiff_t step,                \
                              const angles *about, double *out, double factor, double *sum,        \
                              NAME *squares) {                                                     \
        const NAME none = {0.0};                                                                   \
        NAME part[NAME##_VECTORS], square[NAME##_VECTORS], scale[NAME##_VECTORS];                  \
        NAME cosine[NAME##_VECTORS], sine[NAME##_VECTORS];                                         \
        memcpy(part, parts, sizeof part);                                                          \
        for (int v = 0; v < NAME##_VECTORS; v++) {                                                 \
            const NAME angle = part[v] * about->eighth;                                            \
            square[v] = angle * angle;                                                             \
            cosine[v] = none + about->cosine[about->terms - 1];                                    \
            sine[v] = none + about->sine[about->terms - 1];                                        \
            NAME scaled = none + factor;                                                           \
            for (int k = 0; k < LANES; k++)                                                        \
                if (v * LANES + k >= count) scaled[k] = 0.0;                                       \
            scale[v] = scaled;                                                                     \
        }                                                                                          \
        for (int k = about->terms - 2; k >= 0; k--)                                                \
            for (int v = 0; v < NAME##_VECTORS; v++) {                                             \
                cosine[v] = cosine[v] * square[v] + about->cosine[k];                              \
                sine[v] = sine[v] * square[v] + about->sine[k];                                    \
            }                                                                                      \
        for (int v = 0; v < NAME##_VECTORS; v++) sine[v] = part[v] * sine[v];                      \
        for (int circle = about->circles - 1; circle >= 0; circle--) {                             \
            int times = circle == about->circles - 1 ? about->first : about->doublings;            \
            for (; times > 0; times--)                                                             \
                for (int v = 0; v < NAME##_VECTORS; v++) {                                         \
                    const NAME product = cosine[v] * sine[v];                                      \
                    cosine[v] = cosine[v] * cosine[v] - sine[v] * sine[v];                         \
                    sine[v] = product + product;                                                   \
                }                                                                                  \
            const ptrdiff_t at = 2 * circle * step;                                                \
            if (out) {                                                                             \
                memcpy(out + at, cosine, count * sizeof(double));                                  \
                memcpy(out + at + step, sine, count * sizeof(double));                             \
            } else {                                                                               \
                add_integers_##NAME(cosine, scale, sum + at, squares);                             \
                add_integers_##NAME(sine, scale, sum + at + step, squares);                        \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* The sum of integers of such points, none of them clipped, each half circle up to a whole    \
     * block; 0 where one may be clipped, or an entry is not finite. */                            \
    INLINE int circle_sum_##NAME(const double *x, ptrdiff_t n, ptrdiff_t d, ptrdiff_t step,        \
                                 const angles *about, double *parts, double scale, double well,    \
                                 double *sum) {                                                    \
        const ptrdiff_t wide = (d + BLOCK - 1) / BLOCK * BLOCK;                                    \
        for (ptrdiff_t i = 0; i < n; i++, x += step) {                                             \
            if (parts_of_turns(x, d, about->longest, parts)) return 0;                             \
            NAME lanes = {0.0}; /* squares of integers: exact within 2^53 */                       \
            double squares = 0.0;                                                                  \
            ptrdiff_t j = 0;                                                                       \
            for (; j + BLOCK <= d; j += BLOCK)                                                     \
                points_##NAME(parts + j, BLOCK, wide, about, 0, scale, sum + j, &lanes);           \
            if (j < d) points_##NAME(parts + j, d - j, wide, about, 0, scale, sum + j, &lanes);    \
            for (int k = 0; k < LANES; k++) squares += lanes[k];                                   \
            if (!(squares <= well)) return 0;                                                      \
        }                                                                                          \
        return 1;                                                                                  \
    }

FOR_LANES(4, four)

/* `points_on_circles` of circles.py. `parts` holds a row, and zeros up to a whole block. */
FOR_EACH_PROCESSOR void row_circles(const double *x, ptrdiff_t n, ptrdiff_t d, ptrdiff_t step,
                                    const angles *about, double *parts, double *out) {
    const ptrdiff_t halves = 2 * about->circles;
    for (ptrdiff_t i = 0; i < n; i++, x += step, out += halves * d) {
        const int broken = parts_of_turns(x, d, about->longest, parts);
        ptrdiff_t j = 0;
        for (; j + BLOCK <= d; j += BLOCK)
            points_four(parts + j, BLOCK, d, about, out + j, 0.0, 0, 0);
        if (j < d) points_four(parts + j, d - j, d, about, out + j, 0.0, 0, 0);
        for (j = 0; broken && j < d; j++)
            for (ptrdiff_t k = 0; x[j] - x[j] != 0.0 && k < halves; k++) out[k * d + j] = x[j];
    }
}

#ifdef HAS_TARGETS
FOR_LANES(8, eight)

__attribute__((target("avx512f"))) static int circle_sum_wide(
    const double *x, ptrdiff_t n, ptrdiff_t d, ptrdiff_t step, const angles *about, double *parts,
    double scale, double well, double *sum) {
    return circle_sum_eight(x, n, d, step, about, parts, scale, well, sum);
}
#endif

FOR_EACH_PROCESSOR static int circle_sum_narrow(
    const double *x, ptrdiff_t n, ptrdiff_t d, ptrdiff_t step, const angles *about, double *parts,
    double scale, double well, double *sum) {
    return circle_sum_four(x, n, d, step, about, parts, scale, well, sum);
}

int circle_sum(const double *x, ptrdiff_t n, ptrdiff_t d, ptrdiff_t step, const angles *about,
               double *parts, double scale, double well, double *sum) {
#ifdef HAS_TARGETS
    if (__builtin_cpu_supports("avx512f"))
        return circle_sum_wide(x, n, d, step, about, parts, scale, well, sum);
#endif
    return circle_sum_narrow(x, n, d, step, about, parts, scale, well, sum);
}

/* `limited_rows` of column_limits.py; marks rows that are changed. */
FOR_EACH_PROCESSOR void row_limits(const double *restrict x, ptrdiff_t n, ptrdiff_t d,
                                   ptrdiff_t step, const double *restrict scale,
                                   const double *restrict ends, const double *restrict turn,
                                   const double *restrict fill, double *restrict out,
                                   char *restrict changed) {
    const double *low = ends, *high = ends + d, *least = ends + 2 * d, *most = ends + 3 * d;
    for (ptrdiff_t i = 0; i < n; i++, x += step, out += d) {
        ptrdiff_t away = 0, pulled = 0;
        for (ptrdiff_t j = 0; j < d; j++) {
            double y = x[j] / scale[j];
            y = y < -MAX_ENTRY ? -MAX_ENTRY : y;
            y = y > MAX_ENTRY ? MAX_ENTRY : y;
            away |= !((y >= low[j]) & (y <= high[j]) & (x[j] - x[j] == 0.0));
            pulled |= !((y >= least[j]) & (y <= most[j]));
            y = y < least[j] ? least[j] : y;
            out[j] = y > most[j] ? most[j] : y;
        }
        changed[i] = !away && pulled;
        for (ptrdiff_t j = 0; away && j < d; j++) {
            if (x[j] - x[j] != 0.0) {
                out[j] = fill && x[j] != x[j] ? fill[j] : x[j] / scale[j];
                continue;
            }
            double y = x[j] / scale[j];
            y = y < -MAX_ENTRY ? -MAX_ENTRY : y > MAX_ENTRY ? MAX_ENTRY : y;
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
