/* The rules of a product's loops, V22 to V24 and V57; verify.c has the list. */
#include <math.h>

#include "ir/verify/product.h"
#include "verify.h"

/* Has the loop no other marks, apart from that of what a circuit pipelines? */
static bool
has_marks(const Let *loop, Marks marks)
{
    return ((Marks)let_int(loop, "marks") & ~MARK_pipelined) == marks;
}

/* Has the loop exactly these marks, apart from those that say what a call prefetches, and how the
 * loop runs where it is no call? */
static bool
is_marked(const Let *let, Marks marks)
{
    const Marks others = MARK_prefetch_tile | MARK_prefetch_pack | MARK_pipelined;
    return let->op == OP_for && ((Marks)let_int(let, "marks") & ~others) == marks;
}

/* An element of a tile, or of several: [row + what depends on neither, column], whose rows are
 * whole panels. */
static bool
is_of_tile(Cx *cx, const Let *access, Dim row, Dim column)
{
    const Value *v = access->args[0];
    const Attr *at = let_attr(access, "at");
    Dim step, rest;
    int64_t width;
    return v->def && v->def->op == OP_buffer && !v->strides && v->type->rank == 2 && at->n == 2 &&
           at->dims[1] == column && dim_affine(cx, at->dims[0], row, &step, &rest) &&
           dim_is(cx, step, 1) && dim_is_int(cx, v->type->dims[1], &width) &&
           width % panel_width(v->type->dtype) == 0;
}

/* The load that the value is, or is the cast of to the dtype that its elements are computed in;
 * NULL. */
static const Let *
load_of(const Value *v)
{
    const Let *let = value_is_const(v) ? NULL : v->def;
    let = let && let->op == OP_cast && !value_is_const(let->args[0]) ? let->args[0]->def : let;
    bool wide = let && let->op == OP_load &&
                dtype_info[let->res[0]->type->dtype].compute == v->type->dtype;
    return wide ? let : NULL;
}

static bool
uses(Cx *cx, const Let *access, Dim index)
{
    const Attr *at = let_attr(access, "at");
    bool found = false;
    for (int k = 0; k < at->n; k++) {
        found |= dim_uses(cx, at->dims[k], index);
    }
    return found;
}

/* Does each index of the access advance evenly with it? */
static bool
is_even(Cx *cx, const Let *access, Dim index)
{
    const Attr *at = let_attr(access, "at");
    bool even = true;
    for (int k = 0; k < at->n; k++) {
        Dim step, rest;
        even &= dim_affine(cx, at->dims[k], index, &step, &rest);
    }
    return even;
}

static const Let *
product_of(const Let *reduce)
{
    const Value *ret = reduce->body->nrets == 1 ? reduce->body->rets[0] : NULL;
    return ret && ret->def && ret->def->op == OP_mul && ret->def->parent == reduce->body ? ret->def
                                                                                         : NULL;
}

/* Is each element of a vector, or of a reduction, computed by itself, with no sum of its own? */
static bool
is_in_vector(const Let *let)
{
    bool vector = false;
    for (const Let *loop = let_around(let); loop_is(loop); loop = let_around(loop)) {
        vector |= loop->op == OP_reduce || let_has(loop, MARK_vector);
    }
    return vector;
}

void
verify_fused(Verifier *v, const Let *let)
{
    const Let *product = product_of(let);
    bool good = let->op == OP_reduce && has_marks(let, MARK_fused) && let_op(let) == OP_sum &&
                product && !is_in_vector(let);
    Dtype dtype = good ? product->res[0]->type->dtype : DT_bool;
    DtypeClass class = dtype_info[dtype].class;
    if (!good || dtype_info[dtype].compute != dtype ||
        (class != CLASS_FLOAT && class != CLASS_INT)) {
        verify_broken(
            v, 22,
            "fused marks a reduce that is not a sum of products outside of vectors and of other "
            "reductions");
    }
}

