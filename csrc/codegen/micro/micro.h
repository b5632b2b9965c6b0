/* Microkernels: products of a few rows of A with columns of B, the inner part of every matrix
 * product.
 *
 * They are compiled into the extension once for each instruction set.  Generated code calls them by
 * name (libtcc) or through pointers that object.c fills in (code of a C compiler).  <t> is a dtype
 * of micro.def, that of the operands in memory; <s> is the dtype of its sums.  Tiles hold sums, and
 * so do panels, but those of bytes (u8, i8), which hold the operand itself: <p> is the dtype of the
 * panels.  A narrower operand is widened when it is packed or read.  Integers wrap.
 *
 * A panel is an array [k][MICRO_COLUMNS(s)]: adjacent columns of B, for each k as many as sums are
 * in 128 bytes.  Its width is the same for every instruction set.  No array needs an alignment;
 * panels are read faster from a multiple of 64 bytes. Strides are in elements; they may be 0 or
 * negative where nothing else is said.
 *
 *   void micro_<t>(const MicroProduct *x)
 *       tile[i][j] = sum over p < k of a[i * a_row + p * a_k] * B[p][j], for i < rows and all
 *       columns of the panels that hold the first `columns` ones.  b has the dtype <p>; panel
 *       number q begins at b + q * b_panel. Where a_run is not 0, the elements of a row are in
 *       runs: with q = a_from + p, a[i * a_row + q % a_run * a_k + q / a_run % a_runs * a_next + q
 *       / a_run / a_runs * a_jump]. Long runs are read in place; others are copied, a chain of all
 *       rows at a time, and so are rows that would evict each other from the first-level cache.
 *       `first` says that these panels are read for the first time and will be read again: the
 *       call prefetches the panel after each one, where it would prefetch rows of the same panel
 *       otherwise. `result`, if it is not NULL, is where what is computed of the tile
 *       will be stored next, in rows of as many bytes as the tile's, result_row bytes apart: the
 *       call prefetches that memory while it multiplies. `prefetched`, if it is not NULL, begins
 *       prefetched_bytes that the caller reads next, such as the rows of the next tile. The call
 *       prefetches a line in each step, and the lines lie evenly in these bytes. It does not where
 *       it prefetches panels (`first`), or has so few rows that it reads several panels at once.
 *       What is prefetched is not accessed, so these addresses may be any.
 *   void micro_unpacked_<t>(const MicroProduct *x)
 *       The same with B in place, of dtype <t>: B[p][j] = b[p * b_k + j * b_column], for j <
 *       columns.  For one tile of rows, where packing B would take longer than the product.  It is
 *       fast where b_k or b_column is 1.
 *   void micro_each_<t>(const MicroProduct *x)
 *       tile[i][j] = sum over p < k of A[i][p][j] * b[p * b_k + j], for j < columns, b of dtype
 *       <t>: each column of the result has its own elements of A, which are adjacent too.
 *       A[i][p][0] is where element (i, p) of micro_<t> is.
 *   void pack_<t>(int64_t k, int64_t columns, const void *b, int64_t k_stride, int64_t
 *   column_stride, void *panel)
 *       panel[p][j] = b[p * k_stride + j * column_stride] for j < columns <= MICRO_COLUMNS(s),
 *       further columns 0. It packs rows of A too: as columns of a panel that micro_<p> reads with
 *       a_row = 1 and a_k = MICRO_COLUMNS(s).
 *   void pack_scattered_<t>(const MicroScatter *x)
 *       The same of a sum whose order is another one in memory:
 *       panel[e * rows + p][j] = b[p * k_stride + e * each_stride + j * column_stride], for p < k
 *       and e < each. It is fast where the elements of all e, and then those of all p, are
 *       adjacent.
 *
 * The tile has rows of tile_row elements: room for `columns` rounded up to whole panels.  The
 * columns beyond `columns` are written, with no promise of their values.  With `more` the products
 * are added to what the tile holds.
 *
 * What a sum is (the meaning of the language's contraction): the products are added by chains of
 * fused multiply-adds, in the order of k.  Each chain has MICRO_CHAIN of them (the last one may be
 * shorter) and begins at zero.  The results of the chains are added in order, beginning with the
 * first one.  With k = 0 the sum is 0, and with `more` nothing is added.  So a product may be cut
 * at any multiple of MICRO_CHAIN with `more`, and at any row and column: its bits are the same, for
 * every instruction set that has fused multiply-adds (DLC_HAS_FMA of the math header; for SSE2 a
 * product is rounded before it is added). */
#ifndef DLC_MICRO_H
#define DLC_MICRO_H

#include <stdint.h>

enum { MICRO_ROWS = 14, MICRO_CHAIN = 256 };
#define MICRO_COLUMNS(sum) (128 / (int64_t)sizeof(sum))

/* Generated code declares this structure by itself (emit_product.c): the fields and their order are
 * an interface. */
typedef struct MicroProduct {
    int64_t rows, columns, k; /* rows from 1 to MICRO_ROWS, columns from 1, k from 0 */
    const void *a;
    int64_t a_row, a_k;
    int64_t a_run, a_next, a_runs, a_jump, a_from;
    const void *b;
    int64_t b_panel; /* of panels */
    int64_t b_k, b_column; /* of B in place */
    void *tile;
    int64_t tile_row;
    int64_t more, first; /* truth values */
    const void *result;
    int64_t result_row;
    const void *prefetched;
    int64_t prefetched_bytes;
} MicroProduct;

/* This one too. */
typedef struct MicroScatter {
    int64_t k, each, columns;
    const void *b;
    int64_t k_stride, each_stride, column_stride;
    void *panel;
    int64_t rows;
} MicroScatter;

typedef void MicroFn(const MicroProduct *x);
typedef void MicroScatterFn(const MicroScatter *x);
typedef void MicroPackFn(int64_t k, int64_t columns, const void *b, int64_t k_stride,
                         int64_t column_stride, void *panel);

/* The functions of one dtype, in the order of micro.def; at the end a row without a name. */
typedef struct Micro {
    const char *dtype;
    MicroFn *micro;
    MicroFn *unpacked;
    MicroFn *each;
    MicroPackFn *pack;
    MicroScatterFn *scattered;
} Micro;

#define ISA(name, vector, fuses) extern const Micro micro_##name[];
#include "codegen/strips/isa.def"

/* The functions of a dtype (such as "f32") for this processor, or NULL. */
const Micro *micro_of(const char *dtype);
/* One of them by its whole name (such as "micro_unpacked_f32" or "pack_bf16"), or NULL. */
void *micro_find(const char *name);

#endif
