/* What the files of lowering share, see lower.c for how they fit together. */
#ifndef DLC_LOWER_H
#define DLC_LOWER_H

#include "codegen/builder/builder.h"
#include "codegen/loops/map.h"

/* ---- lower_index.c: index vectors ---- */

/* The key, in a Map, of a value at an index vector; returns its length. */
int map_key(const Value *v, const Dim *idx, uint32_t *key);

/* Where a let's operand k is read for the element idx of its result: MAP, VIEW, the indices of a
 * gather, the part of a cat or the operand of a pad that holds the element. */
void index_operand(Cx *cx, const Let *let, int k, const Dim *idx, Dim *out);
/* Where a reduction's operand is read for element idx, given indices for the reduced axes not of
 * size 1. */
void index_reduced(Cx *cx, const Let *red, const Dim *idx, const Dim *own, Dim *out);
int index_cat_part(Cx *cx, const Let *cat, Dim at);     /* the part that surely holds it, or -1 */
Dim index_cat_start(Cx *cx, const Let *cat, int part);  /* where along the axis it begins */
/* 1: the element is surely the operand's, -1: surely the fill, 0: not known because of *axis. */
int index_pad(Cx *cx, const Let *pad, const Dim *idx, int *axis);
bool index_is_inside(Cx *cx, Dim d, Dim n);             /* is it proved that 0 <= d < n? */

/* ---- lower_nest.c: axes to loops ---- */

/* An index space as loops, outermost first, and each axis as a function of the loops' indices. */
typedef struct {
    int naxes, nloops;
    Dim name[MAX_RANK], extent[MAX_RANK];       /* of the axes */
    Dim axis[MAX_RANK];         /* over the indices of the loops */
    Dim index[MAX_LOOPS], count[MAX_LOOPS];     /* of the loops */
} Nest;

/* NEST_KEEP: keep the order of the axes.  NEST_FLAT: one loop, whatever it costs.  NEST_BITS: loops
 * of a reduction, whose bits depend on their order.  NEST_ROWS: nothing is reduced.  NEST_AXES: no
 * loop runs over two axes. */
enum NestFlag { NEST_KEEP = 1, NEST_FLAT = 2, NEST_BITS = 4, NEST_ROWS = 8, NEST_AXES = 16 };

/* Axes are named by bare indices.  The offsets are those of the elements that the loops touch; the
 * first nstores of them are of stores. */
void nest_plan(Cx *cx, Nest *nest, int naxes, const Dim *names, const Dim *extents, int nstores,
               int noffsets, const Dim *offsets, int flags);
/* How many of the offsets advance by one element when the bare index does. */
int nest_score(Cx *cx, Dim name, int noffsets, const Dim *offsets);

/* ---- lower_probe.c: what a set of values reads, before any loop is built ---- */

/* A reduction that is demanded, at `idx`, with indices of its own over the reduced axes.  Axes of
 * size 1 have the index 0 and no name. */
typedef struct {
    const Let *red;
    Dim *idx;
    int nown;
    Dim own[MAX_RANK], extent[MAX_RANK];
    Dim *offsets; /* of the loads in its body */
    int noffsets;
} Site;

/* A value that one or more loops over a row need. */
typedef struct {
    bool noted;
    bool several; /* demanded at several index vectors: never buffered */
    Dim *idx; /* the one it is demanded at */
    int64_t cost; /* of computing it from what is loaded, in units of ops.def */
    int first; /* the first loop that computes it, from 1 on; 0: none is known */
    bool again; /* other loops would compute it too if it were not buffered */
    int nrow; /* the number of axes of its row buffer; 0: it is not buffered */
    const Dim *row; /* the sizes of these axes */
    Value *buffer; /* its row buffer, once it has been computed */
    /* An output's buffer that serves as the row buffer, or NULL; where the row is in it, over the
     * names of the row's axes. */
    Value *output;
    Dim *at;
    const Dim *axes;
} Need;

/* lane: which of the group's lanes the output is for */
typedef struct {
    const Value *value;
    Value *buffer;
    Dim *at;
    int lane;
} Output;

/* The index space of a group of outputs: the outer axes, then the axes of the row that reductions
 * run over. */
typedef struct {
    int nouter, nrow;
    Dim outer[MAX_RANK], outer_extent[MAX_RANK], row[MAX_RANK], row_extent[MAX_RANK];
    bool laned; /* its axes may be taken a few elements at a time */
} Space;

