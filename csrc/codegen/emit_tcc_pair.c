/* Two operations in one strip, for the libtcc tier.
 *
 * What:     finds lets of vector loops that one strip of pairs.def can compute together with the
 *           only let that uses them, be that a reduction.
 * Requires: the lets of a kernel, before anything is emitted.
 * Ensures:  a let that is left out is computed where its user is; nothing in between stores.
 * How:      greedily in the order of the lets; a let that takes another one in is not taken in.
 * Why not:  longer chains: each more operation multiplies the strips.
 * Example:  u = x - m; v = u * r:  strip_pair_sub_mul_left_f32(v, x, &m, &r, w, 6);
 */
#include <string.h>

#include "emit_tcc.h"

typedef enum { FORM_left, FORM_right, FORM_square, FORM_then, FORM_choose, FORM_clamp } Form;

typedef struct { Op first, second; Form form; const char *strip, *mirrored; } Row;

static const Row rows[] = {
#define PAIR(first, second, side) \
    {OP_##first, OP_##second, FORM_##side, "strip_pair_" #first "_" #second "_" #side "_f32", NULL},
#define SQUARE(first) {OP_##first, OP_mul, FORM_square, "strip_square_" #first "_f32", NULL},
#define THEN(arity, first, second) \
    {OP_##first, OP_##second, FORM_then, "strip_then_" #first "_" #second "_f32", NULL},
#define CHOOSE(first, mirrored) \
    {OP_##first, OP_where, FORM_choose, "strip_choose_" #first "_f32", \
     "strip_choose_" #mirrored "_f32"},
#define FOLD(red, arity, strip)
#include "pairs.def"
    {OP_maximum, OP_minimum, FORM_clamp, "strip_clamp_f32", NULL},
};

typedef struct { Op red; const char *of, *strip; } Fold;

static const Fold folds[] = {
#define PAIR(first, second, side)
#define SQUARE(first)
#define THEN(arity, first, second)
#define CHOOSE(first, mirrored)
#define FOLD(red, arity, strip) \
    {OP_##red, "strip_" #strip "_f32", "strip_fold_" #red "_" #strip "_f32"},
#include "pairs.def"
};

/* A step is an addition and what comes before it. */
static const Fold steps[] = {
    {OP_sum, "strip_mul_f32", "strip_pair_mul_add_left_f32"},
    {OP_sum, "strip_add_f32", "strip_pair_add_add_left_f32"},
    {OP_sum, "strip_sub_f32", "strip_pair_sub_add_left_f32"},
};

static const char *
find_fold(const Fold *table, size_t n, Op red, const char *strip)
{
    for (size_t k = 0; k < n; k++) {
        if (table[k].red == red && strcmp(table[k].of, strip) == 0) {
            return table[k].strip;
        }
    }
    return NULL;
}

const char *
tcc_find_fold(Op red, const char *strip)
{
    return find_fold(folds, sizeof folds / sizeof *folds, red, strip);
}

const char *
tcc_find_step(Op red, const char *strip)
{
    return find_fold(steps, sizeof steps / sizeof *steps, red, strip);
}

/* Is the second operand a number? */
static bool
is_bound(const Let *let)
{
    const Literal *literal = literal_of(let->args[1]);
    return literal && (literal->is_int || literal->f == literal->f);
}

/* Does the let read v in the place where the strip has it? */
static bool
stands_right(const Row *r, const Let *second, const Value *v)
{
    bool both = second->nargs == 2 && second->args[0] == v && second->args[1] == v;
    /* a sum and a product have the same bits either way round */
    bool either = second->op == OP_add || second->op == OP_mul;
    switch (r->form) {
    case FORM_square:
        return both;
    case FORM_left:
        return !both && (either || second->args[0] == v);
    case FORM_clamp:
        return second->args[0] == v && is_bound(second) && is_bound(v->def);
    case FORM_right:
        return !both && second->args[1] == v;
    default:
        return second->args[0] == v;
    }
}

static const Row *
find_row(const Let *first, const Let *second)
{
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const Row *r = &rows[k];
        if (r->first == first->op && r->second == second->op &&
            stands_right(r, second, first->res[0])) {
            return r;
        }
    }
    return NULL;
}

static bool
is_float_map(const Let *let)
{
    return op_info[let->op].kind == KIND_MAP && map_dtype(let) == DT_f32 && let->op != OP_cast &&
           !(loop_is_chain(let->parent->owner) && loop_chain(let));
}

/* Is v used by the let alone, and does nothing between the two store or loop? */
static bool
used_here(const int *uses, const Value *v, const Let *let)
{
    if (value_is_const(v) || !v->def || v->def->parent != let->parent) {
        return false;
    }
    const Block *blk = let->parent;
    int k = 0;
    while (blk->lets[k] != v->def) {
        k++;
    }
    for (; blk->lets[k] != let; k++) {
        Op op = blk->lets[k]->op;
        if (op == OP_store || op == OP_bind || loop_is(blk->lets[k])) {
            return false;
        }
    }
    int here = 0;
    for (int j = 0; j < let->nargs; j++) {
        here += let->args[j] == v;
    }
    return uses[v->id] == here;
}

static void
count_uses(const Block *blk, int *uses)
{
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        for (int j = 0; j < let->nargs; j++) {
            uses[let->args[j]->id] += !value_is_const(let->args[j]);
        }
        if (let->body) {
            count_uses(let->body, uses);
        }
    }
    for (int k = 0; k < blk->nrets; k++) {
        uses[blk->rets[k]->id] += !value_is_const(blk->rets[k]);
    }
}

static void
take_in(Tcc *t, const Let *let, const Value *v, const int *uses)
{
    Pair *pair = &t->pairs[let->res[0]->id];
    if (pair->strip || !used_here(uses, v, let) || !is_float_map(v->def) ||
        t->pairs[v->id].strip) {
        return;
    }
    const Row *r = find_row(v->def, let);
    if (r) {
        *pair = (Pair){.strip = r->strip, .mirrored = r->mirrored, .first = v->def};
        t->pairs[v->id].taken = true;
    }
}

/* The last let of a reduction's body, when that is all the reduction is of. */
static void
fold(Tcc *t, const Let *reduce, const int *uses)
{
    const Value *v = reduce->body->rets[0];
    if (!value_is_const(v) && v->def && v->def->parent == reduce->body && uses[v->id] == 1 &&
        v->def == reduce->body->lets[reduce->body->n - 1] && is_float_map(v->def) &&
        v->type->dtype == DT_f32) {
        t->pairs[v->id].folded = true;
    }
}

bool
tcc_is_comparison(const Let *let)
{
    return let->op == OP_eq || let->op == OP_lt || let->op == OP_le || let->op == OP_gt || let->op == OP_ge;
}

/* An index that is only compared with another: one strip makes the truths, see tcc_size. */
static void
find_index(Tcc *t, const Let *let, const int *uses)
{
    for (int j = 0; tcc_is_comparison(let) && j < 2; j++) {
        const Value *v = let->args[j];
        if (used_here(uses, v, let) && v->def->op == OP_size && !t->pairs[let->res[0]->id].first) {
            t->pairs[let->res[0]->id].first = v->def;
            t->pairs[v->id].user = let;
        }
    }
}

/* Loads of bf16 for arithmetic of bf16: one strip loads, computes and rounds. */
static void
find_halves(Tcc *t, const Let *let, const int *uses)
{
    bool has_strip = let->op == OP_add || let->op == OP_sub || let->op == OP_mul;
    for (int j = 0; has_strip && map_dtype(let) == DT_bf16 && j < 2; j++) {
        const Value *v = let->args[j];
        if (used_here(uses, v, let) && v->def->op == OP_load &&
            !(loop_is_chain(let->parent->owner) && loop_chain(let))) {
            t->pairs[v->id].half = true;
        }
    }
}

static void
find_pairs(Tcc *t, const Block *blk, const int *uses)
{
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if (let->body) {
            find_pairs(t, let->body, uses);
        }
        find_index(t, let, uses);
        find_halves(t, let, uses);
        if (let->op == OP_reduce) {
            fold(t, let, uses);
        }
        for (int j = 0; is_float_map(let) && j < let->nargs; j++) {
            take_in(t, let, let->args[j], uses);
        }
    }
}

void
tcc_find_pairs(Tcc *t, const Block *root)
{
    size_t values = (size_t)t->e->fn->nvalues;
    int *uses = cx_alloc(t->e->cx, values * sizeof *uses);
    t->pairs = cx_alloc(t->e->cx, values * sizeof *t->pairs);
    count_uses(root, uses);
    find_pairs(t, root, uses);
}