const Value *
loop_packs(Cx *cx, const Let *let)
{
    CallNest n;
    if (!call_nest(let, &n) || n.b || n.nloops < 2 || n.nloops == CALL_LOOPS) {
        return NULL;
    }
    const Value *to = n.store->args[0];
    bool packs = to->def && to->def->op == OP_buffer &&
                 to->type->dtype == panel_dtype(n.a->res[0]->type->dtype) &&
                 is_of_panel(cx, n.store, let_dim(let, "index"),
                             let_dim(n.loops[n.nloops - 1], "index"));
    return packs ? to : NULL;
}

void
verify_pack(Verifier *v, const Let *let)
{
    if (!is_marked(let, MARK_pack) || !loop_packs(v->cx, let)) {
        verify_broken(
            v, 23,
            "pack marks a loop that is not around one that copies to a row of a panel alone");
    }
}

/* The factors are a load that has nothing to do with the columns, and one that has nothing to do
 * with the rows: of a panel, or where there is no loop over panels of anything.  In that
 * case also two loads that go along the columns evenly, each column with its own elements. */
static bool
is_product(Cx *cx, const CallNest *n)
{
    const Let *a = n->a, *b = n->b, *panels = n->nloops == CALL_LOOPS ? n->loops[1] : NULL;
    Dim p = let_dim(n->loops[n->nloops - 1], "index"), i = let_dim(n->loops[0], "index"),
        l = let_dim(n->loops[n->nloops - 2], "index");
    bool each = !panels && uses(cx, b, l) && is_even(cx, a, l) && is_even(cx, b, l);
    bool panel = is_of_panel(cx, b, p, l);
    Dtype of_a = a->res[0]->type->dtype;
    return b->res[0]->type->dtype == (panel && !each ? panel_dtype(of_a) : of_a) &&
           (!uses(cx, a, l) || each) && !(panels && uses(cx, a, let_dim(panels, "index"))) &&
           !uses(cx, b, i) && (panel || !panels);
}

bool
loop_multiplies(Cx *cx, const Let *let)
{
    CallNest n;
    if (!call_nest(let, &n) || !n.b || n.nloops < 3) {
        return false;
    }
    Dim column = let_dim(n.loops[n.nloops - 2], "index"),
        width = dim_int(cx, panel_width(n.store->args[0]->type->dtype));
    if (n.nloops == CALL_LOOPS) {
        column = dim_add(cx, dim_mul(cx, width, let_dim(n.loops[1], "index")), column);
    }
    return is_of_tile(cx, n.store, let_dim(let, "index"), column) && is_product(cx, &n) &&
           dim_le(cx, let_dim(let, "extent"), dim_int(cx, MICRO_MOST_ROWS));
}

void
verify_micro(Verifier *v, const Let *let)
{
    if (!is_marked(let, MARK_micro) || !loop_multiplies(v->cx, let)) {
        verify_broken(
            v, 24,
            "micro marks a loop that is not around one that stores a row of a tile of sums alone");
    }
}

/* ---- V57: the plain nest of a product ---- */

static const Marks CLASSES = MARK_batch | MARK_rows | MARK_columns;

static Marks
class_of(const Let *let)
{
    return let && let->op == OP_for ? (Marks)let_int(let, "marks") & CLASSES : 0;
}

const Let *
block_loop(const Block *blk)
{
    const Let *loop = NULL;
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if (let->body ? loop != NULL : let->op == OP_buffer || let_writes(let)) {
            return NULL;
        }
        loop = let->body ? let : loop;
    }
    return loop;
}

/* Is the let the store of a constant? */
static bool
stores_constant(const Let *store)
{
    return !value_is_const(store->args[1]) && store->args[1]->def->op == OP_const;
}