typedef struct {
    Site *sites; /* in the order in which they can be built */
    int nsites;
    Dim *offsets; /* of the stores of the final loop, then of its loads */
    int nstores, noffsets;
    Map needs; /* value to Need */
    const Value *costly; /* costs more in several loops than as a tensor; or NULL */
    /* Where the space must be cut, because the pieces of a cat or pad meet there: the axis and the
     * bounds of its pieces, counted from where the group's space begins. */
    Dim cut; /* DIM_NONE: nowhere */
    int npieces;
    Dim *starts, *ends; /* the start of an empty piece may be beyond its end */
    /* An axis whose elements a cat takes in turn from `lanes` parts of one element each.  The
     * elements of all parts can be made together. */
    Dim interleaved_axis; /* DIM_NONE: there is none */
    int lanes;
    const Let *contract; /* the first contraction that the outputs need */
    Dim *contract_at; /* the index at which they need it */
    int ncontracts; /* how many times the outputs need contractions */
    bool contract_reduced; /* a reduction wants it */
    const Let *own_loops; /* a cat or pad that no cut resolves, a scan that no loop can run */
    /* The scans that one loop can run together, outermost first.  along: the axis of the space
     * that it runs along (DIM_NONE: only axes of one element); back: it runs from the end. */
    const Let **scans;
    int nscans;
    Dim along;
    bool back;
} Probe;

typedef struct Lower Lower;
typedef struct Bounded Bounded;

void probe_outputs(const Lower *lo, const Space *space, int noutputs, const Output *outputs,
                   Probe *probe);

/* ---- lower_scalar.c: values to scalar lets in loops ---- */

/* The users of a value in the kernel's old body. */
typedef struct {
    const Let *only; /* its only user, which reads it once; NULL: more users, or none */
    bool read;
    bool result; /* the kernel returns it */
} User;

/* Panels that a part of a value is computed into: element (term, column) of it is at [.., panel,
 * term, column] of the buffer. */
typedef struct {
    Value *buffer;
    Dim at[MAX_RANK]; /* the indices before those of the term and the column */
    int term, column; /* axes of the value */
    const Dim *start; /* of the part */
} Filled;

/* An entry of Lower.leaf that is a block's buffer while the loops over blocks are open. */
typedef struct {
    Value **leaf;
    Value *before; /* memory outside of the kernel, or NULL */
} Replaced;

struct Lower {
    Cx *cx;
    Fn *fn;
    Builder out;
    Let *kernel; /* the new let */
    /* the kernel's results; their values in the old body; the number of the group that stores them,
     * or 0 */
    int nresults;
    Value *const *rets;
    int *group_of;
    int ngroups; /* that were begun; those before it are phases already */
    const Value **in_place; /* the parameters whose memory results take */
    int nin_place;
    Map scalars; /* value and indices to Scalar */
    Map binds; /* an index value to the index it is bound to */
    /* by id in the old function: the buffer that has the value's elements, or NULL */
    Value **leaf;
    const User *user; /* by the same ids */
    /* in a loop that is in a kernel: the parameter that is the number of the step, which is this
     * index, or NULL */
    const Value *number;
    Dim step;
    /* What the loops of the group under construction read. */
    const Probe *probe;
    /* The innermost outer loop is the vector loop, and reductions run in sequence. */
    bool column;
    Map nests; /* reduction to Nest */
    int outer; /* depth of the innermost outer loop */
    const Dim *row; /* the axes of the row as the open loops have them */
    const struct Plain *plain; /* the nest of the group's only contraction, or NULL */
    const Block *body; /* of the kernel as it was */
    bool blocked; /* the loops over blocks of rows are open, see lower_blocks.c */
    Dim block_extent, block_most; /* rows of the block, and of the largest one */
    int block_depth; /* of the innermost loop over blocks */
    Replaced *replaced; /* the last one last */
    int nreplaced;
    Bounded *bounded; /* the elements that masks exclude, while the loops over blocks are open */
    int nbounded;
    Map origins; /* a buffer of a part of a value to where that begins */
    const Filled *filled; /* by the loops under construction, or NULL */
};

/* The scalar that holds element idx of v. */
Value *lower_at(Lower *lo, const Value *v, const Dim *idx);
/* In lower_index.c: the index that a gather or scatter takes from element idx of its index tensor.
 * It is bound, and so checked, unless it consists of positions, sizes and checked indices and is
 * thus known to be in range. to: as for lower_bind. */
