/* Two operations in one strip, for the libtcc tier.
 *
 * What:     finds lets of vector loops that one strip of fused.def can compute together with the
 *           only let that uses them, be that a reduction.
 * Requires: the lets of a kernel, before anything is emitted.
 * Ensures:  a let that is left out is computed where its user is; nothing in between stores.
 * How:      greedily in the order of the lets; a let that takes another one in is not taken in.
 * Why not:  more than two: each more operation multiplies the strips.
 * Example:  u = x - m; v = u * r:  strip_pair_sub_mul_left_f32(v, x, &m, &r, w, 6);
 */
#include <string.h>

#include "emit_tcc.h"

typedef enum {
    FORM_left,
    FORM_right,
    FORM_square,
    FORM_then,
    FORM_choose,
    FORM_clamp,
    FORM_twice
} Form;

/* other: of the form twice, what the second operand is made by. */
typedef struct {
    Dtype dtype;
    Op first, second;
    Form form;
    const char *strip, *mirrored;
    Op other;
} Row;

static const Row rows[] = {
#define PAIR(dtype, first, second, side) \
    {DT_##dtype, \
     OP_##first, \
     OP_##second, \
     FORM_##side, \
     "strip_pair_" #first "_" #second "_" #side "_" #dtype, \
     NULL},
#define SQUARE(dtype, first) \
    {DT_##dtype, OP_##first, OP_mul, FORM_square, "strip_square_" #first "_" #dtype, NULL},
#define THEN(dtype, arity, first, second) \
    {DT_##dtype, OP_##first, OP_##second, FORM_then, "strip_then_" #first "_" #second "_" #dtype, \
     NULL},
#define TWICE(dtype, first, second) \
    { \
        DT_##dtype, \
        OP_##first, \
        OP_##second, \
        FORM_twice, \
        "strip_twice_" #first "_" #second "_" #dtype, \
        NULL, \
        OP_##first},
#define BOTH(dtype, first, other, second) \
    {DT_##dtype, \
     OP_##first, \
     OP_##second, \
     FORM_twice, \
     "strip_both_" #first "_" #other "_" #second "_" #dtype, \
     NULL, \
     OP_##other},
#define CHOOSE(dtype, first, mirrored) \
    {DT_##dtype, \
     OP_##first, \
     OP_where, \
     FORM_choose, \
     "strip_choose_" #first "_" #dtype, \
     "strip_choose_" #mirrored "_" #dtype},
#include "codegen/strips/fused.def"
    {DT_f32, OP_maximum, OP_minimum, FORM_clamp, "strip_clamp_f32", NULL},
    /* of four loads, and stored; see tcc_in_place_rows */
    {DT_bf16, OP_mul, OP_add, FORM_twice, "strip_twice_mul_add_bf16", NULL, OP_mul},
    {DT_bf16, OP_mul, OP_sub, FORM_twice, "strip_twice_mul_sub_bf16", NULL, OP_mul},
};

typedef struct {
    Op red;
    const char *of, *strip;
} Fold;

static const Fold folds[] = {
#define FOLD(red, arity, strip) \
    {OP_##red, "strip_" #strip "_f32", "strip_fold_" #red "_" #strip "_f32"},
#include "codegen/strips/fused.def"
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

typedef struct {
    int arity;
    const char *of, *strip;
} Nontemporal;

static const Nontemporal nontemporals[] = {
#define NONTEMPORAL(arity, strip) \
    {arity, "strip_" #strip "_f32", "strip_nontemporal_" #strip "_f32"},
#include "codegen/strips/fused.def"
};

/* Has the strip of so many operands a loop for those that are one element? */
static bool
has_loop(int arity, unsigned mask)
{
    return arity == 2 ? mask < 3 : arity == 3 ? !(mask & 1) : (mask & ~8u) == 2;
}

const char *
tcc_find_nontemporal(const Call *call)
{
    for (size_t k = 0; k < sizeof nontemporals / sizeof *nontemporals; k++) {
        if (strcmp(nontemporals[k].of, call->strip) == 0 &&
            has_loop(nontemporals[k].arity, call->mask)) {
            return nontemporals[k].strip;
        }
    }
    return NULL;
}

/* Is the second operand a number? */
static bool
is_number(const Let *let)
{
    const Literal *literal = literal_of(let->args[1]);
    return literal && (literal->is_int || literal->f == literal->f);
}

/* A sum of which one operand is subtracted is a difference. */
static Op
second_op(const Tcc *t, const Let *let)
{
    return t->pairs[let->res[0]->id].minus ? OP_sub : let->op;
}

/* The operand that stands first (second) in the operation. */
static const Value *
operand_at(const Tcc *t, const Let *let, int second)
{
    return let->args[t->pairs[let->res[0]->id].minus == 1 ? !second : second];
}

/* Does the let read v in the place where the strip has it? */
static bool
has_strip_order(const Tcc *t, const Row *r, const Let *second, const Value *v)
{
    bool both = second->nargs == 2 && second->args[0] == v && second->args[1] == v;
    /* a sum and a product have the same bits either way round */
    bool either = r->second == OP_add || r->second == OP_mul;
    switch (r->form) {
    case FORM_square:
        return both;
    case FORM_left:
        return !both && (either || operand_at(t, second, 0) == v);
    case FORM_clamp:
        return second->args[0] == v && is_number(second) && is_number(v->def);
    case FORM_right:
        return !both && operand_at(t, second, 1) == v;
    case FORM_twice:
        return false;
    default:
        return second->args[0] == v;
    }
}

static const Row *
find_row(const Tcc *t, const Let *first, const Let *second)
{
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const Row *r = &rows[k];
        if (r->dtype == map_dtype(first) && r->dtype == map_dtype(second) &&
            r->first == first->op && r->second == second_op(t, second) &&
            has_strip_order(t, r, second, first->res[0])) {
            return r;
        }
    }
    return NULL;
}

static bool
is_float_map(const Let *let)
{
    Dtype dtype = op_info[let->op].kind == KIND_MAP ? map_dtype(let) : DT_bool;
    return (dtype == DT_f32 || dtype == DT_f64) && !converts(let) &&
           !(loop_is_recurrence(let->parent->owner) && loop_carried(let));
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
    if (pair->strip || !used_here(uses, v, let) || !is_float_map(v->def) || t->pairs[v->id].strip) {
        return;
    }
    const Row *r = find_row(t, v->def, let);
    if (r) {
        pair->strip = r->strip;
        pair->mirrored = r->mirrored;
        pair->first = v->def;
        t->pairs[v->id].taken = true;
    }
}

/* ---- two products, or what else makes both operands ---- */

/* What v is when a neg on the way is left out. */
static const Value *
without_neg(const Tcc *t, const Value *v)
{
    return !value_is_const(v) && t->pairs[v->id].through ? v->def->args[0] : v;
}

/* Is the factor loaded for this product alone? */
static bool
is_loaded_for(const Tcc *t, const Value *v, const Let *let, const int *uses)
{
    const Value *from = without_neg(t, v);
    return used_here(uses, v, let) && (from == v || used_here(uses, from, v->def)) && from->def &&
           from->def->op == OP_load && from->def->parent == let->parent;
}

/* The loads that two products are of, or false: then there is no array. */
static bool
four_loads(const Tcc *t, const Let *first, const Let *other, const Let *loads[4])
{
    for (int k = 0; k < 4; k++) {
        const Value *v = without_neg(t, (k < 2 ? first : other)->args[k % 2]);
        loads[k] = value_is_const(v) ? NULL : v->def;
        if (!loads[k] || loads[k]->op != OP_load) {
            return false;
        }
    }
    return true;
}

/* Are the four loaded for these products alone? */
static bool
find_in_place_rows(Tcc *t, const Let *let, const Let *first, const Let *other, const int *uses)
{
    const Let *loads[4];
    for (int k = 0; k < 4; k++) {
        const Let *product = k < 2 ? first : other;
        if (!is_loaded_for(t, product->args[k % 2], product, uses)) {
            return false;
        }
    }
    for (int k = 0; four_loads(t, first, other, loads) && k < 4; k++) {
        t->pairs[loads[k]->res[0]->id].in_place = let;
    }
    return true;
}

/* Does the load go along contiguous elements, in each row of a grid?  walk: of its offset. */
static bool
is_contiguous_load(Tcc *t, const Let *load, const Walk *walk)
{
    return (walk->kind == WALK_FLAT || (t->row && walk->kind == WALK_GRID)) &&
           dim_is(t->e->cx, walk->step, 1) && !panel_of(t->e, load) &&
           !is_private(t->e, load->args[0]);
}

bool
tcc_in_place_rows(Tcc *t, const Let *load)
{
    const Let *let = t->pairs[load->res[0]->id].in_place, *loads[4];
    const Pair *pair = let ? &t->pairs[let->res[0]->id] : NULL;
    bool half = load->res[0]->type->dtype == DT_bf16, copied = half;
    Place out;
    Walk walk;
    if (!let || t->index == DIM_NONE || (t->grid && !t->row) ||
        !four_loads(t, pair->first, pair->other, loads)) {
        return false;
    }
    for (int k = 0; k < 4; k++) {
        walk = tcc_walk(t, access_offset(t->e, loads[k]));
        copied |= walk.kind == WALK_GRID;
        if (!is_contiguous_load(t, loads[k], &walk)) {
            return false;
        }
    }
    return copied && (!half || tcc_in_place_store(t, let, &out, &walk));
}

/* Is v made by the operation, has nothing been found for it yet, and does nothing else use it? */
static bool
is_free(const Tcc *t, const Value *v, Op op, const Let *let, const int *uses)
{
    return used_here(uses, v, let) && v->def->op == op && map_dtype(v->def) == map_dtype(let) &&
           !t->pairs[v->id].strip;
}

static void
find_twice(Tcc *t, const Let *let, const int *uses)
{
    bool maps = op_info[let->op].kind == KIND_MAP &&
                (is_float_map(let) || map_dtype(let) == DT_bf16);
    for (size_t k = 0;
         maps && let->nargs == 2 && let->args[0] != let->args[1] && k < sizeof rows / sizeof *rows;
         k++) {
        const Row *r = &rows[k];
        if (r->form != FORM_twice || r->second != second_op(t, let) || r->dtype != map_dtype(let)) {
            continue;
        }
        bool swapped = r->second == OP_mul && is_free(t, let->args[0], r->other, let, uses);
        const Value *v[] = {operand_at(t, let, swapped), operand_at(t, let, !swapped)};
        if (!is_free(t, v[0], r->first, let, uses) || !is_free(t, v[1], r->other, let, uses)) {
            continue;
        }
        bool in_place = r->first == r->other && r->dtype != DT_f64 &&
                        find_in_place_rows(t, let, v[0]->def, v[1]->def, uses);
        if (in_place || r->dtype != DT_bf16) {
            Pair *pair = &t->pairs[let->res[0]->id];
            pair->strip = r->strip;
            pair->first = v[0]->def;
            pair->other = v[1]->def;
            t->pairs[v[0]->id].taken = t->pairs[v[1]->id].taken = true;
            return;
        }
    }
}

/* a + (-b) * c is a - b * c, in every bit: of a vector loop's lets the neg is left out. */
static void
find_minus(Tcc *t, const Let *let, const int *uses)
{
    const Let *loop = let->parent->owner;
    if (let->op != OP_add || let->args[0] == let->args[1] || loop->op != OP_for ||
        !let_has(loop, MARK_vector) || dtype_info[map_dtype(let)].class != CLASS_FLOAT ||
        t->pairs[let->res[0]->id].minus) {
        return;
    }
    for (int k = 0; k < 4; k++) {
        const Value *v = let->args[k / 2];
        if (!is_free(t, v, OP_mul, let, uses) || v->def->args[0] == v->def->args[1]) {
            continue;
        }
        const Value *f = v->def->args[k % 2];
        if (used_here(uses, f, v->def) && f->def->op == OP_neg &&
            !value_is_const(f->def->args[0])) {
            t->pairs[f->id].through = true;
            t->pairs[let->res[0]->id].minus = 1 + k / 2;
            return;
        }
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
    return let->op == OP_eq || let->op == OP_lt || let->op == OP_le || let->op == OP_gt ||
           let->op == OP_ge;
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

/* Loads of bf16 for arithmetic of bf16: one strip loads, computes and rounds.  Of small integers
 * that become float: one strip does. */
static void
find_halves(Tcc *t, const Let *let, const int *uses)
{
    bool is_map = op_info[let->op].kind == KIND_MAP;
    Dtype from = is_map ? map_dtype(let) : DT_f32;
    bool has_strip = let->op == OP_add || let->op == OP_sub || let->op == OP_mul
                         ? from == DT_bf16
                         : let->op == OP_cast && let->res[0]->type->dtype == DT_f32 &&
                               (from == DT_u8 || from == DT_i8);
    for (int j = 0; has_strip && j < let->nargs; j++) {
        const Value *v = let->args[j];
        if (used_here(uses, v, let) && v->def->op == OP_load &&
            !(loop_is_recurrence(let->parent->owner) && loop_carried(let))) {
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
        find_minus(t, let, uses);
        find_twice(t, let, uses);
        for (int j = 0; is_float_map(let) && j < let->nargs; j++) {
            take_in(t, let, let->args[j], uses);
        }
    }
}

void
tcc_find_fused(Tcc *t, const Block *root)
{
    size_t values = (size_t)t->e->fn->nvalues;
    int *uses = cx_alloc(t->e->cx, values * sizeof *uses);
    t->pairs = cx_alloc(t->e->cx, values * sizeof *t->pairs);
    t->uses = uses;
    count_uses(root, uses);
    find_pairs(t, root, uses);
}
