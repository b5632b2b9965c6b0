/* Several short rows as one tile, see grid.c. */
#ifndef DLC_GRID_H
#define DLC_GRID_H

#include "facts.h"
#include "loops.h"

/* ---- how an offset goes through the elements of a tile ---- */

typedef enum {
    WALK_ONE, /* it does not: one for all */
    WALK_FLAT, /* by a step from element to element */
    WALK_GRID, /* by one step from row to row, by another from column to column */
    WALK_ROWS, /* rows begin anywhere, and go on by a step from column to column */
    WALK_EACH, /* anyhow */
} WalkKind;

/* start: of the first element, as an expression where the tile begins. */
typedef struct {
    WalkKind kind;
    Dim start, step, row_step;
} Walk;

/* How an index that is data varies over the elements of a tile. */
typedef enum { INDEX_SAME, INDEX_BY_ROW, INDEX_EACH } IndexKind;

/* The elements of a vector loop, or of several rows of one. */
typedef struct {
    Cx *cx;
    Dim index; /* of the vector loop, or DIM_NONE outside */
    /* of several rows: the index of the loop around, else DIM_NONE; their length */
    Dim row, columns;
    IndexKind (*bound)(const void *arg, Dim name); /* NULL: no index is data */
    bool (*differs)(const void *arg,
                    const Value *v); /* has it an element for each of the tile's? */
    const void *arg;
} Tile;

bool dim_varies(const Tile *tile, Dim d); /* over the tile */
/* d == *step * name + *rest, and the step does not vary. */
bool dim_goes_by(const Tile *tile, Dim d, Dim name, Dim *step, Dim *rest);
Walk walk_of(const Tile *tile, Dim d);

/* ---- loops of a grid ---- */

/* The rows of an operand: where the first begins, and how far the next one is; or a value known
 * outside, or nothing. */
typedef struct {
    const Value *buffer;
    Dim start, step;
    const Value *outer;
} RowsOperand;

/* A reduction of rows where they are, all of a grid in one call. */
typedef struct {
    const char *form;
    RowsOperand a, b;
} RowsCall;

/* Is the reduction in a loop of rows such a call? */
bool grid_call(const Facts *facts, const Let *reduce, const Let *rows, RowsCall *call);
/* Is the let such a reduction, of rows of at most a block?  It is, if it is marked primitive. */
bool grid_may_be_called(const Facts *facts, const Let *let, const Let *rows);
bool grid_is_called(const Facts *facts, const Let *let, const Let *rows);
/* Can the vector loop of scalars, of at most so many elements, run for several rows at a time? */
bool grid_is_short(const Facts *facts, const Let *loop, int64_t most);
/* May a grid contain the let, in the vector loop of its rows or (loop NULL) around that loop? */
bool grid_may_have(const Facts *facts, const Let *let, const Let *loop);
/* Does the loop have at most `most` elements, as many in each row, and maybe more than one? */
bool grid_is_up_to(Cx *cx, const Let *loop, int64_t most);
/* The rows that run at a time: their vector loops of at most `row` elements have `tile` elements
 * together, and what calls reduce has `called`, if that is not 0.  possible: whatever may be
 * called is. */
Dim grid_rows(const Facts *facts, const Let *rows, int64_t tile, int64_t row, int64_t called,
              bool possible);

#endif