Dim lower_index(Lower *lo, const Let *let, const Dim *idx, int n, const Dim *to);
/* The dtype in which a reduction is computed. */
Dtype reduce_dtype(const Let *red);

/* ---- lower_loops.c: accesses in the loops under construction (builder.h) ---- */

/* Opens the nest's loops.  axes: the index of each axis of the nest over these loops. */
void nest_open(Lower *lo, const Nest *nest, Dim *axes);
/* `at` is an index of the value that the buffer holds, even if it holds a part of it only. */
void lower_store(Lower *lo, Value *buffer, const Dim *at, Value *value);
/* The offset of the element of the buffer that the names in `at` say. */
Dim lower_offset(const Lower *lo, const Value *buffer, const Dim *at);
bool lower_is_part(const Lower *lo, const Value *buffer); /* of a block's part of a value? */
Value *lower_load(Lower *lo, Value *buffer, const Dim *at);
/* The same in the innermost open loop, for a buffer that this loop stores to. */
Value *lower_load_here(Lower *lo, Value *buffer, const Dim *at);
/* Binds the scalar v to an index of this extent; wrap as for gather. to: the n indices, over the
 * open loops, of the element that is read or written with it. */
Dim lower_bind(Lower *lo, Value *v, Dim extent, int wrap, int n, const Dim *to);

/* ---- lower_column.c: which way the vectors of a reduction run ---- */

/* Do vectors run along the outer axes, a tile of columns at a time, or along the reduced axes? */
bool reduces_columns(Lower *lo, const Space *space, const Probe *probe);

/* ---- lower_group.c: the loops for values of one index space ---- */

/* Values of one index space; dims may be a part (from `start`) of a larger one. */
typedef struct {
    /* the first nfull outputs have these dims, the others have the dims of the outer axes */
    int noutputs, nfull;
    Output *outputs; /* room for all results of the kernel */
    int rank;
    Dim start[MAX_RANK], dims[MAX_RANK];
    /* For one element of the group along this axis, each output has `lanes` adjacent ones and
     * makes one of them.  lanes 0: there is no such axis. */
    int lane_axis, lanes;
    bool part; /* buffers hold this part of a value, or its reductions */
    bool ones; /* axes of one element have names, because pieces of them may have none */
} Group;

/* A group's index space, and its axes by name. */
typedef struct {
    Space space;
    int nall;
    Dim all[MAX_RANK], all_extent[MAX_RANK]; /* axes that are not of size 1 */
    Dim idx[MAX_RANK]; /* the index of an output that has the group's shape */
} Shape;

void lower_group(Lower *lo, Group *g);
Shape group_shape(Lower *lo, const Group *g);
/* Probes what the group's loops will read, with each output at the axes of the space. */
void group_probe(Lower *lo, const Group *g, Shape *s, Probe *probe);
/* The group with each output once for each lane: one iteration makes all elements that a cat
 * interleaves, so that memory is read and written once. */
Group group_lanes(Lower *lo, const Group *g, const Shape *s, const Probe *probe);
/* The axes of a buffer, innermost first; the first nsum are summed. */
typedef struct {
    int axis[MAX_RANK], nsum;
} Order;
/* The strides that a buffer of the type has in the order; NULL: row-major. */
Dim *group_strides(Lower *lo, const Type *type, const Order *order);
/* Makes it a buffer of the kernel, in phases of its own; order NULL: row-major. */
void group_materialise(Lower *lo, const Value *v, const Order *order);
Output output_of(Lower *lo, const Value *value, Value *buffer);
/* Is there a reduction whose position uses the name?  Such an axis of a group is an outer one. */
bool sites_use(Cx *cx, const Probe *probe, Dim name);

/* ---- lower_phase.c: one phase of a group ---- */

void group_phase(Lower *lo, const Group *g, const Space *sp, const Probe *probe);
/* Computes the outputs from .. to-1 and stores them.  outer, row: the axes of the space over the
 * open loops. */
void group_store(Lower *lo, const Group *g, int from, int to, const Space *space, const Dim *outer,
                 const Dim *row);
void group_sites(Lower *lo, const Probe *probe); /* plans the nests of the reductions */
void group_outer(Lower *lo, const Space *space, const Probe *probe, Nest *nest);
/* Opens the outer loops, at least one; returns how many. */
int group_open(Lower *lo, const Nest *nest, Dim *axes);
void axes_rename(Lower *lo, int n, const Dim *names, const Dim *axes, int rank, Dim *idx);

