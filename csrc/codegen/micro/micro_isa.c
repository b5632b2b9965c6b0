/* The microkernels for one instruction set.  Compiled once for each, as csrc/codegen/strips is,
 * with DLC_ISA naming it.
 *
 * micro_vector.h has what depends on the instruction set, micro_kernel.h the kernels and packs of a
 * dtype of sums, micro_types.h what the dtypes of micro.def make of them. */
#include "micro.h"
#include "micro_vector.h"
#include "codegen/machine.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#define EACH_FEW(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)

/* From zero; from what is in `out`; from zero, and the end is added to what is in `out`. */
enum Mode { BEGIN, CONTINUE, ADD };

/* Steps of a chain whose elements of a row of A are evenly apart: where the first one is, and how
 * many they are. */
typedef struct Run {
    int64_t at, k;
} Run;
/* What the kernels of one chain share.  Strides are in elements, but for those of B and `next`, in
 * bytes: from a row of the panel to the next one, between panels that are read together, and from
 * what is read first to what is prefetched first, which then goes on by next_step.  first: the
 * panel after this one is to be prefetched.  columns: of a panel, those that are wanted.  The k
 * steps of a chain are those of its runs, of which there is one at least.  result: where the
 * columns will be stored, in rows that are result_row bytes apart, or NULL.  prefetched: what the
 * caller reads next, or NULL; each step prefetches a line of it and goes on by prefetched_step
 * bytes. */
typedef struct Chain {
    enum Mode mode;
    bool first;
    int64_t rows, columns, k, row_stride, k_stride, b_step, b_panel, next, next_step, out_row,
        nruns;
    const Run *runs;
    const char *result;
    int64_t result_row;
    const char *prefetched;
    int64_t prefetched_step;
} Chain;
/* One chain of products of each column with its own: at[p] is where step p of a row of A is. */
typedef struct Each {
    enum Mode mode;
    int64_t rows, columns, k, a_row, b_k, out_row;
    const int64_t *at;
} Each;
typedef void Kernel(const Chain *c, const void *a, const void *b, void *out);
typedef void Transposed(const Chain *c, const void *a, const void *b, int64_t column, void *out);

enum {
    PANEL_ROW = 128,            /* bytes */
    ROWS_AHEAD = DLC_PREFETCH_PANEL,
    STREAM_ROWS_AHEAD = DLC_PREFETCH_PANELS,
    PACK_ROWS_AHEAD = DLC_PREFETCH_PACKED,
    STEPS = DLC_PACK_STEPS,     /* a part of a chain */
    SCATTERED = DLC_PACK_SCATTERED,
    EVEN = 16,                  /* steps that are transposed as a whole */
    MOST_PANELS = 4,
    SHORT_RUN = DLC_SHORT_RUN,
    MOST_RUNS = MICRO_CHAIN / SHORT_RUN + 2,
    EACH_ROWS_MOST = VECTOR > 16 ? 6 : 4,
    EACH_VECTORS = 2,
};
/* Elements from a row of a copied chain to the next one: a line more than the chain has, so that
 * rows are not in one set of the first-level cache. */
#define COPY_ROW(sum) (MICRO_CHAIN + DLC_LINE / (int)sizeof(sum))
/* Panels at once for R rows, up to MOST_PANELS: enough streams from memory, and enough sums that
 * none waits for the one before it. */
#define PANELS(R) ((R) <= 2 && VECTOR == 64 ? 4 : (R) <= 4 && VECTOR == 64 ? 2 : (R) == 1 ? 2 : 1)

/* Prefetches what comes `rows` rows later. */
static inline void
prefetch_rows(Chain *c, int64_t rows)
{
    c->next = rows * c->b_step;
    c->next_step = c->b_step;
}

/* Prefetches what the caller reads next. */
static inline void
prefetch_next_read(Chain *c, const void *b)
{
    c->next = c->prefetched - (const char *)b;
    c->next_step = c->prefetched_step;
}

/* Prefetches, in pass number `pass` over the panel of those that the rows take, its part of the
 * panel after it: memory is busy all the time then, and not in the first pass alone.  The pass
 * begins `skipped` bytes into the panel. */
static inline void
prefetch_part(Chain *c, int64_t pass, int64_t passes, int64_t skipped)
{
    c->next = c->b_panel + pass * c->k * c->b_step / passes - skipped;
    c->next_step = c->b_step / passes;
}

/* Prefetches what will be stored of the next rows of a panel; a kernel multiplies meanwhile. */
static inline void
prefetch_result(Chain *c, int64_t rows)
{
    for (; c->result && rows > 0; rows--, c->result += c->result_row) {
        for (int j = 0; j < PANEL_ROW; j += DLC_LINE) {
            __builtin_prefetch(c->result + j, 1);
        }
    }
}

#define DTYPE f32
#define T float
#define COLUMNS 32
#include "micro_kernel.h"
#define DTYPE f64
#define T double
#define COLUMNS 16
#include "micro_kernel.h"
#define DTYPE i32
#define T int32_t
#define COLUMNS 32
#include "micro_kernel.h"
#define DTYPE i64
#define T int64_t
#define COLUMNS 16
#include "micro_kernel.h"

#include "micro_types.h"
