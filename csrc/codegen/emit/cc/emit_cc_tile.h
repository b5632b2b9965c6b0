/* What emit_cc_tile.c and emit_cc_straight.c share. */
#ifndef DLC_EMIT_CC_TILE_H
#define DLC_EMIT_CC_TILE_H

#include "emit_cc.h"

typedef struct {
    Emit *e;
    const Let *loop;
    int width;                  /* its columns */
    Straight s;
    const char *at;             /* the tile's first index */
} Tile;

/* The lets from..to-1 of a block, then what a reduction adds. */
typedef struct {
    const Block *blk;
    int from, to;
    const Reduction *adds;
} Run;

/* ---- emit_cc_straight.c ---- */

void cc_run(Tile *t, const Run *r);
void cc_run_imports(Tile *t, const Run *r);             /* what iteration k takes from arrays */

#endif