/* Is the let the store of -0.0, to which any number can be added without a trace? */
static bool
begins_total(const Let *store)
{
    const Let *zero = value_is_const(store->args[1]) ? NULL : store->args[1]->def;
    const Literal *n = zero && zero->op == OP_const ? &zero->args[0]->literal : NULL;
    bool whole = n && dtype_info[zero->res[0]->type->dtype].class != CLASS_FLOAT;
    return n && n->is_int == whole && (whole ? n->i == 0 : n->f == 0 && signbit(n->f));
}

/* Does the block only add a sum to the total? */
static bool
adds_to_total(const Block *blk, PlainNest *nest)
{
    if (blk->n != 4) {
        return false;
    }
    const Let *sum = blk->lets[0], *old = blk->lets[1], *add = blk->lets[2], *store = blk->lets[3];
    nest->sum = sum;
    return sum->op == OP_reduce && let_has(sum, MARK_fused) && old->op == OP_load &&
           old->args[0] == nest->total->res[0] && add->op == OP_add &&
           add->args[0] == old->res[0] && add->args[1] == sum->res[0] && store->op == OP_store &&
           store->args[0] == nest->total->res[0] && store->args[1] == add->res[0];
}

/* Is the value made in this block, or outside of the loops over rows and columns? */
static bool
is_at_hand(const Value *v, const Block *blk, const PlainNest *nest)
{
    const Block *of = value_is_const(v) || !v->def ? NULL : v->def->parent;
    bool outside = of != NULL && of != blk;
    for (const Let *loop = nest->columns; outside && class_of(loop); loop = let_around(loop)) {
        outside = loop->body != of;
    }
    return !of || of == blk || outside;
}

/* Does the block, after the sum, only compute what the total becomes, of the sum and of the total?
 */
static bool
computes_total(const Block *blk, PlainNest *nest)
{
    const Let *sum = blk->n ? blk->lets[0] : NULL;
    bool good = sum && sum->op == OP_reduce && let_has(sum, MARK_fused);
    int loads = 0;
    for (int k = 1; k < blk->n && good; k++) {
        const Let *let = blk->lets[k];
        bool total = let->nargs && let->args[0] == nest->total->res[0], last = k == blk->n - 1;
        loads += let->op == OP_load && total;
        good = last ? let->op == OP_store && total
                    : op_info[let->op].kind == KIND_MAP || let->op == OP_load ||
                          let->op == OP_const || let->op == OP_size;
        for (int j = total; j < let->nargs; j++) {
            good &= is_at_hand(let->args[j], blk, nest);
        }
    }
    nest->sum = good ? sum : NULL;
    nest->computes = good && loads == 1;
    return nest->computes;
}

/* Are in the loop only loops and conditions, one in the other, around what adds to the total?  If
 * that is computed, there are only loops. */
static bool
has_places(const Let *loop, PlainNest *nest)
{
    bool loops = true;
    while ((loop->op == OP_for || loop->op == OP_if) &&
           (loop->op == OP_if || !let_int(loop, "marks"))) {
        loops &= loop->op == OP_for;
        if (adds_to_total(loop->body, nest) || (loops && computes_total(loop->body, nest))) {
            return true;
        }
        if (loop->body->n != 1 || !loop->body->lets[0]->body) {
            return false;
        }
        loop = loop->body->lets[0];
    }
    return false;
}

static bool
accesses_total(const void *total, const Let *let)
{
    return let->nargs && let->args[0] == total;
}

