/* The microkernels for one instruction set.  Compiled once for each, as csrc/codegen/strips is, with DLC_ISA naming it.
 *
 * micro_vector.h has what depends on the instruction set, micro_kernel.h the kernels and packs of a dtype of sums,
 * micro_types.h what the dtypes of micro.def make of them. */
#include "micro.h"
#include "micro_vector.h"

#include <stdbool.h>
#include <stddef.h>

#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)

/* From zero; from what is in `out`; from zero, and the end is added to what is in `out`. */
enum Mode { BEGIN, CONTINUE, ADD };

/* What the kernels of one chain share; strides in elements, `next` in bytes from a row of the panel to the one to be
 * asked for.  lying: not a panel, but rows of B, `distance` apart. */
typedef struct Chain {
    enum Mode mode;
    bool lying;
    int64_t rows, k, row_stride, k_stride, distance, out_row, next;
} Chain;
typedef void Kernel(const Chain *c, const void *a, const void *b, void *out);

/* What is the same for all blocks of a product. */
typedef struct Product {
    int64_t k, more;
    void *tile, *aside;
} Product;

enum {
    AHEAD = 1024,               /* bytes of the same panel that are asked for ahead */
    STREAM_AHEAD = 2048,        /* where several are read at once */
    PACK_ROWS_AHEAD = 8,
    LYING_ROWS = 4,             /* with more of A, rows of B are packed even for one product */
    LYING_AHEAD = 512,          /* bytes of each row of B */
    STEPS = 128,                /* of k that are widened or packed at once, a part of a chain */
};
/* Panels at once for R rows: enough streams from memory, and enough sums that none waits for the one before it. */
#define PANELS(R) ((R) <= 2 && VECTOR == 64 ? 4 : (R) <= 4 && VECTOR == 64 ? 2 : (R) == 1 ? 2 : 1)

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
