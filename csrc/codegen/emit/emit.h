/* What the two emitters share, see emit.c. */
#ifndef DLC_EMIT_H
#define DLC_EMIT_H

#include "codegen/lower/lower.h"

/* A load of a tile that goes across the rows, and the array that has its elements transposed. */
typedef struct {
    const Let *load;
    const char *name;
} Panel;

/* A tier's emission of one phase.  All text is made in the body first; sizes and names that it
 * turns out to need are declared in front of it. */
typedef struct {
    Cx *cx;
    const Fn *fn;
    Phase *phase;
    Text *out;                  /* statements of the phase */
    Text *helpers;              /* of the unit: functions and constants made once */
    Map *made;                  /* of the unit: which helpers are there */
    int indent;
    const char **names;         /* C names by Value.id */
    bool *used;                 /* by Value.id: the phase uses it */
    Dim *dims;                  /* n[k] of the phase, and whether the tier has used it */
    bool *dim_used;
    int ndims;
    Dim scratch;                /* bytes of private scratch so far */
    const Let *collapsed[MAX_LOOPS];/* the parallel loops, outermost first, and their counts */
    Dim counts[MAX_LOOPS];
    int ncollapsed;
    const Let *tile;            /* the vector loop around, if there is one */
    /* the loop marked recurrences around, if its buffers are C variables; cc alone */
    const Let *recurrences;
    int lane, together;         /* which recurrence is emitted, and how many run together */
    /* accesses whose elements at the end of a row are in arrays, cc alone */
    const Let *const *rest;
    int nrest;
    const Let *wide;    /* a reduction in lanes whose bf16 are widened in arrays, cc alone */
    bool updates;               /* the phase has updates: an index out of range ends it at once */
    bool opaque_zero; /* the phase hides from the compiler what it could know, cc alone */
    const Let *jam;    /* a loop of rows in unroll-and-jam, cc alone; see emit_cc_jam.c */
    bool short_row;             /* what is emitted is for rows of one block: no prefetch */
    bool second;                /* the second of its two copies is emitted */
    const Let *rows, *columns;  /* a loop marked tile around, and the vector loop in it */
    Panel panels[DLC_PANELS];
    int npanels;
    const Let *flat; /* a vector loop around, many rows of which run as one, cc alone */
    const Let *streaming; /* another vector loop around that may have non-temporal stores */
    bool streams; /* the phase has non-temporal stores */
    Dim length; /* of rows for which the phase has copies, cc alone; see emit_cc_length.c */
    /* the phase runs in parts, with forms for near operands, cc alone; see emit_cc_near.c */
    bool near;
    bool near_tests; /* each part is tested first */
    const char *near_lane; /* the lane that a loop over lanes is at */
} Emit;

/* ---- emit_text.c ---- */

