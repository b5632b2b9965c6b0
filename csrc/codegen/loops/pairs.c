/* Pairs: two operations that one vector primitive computes.
 *
 * What:     finds lets that one strip of fused.def can compute together with the only let that uses
 *           them, be that a reduction; and rows that a strip reads and writes where they are.
 * Requires: the lets of a kernel.
 * Ensures:  a let that is left out is computed where its user is; nothing in between stores.
 * How:      greedily in the order of the lets; a let that takes another one in is not taken in.
 *           schedule/merge.c marks what is found; from then on only marked lets are looked at, and
 *           the same ones are found again.
 * Why not:  more than two: each more operation multiplies the strips.
 * Example:  u = x - m; v = u * r:  strip_pair_sub_mul_left_f32(v, x, &m, &r, w, 6);
 */
#include "pairs.h"

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
    /* These read four loads and store the result: see pairs_in_place. */
    {DT_bf16, OP_mul, OP_add, FORM_twice, "strip_twice_mul_add_bf16", NULL, OP_mul},
    {DT_bf16, OP_mul, OP_sub, FORM_twice, "strip_twice_mul_sub_bf16", NULL, OP_mul},
};

/* May its user's strip have the let? */
static bool
may_merge(const Pairs *p, const Let *let)
{
    return p->possible || let_has(let, MARK_merged);
}

/* Is the second operand a number? */
static bool
is_number(const Let *let)
{
    const Literal *literal = literal_of(let->args[1]);
    return literal && (literal->is_int || literal->f == literal->f);
}

/* The second operation: a sum of which one operand is negated is a difference. */
static Op
second_op(const Pairs *p, const Let *let)
{
    return p->of[let->res[0]->id].minus ? OP_sub : let->op;
}

/* The operand of the operation that stands first, or second. */
static const Value *
operand_at(const Pairs *p, const Let *let, int second)
{
    return let->args[p->of[let->res[0]->id].minus == 1 ? !second : second];
}

/* Does the let read v in the place where the strip has it? */
static bool
has_strip_order(const Pairs *p, const Row *r, const Let *second, const Value *v)
{
    bool both = second->nargs == 2 && second->args[0] == v && second->args[1] == v;
    /* A sum and a product have the same bits in either order of their operands. */
    bool either = r->second == OP_add || r->second == OP_mul;
    switch (r->form) {
    case FORM_square:
        return both;
    case FORM_left:
        return !both && (either || operand_at(p, second, 0) == v);
    case FORM_clamp:
        return second->args[0] == v && is_number(second) && is_number(v->def);
    case FORM_right:
        return !both && operand_at(p, second, 1) == v;
    case FORM_twice:
        return false;
    default:
        return second->args[0] == v;
    }
}

