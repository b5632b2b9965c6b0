/* Strips: SIMD routines over short contiguous arrays, the instruction set of the libtcc tier.
 *
 * They are compiled into the extension once for each instruction set and found by name (strip_find
 * in codegen.h); generated code declares the ones it calls.  T is the C type of a dtype: uint8_t
 * (bool, 0 or 1), int32_t, int64_t, float, double;
 * uint64_t and dlc_c128 of prelude.h for complex numbers.  Arrays need no alignment; n may be 0.
 *
 * Where out and an operand have elements of one size they may be the same array; other overlap is
 * not allowed.  A strip gives each element the bits that the expression of ir/ops.def gives,
 * whatever its position, n, and the other elements.
 *
 *   void strip_<op>_<dtype>(void *out, const void *a, int64_t n, unsigned scalars)
 *   void strip_<op>_<dtype>(void *out, const void *a, const void *b, int64_t n, unsigned scalars)
 *   void strip_<op>_<dtype>(void *out, const void *a, const void *b, const void *c, int64_t n,
 *                           unsigned scalars)
 *       Every MAP row but cast, for the compute dtypes its rule allows (c64 and c128 those of real and
 *       imag alone); <dtype> is the operands',
 *       in where that of b and c.  Comparisons and predicates write bool.  Bit k of scalars set:
 *       operand k is one element that stands for all.
 *   void strip_pair_<first>_<second>_<side>_f32(void *out, const void *a, const void *b,
 *                                               const void *c, int64_t n, unsigned scalars)
 *   void strip_square_<first>_f32(void *out, const void *a, const void *b, int64_t n,
 *                                 unsigned scalars)
 *   void strip_then_<first>_<second>_f32(void *out, const void *a[, const void *b], int64_t n,
 *                                        unsigned scalars)
 *   void strip_twice_<first>_<second>_f32(void *out, const void *a, const void *b, const void *c,
 *                                         const void *d, int64_t n, unsigned scalars)
 *   void strip_both_<first>_<other>_<second>_f32(void *out, const void *a, const void *b, const void *c,
 *                                                const void *d, int64_t n, unsigned scalars)
 *       Bits 0 and 2 of the scalars are never set.
 *   void strip_choose_<first>_f32(void *out, const void *a, const void *b, const void *c,
 *                                 const void *d, int64_t n, unsigned scalars)
 *       Two ops in one, or three, see fused.def.  Bit 0 of the scalars of choose is never set.
 *   void strip_clamp_f32(void *out, const void *a, const void *low, const void *high, int64_t n,
 *                        unsigned scalars)
 *       minimum(maximum(a, low), high) for bounds that are one element each and no NaN.
 *   void strip_cast_<from>_<to>(void *out, const void *a, int64_t n)
 *       Between compute dtypes.
 *   void strip_load_<dt>(void *out, const void *a, int64_t stride, int64_t n)
 *       From any storage dtype to its compute dtype: out[i] = a[i * stride], stride in elements,
 *       negative and 0 too.
 *   void strip_store_<dt>(void *out, int64_t stride, const void *a, int64_t n)
 *       Back: out[i * stride] = a[i], rounded or wrapped.
 *   void strip_read_u8_f32(void *out, const void *a, int64_t n), strip_read_i8_f32
 *       out[i] = (float)a[i].
 *   void strip_zip_2(void *out, const void *a, const void *b, int64_t n), strip_zip_3, strip_zip_4
 *       out[2 * i] = a[i], out[2 * i + 1] = b[i], and the like, for elements of 4 bytes.
 *   void strip_unzip_2(void *a, void *b, const void *from, int64_t n), strip_unzip_3, strip_unzip_4
 *       Back.
 *   void strip_round_f16(void *tile, int64_t n), strip_round_bf16: of float
 *   void strip_wrap_u8(void *tile, int64_t n), strip_wrap_i8, strip_wrap_i16: of int32_t
 *       In place, to what a store and a load would leave.
 *   void strip_fill_<dtype>(void *out, const void *value, int64_t n)
 *   void strip_iota_i64(int64_t *out, int64_t start, int64_t step, int64_t n)
 *   void strip_one_hot(void *out, const int64_t *value, int64_t start, int64_t n)
 *       Of bool: out[i] = *value == start + i.
 *   int strip_check_index(const int64_t *index, int64_t size, int wrap, int64_t *out, int64_t n)
 *       Copies; with wrap a negative index counts from the end.  Not 0: one is out of 0 .. size-1.
 *   void strip_prefetch(const void *from, int64_t bytes)
 *       Asks for memory that is read soon, into the first level cache; never faults.
 *   void strip_prefetch_write(const void *to, int64_t bytes)
 *       The same for memory that is written soon.
 *   void strip_stream(void *to, const void *row, int64_t count), void strip_stream_end(void)
 *       to[k] = row[k] for k < count, elements of 4 bytes, by non-temporal stores; at the end, before other threads read
 *       it.
 *   void strip_nontemporal_<strip>_f32(<as strip_<strip>_f32>), n > 0
 *       The same, by non-temporal stores.  See fused.def for those there are.
 *   void strip_gather_<bytes>(void *out, const void *base, const int64_t *index, int64_t scale,
 *                             int64_t n)
 *       out[i] = base[index[i] * scale] for elements of 1, 2, 4, 8 or 16 bytes.
 *   void strip_take_<storage>(void *out, const void *from, const int64_t *at, int64_t step,
 *                             int64_t stride, int64_t rows, int64_t columns)
 *       out[r * columns + c] = from[(at ? at[r] : r) * step + c * stride]; columns > 0.  <storage>: 1, 4,
 *       8 or 16 bytes as they are; u8, i8, i16, f16, bf16 to their compute dtype.
 *   void strip_put_<storage>(void *out, int64_t step, int64_t stride, const void *a, int64_t rows,
 *                            int64_t columns)
 *       Back: out[r * step + c * stride] = a[r * columns + c].
 *   void strip_iota_rows_i64(int64_t *out, int64_t start, int64_t step, int64_t stride, int64_t rows,
 *                            int64_t columns)
 *       out[r * columns + c] = start + r * step + c * stride.
 *   void strip_update_<red>_<dtype>(void *base, const int64_t *index, int64_t scale, const void *a,
 *                                   int64_t n)
 *       base[index[i] * scale] is combined with a[i], one after the other: sum, prod, amax, amin of
 *       f32, f64, i32, i64; amax, amin of bool; store (it becomes a[i]) of all.
 *   void strip_run_<op>_<dtype>(void *out, const void *a, void *run, int64_t n)
 *       out[i] = *run = op(*run, a[i]), one after the other: add, mul, maximum, minimum of f32, f64,
 *       i32, i64; maximum, minimum of bool; logaddexp of f32, f64.
 *   void strip_transpose_<bytes>(void *out, const void *from, int64_t step, int64_t rows,
 *                           int64_t columns)
 *       out[r * 144 + c] = from[c * step + r] for rows <= 64 and columns <= 128, see
 *       prelude_transpose.h.
 *   void strip_scan_<op>_<dtype>(void *out, int64_t out_step, int64_t out_row, const void *a,
 *                                int64_t a_step, int64_t a_row, const void *start, int64_t n,
 *                                int64_t rows, int nontemporal)
 *       The same from *start on for up to 8 rows of n elements at once, as they are stored; steps from an
 *       element to the next one, and from a row to the next.  out may be a.  nontemporal: what is
 *       stored may pass by the caches.  f32 is kept in f64 but for maximum and minimum, bf16 in f32.
 *   void strip_down_<red>_<form>_<dtype>(void *to, const void *a, int64_t a_row, const void *b,
 *                                        int64_t b_row, int64_t rows, int64_t n, unsigned scalars)
 *       to[i] is combined with what the form makes of a[i] and b[i] (load: a, square: a*a, mul: a*b,
 *       square_sub: (a - b)*(a - b)), one row after the other; <dtype> is that of a as it is stored.
 *       Bit 1 of scalars set: each row of b is one element.  See emit_tcc_fold.c for those there are.
 *   void strip_gathered_<red>_<dtype>(void *to, const void *from, const int64_t *at, int64_t step, int64_t rows,
 *                                 int64_t n)
 *       to[i] is combined with from[at[r] * step + i], one row after the other: those that strip_down has
 *       of the form load.
 *   void strip_prefetch_rows(const void *from, const int64_t *at, int64_t step, int64_t rows, int64_t bytes)
 *       Asks for the bytes from each from + at[r] * step on; step in bytes.
 *   T strip_along_<red>_<form>_<dtype>(const void *a, const void *b, int64_t n, unsigned scalars)
 *       strip_reduce_<red> of what the form makes of a[i] and *b.  Memory scalars >> 4 bytes ahead of each
 *       element is prefetched.
 *   void strip_half_<op>_bf16(void *out, const void *a, const void *b, int64_t n, unsigned kinds)
 *       add, sub, mul of bf16, rounded into floats.  Bit 0 (1) of kinds set: a (b) is in memory as bf16,
 *       else it is floats; one of them does.  Bit 2 (3) set: it is one float for all.
 *   void strip_index_<op>(void *out, const int64_t *value, int64_t start, int64_t n)
 *       Of bool: out[i] = start + i op *value, for lt, le, gt, ge.
 *   void strip_index_rows_<op>(uint8_t *out, const int64_t *value, int64_t start, int64_t rows,
 *                              int64_t columns)
 *       out[r * columns + c] = start + c op value[r]; columns <= 128.
 *   void strip_in_place_<strip>(void *out, int64_t out_row, const void *a, int64_t a_row, const void *b,
 *                            int64_t b_row, const void *c, int64_t c_row, const void *d, int64_t d_row,
 *                            int64_t rows, int64_t columns)
 *       strip_<strip> of rows where they are: twice_mul_add_f32, twice_mul_sub_f32, and the same of bf16, each
 *       of the three operations rounded.
 *   void strip_rows_<red>_<form>_<dtype>(T *out, const void *a, int64_t a_row, const T *b, int64_t b_row,
 *                                        int64_t rows, int64_t columns, unsigned scalars)
 *       out[r] is strip_reduce_<red> of what the form makes of the rows a + r * a_row and b + r * b_row;
 *       columns <= 1024.  <dtype> is that of a as it is stored.  Bit 1 of scalars set: each row of b is one
 *       element.  Of two operands and long rows, memory scalars >> 4 bytes ahead of a's elements is prefetched.  See
 *       emit_tcc_rows.c for those there are.
 *   T strip_reduce_<red>_<dtype>(const T *a, int64_t n)
 *       One block, n <= 1024, in the order of prelude_reduce.h: sum, prod, amax, amin of f32, f64,
 *       i32, i64; any, all, amax, amin of bool.
 *   float strip_fold_<red>_<strip>_f32(const void *a, const void *b, int64_t n, unsigned scalars)
 *       The same of what strip_<strip>_f32 makes, see fused.def; n > 0, one operand is no scalar.  With b as
 *       the scalar, memory scalars >> 4 bytes ahead of each element of a is prefetched.
 *   int64_t strip_reduce_argmax_<dtype>(const T *a, int64_t n, T *best), and argmin
 *       The index in the block of the first largest (smallest) element, or of the first NaN if
 *       there is one, and the element; n > 0.
 */
#ifndef DLC_STRIPS_H
#define DLC_STRIPS_H

typedef void (*StripFn)(void);

typedef struct StripRow {
    const char *name;
    StripFn fn;
} StripRow;

/* The strips of one instruction set, in no order, ended by a row without a name. */
extern const StripRow strip_rows_sse2[];
extern const StripRow strip_rows_avx2[];
extern const StripRow strip_rows_avx512[];
extern const StripRow strip_rows_neon[];

#endif
