/* The type rule of each op, written once, in rules.c; the builder and the verifier ask it.
 *
 * The type of the result, or NULL and the reason in *why.  The type of a constant operand is NULL.
 * A shape that operands do not determine is given, and checked against them. */
#ifndef DLC_RULES_H
#define DLC_RULES_H

#include "ir.h"

/* `to` matters for cast alone.  At least one operand must have a type. */
const Type *type_map(Cx *cx, Op op, const Type *a, const Type *b, const Type *c, Dtype to,
                     const char **why);
const Type *type_red(Cx *cx, Op op, const Type *a, int naxes, const int *axes, const char **why);
const Type *type_expand(Cx *cx, const Type *a, int rank, const Dim *dims, int nto, const int *to,
                        const char **why);
const Type *type_reshape(Cx *cx, const Type *a, int rank, const Dim *dims, const char **why);
const Type *type_permute(Cx *cx, const Type *a, int n, const int *perm, const char **why);
const Type *type_slice(Cx *cx, const Type *a, int64_t axis, Dim length, const char **why);
const Type *type_flip(Cx *cx, const Type *a, int naxes, const int *axes, const char **why);
const Type *type_as_strided(Cx *cx, const Type *a, int rank, const Dim *dims, int nstrides,
                            const char **why);
const Type *type_iota(const Type *t, int64_t axis, const char **why);
const Type *type_cat(Cx *cx, int n, const Type *const *parts, int64_t axis, const char **why);
const Type *type_pad(const Type *a, const Type *t, int nlo, const char **why);
const Type *type_gather(Cx *cx, const Type *a, const Type *index, int64_t axis, const char **why);
const Type *type_scan(Cx *cx, Op op, const Type *a, int64_t axis, const char **why);
const Type *type_scatter(Cx *cx, Op op, const Type *a, const Type *index, const Type *v,
                         int64_t axis, const char **why);
/* The result has dtype `to` if that is allowed, else the dtype of the operands. */
const Type *type_contract(Cx *cx, const Contraction *over, const Type *a, const Type *b, Dtype to,
                          const char **why);

#endif