static const Row *
find_row(const Pairs *p, const Let *first, const Let *second)
{
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const Row *r = &rows[k];
        if (r->dtype == map_dtype(first) && r->dtype == map_dtype(second) &&
            r->first == first->op && r->second == second_op(p, second) &&
            has_strip_order(p, r, second, first->res[0])) {
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
           !(loop_is_recurrence(let_around(let)) && loop_carried(let));
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
        if (op == OP_store || op == OP_bind || blk->lets[k]->body) {
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
take_in(Pairs *p, const Let *let, const Value *v, const int *uses)
{
    Pair *pair = &p->of[let->res[0]->id];
    if (pair->strip || !used_here(uses, v, let) || !may_merge(p, v->def) || !is_float_map(v->def) ||
        p->of[v->id].strip) {
        return;
    }
    const Row *r = find_row(p, v->def, let);
    if (r) {
        pair->strip = r->strip;
        pair->mirrored = r->mirrored;
        pair->first = v->def;
        p->of[v->id].taken = true;
    }
}

/* ---- two products, or what else makes both operands ---- */

/* The value that v negates, or v itself. */
static const Value *
without_neg(const Pairs *p, const Value *v)
{
    return !value_is_const(v) && p->of[v->id].through ? v->def->args[0] : v;
}

/* Is the factor loaded for this product alone? */
static bool
is_loaded_for(const Pairs *p, const Value *v, const Let *let, const int *uses)
{
    const Value *from = without_neg(p, v);
    return used_here(uses, v, let) && (from == v || used_here(uses, from, v->def)) && from->def &&
           from->def->op == OP_load && from->def->parent == let->parent && may_merge(p, from->def);
}

/* The loads that two products are of, or false: then there is no array. */
static bool
four_loads(const Pairs *p, const Let *first, const Let *other, const Let *loads[4])
{
    for (int k = 0; k < 4; k++) {
        const Value *v = without_neg(p, (k < 2 ? first : other)->args[k % 2]);
        loads[k] = value_is_const(v) ? NULL : v->def;
        if (!loads[k] || loads[k]->op != OP_load) {
            return false;
        }
    }
    return true;
}

/* Are the four loaded for these products alone? */
static bool
find_in_place_rows(Pairs *p, const Let *let, const Let *first, const Let *other, const int *uses)
{
    const Let *loads[4];
    for (int k = 0; k < 4; k++) {
        const Let *product = k < 2 ? first : other;
        if (!is_loaded_for(p, product->args[k % 2], product, uses)) {
            return false;
        }
    }
    for (int k = 0; four_loads(p, first, other, loads) && k < 4; k++) {
        p->of[loads[k]->res[0]->id].in_place = let;
    }
    return true;
}

/* Is v made by the operation, has nothing been found for it yet, and does nothing else use it? */
static bool
is_free(const Pairs *p, const Value *v, Op op, const Let *let, const int *uses)
{
    return used_here(uses, v, let) && v->def->op == op && map_dtype(v->def) == map_dtype(let) &&
           !p->of[v->id].strip;
}

static void
find_twice(Pairs *p, const Let *let, const int *uses)
{
    bool maps = op_info[let->op].kind == KIND_MAP &&
                (is_float_map(let) || map_dtype(let) == DT_bf16);
    for (size_t k = 0;
         maps && let->nargs == 2 && let->args[0] != let->args[1] && k < sizeof rows / sizeof *rows;
         k++) {
        const Row *r = &rows[k];
        if (r->form != FORM_twice || r->second != second_op(p, let) || r->dtype != map_dtype(let)) {
            continue;
        }
        bool swapped = r->second == OP_mul && is_free(p, let->args[0], r->other, let, uses);
        const Value *v[] = {operand_at(p, let, swapped), operand_at(p, let, !swapped)};
        if (!is_free(p, v[0], r->first, let, uses) || !is_free(p, v[1], r->other, let, uses) ||
            !may_merge(p, v[0]->def) || !may_merge(p, v[1]->def)) {
            continue;
        }
        bool in_place = r->first == r->other && r->dtype != DT_f64 &&
                        find_in_place_rows(p, let, v[0]->def, v[1]->def, uses);
        if (in_place || r->dtype != DT_bf16) {
            Pair *pair = &p->of[let->res[0]->id];
            pair->strip = r->strip;
            pair->first = v[0]->def;
            pair->other = v[1]->def;
            p->of[v[0]->id].taken = p->of[v[1]->id].taken = true;
            return;
        }
    }
}

/* a + (-b) * c is a - b * c, in every bit: of a vector loop's lets the neg is left out. */
static void
find_minus(Pairs *p, const Let *let, const int *uses)
{
    const Let *loop = let_around(let);
    if (let->op != OP_add || let->args[0] == let->args[1] || loop->op != OP_for ||
        !let_has(loop, MARK_vector) || dtype_info[map_dtype(let)].class != CLASS_FLOAT ||
        p->of[let->res[0]->id].minus) {
        return;
    }
    for (int k = 0; k < 4; k++) {
        const Value *v = let->args[k / 2];
        if (!is_free(p, v, OP_mul, let, uses) || v->def->args[0] == v->def->args[1]) {
            continue;
        }
        const Value *f = v->def->args[k % 2];
        if (used_here(uses, f, v->def) && f->def->op == OP_neg && may_merge(p, f->def) &&
            !value_is_const(f->def->args[0])) {
            p->of[f->id].through = true;
            p->of[let->res[0]->id].minus = 1 + k / 2;
            return;
        }
    }
}

/* Is there a strip that reduces what the let makes, by itself or with one that it takes in? */
static bool
has_fold(const Pairs *p, const Let *reduce, const Let *let)
{
    const char *strips[] = {cx_format(p->cx, "strip_%s_f32", op_info[let->op].name),
                            p->of[let->res[0]->id].strip};
    Op red = let_op(reduce);
    bool found = false;
    for (int k = 0; k < 2 && strips[k]; k++) {
        found |= (let_has(reduce, MARK_lanes) ? pairs_fold(red, strips[k])
                                              : pairs_step(red, strips[k])) != NULL;
    }
    return found;
}

/* The last let of a reduction's body, when that is all the reduction is of.  The rows of a grid are
 * reduced all at once, from a tile. */
static void
fold(Pairs *p, const Let *reduce, const int *uses)
{
    const Value *v = reduce->body->rets[0];
    if (!value_is_const(v) && v->def && v->def->parent == reduce->body && uses[v->id] == 1 &&
        v->def == reduce->body->lets[reduce->body->n - 1] && is_float_map(v->def) &&
        v->type->dtype == DT_f32 && may_merge(p, v->def) &&
        !let_has(let_around(reduce), MARK_grid) && has_fold(p, reduce, v->def)) {
        p->of[v->id].folded = true;
    }
}

bool
let_compares(const Let *let)
{
    return let->op == OP_eq || let->op == OP_lt || let->op == OP_le || let->op == OP_gt ||
           let->op == OP_ge;
}

/* An index that is only compared with another: one strip makes the truths, see tcc_size. */
static void
find_index(Pairs *p, const Let *let, const int *uses)
{
    for (int j = 0; let_compares(let) && j < 2; j++) {
        const Value *v = let->args[j];
        if (used_here(uses, v, let) && v->def->op == OP_size && may_merge(p, v->def) &&
            !p->of[let->res[0]->id].first) {
            p->of[let->res[0]->id].first = v->def;
            p->of[v->id].user = let;
        }
    }
}

/* Loads of bf16 for arithmetic of bf16: one strip loads, computes and rounds.  Of small integers
 * that become float: one strip does. */
static void
find_halves(Pairs *p, const Let *let, const int *uses)
{
    bool is_map = op_info[let->op].kind == KIND_MAP;
    Dtype from = is_map ? map_dtype(let) : DT_f32;
    bool has_strip = let->op == OP_add || let->op == OP_sub || let->op == OP_mul
                         ? from == DT_bf16
                         : let->op == OP_cast && let->res[0]->type->dtype == DT_f32 &&
                               (from == DT_u8 || from == DT_i8);
    for (int j = 0; has_strip && j < let->nargs; j++) {
        const Value *v = let->args[j];
        if (used_here(uses, v, let) && v->def->op == OP_load && may_merge(p, v->def) &&
            !(loop_is_recurrence(let_around(let)) && loop_carried(let))) {
            p->of[v->id].half = true;
        }
    }
}

static void
find_pairs(Pairs *p, const Block *blk, const int *uses)
{
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if (let->body) {
            find_pairs(p, let->body, uses);
        }
        find_index(p, let, uses);
        find_halves(p, let, uses);
        if (let->op == OP_reduce) {
            fold(p, let, uses);
        }
        find_minus(p, let, uses);
        find_twice(p, let, uses);
        for (int j = 0; is_float_map(let) && j < let->nargs; j++) {
            take_in(p, let, let->args[j], uses);
        }
    }
}

static Pairs *
find(Cx *cx, int nvalues, const Block *root, bool possible)
{
    Pairs *p = cx_alloc(cx, sizeof *p);
    int *uses = cx_alloc(cx, (size_t)nvalues * sizeof *uses);
    p->of = cx_alloc(cx, (size_t)nvalues * sizeof *p->of);
    p->cx = cx;
    p->uses = uses;
    p->possible = possible;
    count_uses(root, uses);
    find_pairs(p, root, uses);
    return p;
}

Pairs *
pairs_possible(Cx *cx, int nvalues, const Block *root)
{
    return find(cx, nvalues, root, true);
}

Pairs *
pairs_find(Cx *cx, int nvalues, const Block *root)
{
    return find(cx, nvalues, root, false);
}

bool
pairs_merge(const Pairs *p, const Let *let)
{
    const Pair *pair = &p->of[let->res[0]->id];
    return pair->taken || pair->through || pair->user || pair->half || pair->in_place ||
           pair->folded;
}

/* ---- stores ---- */

/* Does the let, or one that it takes in, read the value? */
static bool
reads(const Pairs *p, const Let *let, const Value *v)
{
    bool found = false;
    for (int k = 0; k < let->nargs; k++) {
        const Value *arg = let->args[k];
        bool through = !value_is_const(arg) && p->of[arg->id].through;
        found |= arg == v || (through && reads(p, arg->def, v));
    }
    return found;
}

static bool
needs(const Pairs *p, const Let *let, const Value *v)
{
    const Pair *pair = let->nres ? &p->of[let->res[0]->id] : &(Pair){0};
    bool found = reads(p, let, v) || (pair->first && reads(p, pair->first, v)) ||
                 (pair->other && reads(p, pair->other, v));
    for (int k = 0; let->body && k < let->body->n && !found; k++) {
        found = needs(p, let->body->lets[k], v);
    }
    for (int k = 0; let->body && k < let->body->nrets; k++) {
        found |= let->body->rets[k] == v;
    }
    return found;
}

/* Does a let behind this one, or a result of the block, need the value? */
static bool
is_needed_later(const Pairs *p, const Let *let, const Value *v)
{
    const Block *blk = let->parent;
    bool found = false;
    for (int k = place_of(let) + 1; k < blk->n && !found; k++) {
        found = needs(p, blk->lets[k], v);
    }
    for (int k = 0; k < blk->nrets; k++) {
        found |= blk->rets[k] == v;
    }
    return found;
}

/* Does a let after this one read what lay where the result goes?  A load costs nothing: the tensor
 * is the operand of who uses it. */
static bool
is_read_later(const Pairs *p, const Let *let, const Value *result)
{
    const Block *blk = let->parent;
    bool found = false;
    for (int k = 0; result->over && k < blk->n && !found; k++) {
        const Let *load = blk->lets[k];
        found = load->op == OP_load && load->args[0] == result->over &&
                is_needed_later(p, let, load->res[0]);
    }
    return found;
}

const Let *
pairs_store(const Pairs *p, const Let *let)
{
    const Block *blk = let->parent;
    for (int k = place_of(let) + 1; k < blk->n; k++) {
        const Let *after = blk->lets[k];
        if (after->op == OP_store && after->args[1] == let->res[0] &&
            after->args[0]->def->op == OP_kernel) {
            return is_read_later(p, let, after->args[0]) ? NULL : after;
        }
    }
    return NULL;
}

/* ---- rows where they are ---- */

const Let *
pairs_in_place_store(const Pairs *p, const Facts *facts, const Tile *tile, const Let *let,
                     Walk *walk)
{
    const Let *store = p->uses[let->res[0]->id] == 1 ? pairs_store(p, let) : NULL;
    if (!store || store->args[0]->type->dtype != let->res[0]->type->dtype) {
        return NULL;
    }
    *walk = walk_of(tile, facts_access(facts, store)->offset);
    bool in_rows = walk->kind == WALK_FLAT || walk->kind == WALK_GRID;
    return in_rows && dim_is(facts->cx, walk->step, 1) ? store : NULL;
}

/* Does the load go along contiguous elements, in each row of a grid?  walk: of its offset. */
static bool
is_contiguous_load(const Facts *facts, const Tile *tile, const Let *load, const Walk *walk)
{
    return (walk->kind == WALK_FLAT || (tile->row && walk->kind == WALK_GRID)) &&
           dim_is(facts->cx, walk->step, 1) && !facts_access(facts, load)->is_private;
}

bool
pairs_in_place(const Pairs *p, const Facts *facts, const Tile *tile, const Let *load)
{
    const Let *let = p->of[load->res[0]->id].in_place, *loads[4];
    const Pair *pair = let ? &p->of[let->res[0]->id] : NULL;
    bool half = load->res[0]->type->dtype == DT_bf16, copied = half;
    Walk walk;
    if (!let || tile->index == DIM_NONE || !four_loads(p, pair->first, pair->other, loads)) {
        return false;
    }
    for (int k = 0; k < 4; k++) {
        walk = walk_of(tile, facts_access(facts, loads[k])->offset);
        copied |= walk.kind == WALK_GRID;
        if (!is_contiguous_load(facts, tile, loads[k], &walk)) {
            return false;
        }
    }
    return copied && (!half || pairs_in_place_store(p, facts, tile, let, &walk));
}

bool
pairs_are_in_place(const Pairs *p, const Facts *facts, const Tile *tile, const Let *load)
{
    const Let *let = p->of[load->res[0]->id].in_place;
    Walk walk;
    return pairs_in_place(p, facts, tile, load) &&
           (load->res[0]->type->dtype != DT_bf16 ||
            let_has(pairs_in_place_store(p, facts, tile, let, &walk), MARK_merged));
}

/* ---- elements in turn: several loads or stores are one strip ---- */

/* How many elements of the tensor the access is behind another one of the block; `stride` and more:
 * unknown. */
static int64_t
distance_of(const Facts *facts, const Let *from, const Let *access, int64_t stride)
{
    int64_t distance = stride;
    bool same = access->op == from->op && access->args[0] == from->args[0];
    return same && dim_is_int(facts->cx,
                              dim_sub(facts->cx, facts_access(facts, access)->offset,
                                      facts_access(facts, from)->offset),
                              &distance)
               ? distance
               : stride;
}

static bool
is_between(const Let *let, bool loads)
{
    return loads ? !let->body && !let_writes(let) : let->op == OP_store;
}

/* Accesses of one kind, with which nothing else touches memory between them. */
static void
find_interleaved(const Let *let, int *begin, int *end)
{
    const Block *blk = let->parent;
    bool load = let->op == OP_load;
    *begin = place_of(let);
    *end = *begin + 1;
    while (*begin > 0 && is_between(blk->lets[*begin - 1], load)) {
        --*begin;
    }
    while (*end < blk->n && is_between(blk->lets[*end], load)) {
        ++*end;
    }
}

/* Is the access in one of several rows that run together? */
static bool
is_in_grid(const Tile *tile, const Let *access)
{
    return tile->row != DIM_NONE || let_has(let_around(access), MARK_grid);
}

bool
zip_find(const Facts *facts, const Tile *tile, const Let *access, Zip *zip)
{
    const Let *found[2 * ZIPPED] = {NULL};
    int64_t stride = 0;
    int count = 0, low = 0, begin, end;
    zip->walk = walk_of(tile, facts_access(facts, access)->offset);
    if (tile->index == DIM_NONE || is_in_grid(tile, access) ||
        facts_access(facts, access)->bytes != 4 || zip->walk.kind != WALK_FLAT ||
        !dim_is_int(facts->cx, zip->walk.step, &stride) || stride < 2 || stride > ZIPPED ||
        facts_access(facts, access)->is_private) {
        return false;
    }
    find_interleaved(access, &begin, &end);
    for (int k = begin; k < end; k++) {
        int64_t distance = distance_of(facts, access, access->parent->lets[k], stride);
        if (distance > -stride && distance < stride) {
            found[distance + stride] = access->parent->lets[k];
            count++;
        }
    }
    while (!found[low]) {
        low++;
    }
    zip->n = (int)stride;
    for (int k = 0; k < zip->n; k++) {
        zip->parts[k] = low + k < 2 * ZIPPED ? found[low + k] : NULL;
        if (!zip->parts[k]) {
            return false;
        }
    }
    return count == stride;
}

bool
zip_is_marked(const Zip *zip)
{
    bool all = true;
    for (int k = 0; k < zip->n; k++) {
        all &= let_has(zip->parts[k], MARK_primitive);
    }
    return all;
}
