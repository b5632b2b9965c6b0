/* Primitives: which strip computes a let.
 *
 * What:     the name of the strip, its operands, and which of these are one element for all of a
 *           tile; strips that reduce, add or store besides what another one computes (fused.def).
 * Requires: what pairs.c has found.
 * Ensures:  the same bits as one strip after the other.
 * Why not:  ask where the call is written: marks say what has an array of a tile, and they are set
 *           before.
 * Example:  s = sum of x * y:  strip_fold_sum_mul_f32(x, y, w, 0);
 */
#include <string.h>

#include "pairs.h"

/* ---- what a strip does besides ---- */

typedef struct {
    Op red;
    int arity;
    const char *of, *strip;
} More;

static const More folds[] = {
#define FOLD(red, arity, strip) \
    {OP_##red, arity, "strip_" #strip "_f32", "strip_fold_" #red "_" #strip "_f32"},
#include "codegen/strips/fused.def"
};

/* A step is an addition and what comes before it. */
static const More steps[] = {
    {OP_sum, 2, "strip_mul_f32", "strip_pair_mul_add_left_f32"},
    {OP_sum, 2, "strip_add_f32", "strip_pair_add_add_left_f32"},
    {OP_sum, 2, "strip_sub_f32", "strip_pair_sub_add_left_f32"},
};

static const More bypassing[] = {
#define NONTEMPORAL(arity, strip) \
    {OP_store, arity, "strip_" #strip "_f32", "strip_nontemporal_" #strip "_f32"},
#include "codegen/strips/fused.def"
};

static const More *
find_more(const More *table, size_t n, Op red, const char *strip)
{
    for (size_t k = 0; k < n; k++) {
        if (table[k].red == red && strcmp(table[k].of, strip) == 0) {
            return &table[k];
        }
    }
    return NULL;
}

const char *
pairs_fold(Op red, const char *strip)
{
    const More *found = find_more(folds, sizeof folds / sizeof *folds, red, strip);
    return found ? found->strip : NULL;
}

const char *
pairs_step(Op red, const char *strip)
{
    const More *found = find_more(steps, sizeof steps / sizeof *steps, red, strip);
    return found ? found->strip : NULL;
}

/* Has the strip of so many operands a loop for those that are one element? */
static bool
has_loop(int arity, unsigned mask)
{
    return arity == 2 ? mask < 3 : arity == 3 ? !(mask & 1) : (mask & ~8u) == 2;
}

const char *
pairs_bypassing(const char *strip, unsigned mask)
{
    const More *found = find_more(bypassing, sizeof bypassing / sizeof *bypassing, OP_store, strip);
    return found && has_loop(found->arity, mask) ? found->strip : NULL;
}

/* ---- the strip of a let ---- */

/* Has the value an element for each of the tile's? */
static bool
varies(const Pairs *p, const Tile *tile, const Value *v)
{
    return !literal_of(v) &&
           (p->of[v->id].through ? varies(p, tile, v->def->args[0]) : tile->differs(tile->arg, v));
}

/* May the let wait for its user's strip? */
static bool
may_wait(const Pairs *p, const Tile *tile, const Let *let)
{
    bool found = false;
    for (int k = 0; k < let->nargs; k++) {
        found |= varies(p, tile, let->args[k]);
    }
    return found && p->of[let->res[0]->id].taken && map_dtype(let) != DT_bf16;
}

bool
pairs_takes(const Pairs *p, const Tile *tile, const Let *let)
{
    const Pair *pair = &p->of[let->res[0]->id];
    return pair->strip && may_wait(p, tile, pair->first) &&
           (!pair->other || may_wait(p, tile, pair->other));
}

static void
add_operands(const Pairs *p, const Tile *tile, const Let *let, const Value *without,
             Primitive *call)
{
    for (int k = 0; k < let->nargs; k++) {
        const Value *v = let->args[k];
        if (v != without) {
            call->mask |= varies(p, tile, v) ? 0 : 1u << call->nargs;
            call->dtypes[call->nargs] = operand_dtype(let, k);
            call->args[call->nargs++] = v;
        }
    }
}

static void
swap_operands(Primitive *call, int at)
{
    const Value *v = call->args[at];
    Dtype dtype = call->dtypes[at];
    unsigned two = call->mask >> at & 3;
    call->args[at] = call->args[at + 1];
    call->args[at + 1] = v;
    call->dtypes[at] = call->dtypes[at + 1];
    call->dtypes[at + 1] = dtype;
    call->mask = (call->mask & ~(3u << at)) | ((two >> 1 | two << 1) & 3) << at;
}

/* That of two or three lets: the operands of those that it takes in come first. */
static Primitive
primitive_of_pair(const Pairs *p, const Tile *tile, const Let *let)
{
    const Pair *pair = &p->of[let->res[0]->id];
    Primitive call = {.strip = pair->strip};
    add_operands(p, tile, pair->first, NULL, &call);
    if (pair->other) {
        add_operands(p, tile, pair->other, NULL, &call);
        for (int k = 0; k < OPERANDS; k += 2) {
            if (call.mask >> k & 1) {
                swap_operands(&call, k);
            }
        }
        return call;
    }
    if (pair->mirrored && call.mask & 1) {
        swap_operands(&call, 0);
        call.strip = pair->mirrored;
    }
    add_operands(p, tile, let, pair->first->res[0], &call);
    return call;
}

Primitive
pairs_primitive(const Pairs *p, const Tile *tile, const Let *let, bool taken)
{
    int minus = p->of[let->res[0]->id].minus;
    Primitive call = {.op = minus ? OP_sub : let->op};
    if (taken) {
        return primitive_of_pair(p, tile, let);
    }
    add_operands(p, tile, let, NULL, &call);
    if (minus == 1) {
        swap_operands(&call, 0);
    }
    const char *name = conversion(p->cx, let);
    call.strip = name ? cx_format(p->cx, "strip_%s", name)
                      : cx_format(p->cx, "strip_%s_%s", op_info[call.op].name,
                                  dtype_info[dtype_info[map_dtype(let)].compute].name);
    return call;
}
