/* Loops under construction, see builder.c. */
#ifndef DLC_BUILDER_H
#define DLC_BUILDER_H

#include "codegen/loops/loops.h"
#include "codegen/loops/map.h"

/* A loop under construction; frame 0 is the kernel's own block. */
typedef struct {
    Block *blk;
    Block *into; /* where lets go: blk, or the block of the choice in it that is open */
    Dim index, extent;
} Frame;

typedef struct {
    Cx *cx;
    Fn *fn;
    Frame *path[MAX_LOOPS + 2]; /* the loops that are open, outermost first */
    int depth;
    Map homes; /* a loop index to its Frame; a scalar's id to its Frame */
} Builder;

/* ---- builder.c ---- */

/* Before any loop: what is built goes into the kernel's block, or that of a choice in it. */
void builder_begin(Builder *out, Block *blk);
/* A let that is built already goes where the next one would. */
void builder_append(Builder *out, Let *let);
/* Puts what was built, beside no loop that is open, in the place of the loop. */
void builder_replace(Builder *out, Let *loop);
/* The depth at which a let has all that it reads; and to move one there from other loops. */
int builder_depth_of(const Builder *out, const Let *let);
void builder_move(Builder *out, int depth, Let *let);
/* Opens a loop; `stem` names its index. */
Dim builder_open(Builder *out, const char *stem, Dim extent);
Let *builder_close(Builder *out);
/* What is built up to builder_close_choice stands in an `if a <= b` or, from builder_else on, in
 * its `else`.  Buffers of the loop that is open stand before it. */
void builder_open_choice(Builder *out, Dim a, Dim b);
void builder_else(Builder *out);
void builder_close_choice(Builder *out);
Value *builder_close_reduce(Builder *out, Op op, Marks marks, Value *ret);
bool builder_is_open(const Builder *out, Dim index); /* is it the index of an open loop? */
bool builder_frame_is_open(const Builder *out, const Frame *frame);
Frame *builder_frame(const Builder *out, const Value *v); /* that a scalar is in */
int builder_depth(const Builder *out, int n,
                  const Dim *dims); /* of the deepest loop that dims use */
/* Puts an update of an element into the loop that is open. */
void builder_update(Builder *out, Op op, Value *buffer, const Dim *at, Value *value);
Value *builder_buffer(Builder *out, int depth, Dtype dtype, int rank, const Dim *dims);
Value *builder_map(Builder *out, Op op, int nargs, Value *const *args, Dtype dtype,
                   const char *stem);
Value *builder_combine(Builder *out, Op op, Value *a, Value *b);
Value *builder_compare(Builder *out, Op op, Value *a, Value *b);
Value *builder_cast(Builder *out, Value *v, Dtype to);
Value *builder_truth(Builder *out, Value *v); /* a loaded bool as 0 or 1 */
Value *builder_const(Builder *out, int depth, Value *literal, Dtype dtype, const char *name);
Value *builder_number(Builder *out, Dtype dtype, double number, const char *name);
Value *builder_size(Builder *out, Dim d); /* a dim as an i64 */
/* A load that goes into the loop at the depth, and a store into the innermost one. */
Value *builder_load(Builder *out, int depth, Value *buffer, const Dim *at);
void builder_store(Builder *out, Value *buffer, const Dim *at, Value *value);
/* Binds the scalar to an index. */
Dim builder_bind(Builder *out, int depth, Value *v, int nattrs, const Attr *attrs);
int builder_depth_of_value(const Builder *out, const Value *v);
void builder_close_all(Builder *out, int n);

/* ---- extent.c ---- */

bool index_uses(Cx *cx, int n, const Dim *idx, Dim name); /* does an index use it? */
bool extent_is_one(Cx *cx, Dim d);
int64_t extent_least(Cx *cx, Dim d); /* its lower bound, but no less than 1 */
Dim extent_ceiling(Cx *cx, Dim d, Dim by); /* d / by, rounded up */
/* The extent; or the most it may be, where it depends on the index of a loop: the scratch of a
 * kernel is known before its loops run. */
Dim extent_of_buffer(Cx *cx, Dim extent);
/* The extent of a buffer's rows so that they are an odd number of cache lines apart: the rows of a
 * tile then do not all fall into one set of the first-level cache.  If the size is a symbol, one
 * line is added, which is right for most sizes. */
Dim extent_of_rows(Cx *cx, Dtype dtype, Dim extent);
/* The index of a sum, over names that are of the sum alone. */
typedef struct {
    Dim at;
    int n;
    const Dim *names;
} SumNames;

/* Is the value, read there, panels of the column?  It is read at [.., column / width, sum + ..,
 * column % width], which of one panel is [.., 0, sum + .., column]. */
bool access_is_panels(Cx *cx, const Value *from, const Dim *at, const SumNames *s, Dim column);

#endif
