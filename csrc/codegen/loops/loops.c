/* Looking at the loops stage: a let, a loop, a buffer. */
#include "loops.h"

/* ---- lets ---- */

bool
buffer_is_small(Cx *cx, const Value *buffer)
{
    int64_t n = 0;
    return dim_is_int(cx, type_numel(cx, buffer->type), &n) &&
           n <= DLC_L2 / dtype_info[buffer->type->dtype].bytes;
}

int
access_is_large(Cx *cx, const Let *access, int64_t bytes)
{
    const Type *t = access->args[0]->type;
    Range n = dim_range(cx, type_numel(cx, t));
    int64_t least = bytes / dtype_info[t->dtype].bytes;
    return n.lo >= least ? 1 : n.hi < least ? 0 : -1;
}

bool
let_is_expensive(const Let *let)
{
    return let_is_map(let) && op_info[let->op].cost >= COST_EXPENSIVE;
}

Let *
let_in(const Block *block, const Value *v)
{
    return !value_is_const(v) && v->def && v->def->parent == block ? v->def : NULL;
}

bool
dim_is_bound_in(const Cx *cx, Dim d, const Block *block)
{
    bool bound = false;
    for (int k = 0; k < block->n; k++) {
        const Let *let = block->lets[k];
        bound |= let->op == OP_bind && dim_uses(cx, d, let->sizes[0]);
    }
    return bound;
}

bool
buffer_is_private(const Value *buffer)
{
    return buffer->def && buffer->def->op == OP_buffer && loop_is(let_around(buffer->def));
}

bool
loop_has_choice(const Let *loop)
{
    bool found = false;
    for (int k = 0; k < loop->body->n && !found; k++) {
        const Let *let = loop->body->lets[k];
        found = let_is_choice(let) || (loop_is(let) && loop_has_choice(let));
    }
    return found;
}

const Block *
block_around(const Block *root)
{
    return let_is_choice(root->owner) ? root->owner->parent : NULL;
}

const Let *
phase_kernel(const Let *phase)
{
    const Block *root = phase->parent;
    while (block_around(root)) {
        root = block_around(root);
    }
    return root->owner;
}

/* The phase of a root block, by its number there; NULL: it has fewer.  *number: less by those that
 * it has. */
static const Let *
phase_in(const Block *root, int *number)
{
    const Let *found = NULL;
    for (int k = 0; k < root->n && !found; k++) {
        const Let *let = root->lets[k];
        bool chooses = let_has(let, MARK_phase);
        if (let->op == OP_for || chooses) {
            found = (*number)-- == 0 ? let : NULL;
            k += chooses; /* its else */
        } else if (let_is_choice(let)) {
            found = phase_in(let->body, number);
        }
    }
    return found;
}

const Let *
phase_by_number(const Let *kernel, int number)
{
    return phase_in(kernel->body, &number);
}

Dim
choice_share(Cx *cx, const Let *choice)
{
    Dim a, b, one = dim_int(cx, 1);
    let_condition(cx, choice, &a, &b);
    Dim more = dim_add(cx, dim_sub(cx, b, a), one);
    return dim_max(cx, dim_min(cx, more, one), dim_int(cx, 0));
}

Dim
let_chosen(Cx *cx, const Let *let)
{
    Dim all = dim_int(cx, 1);
    for (const Block *root = let->parent; block_around(root); root = block_around(root)) {
        all = dim_mul(cx, all, choice_share(cx, root->owner));
    }
    return all;
}

const Literal *
literal_of(const Value *v)
{
    bool bound = !value_is_const(v) && v->def && v->def->op == OP_const;
    return value_is_const(v) ? &v->literal : bound ? &v->def->args[0]->literal : NULL;
}

Dtype
map_dtype(const Let *let)
{
    Dtype from = let->res[0]->type->dtype;
    for (int k = let->nargs - 1; k >= 0 && let->op != OP_where; k--) {
        from = value_is_const(let->args[k]) ? from : let->args[k]->type->dtype;
    }
    return from;
}

bool
converts(const Let *let)
{
    return let->op == OP_cast || let->op == OP_bitcast;
}

bool
is_copy(const Let *let)
{
    Dtype to = let->res[0]->type->dtype;
    return converts(let) && dtype_info[map_dtype(let)].compute == dtype_info[to].compute &&
           (let->op == OP_cast || dtype_is_float8(map_dtype(let)) || dtype_is_float8(to));
}