/* ---- lower_scan.c ---- */

/* Makes one step of the scan in the loop that is open: the scan's element at idx. */
Value *lower_scan(Lower *lo, const Let *scan, const Dim *idx);
/* Lowers a group whose scans run along probe->along and which needs no other loops inside. */
void group_scan(Lower *lo, const Group *g, const Shape *s, const Probe *probe);

/* ---- lower_scatter.c ---- */

bool group_is_scatter(const Group *g);
void group_scatter(Lower *lo, const Group *g);

/* ---- lower_contract.c ---- */

/* Lowers a group that needs a contraction.  False: the contraction is not needed exactly once at
 * each element, or the group also needs loops of another kind. */
bool group_contract(Lower *lo, const Group *g, const Shape *s, const Probe *probe);
/* Makes the row operand a buffer of the block; false: it is in memory already. */
bool contract_operand(Lower *lo, const Shape *s, const Probe *probe);
/* Finds the group's axes that the row operand has, if that must be made, and returns how many.
 * row: the most elements that the operand has for one index of these axes. */
int contract_rows(Lower *lo, const Shape *s, const Probe *probe, Dim *names, int64_t *row);

/* ---- lower_blocks.c: a kernel cut into blocks of rows ---- */

/* Lowers a group that wants a contraction whose rows, or whose row operand, must be whole.  False:
 * the group is none, or it would have too few blocks. */
bool group_blocks(Lower *lo, Group *g, const Shape *s, const Probe *probe);
/* Makes v a buffer.  In a block that is the block's part of v at idx, if v depends on the block.
 * With `reductions`, the reductions of v to one number for each row become buffers too. */
void block_materialise(Lower *lo, const Value *v, const Dim *idx, const Order *order,
                       bool reductions);
/* Is each element of v computed of single elements, wherever it is, without loops of its own?
 * *cost: of one, in the unit of ops.def. */
bool block_is_plain(Lower *lo, const Value *v, int *cost);
/* Makes v a buffer of the kernel, before the phase that is being built. */
void block_materialise_before(Lower *lo, const Value *v, const Order *order);
/* Computes the part of v that begins at the panels' `start` and has these dims into the panels, in
 * loops of its own where loops are open.  The axis along which most of what v is computed from is
 * adjacent is the innermost one.  If that is the terms of a column, they are adjacent in the panels
 * too. */
void block_compute(Lower *lo, const Value *v, const Dim *dims, const Filled *panels);
/* The last of the elementwise values that are computed of v, each being the only user of the one
 * before. */
const Value *block_epilogue(const Lower *lo, const Value *v);

/* ---- lower_bounds.c: what masks exclude ---- */

/* To be called when the loops over blocks are open, and when they are closed again. */
void bounds_find(Lower *lo);
void bounds_forget(Lower *lo);
/* Shortens dims, the dims of a block's part of v, along a whole axis whose end is excluded by a
 * mask. */
void bounds_shorten(Lower *lo, const Value *v, const Dim *start, Dim *dims);
/* The number of elements of the axis that the block computes, from the first on. */
Dim bounds_extent(const Lower *lo, const Value *v, int axis);
/* The size that a buffer's axis needs if it has this extent in the block. */
Dim bounds_room(const Lower *lo, Dim extent);

/* ---- lower_short.c ---- */

/* May the rows of the kernel be short, and may they be longer?  Then *symbol says which: they are
 * short where it is at most *last. */
bool lower_is_short(Cx *cx, const Let *kernel, Dim *symbol, int64_t *last);

/* ---- lower.c, lower_steps.c: loops in kernels ---- */

/* The state of a function that is lowered to the loops stage. */
typedef struct {
    Fn *fn; /* the new one */
    Value **leaf; /* by id in the old one: the values of the new one outside of kernels */
    int nvalues; /* of the old one */
    const User *user; /* by the same ids */
    const Value *number; /* the parameter that is the number of a step, or NULL */
    Dim step; /* its index */
} Lowering;

/* The body of a loop that is in a kernel of the function, lowered on its own.  Its lets may stand
 * in the function. */
Fn *lower_body(Fn *around, const Fn *body, Dim step);
/* Lowers a kernel that is a loop. */
void lower_steps(const Lowering *in, const Let *old, Let *kernel);

#endif
