/* What the files of the libtcc tier share, see emit_tcc.c. */
#ifndef DLC_EMIT_TCC_H
#define DLC_EMIT_TCC_H

#include "codegen/emit/emit.h"
#include "codegen/loops/pairs.h"
#include "codegen/loops/term.h"

enum {
    SLOT_CLASSES = 4,           /* of 1, 4, 8 and 16 bytes */
};

/* Where a value is at hand: the address of its elements, as C. */
typedef struct {
    const char *at;
    bool varies;                /* an element for each iteration of the tile; else one for all */
    bool half;    /* elements as they are there: bf16, or small integers that become float */
    const char *row;    /* taken where it is: the step from row to row of a grid; else NULL */
    bool by_row;                /* an element for each row of a grid, see emit_tcc_grid.c */
    int class, slot;            /* the tile buffer it occupies; slot -1: none */
    /* the let of its block after which nobody needs it; its end if beyond */
    int last;
    const Let *stored;          /* the store that computing it here has done already, or NULL */
    bool late, unzipped; /* its let is left to its user; another load has brought it along */
} Place;

/* Elements of a tensor by a tile of indices: from[at[k] * step], as C; the tile that was made for
 * it. */
typedef struct {
    const char *from, *at, *step;
    Place index;
} Scattered;

/* A load whose tile stands for all tiles of a grid. */
typedef struct {
    const Let *load;
    Place place;
} Materialised;

/* The call of a strip for a let, and for the one it takes in. */
typedef struct {
    const char *strip;
    Op op; /* of one operation alone */
    Place args[OPERANDS];
    int nargs;
    bool varies;
    unsigned mask; /* of operands that are one element */
    bool rounds; /* the strip does */
} Call;

typedef struct {
    Emit *e;
    Pairs *found; /* lets that one strip computes together */
    Pair *pairs; /* of them */
    int *ends; /* by Value.id: its let and those before it in its block are so many */
    Place *places; /* by Value.id */
    Map indices; /* bound index that varies to Place (of i64) */
    Dim *bound; /* those indices */
    int nbound;
    bool *busy[SLOT_CLASSES]; /* tile buffers */
    int count[SLOT_CLASSES];
    const Value **live; /* values of the open blocks that hold a tile buffer */
    int nlive;
    const char *n; /* elements at hand: "w" in a vector loop, "1" outside */
    const Let *at; /* the loop whose iterations are the tile at hand, or NULL */
    int widest; /* most elements of a tile of all loops so far */
    const Call *fold; /* of the let that the reduction at hand takes in */
    const Let *grid; /* the loop of rows that are one tile, or NULL; see emit_tcc_grid.c */
    Materialised *materialised;
    int nmaterialised;
} Tcc;

/* ---- emit_tcc.c ---- */

Place tcc_place(Tcc *t, const Value *v, Dtype dtype); /* dtype: of a literal */
void tcc_fill(Tcc *t, const Place *to, Dtype dtype, const char *value); /* value: its address */
/* The value with an element for each iteration: v itself or a copy, which `copy` then holds. */
const char *tcc_spread(Tcc *t, const Value *v, Dtype dtype, Place *copy);
void tcc_bind(Tcc *t, const Value *v, Place p); /* v is there from now on */
void tcc_let(Tcc *t, const Let *let);
/* A block is the two, one after the other: between them what it returns is still at hand. */
void tcc_lets(Tcc *t, const Block *blk);
void tcc_first_lets(Tcc *t, const Block *blk, int n);
void tcc_release(Tcc *t, const Block *blk);
/* Gives back the tile buffers of values that nobody needs after position `at` of their block. */
void tcc_release_at(Tcc *t, const Block *blk, int at);

/* ---- emit_tcc_strip.c ---- */

