/* The common header of build.c, fold.c and algebra.c. */
#ifndef DLC_BUILD_H
#define DLC_BUILD_H

#include "ir/cx.h"

typedef struct Scope Scope;

/* A block under construction with the lets that may be found again. */
struct Scope {
    Scope *outer;
    Block *blk;
    Table lets;
};

struct Build {
    Fn *fn;
    Cx *cx;
    Scope *top;
    Loc loc;
    const Let *like; /* the next let takes the names of its results, if they are free */
    BuildLet *each; /* rebuilds the lets of bodies, see build_bodies; NULL: build_again */
    void *each_arg;
};

/* ---- build.c ---- */

/* Appends the let, or returns an equal one that exists already. */
Value *build_emit(Build *b, Op op, int nargs, Value *const *args, int nattrs, const Attr *attrs,
                  const Type *type);
_Noreturn void build_wrong(Build *b, Op op, const char *why);
/* A constant operand of the same value; a tensor made by `const` gives its constant, else NULL. */
Value *build_literal_of(Value *v);

/* ---- fold.c ---- */

/* The value of a MAP on constants of the dtypes that the types say, as a literal; false where it
 * has none (an integer division by zero, a complex number). */
bool fold_map(Op op, Dtype from, Dtype to, Value *const *args, Literal *out);
Literal fold_cast(Literal literal, Dtype to);
bool literal_same(Literal a, Literal b);

/* ---- algebra.c ---- */

/* The simpler value of an op on these operands, or NULL. t: the type of the result. */
Value *algebra_map(Build *b, Op op, Value **args, const Type *t);
/* Brings the operands of a commutative op in order, where that keeps the bits. */
void algebra_order(Op op, Value **args);

#endif