/* Finds the sum in the innermost loop, which alone stores, or the places of it. */
static bool
find_sum(Cx *cx, PlainNest *nest)
{
    const Block *blk = nest->columns->body;
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        bool total = nest->total && accesses_total(nest->total->res[0], let);
        if (let->op == OP_update || (let->op == OP_buffer && (nest->total || nest->sum))) {
            return false;
        }
        if (let->op == OP_buffer) {
            const Type *type = let->res[0]->type;
            nest->total = let;
            if (type->rank != 1 || !dim_is(cx, type->dims[0], 1)) {
                return false;
            }
        }
        if (let->body && let->op == OP_for) {
            nest->places = let;
            if (nest->sum || !nest->begin || !has_places(let, nest)) {
                return false;
            }
        } else if (let->body) {
            if (nest->sum || nest->total || let->op != OP_reduce || !let_has(let, MARK_fused)) {
                return false;
            }
            nest->sum = let;
        } else if (total && !nest->places) {
            if (nest->begin || let->op != OP_store || !stores_constant(let)) {
                return false;
            }
            nest->begin = let;
        } else if (total) {
            if (nest->result || let->op != OP_load) {
                return false;
            }
            nest->result = let;
        }
    }
    return nest->sum && (!nest->total || (nest->places && nest->result &&
                                          (nest->computes || begins_total(nest->begin))));
}

/* Are loads of the factors, their casts and the product all that the sum is of? */
static bool
is_of_factors(const PlainNest *nest)
{
    const Let *product = product_of(nest->sum);
    bool good = true;
    for (int k = 0; k < nest->sum->body->n; k++) {
        const Let *let = nest->sum->body->lets[k];
        good &= let == nest->a || let == nest->b || let == product ||
                (let->op == OP_cast &&
                 (let->res[0] == product->args[0] || let->res[0] == product->args[1]));
    }
    return good;
}

/* Has a loop in this one, but the sum, another extent with this index? */
static bool
counts_by(Cx *cx, const Let *loop, Dim index)
{
    bool found = false;
    for (loop = block_loop(loop->body); class_of(loop); loop = block_loop(loop->body)) {
        found |= dim_uses(cx, let_dim(loop, "extent"), index);
    }
    return found;
}

/* The lets from the outermost place to the sum, or NULL behind the last one. */
static const Let *
next_place(const PlainNest *nest, const Let *let)
{
    const Let *inner = let->body->lets[0];
    return inner == nest->sum ? NULL : inner;
}

static bool
place_uses(Cx *cx, const Let *let, Dim index)
{
    return let->op == OP_for ? dim_uses(cx, let_dim(let, "extent"), index)
                             : dim_uses(cx, let_dim(let, "left"), index) ||
                                   dim_uses(cx, let_dim(let, "right"), index);
}

static bool
places_use(Cx *cx, const PlainNest *nest, Dim index)
{
    bool use = false;
    for (const Let *let = nest->places; let; let = next_place(nest, let)) {
        use |= place_uses(cx, let, index);
    }
    return use;
}

/* Do no loops over places count by the row, and does each condition say from which row on it holds,
 * or up to which? */
static bool
places_have_rows(Cx *cx, const PlainNest *nest, Dim row)
{
    bool good = true;
    for (const Let *let = nest->places; let; let = next_place(nest, let)) {
        if (let->op == OP_for) {
            good &= !place_uses(cx, let, row);
        } else {
            Dim left = let_dim(let, "left"), right = let_dim(let, "right");
            Dim other = left == row ? right : left;
            good &= (left == row || right == row) && !dim_uses(cx, other, row);
        }
    }
    return good;
}

/* Can the loops over rows and columns change places with one another and be cut?  What a loop binds
 * is no index of the factors, and has no other loop count by it, nor has its own index. */
static bool
is_free(Cx *cx, const Let *columns, const PlainNest *nest)
{
    bool good = true;
    Dim terms = let_dim(nest->sum, "extent");
    for (const Let *loop = columns; class_of(loop) & ~MARK_batch; loop = let_around(loop)) {
        good &= !counts_by(cx, loop, let_dim(loop, "index"));
        for (int k = 0; k < loop->body->n; k++) {
            const Let *bind = loop->body->lets[k];
            good &= bind->op != OP_bind ||
                    !(uses(cx, nest->a, bind->sizes[0]) || uses(cx, nest->b, bind->sizes[0]) ||
                      dim_uses(cx, terms, bind->sizes[0]) || counts_by(cx, loop, bind->sizes[0]) ||
                      places_use(cx, nest, bind->sizes[0]));
        }
    }
    for (const Let *let = nest->computes ? nest->places : NULL; let; let = next_place(nest, let)) {
        good &= !dim_uses(cx, terms, let_dim(let, "index"));
    }
    Dim column = let_dim(columns, "index"), row = let_dim(let_around(columns), "index");
    return good && !dim_uses(cx, terms, column) && !dim_uses(cx, terms, row) &&
           !places_use(cx, nest, column) && places_have_rows(cx, nest, row);
}