/* The name of a strip, and the address of a constant; both are declared in the unit. */
const char *tcc_strip(Tcc *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *tcc_literal(Tcc *t, Dtype dtype, Literal literal);

/* ---- emit_tcc_access.c ---- */

void tcc_load(Tcc *t, const Let *let);
void tcc_store(Tcc *t, const Let *let);
void tcc_update(Tcc *t, const Let *let);
/* Is the store non-temporal where it stands, as its marks say? */
bool tcc_streams(const Tcc *t, const Let *store);
/* Where a store puts elements side by side as they are computed: its address, or NULL. */
const char *tcc_direct_store(Tcc *t, const Let *let);
/* The same of a store that passes by the caches: the strip that computes does so. */
const char *tcc_nontemporal_store(Tcc *t, const Let *let);
void tcc_buffer(Tcc *t, const Let *let);
/* By one bound index times a constant, whose tile is the index; else by a tile of offsets.  `rows`:
 * of the beginnings of rows. */
Scattered tcc_scattered(Tcc *t, const Value *buffer, Dim offset, bool rows);
/* Room for what a load of a grid's rows reads, and the call that takes it from there. */
Place tcc_take(Tcc *t, const Let *load, const Walk *walk, const char *rows);

/* ---- emit_tcc_index.c ---- */

Dim tcc_index(const Tcc *t); /* of the loop at hand, or DIM_NONE */
int tcc_width(const Tcc *t); /* most elements of a tile of it */
bool tcc_at_rows(const Tcc *t); /* is it the loop of a grid's rows? */
/* The index of those rows while a loop in them is at hand; else DIM_NONE. */
Dim tcc_row(const Tcc *t);
Dim tcc_columns(const Tcc *t); /* the elements of such a row; without one 0 */
bool tcc_varies(const Tcc *t, Dim d); /* over the tile */
/* d == *step * name + *rest, and the step does not vary. */
bool tcc_affine(Tcc *t, Dim d, Dim name, Dim *step, Dim *rest);
Walk tcc_walk(Tcc *t, Dim offset);
Tile tcc_tile(const Tcc *t); /* at hand */
/* Is the load's the operand of one strip that takes four rows where they are? */
bool tcc_in_place_rows(Tcc *t, const Let *load);
/* The dim for each element of the tile, or for each row of a grid, by a loop: what is not
 * affine. */
void tcc_each_dim(Tcc *t, const Place *to, Dim d);
void tcc_each_row(Tcc *t, const Place *to, Dim d);
void tcc_size(Tcc *t, const Let *let);
/* Is the index of a row's elements compared with what each row has one of? */
bool tcc_by_rows(Tcc *t, const Let *size);
void tcc_bind_index(Tcc *t, const Let *let);

/* ---- emit_tcc_grid.c ---- */

void tcc_grid(Tcc *t, const Let *loop); /* marked so */
/* The parallel loops whose innermost is one of rows, opened several rows at a time: how many to
 * close; 0: there is none. */
int tcc_open_grid(Tcc *t);
/* The place that holds what the load reads, if that was loaded before the loop; else NULL. */
const Place *tcc_materialised(const Tcc *t, const Let *load);
/* The offset in the scratch of a buffer that the rows of the grid have. */
const char *tcc_grid_buffer(Tcc *t, const Value *v);
/* Of a loop in the grid: are several of its rows a tile? */
bool tcc_is_short(const Tcc *t, const Let *grid, const Let *loop);
void tcc_enter_grid(Tcc *t, const Let *loop);
Dim tcc_grid_rows(const Tcc *t, const Let *grid); /* of a tile */
void tcc_leave_grid(Tcc *t);
void tcc_enter_row(Tcc *t, const Let *loop);
void tcc_leave_row(Tcc *t);

/* ---- emit_tcc_grid_row.c ---- */

/* A loop in a grid; `put_one` puts a vector loop for one row. */
void tcc_grid_row(Tcc *t, const Let *loop, void (*put_one)(Tcc *t, const Let *loop));

/* ---- emit_tcc_rows.c ---- */

/* Puts one call for all rows of the grid, which needs no tile, and binds its result; false: there
 * is no such strip. */
bool tcc_put_rows_call(Tcc *t, const Let *reduce);
/* Reduces what the body has put into a tile, row by row. */
void tcc_put_rows(Tcc *t, const Let *reduce, const Place *out);

/* ---- emit_tcc_map.c ---- */

void tcc_map(Tcc *t, const Let *let);
/* Where the rows of a result lie that goes to one store alone, and how that walks; false: it needs
 * a tile. */
bool tcc_in_place_store(Tcc *t, const Let *let, Place *out, Walk *walk);
const char *tcc_operands(Tcc *t, const Call *call); /* as C, each with a comma after it */
/* Of single elements, as plain C: a copy; an operation, if it is one of arithmetic. */
void tcc_put_copy(Tcc *t, Dtype dtype, const Place *out, const Place *a);
bool tcc_put_plain(Tcc *t, Op op, Dtype dtype, const Place *out, const Place *a, const Place *b);

/* ---- emit_tcc_buffer.c ---- */

int tcc_size_class(Dtype dtype); /* of tile buffers */
Place tcc_room(Tcc *t, Dtype dtype, bool varies, const char *name); /* room for a value */
void tcc_free(Tcc *t, const Place *p);
void tcc_enter(Tcc *t, const Let *loop, const char *n); /* it is at hand; a tile has n elements */
void tcc_leave(Tcc *t);
void tcc_slots(Tcc *t); /* declares the tile buffers */
/* What marked stores of a vector loop prefetch, to be written, before its lets. */
void tcc_prefetch_stores(Tcc *t, const Let *loop);
/* What the load prefetches, if it is marked, while what it reads from `at` on is computed with. */
void tcc_prefetch(Tcc *t, const Let *load, const char *at);
/* The bits of a strip's scalars that have it prefetch what follows what the reduction loads, of
 * which so many bytes are at hand; nothing where the load is not marked. */
const char *tcc_prefetch_bits(Tcc *t, const Let *load, const Let *reduce, int64_t bytes);
/* The same as tcc_prefetch of elements at a small stride, or of rows at one. */
void tcc_prefetch_rows(Tcc *t, const Let *access, const Walk *walk, const char *at);

/* ---- emit_tcc_reduce.c ---- */

void tcc_reduce(Tcc *t, const Let *let);

/* ---- emit_tcc_fold.c ---- */

/* Steps from .. to - 1 of a reduction in sequence as one call, where there is such a strip. */
bool tcc_reduce_down(Tcc *t, const Let *reduce, Dtype dtype, const Place *sum, const char *from,
                     const char *to);
/* The call that reduces a block of what it loads itself, as C, or NULL. */
const char *tcc_reduce_along(Tcc *t, const Let *reduce, Dtype dtype);

/* ---- emit_tcc_scan.c ---- */

/* Scans of rows side by side as one call, where that is all of a loop marked recurrences. */
bool tcc_put_scan(Tcc *t, const Let *recurrences);

#endif