const char *
conversion(Cx *cx, const Let *let)
{
    if (!converts(let)) {
        return NULL;
    }
    const DtypeInfo *from = &dtype_info[map_dtype(let)],
                    *to = &dtype_info[let->res[0]->type->dtype];
    bool cast = let->op == OP_cast || is_copy(let);
    return cast ? cx_format(cx, "cast_%s_%s", dtype_info[from->compute].name,
                            dtype_info[to->compute].name)
                : cx_format(cx, "bitcast_%s_%s", from->name, to->name);
}

const char *
moved_name(Dtype dtype)
{
    return dtype_info[dtype_is_float8(dtype) ? DT_u8 : dtype].name;
}

Dtype
operand_dtype(const Let *let, int k)
{
    return let->op == OP_where && k == 0 ? DT_bool : map_dtype(let);
}

bool
is_narrow(Dtype dtype)
{
    return dtype_info[dtype].compute != dtype;
}

/* Is the result representable without rounding if the operands are?  So it is for selections,
 * changes of sign and rounding to integers. */
static bool
is_exact(Op op)
{
    switch (op) {
    case OP_where:
    case OP_maximum:
    case OP_minimum:
    case OP_fmax:
    case OP_fmin:
    case OP_neg:
    case OP_abs:
    case OP_copysign:
    case OP_floor:
    case OP_ceil:
    case OP_trunc:
    case OP_round:
        return true;
    default:
        return false;
    }
}

bool
map_rounds(const Let *let)
{
    Dtype dtype = let->res[0]->type->dtype;
    return is_narrow(dtype) && let->op != OP_bitcast &&
           !(dtype_info[dtype].class == CLASS_FLOAT && is_exact(let->op));
}

/* The bits of the literal in the compute type of the dtype. */
uint64_t
literal_bits(Dtype dtype, Literal literal)
{
    uint64_t stored = 0, bits = 0;
    if (literal.is_int) {
        eval_map(OP_cast, DT_i64, dtype, &literal.i, NULL, NULL, &stored);
    } else {
        eval_map(OP_cast, DT_f64, dtype, &literal.f, NULL, NULL, &stored);
    }
    eval_map(OP_cast, dtype, dtype_info[dtype].compute, &stored, NULL, NULL, &bits);
    return bits;
}

/* ---- loops ---- */

Dim
loop_index(const Let *loop)
{
    return let_dim(loop, "index");
}

Dim
loop_extent(const Let *loop)
{
    return let_dim(loop, "extent");
}

int
loop_tile(const Let *loop)
{
    return loop_count(loop->body) ? DLC_COLUMNS : DLC_TILE;
}

int
loop_width(const Let *loop)
{
    int64_t width = let_mark_value(loop, MARK_width);
    return width ? (int)width : loop_tile(loop);
}

int
loop_step(const Let *loop)
{
    return let_has(loop, MARK_vector)        ? loop_tile(loop)
           : let_has(loop, MARK_tile)        ? DLC_ROWS
           : let_has(loop, MARK_recurrences) ? (int)let_mark_value(loop, MARK_recurrences)
                                             : 1;
}

int
reduce_block(const Let *reduce)
{
    return let_has(reduce, MARK_pairs) ? 1 : let_has(reduce, MARK_lanes) ? DLC_BLOCK : DLC_STEPS;
}

bool
one_block(Cx *cx, const Let *reduce)
{
    return dim_range(cx, loop_extent(reduce)).hi <= reduce_block(reduce);
}

bool
may_be_one_block(Cx *cx, const Let *reduce)
{
    return !one_block(cx, reduce) && dim_range(cx, loop_extent(reduce)).lo <= reduce_block(reduce);
}

int
bind_fault(const Let *bind)
{
    return fault_of_index((int)let_int(bind, "wrap"));
}

int
loop_count(const Block *blk)
{
    int n = 0;
    for (int k = 0; k < blk->n; k++) {
        n += loop_is(blk->lets[k]);
    }
    return n;
}

bool
loop_is_vector(const Let *let)
{
    return let_has(let, let->op == OP_reduce ? MARK_lanes : MARK_vector);
}

bool
loop_is_call(const Let *let)
{
    return let->op == OP_for && (let_has(let, MARK_pack) || let_has(let, MARK_micro));
}

