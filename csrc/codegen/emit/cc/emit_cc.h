/* What the files of the C compiler's tier share. */
#ifndef DLC_EMIT_CC_H
#define DLC_EMIT_CC_H

#include "codegen/emit/emit.h"

/* Two rows at a time, see emit_cc_jam.c: the names that each of the two copies has. */
typedef struct {
    const Let *rows;
    Names *names[2];
} Jam;

/* What an emission for the C compiler needs besides an Emit. */
typedef struct {
    /* by let, while another form of it is put: what is loaded, where is stored, or what notes that
     * an operand is far */
    Map stands;
} Cc;

static inline Cc *
cc_of(const Emit *e)
{
    return e->own;
}

/* A reduction as C writes it: the names of its routines, types and results. */
typedef struct {
    Op op;
    Dtype dtype; /* of what is reduced */
    bool index; /* the result is the index of the element, not the element */
    const Value *ret;
    const char *name, *type; /* sum_f32; the C type of a partial result */
    const char *out, *field; /* the result's name; ".index" where it is one */
    const char *i, *extent;
    /* of a step's first element, which an array beside the lanes keeps; or NULL: none does */
    const char *places;
    const char *kept; /* an array for all elements of a block, or NULL: nothing wants them again */
    bool together; /* of a row that runs with another one: what is marked alone is left out */
} Reduction;

/* ---- emit_cc.c ---- */

void cc_open_loop(Emit *e, const char *i, const char *from, const char *to);
void cc_let(Emit *e, const Let *let); /* a let that is no loop */
bool cc_may_end_phase(const Emit *e, const Let *let); /* may it end the phase? */
void cc_block(Emit *e, const Block *blk);
/* A for or a reduce.  together: of a row that runs with another one. */
void cc_loop(Emit *e, const Let *loop, bool together);
Reduction cc_reduction(Emit *e, const Let *let);
const char *cc_term(Emit *e, const Reduction *r);
const char *cc_function(Emit *e, const Let *map); /* of the unit, for the op and dtype */
const char *cc_value(Emit *e, const Value *v, Dtype dtype); /* dtype: of a literal */
const char *cc_element(Emit *e, const Let *access); /* what a load reads, or a store writes */
/* From now on `as` stands in C for the element of the access, for the value of a load, or for what
 * notes that an operand is far (emit_cc_near.c); NULL: nothing does any more. */
void cc_stand(Emit *e, const Let *access, const char *as);
void cc_stand_value(Emit *e, const Let *let, const char *as);
const char *cc_stands(const Emit *e, const Let *let); /* what does, or NULL */
/* The value of an element, as C has it in its storage, that the load takes. */
const char *cc_loaded(Emit *e, const Let *load, const char *element);

/* ---- emit_cc_blocks.c ---- */

void cc_lanes_reduce(Emit *e, const Let *reduce, bool together); /* a reduction marked lanes */
void cc_lanes_jam(Emit *e, const Let *reduce, const Jam *jam); /* the same of two rows at a time */
/* Opens the loop over blocks, from element `first` on: <out>_from to <out>_end. */
void cc_open_blocks(Emit *e, const Reduction *r, const char *first, int block);

/* ---- emit_cc_lanes.c ---- */

/* n parts of a row of `length` elements each, from `first` on, in one loop: a lane waits for the
 * step before it, and meanwhile others go on.  Each has the name of cc_part; cc_lanes_value is what
 * its lanes come to. */
void cc_lanes_parts(Emit *e, const Let *reduce, const Reduction *parts, int n, int length,
                    const char *first);
Reduction cc_part(Emit *e, const Reduction *r, int k);
const char *cc_lanes_value(Emit *e, const Reduction *r);
/* All of a row, n parts side by side: their lanes are joined in the first one's, beside which
 * stands where their elements are. */
void cc_lanes_places(Emit *e, const Let *reduce, Reduction *parts, int n);
/* A block's lanes, from <out>_from to <out>_end; returns their value. */
const char *cc_lanes_block(Emit *e, const Let *reduce, const Reduction *r);
/* A block of each of two rows, both of which end where the first one's does; the values are put by
 * `value`. */
void cc_lanes_two(Emit *e, const Let *reduce, const Jam *jam, const Reduction r[2],
                  void (*value)(Emit *e, const Reduction *r));

/* ---- emit_cc_arg.c ---- */

/* Puts an argmax or argmin marked lanes. */
void cc_arg_reduce(Emit *e, const Let *reduce, const Reduction *r);
/* The same in a tile of so many columns: arrays, what is added to column k, the result. */
void cc_arg_open(Emit *e, const Let *reduce, const Reduction *r, int width);
void cc_arg_step(Emit *e, const Reduction *r);

/* ---- emit_cc_columns.c ---- */

