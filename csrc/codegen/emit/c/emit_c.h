/* What the files of the portable target share, see emit_c.c. */
#ifndef DLC_EMIT_C_H
#define DLC_EMIT_C_H

#include "codegen/emit/emit.h"

/* ---- emit_c_prelude.c ---- */

void c_read_prelude(Emit *e); /* before the others */
/* Adds what the text uses of the prelude to the unit's, with what that uses, each once. */
void c_need(Emit *e, const char *text);

/* ---- emit_c_map.c ---- */

const char *c_literal(Emit *e, Dtype dtype, Literal literal);
/* A variable, or the literal that the dtype has. */
const char *c_value(Emit *e, const Value *v, Dtype dtype);
/* A MAP let as an expression, or as the call of a function. */
const char *c_map(Emit *e, const Let *let);
/* What `op` makes of two values as the store of a dtype keeps it: of two expressions. */
const char *c_combined(Emit *e, const Let *update, const char *a, const char *b);

/* ---- emit_c_place.c ---- */

/* Has the let's one user its text in place of its name?  Else it gets a variable. */
bool c_in_place(Emit *e, const Let *let, const char *text);

/* ---- emit_c.c ---- */

void c_block(Emit *e, const Block *blk);
void c_let(Emit *e, const Let *let);
void c_open_for(Emit *e, const Let *loop); /* a loop over all of its iterations */

/* ---- emit_c_reduce.c ---- */

void c_reduce(Emit *e, const Let *reduce);

#endif
