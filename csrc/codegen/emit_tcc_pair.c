/* Two operations in one strip, for the libtcc tier.
 *
 * What:     finds lets of vector loops that one strip of pairs.def can compute together with the
 *           only let that uses them.
 * Requires: the lets of a kernel, before anything is emitted.
 * Ensures:  a let that is left out is computed where its user is; nothing in between stores.
 * How:      greedily in the order of the lets; a let that takes another one in is not taken in.
 * Why not:  longer chains: each more operation multiplies the strips.
 * Example:  u = x - m; v = u * r:  strip_pair_sub_mul_left_f32(v, x, &m, &r, w, 6);
 */
#include "emit_tcc.h"

enum Side { SIDE_left, SIDE_right };

typedef struct { Op first, second; enum Side side; const char *strip; } Row;

static const Row rows[] = {
#define PAIR(first, second, side) \
    {OP_##first, OP_##second, SIDE_##side, "strip_pair_" #first "_" #second "_" #side "_f32"},
#define SQUARE(first)
#include "pairs.def"
};

static const Row squares[] = {
#define PAIR(first, second, side)
#define SQUARE(first) {OP_##first, OP_mul, SIDE_left, "strip_square_" #first "_f32"},
#include "pairs.def"
};

static const char *
find_strip(const Let *first, const Let *second)
{
    const Value *v = first->res[0];
    if (second->args[0] == v && second->args[1] == v) {
        for (size_t k = 0; k < sizeof squares / sizeof *squares; k++) {
            if (squares[k].first == first->op && second->op == OP_mul) {
                return squares[k].strip;
            }
        }
        return NULL;
    }
    /* a sum and a product have the same bits either way round */
    bool either = second->op == OP_add || second->op == OP_mul;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const Row *r = &rows[k];
        if (r->first == first->op && r->second == second->op &&
            (either || second->args[r->side == SIDE_right] == v)) {
            return r->strip;
        }
    }
    return NULL;
}

static bool
is_float_map(const Let *let)
{
    return op_info[let->op].kind == KIND_MAP && let->nargs == 2 &&
           let->res[0]->type->dtype == DT_f32 && map_dtype(let) == DT_f32;
}

/* Is v used by the let alone, all its uses counted, and does nothing between the two store or loop? */
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
    return uses[v->id] == (let->args[0] == v) + (let->args[1] == v);
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
find_pairs(Tcc *t, const Block *blk, const int *uses)
{
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if (let->body) {
            find_pairs(t, let->body, uses);
        }
        for (int j = 0; is_float_map(let) && j < 2; j++) {
            const Value *v = let->args[j];
            Pair *pair = &t->pairs[let->res[0]->id];
            if (!pair->strip && used_here(uses, v, let) && is_float_map(v->def) &&
                !t->pairs[v->id].strip && find_strip(v->def, let)) {
                *pair = (Pair){.strip = find_strip(v->def, let), .first = v->def};
                t->pairs[v->id].taken = true;
            }
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