Let *
loop_inner(const Let *let)
{
    for (int k = 0; k < let->body->n; k++) {
        if (let->body->lets[k]->op == OP_for) {
            return let->body->lets[k];
        }
    }
    return NULL;
}

bool
body_is_plain(const Block *blk)
{
    bool plain = true;
    for (int k = 0; k < blk->n; k++) {
        plain &= let_is_plain(blk->lets[k]) || blk->lets[k]->op == OP_store;
    }
    return plain;
}

const Let *
loop_vector_around(const Let *let)
{
    const Let *loop = let_around(let);
    while (loop && !(loop->op == OP_for && let_has(loop, MARK_vector))) {
        loop = loop->parent ? let_around(loop) : NULL;
    }
    return loop;
}

const Let *
loop_stencil_row(const Let *loop)
{
    const Let *row = NULL;
    for (int k = 0; k < loop->body->n && loop->op == OP_for; k++) {
        const Let *let = loop->body->lets[k];
        row = let->op == OP_load && let_has(let, MARK_prefetch) ? let : row;
    }
    return row;
}

/* Does a reduction in the block, at any depth, read the tensor?  within: blk is in a reduction. */
static bool
reduces(const Block *blk, const Value *tensor, bool within)
{
    bool found = false;
    for (int k = 0; k < blk->n && !found; k++) {
        const Let *let = blk->lets[k];
        found = within && let->op == OP_load && let->args[0] == tensor;
        found = found || (let->op == OP_reduce && reduces(let->body, tensor, true));
    }
    return found;
}

const Let *
loop_of_reductions(const Let *load)
{
    const Let *rows = let_around(load);
    while (loop_is(rows) && !reduces(rows->body, load->args[0], false)) {
        rows = let_around(rows);
    }
    return rows;
}

bool
loop_is_latency_bound(const Let *reduce)
{
    int cost = 0;
    for (int k = 0; k < reduce->body->n; k++) {
        const Let *let = reduce->body->lets[k];
        bool map = let_is_map(let);
        if (!map && let->op != OP_load) {
            return false;
        }
        cost += map ? op_info[let->op].cost : 1;
    }
    return cost < COST_EXPENSIVE && let_has(reduce, MARK_lanes);
}

typedef struct {
    Op op;
    const Value *tensor;
} Access;

static bool
is_access(const void *arg, const Let *let)
{
    const Access *of = arg;
    return let->op == of->op && let->args[0] == of->tensor;
}

bool
loop_accesses(const Let *loop, Op op, const Value *tensor)
{
    return let_any(loop, is_access, &(Access){op, tensor});
}

bool
loop_is_recurrence(const Let *loop)
{
    const Let *around = let_around(loop);
    return loop->op == OP_for && around && around->op == OP_for &&
           let_has(around, MARK_recurrences);
}

/* ---- indices ---- */

typedef struct {
    const Cx *cx;
    const Let *inside;
} Around;

/* Is it an index that comes from data, or from a loop elsewhere? */
static bool
is_foreign(const void *arg, Dim name)
{
    const Around *around = arg;
    bool known = dim_extent(around->cx, name) == DIM_NONE;
    for (const Let *let = around->inside; let && !known; let = let_around(let)) {
        known = loop_is(let) && loop_index(let) == name;
    }
    return !known;
}

bool
loops_give(const Cx *cx, const Let *inside, Dim d)
{
    return !dim_any_name(cx, d, is_foreign, &(Around){cx, inside});
}

static bool
is_of_integers(const Value *v, int depth)
{
    if (value_is_const(v)) {
        return true;
    }
    const Let *def = v->def;
    bool is = depth > 0 && def && dtype_info[v->type->dtype].class == CLASS_INT;
    if (is && def->op == OP_load) {
        const Let *made = def->args[0]->def;
        return !made || made->op != OP_buffer;
    }
    is = is && (let_is_map(def) || def->op == OP_size);
    for (int k = 0; is && k < def->nargs; k++) {
        is = is_of_integers(def->args[k], depth - 1);
    }
    return is;
}

bool
value_is_of_integers(const Value *v)
{
    enum { DEPTH = 8 };
    return is_of_integers(v, DEPTH);
}

