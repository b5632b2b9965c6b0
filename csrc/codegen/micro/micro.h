/* Microkernels: products of a few rows of A with panels of B, the inner part of every matrix product.
 *
 * They are compiled into the extension once for each instruction set.  Generated code calls them through pointers,
 * which micro_find gives by name.  <t> is a dtype of micro.def, that of the operand in memory; <s> is the dtype of its
 * sums.  A panel or a tile is made of sums: what is narrower is widened when it is packed or read.  Integers wrap.
 *
 * A panel is an array [k][MICRO_COLUMNS(s)], 128 bytes for each of k: columns of B side by side.  Its width is
 * the same for every instruction set.  No array needs an alignment; panels are read faster from a multiple of 64 bytes.
 * Strides are in elements; they may be 0 or negative where nothing else is said.
 *
 *   void micro_<t>(int64_t rows, int64_t k, const void *a, int64_t row_stride, int64_t k_stride, const void *panel,
 *                  void *tile, int64_t more, const void *next)
 *       tile[i][j] = sum over p < k of a[i * row_stride + p * k_stride] * panel[p][j], for rows from 1 to MICRO_ROWS
 *       and all columns of the panel; tile is [rows][MICRO_COLUMNS(s)].  With more, the sum is added to what the tile
 *       holds.  next: NULL, or a panel of the same k that is read soon, which the call brings near (it is the panel
 *       after this one, and a product gives it with the first tile of each panel).
 *   void micro_wide_<t>(int64_t rows, int64_t k, const void *a, int64_t row_stride, int64_t k_stride,
 *                       const void *panels, int64_t count, int64_t distance, void *tile, int64_t more)
 *       The same for `count` panels at once, distance elements apart, for few rows: 1 to 8 are fast.  tile is
 *       [rows][count * MICRO_COLUMNS(s)].  With few rows memory is what limits, and several panels are read as
 *       parallel streams; a count of MICRO_STREAMS is enough.
 *   void micro_rows_<t>(int64_t rows, int64_t k, const void *a, int64_t row_stride, const void *b,
 *                       int64_t b_row_stride, int64_t columns, void *tile, int64_t more)
 *       The same with B where it lies, of dtype <t>: columns rows of k adjacent elements, from 1 to MICRO_COLUMNS(s).
 *       The elements of a row of A are adjacent too.  Further columns of the tile [rows][MICRO_COLUMNS(s)] become 0,
 *       or keep what they hold with more.  For 1 to 8 rows, where packing B would take longer than the product.
 *   void pack_<t>(int64_t k, int64_t columns, const void *b, int64_t k_stride, int64_t column_stride, void *panel)
 *       panel[p][j] = b[p * k_stride + j * column_stride] for j < columns <= MICRO_COLUMNS(s), further columns 0.
 *       Rows of A are packed by it too: as columns of a panel that micro_<s> reads with a row stride of 1 and a k
 *       stride of MICRO_COLUMNS(s).  So one panel of A holds several tiles.
 *
 * What a sum is (the meaning of the language's contraction): the products are added by chains of fused
 * multiply-adds, in the order of k.  Each chain has MICRO_CHAIN of them (the last one may be shorter) and begins at
 * zero.  The results of the chains are added in order, beginning with the first one.  With k = 0 the sum is 0, and
 * with more nothing is added.  So a product may be cut at any multiple of MICRO_CHAIN with `more`, and at any row and
 * column: its bits are the same, for every instruction set that has fused multiply-adds (DLC_HAS_FMA of the math
 * header; for SSE2 a product is rounded before it is added). */
#ifndef DLC_MICRO_H
#define DLC_MICRO_H

#include <stdint.h>

enum { MICRO_ROWS = 14, MICRO_CHAIN = 512, MICRO_STREAMS = 4 };
#define MICRO_COLUMNS(sum) (128 / (int64_t)sizeof(sum))

typedef void MicroFn(int64_t rows, int64_t k, const void *a, int64_t row_stride, int64_t k_stride, const void *panel,
                     void *tile, int64_t more, const void *next);
typedef void MicroWideFn(int64_t rows, int64_t k, const void *a, int64_t row_stride, int64_t k_stride,
                         const void *panels, int64_t count, int64_t distance, void *tile, int64_t more);
typedef void MicroRowsFn(int64_t rows, int64_t k, const void *a, int64_t row_stride, const void *b,
                         int64_t b_row_stride, int64_t columns, void *tile, int64_t more);
typedef void MicroPackFn(int64_t k, int64_t columns, const void *b, int64_t k_stride, int64_t column_stride,
                         void *panel);

/* The functions of one dtype, in the order of micro.def; at the end a row without a name. */
typedef struct Micro {
    const char *dtype;
    MicroFn *micro;
    MicroWideFn *wide;
    MicroRowsFn *rows;
    MicroPackFn *pack;
} Micro;

extern const Micro micro_sse2[];
extern const Micro micro_avx2[];
extern const Micro micro_avx512[];
extern const Micro micro_neon[];

/* The functions of a dtype (such as "f32") for this processor, or NULL. */
const Micro *micro_of(const char *dtype);
/* One of them by its whole name (such as "micro_wide_f32" or "pack_bf16"), or NULL. */
void *micro_find(const char *name);

#endif
