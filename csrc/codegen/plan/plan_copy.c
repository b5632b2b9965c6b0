/* Strided copies: of operands whose layout is not the promised one, and of results into place.
 *
 * What:     copies elements between two layouts of one shape, which share no memory.
 * How:      axes of one element are dropped, the others sorted so that what is written goes through
 *           memory in order, and merged where memory runs through two as through one.  Blocks of
 *           the last two axes are shared out over the threads.  Where what is read runs along
 *           another axis than the last, a block is transposed in a panel by the strip that kernels
 *           use (emit_panel.c), so that lines are read whole.
 * Why not   a kernel for each: most copies are, those that the fusion pass sees.  What is left here
 *           comes of layouts that only the plan knows, and of dtypes that no kernel has.
 */
#include <stdio.h>
#include <string.h>

#include "codegen/loops/loops.h"
#include "plan.h"
#include "codegen/processor.h"

typedef void (*TransposeFn)(void *out, const void *from, int64_t step, int64_t rows,
                            int64_t columns);

/* The axes that are left, outermost first; blocks of rows by columns elements of the last two. */
typedef struct {
    int bytes, rank;
    int64_t sizes[MAX_RANK + 2], to[MAX_RANK + 2], from[MAX_RANK + 2];
    int64_t rows, columns;
    TransposeFn transpose;            /* NULL: rows are copied one by one */
} Copy;

#define COPY_ROW(type) \
    for (int64_t k = 0; k < n; k++) { \
        ((type *)to)[k * to_step] = ((const type *)from)[k * from_step]; \
    }

static void
copy_row(int bytes, int64_t n, void *to, int64_t to_step, const void *from, int64_t from_step)
{
    if (to_step == 1 && from_step == 1) {
        memcpy(to, from, (size_t)(n * bytes));
        return;
    }
    switch (bytes) {
    case 1:
        COPY_ROW(uint8_t) break;
    case 2:
        COPY_ROW(uint16_t) break;
    case 4:
        COPY_ROW(uint32_t) break;
    case 8:
        COPY_ROW(uint64_t) break;
    default:
        COPY_ROW(dlc_c128) break;
    }
}

/* ---- one block ---- */

static void
copy_transposed(const Copy *c, int64_t rows, int64_t columns, char *to, const char *from)
{
    _Alignas(64) char panel[DLC_PANEL_COLUMN * DLC_PANEL];
    int last = c->rank - 1;
    c->transpose(panel, from, c->from[last], rows, columns);
    for (int64_t r = 0; r < rows; r++) {
        copy_row(c->bytes, columns, to + r * c->to[last - 1] * c->bytes, c->to[last],
                 panel + r * DLC_PANEL * c->bytes, 1);
    }
}

static void
copy_rows(const Copy *c, int64_t rows, int64_t columns, char *to, const char *from)
{
    int last = c->rank - 1;
    for (int64_t r = 0; r < rows; r++) {
        copy_row(c->bytes, columns, to + r * c->to[last - 1] * c->bytes, c->to[last],
                 from + r * c->from[last - 1] * c->bytes, c->from[last]);
    }
}

static int64_t
blocks(int64_t size, int64_t by)
{
    return (size + by - 1) / by;
}

/* The extent of block k along an axis; it begins at k * by. */
static int64_t
length(int64_t size, int64_t by, int64_t k)
{
    return size - k * by < by ? size - k * by : by;
}

/* Blocks lo .. hi-1, as a kernel's phase. */
static int
copy_blocks(void *const *p, const int64_t *n, int64_t lo, int64_t hi)
{
    const Copy *c = p[2];
    int last = c->rank - 1;
    int64_t across = blocks(c->sizes[last], c->columns), down = blocks(c->sizes[last - 1], c->rows);
    (void)n;
    for (int64_t k = lo; k < hi; k++) {
        int64_t column = k % across, row = k / across % down, rest = k / across / down;
        int64_t to = row * c->rows * c->to[last - 1] + column * c->columns * c->to[last];
        int64_t from = row * c->rows * c->from[last - 1] + column * c->columns * c->from[last];
        for (int ax = last - 2; ax >= 0; ax--) {
            to += rest % c->sizes[ax] * c->to[ax];
            from += rest % c->sizes[ax] * c->from[ax];
            rest /= c->sizes[ax];
        }
        (c->transpose ? copy_transposed : copy_rows)(
            c, length(c->sizes[last - 1], c->rows, row), length(c->sizes[last], c->columns, column),
            (char *)p[0] + to * c->bytes, (const char *)p[1] + from * c->bytes);
    }
    return 0;
}