bool
value_is_only_stored(const Block *blk, const Value *v)
{
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        for (int j = 0; j < let->nargs; j++) {
            if (let->args[j] == v &&
                (let->op != OP_store || j != 1 || let->args[0]->type->dtype != v->type->dtype)) {
                return false;
            }
        }
        if (let->body && !value_is_only_stored(let->body, v)) {
            return false;
        }
    }
    for (int k = 0; k < blk->nrets; k++) {
        if (blk->rets[k] == v) {
            return false;
        }
    }
    return true;
}

/* Does the let read an index, or a value that depends on it? */
static bool
depends(const Cx *cx, const Let *let, Dim index, const bool *found)
{
    const Attr *at = let->op == OP_load || let->op == OP_store ? let_attr(let, "at") : NULL;
    bool is = let->op == OP_size && dim_uses(cx, let_dim(let, "dim"), index);
    for (int k = 0; at && k < at->n; k++) {
        is |= dim_uses(cx, at->dims[k], index);
    }
    for (int k = 0; k < let->nargs; k++) {
        is |= !value_is_const(let->args[k]) && found[let->args[k]->id];
    }
    return is;
}

static void
find_depending(const Cx *cx, const Block *blk, Dim index, bool *found)
{
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if (loop_is(let)) {
            find_depending(cx, let->body, index, found);
        }
        for (int j = 0; j < let->nres; j++) {
            found[let->res[j]->id] = loop_is(let) || depends(cx, let, index, found);
        }
    }
}

bool *
values_of_loop(Cx *cx, const Let *loop, int nvalues)
{
    bool *found = cx_alloc(cx, (size_t)nvalues * sizeof *found);
    find_depending(cx, loop->body, loop_index(loop), found);
    return found;
}

int
place_of(const Let *let)
{
    int k = 0;
    while (let->parent->lets[k] != let) {
        k++;
    }
    return k;
}

static int
reads_in(const Let *let, const Value *v)
{
    int n = 0;
    for (int k = 0; k < let->nargs; k++) {
        n += let->args[k] == v;
    }
    for (int k = 0; let->body && k < let->body->n; k++) {
        n += reads_in(let->body->lets[k], v);
    }
    for (int k = 0; let->body && k < let->body->nrets; k++) {
        n += let->body->rets[k] == v;
    }
    return n;
}

const Let *
let_only_user(const Let *let)
{
    const Block *blk = let->parent;
    const Value *v = let->res[0];
    const Let *user = NULL;
    bool writes = false;
    int n = 0;
    for (int k = place_of(let) + 1; k < blk->n && n < 2; k++) {
        const Let *next = blk->lets[k];
        int reads = reads_in(next, v);
        if (reads && (writes || next->body)) {
            return NULL;
        }
        user = reads ? next : user;
        n += reads;
        writes |= next->body || let_writes(next);
    }
    for (int k = 0; k < blk->nrets && n < 2; k++) {
        if (blk->rets[k] == v) {
            user = writes ? NULL : let_around(let);
            n++;
        }
    }
    return n == 1 ? user : NULL;
}

bool
load_is_stored_later(const Let *load)
{
    int stores = 0;
    bool used = false;
    for (int k = 0; k < load->parent->n; k++) {
        const Let *let = load->parent->lets[k];
        stores += let->op == OP_store;
        used |= let->op == OP_store && let->args[1] == load->res[0];
    }
    return used && stores > 1;
}

/* ---- one-hot selects ---- */

/* The operand that is compared with the reduction's own index, or NULL. */
static const Value *
compared(const Let *eq, const Let *reduce)
{
    for (int k = 0; k < 2; k++) {
        const Value *i = eq->args[k], *at = eq->args[1 - k];
        bool index = !literal_of(i) && i->def && i->def->parent == reduce->body &&
                     i->def->op == OP_size && let_dim(i->def, "dim") == loop_index(reduce);
        if (index && !literal_of(at) && at->def && at->def->parent != reduce->body) {
            return at;
        }
    }
    return NULL;
}

const Value *
onehot_index(const Let *reduce)
{
    const Let *where = reduce->body->rets[0]->def, *eq = where->args[0]->def;
    return eq && eq->parent == reduce->body && eq->op == OP_eq ? compared(eq, reduce) : NULL;
}

/* ---- sources ---- */

const char *
block_source(const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        const char *source = let->loc.source ? let->loc.source
                             : let->body     ? block_source(let->body)
                                             : NULL;
        if (source) {
            return source;
        }
    }
    return NULL;
}