/* Are the factors loads, of which the first does not go along the columns inside and the second not
 * along the rows inside?  Or do both go along these columns? */
static bool
has_factors(Cx *cx, const Let *rows, const Let *columns, PlainNest *nest)
{
    const Let *product = product_of(nest->sum);
    nest->a = product ? load_of(product->args[0]) : NULL;
    nest->b = product ? load_of(product->args[1]) : NULL;
    if (!nest->a || !nest->b || nest->a->parent != nest->sum->body ||
        nest->b->parent != nest->sum->body) {
        return false;
    }
    Dim column = let_dim(columns, "index");
    return !uses(cx, nest->b, let_dim(rows, "index")) &&
           (!uses(cx, nest->a, column) || uses(cx, nest->b, column));
}

/* ---- what the nest reads of what it stores ---- */

/* Does the block, or a loop in it, load memory that the store writes to, but for the element itself
 * in the block of the store? */
static bool
reads_stored(Cx *cx, const Block *blk, const Let *store)
{
    const Value *to = store->args[0];
    bool reads = false;
    for (int k = 0; k < blk->n && !reads; k++) {
        const Let *let = blk->lets[k];
        bool same = let->op == OP_load && value_memory(let->args[0]) == value_memory(to);
        reads = let->body ? reads_stored(cx, let->body, store)
                          : same && (blk != store->parent ||
                                     index_offset(cx, let->args[0], let_attr(let, "at")->dims) !=
                                         index_offset(cx, to, let_attr(store, "at")->dims));
    }
    return reads;
}

/* Does no iteration read what another one stores?  Then they may run in any order. */
static bool
is_in_any_order(Cx *cx, const Let *outermost, const PlainNest *nest)
{
    const Block *blk = nest->columns->body;
    bool any = true;
    for (int k = 0; k < blk->n && any; k++) {
        const Let *let = blk->lets[k];
        any = let->op != OP_store || let == nest->begin || !reads_stored(cx, outermost->body, let);
    }
    return any;
}

bool
loop_is_plain_nest(Cx *cx, const Let *let, PlainNest *nest)
{
    const Let *columns = NULL, *rows = NULL, *loop = let;
    bool inside = false, good = true;
    for (; class_of(loop); loop = block_loop(loop->body)) {
        Marks class = class_of(loop);
        good &= (class & (class - 1)) == 0 && !let_has(loop, MARK_steps) &&
                !(inside && class == MARK_batch);
        inside |= class != MARK_batch;
        rows = columns;
        columns = loop;
    }
    if (!good || !rows || class_of(rows) != MARK_rows || class_of(columns) != MARK_columns) {
        return false;
    }
    *nest = (PlainNest){.columns = columns};
    return find_sum(cx, nest) && has_factors(cx, rows, columns, nest) && is_of_factors(nest) &&
           is_free(cx, columns, nest) && is_in_any_order(cx, let, nest);
}

void
verify_plain_nest(Verifier *v, const Let *let)
{
    PlainNest nest;
    const Let *outermost = let;
    while (class_of(let_around(outermost))) {
        outermost = let_around(outermost);
    }
    if (!loop_is_plain_nest(v->cx, outermost, &nest)) {
        verify_broken(
            v, 57, "batch, rows and columns mark loops that are not the plain nest of a product");
    }
}