/* one line, indented */
void put(Emit *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* line {, indents */
void put_open(Emit *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
void put_scope(Emit *e); /* a bare { */
void put_close(Emit *e);
/* A helper of the unit, once: true when `key` is new. */
bool new_helper(Emit *e, const char *key);
/* as a C expression, in parentheses if composite */
const char *dim_c(Emit *e, Dim d);
const char *offset_c(Emit *e, Dim offset); /* the same, never in parentheses */
Dim access_offset(Emit *e, const Let *access); /* of a load or store, in elements */
const char *name_c(Emit *e, const Value *v);
const char *index_c(Emit *e, Dim index);
const char *type_c(Dtype dtype); /* the C type for computing in it */
const char *storage_c(Dtype dtype);
/* bool i32 i64 f32 f64: the suffix of routines */
const char *compute_name(Dtype dtype);
bool is_narrow(Dtype dtype); /* rounded or wrapped after each op */
/* The MAP let that combines an update's element, operand 0, with its value, operand 1. */
const Let *update_map(Emit *e, const Let *update);
/* The constant that an operand is, or NULL: a literal, or what a `const` let binds. */
const Literal *literal_of(const Value *v);
uint64_t literal_bits(Dtype dtype, Literal literal); /* of the compute type, as dtype holds it */
const char *literal_c(Cx *cx, Dtype dtype, Literal literal);
Dtype map_dtype(const Let *let); /* the dtype a MAP let computes in */
Dtype operand_dtype(const Let *let, int k); /* of operand k of a MAP let */
/* What a MAP let's result goes through: "round_f16", "wrap_u8" and the like, or NULL. */
const char *rounding(const Let *let);

/* ---- emit_loop.c ---- */

/* of a vector loop: DLC_TILE or DLC_COLUMNS */
int loop_tile(const Let *loop);
int loop_cost(const Let *loop); /* of its own MAP lets, by ops.def */
/* May the stores of a vector loop be non-temporal, because memory is slower than its operations? */
bool loop_may_stream(Cx *cx, const Let *loop);
int reduce_block(const Let *reduce); /* elements of a block: 1024, 64 or 1 */
bool one_block(Cx *cx, const Let *reduce); /* is it never more than one? */
int bind_fault(const Let *bind); /* the fault of an index out of range */
Dim loop_index(const Let *loop);
Dim loop_extent(const Let *loop);
/* Is d made of sizes and of indices of the loop `inside` and those around it, and of no data? */
bool loops_give(const Cx *cx, const Let *inside, Dim d);

/* ---- emit.c ---- */

const char *scratch_room(Emit *e, Dim bytes); /* the offset of so many bytes of scratch */
/* its offset in the scratch */
const char *private_buffer(Emit *e, const Value *v, int lanes);
bool is_private(const Emit *e, const Value *v); /* a buffer made in a loop */
bool is_cached(Cx *cx, const Value *buffer); /* known to be so small that it stays near a core */
/* Opens the loops over lo..hi and declares the indices of the collapsed loops; returns how many to
 * close.  A vector loop among them is left to its own let, with these bounds. */
int open_parallel(Emit *e);
int collapsed_at(const Emit *e, const Let *loop); /* its place among the collapsed loops, or -1 */
void put_indices(Emit *e, const char *at); /* those of the collapsed loops, of iteration `at` */
/* has each copy of an unroll-and-jam its own index of the loop? */
bool in_jam(const Emit *e, const Let *loop);
void vector_bounds(Emit *e, const Let *loop, const char **from, const char **to);
void put_phase_head(const Emit *e, Text *unit); /* the first lines of the phase's function */

/* ---- emit_panel.c ---- */

/* Opens a loop over `step` iterations of `rows` at a time, or takes those of the parallel loop:
 * from <index>_from to <index>_to; how many to close. */
int open_rows(Emit *e, const Let *rows, int step);
/* Puts a loop marked tile.  `transpose` names the routine for elements of so many bytes.  `row`
 * puts the body of one iteration, in which the vector loop runs from <index>_from to <index>_to. */
void put_rows(Emit *e, const Let *rows, const char *(*transpose)(void *arg, int bytes),
              void (*row)(void *arg, const Block *body), void *arg);
/* The array with the load's transposed elements, or NULL; the index of an element in it. */
const char *panel_of(const Emit *e, const Let *load);
const char *panel_index(Emit *e);

/* ---- emit_product.c ---- */

/* Puts a loop marked pack or micro.  pointers: it calls through the unit's.  False: it is none. */
bool put_product(Emit *e, const Let *loop, bool pointers);

/* ---- emit_product_prefetch.c ---- */

/* Adjacent elements of a tensor; of: NULL where there are none. */
typedef struct {
    const Value *of;
    Dim from, count;
} Span;

/* Puts what a call of a microkernel prefetches while it multiplies.  b: the load of its panels;
 * rows: those of A that it reads. */
void put_prefetched(Emit *e, const Let *loop, const Let *b, const Span *rows);

/* ---- emit_scan.c ---- */

/* the steps in elements: to the next element of a row, to the next row */
typedef struct {
    Dim along, row;
} ScanSteps;
typedef struct {
    const Let *first; /* the store of a row's first value, a literal */
    const Let *loop, *load, *store;
    Op op;
    Dtype dtype, wide; /* of the elements, and of the running result */
    ScanSteps to, from;
    bool at_once; /* contiguous floats, for dlc_scan_rows of prelude_scan.h */
} Scan;
/* Does a loop marked recurrences scan what it loads, and nothing else? */
bool scan_alone(Emit *e, const Let *recurrences, Scan *s);

/* ---- emit_onehot.c ---- */

/* The index of the element that is not zero; NULL: the reduction is no one-hot select. */
const Value *onehot_index(const Let *reduce);
bool is_onehot(const Let *reduce); /* is it a one-hot select? */

/* ---- emit_prefetch.c ---- */

/* The distance in bytes from what a reduction along rows loads to what it prefetches; 0: it does
 * not prefetch.  The reduction loads `least` bytes at a time. */
int prefetch_along_row(Emit *e, const Let *load, const Let *reduce, int64_t least);
/* For a loop over a row after reductions of it, with non-temporal stores: the distance in bytes
 * from a load to the same element of the next row; 0: prefetching is not worth it. */
int prefetch_next_row(Emit *e, const Let *load);

/* ---- emit_cc_near.c ---- */

/* The first lines of the function of a part, and the phase that calls it. */
void cc_near_head(const Emit *e, Text *unit);
void cc_near_phase(Emit *e, Text *unit);

/* ---- cc/emit_cc_length.c ---- */

bool cc_has_lengths(const Emit *e); /* has the phase copies for frequent lengths of rows? */
void cc_length_head(Emit *e, Text *unit); /* of the function with the length as a parameter */
void cc_length_phase(Emit *e, Text *unit); /* the phase, which calls it */
void cc_most(Emit *e, Dim size, Text *unit); /* says how large the size is at most, if little */

/* ---- emit_nontemporal.c ---- */

/* Is the store non-temporal, because its tensor is larger than caches?  1: yes, 0: no, -1: its size
 * decides. */
int streamed(Emit *e, const Let *store);
/* Lets a routine store without the caches if the tensor is large: the C condition for that.  Unless
 * it is never true, the phase will end with a fence. */
const char *use_nontemporal_c(Emit *e, const Let *store);

/* ---- emit_cc.c, emit_cc_tile.c, emit_tcc.c: the statements of a phase ---- */

void emit_cc_phase(Emit *e, const Let *loop);
void emit_lines(Cx *cx, const Let *loop, Text *text);
void emit_tcc_phase(Emit *e, const Let *loop);
extern const char emit_cc_head[], emit_tcc_head[]; /* what stands before all phases */

#endif