/* ---- the axes ---- */

static void
insert_axis(Copy *c, int at, int64_t size, int64_t to, int64_t from)
{
    for (int k = c->rank++; k > at; k--) {
        c->sizes[k] = c->sizes[k - 1];
        c->to[k] = c->to[k - 1];
        c->from[k] = c->from[k - 1];
    }
    c->sizes[at] = size;
    c->to[at] = to;
    c->from[at] = from;
}

static void
remove_axis(Copy *c, int at)
{
    c->rank--;
    for (int k = at; k < c->rank; k++) {
        c->sizes[k] = c->sizes[k + 1];
        c->to[k] = c->to[k + 1];
        c->from[k] = c->from[k + 1];
    }
}

static void
merge_axes(Copy *c)
{
    for (int k = c->rank - 1; k > 0; k--) {
        if (c->to[k - 1] == c->sizes[k] * c->to[k] && c->from[k - 1] == c->sizes[k] * c->from[k]) {
            c->sizes[k] *= c->sizes[k - 1];
            remove_axis(c, k - 1);
        }
    }
}

/* Moves the axis along which the source is contiguous before the last one, if it is another. */
static void
choose_transpose(Copy *c)
{
    int last = c->rank - 1, contiguous = last;
    for (int ax = 0; ax < last && c->from[last] != 1; ax++) {
        contiguous = c->from[ax] == 1 ? ax : contiguous;
    }
    if (contiguous < last) {
        char name[32];
        int64_t size = c->sizes[contiguous], to = c->to[contiguous];
        remove_axis(c, contiguous);
        insert_axis(c, last - 1, size, to, 1);
        snprintf(name, sizeof name, "strip_transpose_%d", c->bytes);
        *(void **)&c->transpose = strip_find(name);
    }
}

static void
choose_blocks(Copy *c)
{
    int64_t rows = DLC_PANEL_COLUMN / c->bytes, columns = c->sizes[c->rank - 1];
    if (c->transpose) {
        c->rows = rows < DLC_ROWS ? rows : DLC_ROWS;
        c->columns = DLC_WIDTH;
    } else {
        c->columns = columns < DLC_COPY ? columns : DLC_COPY;
        c->rows = DLC_COPY / c->columns;
    }
}

void
copy_strided(int bytes, int rank, const int64_t *sizes, void *to, const int64_t *to_strides,
             const void *from, const int64_t *from_strides)
{
    Copy c = {.bytes = bytes};
    int64_t units = 1;
    for (int ax = 0; ax < rank; ax++) {
        int at = 0;
        while (at < c.rank && c.to[at] >= to_strides[ax]) {
            at++;
        }
        if (sizes[ax] == 0) {
            return;
        } else if (sizes[ax] > 1) {
            insert_axis(&c, at, sizes[ax], to_strides[ax], from_strides[ax]);
        }
    }
    merge_axes(&c);
    while (c.rank < 2) {
        insert_axis(&c, 0, 1, 0, 0);
    }
    choose_transpose(&c);
    choose_blocks(&c);
    for (int ax = 0; ax < c.rank - 2; ax++) {
        units *= c.sizes[ax];
    }
    units *= blocks(c.sizes[c.rank - 2], c.rows) * blocks(c.sizes[c.rank - 1], c.columns);
    void *p[] = {to, (void *)(uintptr_t)from, &c, NULL};
    parallel_for(&(ParallelJob){.body = copy_blocks,
                                .nbuffers = 3,
                                .p = p,
                                .extent = units,
                                .grain = DLC_GRAIN_COPY / (c.rows * c.columns) + 1});
}