void cc_columns(Emit *e, const Let *columns); /* a loop marked interchange */
void cc_chains(Emit *e, const Let *sum); /* one sum marked fused */
void cc_columns_rows(Emit *e, const Let *rows); /* one marked jam around such a loop */

/* ---- emit_cc_stage.c ---- */

int cc_stage(const Let *map); /* of a loop marked distribute, from 1 on */
int cc_last_stage(const Let *loop);
bool cc_is_source(const Let *let); /* is it made again in each stage that uses it? */
/* Puts a vector loop that is a stage of a loop marked distribute. */
void cc_stage_loop(Emit *e, const Let *loop, const char *from, const char *to);

/* ---- emit_cc_length.c ---- */

/* As put_size, with what the compiler is told of the size. */
void cc_length_size(Emit *e, int k, Text *unit, const void *arg);

/* ---- emit_cc_near.c ---- */

/* What stands before and after all statements of a phase. */
bool cc_is_near(const Emit *e); /* does the phase run in parts, with forms for near operands? */
void cc_near_open(Emit *e);
void cc_near_close(Emit *e);
/* What is put of the block is in a loop over lanes, at this one; NULL: no more. */
void cc_near_lane(Emit *e, const Block *blk, const char *lane);
/* A MAP let's call of its function, or of another form; what notes that its operand is far was put
 * before. */
const char *cc_near_call(Emit *e, const Let *let, const char *function, const char *operands);
const char *cc_near_stores(const Emit *e,
                           const Let *store); /* the condition before a store, or "" */
/* The first lines of the function of a part, and the phase that calls it. */
void cc_near_head(const Emit *e, Text *unit);
void cc_near_phase(Emit *e, const Let *loop, Text *unit);

/* ---- emit_cc_stream.c ---- */

/* The vector loop of a tile, between what its stores to large tensors need. */
void cc_stream_open(Emit *e, const Let *loop);
/* The same for a stencil, which is cut into blocks: where one of them begins and ends.  False: it
 * has no such stores. */
bool cc_stream_blocks(Emit *e, const Let *loop, const char **from, const char **to);
/* All of a vector loop that has such stores, a line of the cache at a time; false: it has none. */
bool cc_stream_lines(Emit *e, const Let *loop, const char *from, const char *to);
void cc_stream_close(Emit *e, const Let *loop);

/* The same of blocks of short rows, see emit_cc_flat.c: what should begin where a line does; NULL:
 * it has no such stores. Around the loop over so many elements. */
const char *cc_stream_block_place(Emit *e, const Let *loop);
void cc_stream_arrays(Emit *e, const Let *loop, int elements,
                      const char *(*place)(Emit *e, const Let *store));
const char *cc_row_place(Emit *e, const Let *store); /* of the first element that a row stores */
void cc_stream_block_close(Emit *e, const Let *loop, int elements);

void cc_stencil_loop(Emit *e, const Let *loop, const Let *row, const char *from, const char *to);

/* ---- emit_cc_jam.c ---- */

void cc_copy(Emit *e, const Jam *jam, int k); /* row k is put from now on */
void cc_jam_loop(Emit *e, const Let *rows); /* all of them */
/* Puts the pairs of iterations of a parallel loop from lo on; an odd last one is left. */
void cc_jam_phase(Emit *e, const Let *phase);

/* ---- emit_cc_prefetch.c ---- */

/* What a reduction put in lanes will read, at its element `at`, of so many that one loop is over at
 *      once; of two rows at a time what is not marked alone. */
void cc_prefetch_lanes(Emit *e, const Let *reduce, bool together, const char *at, int elements);
/* What a loop over a row will read of the next one, at its element `at`, of DLC_LANES at once. */
void cc_prefetch_rows(Emit *e, const Let *loop, const char *at);
/* What a reduction over a tile of columns will read some steps later, of so many steps: `first` to
 *      `last` of the columns from `at` on. */
void cc_prefetch_columns(Emit *e, const Let *reduce, const Let *tile, const char *at,
                         const char *step, int steps);

/* ---- emit_cc_flat.c ---- */

void cc_flat_loop(Emit *e, const Let *rows, const char *from, const char *to); /* marked flat */

/* ---- emit_cc_gather.c ---- */

/* Rows of tables that a reduction over a tile of columns from `at` on will look up; those that a
 * vector loop will. */
void cc_gather_columns(Emit *e, const Let *reduce, const Let *tile, const char *at);
void cc_gather_row(Emit *e, const Let *loop, const char *from, const char *to);

/* ---- emit_cc_recurrence.c ---- */

void cc_recurrences(Emit *e, const Let *rows); /* a loop marked recurrences */

/* ---- emit_cc_tile.c ---- */

void cc_tile_loop(Emit *e, const Let *loop); /* a vector loop with loops inside */

#endif
