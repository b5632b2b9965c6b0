/* The rules of the loops stage, V13 to V20, V25 to V27; verify.c has the list. */
#include "verify.h"
#include "ir/verify/recurrence.h"
#include "ir/rules.h"

#include <math.h>
#include <string.h>

/* ---- V13, V18: loops ---- */

static void
check_reduce(Verifier *v, const Let *let)
{
    const char *name = let_str(let, "op");
    Op op = op_find(name, strlen(name));
    if (op == OP_COUNT || op_info[op].kind != KIND_RED) {
        verify_broken(v, 13, "'%s' is not a reduction", name);
    }
    if (let->body->nrets != 1 || let->body->rets[0]->type->rank != 0) {
        verify_broken(v, 13, "the body must return one scalar");
    }
    const Type *ret = let->body->rets[0]->type;
    const char *why = "";
    Op same = op_info[op].rule == RULE_INDEX ? OP_amax : op;        /* of what it takes */
    const Type *want = type_red(v->cx, same, ret, 0, NULL, &why);
    if (!want) {
        verify_broken(v, 13, "%s", why);
    }
    want = op_info[op].rule == RULE_INDEX ? type_scalar(v->cx, DT_i64) : want;
    if (let->res[0]->type != want) {
        verify_broken(v, 13, "'%s' must be %s", let->res[0]->name, dtype_info[want->dtype].name);
    }
}

/* Is it a positive zero: a constant, or what a `const` binds? */
static bool
is_zero(const Value *v)
{
    const Value *c = v->def && v->def->op == OP_const ? v->def->args[0] : v;
    return value_is_const(c) &&
           (c->literal.is_int ? c->literal.i == 0 : c->literal.f == 0 && !signbit(c->literal.f));
}

/* Is one of the two the loop's own index, and is the other one made before the loop? */
static bool
compares_index(const Let *eq, const Let *reduce)
{
    bool compares = false;
    for (int k = 0; k < 2; k++) {
        const Let *index = eq->args[k]->def, *at = eq->args[1 - k]->def;
        compares |= index && index->parent == reduce->body && index->op == OP_size &&
                    let_dim(index, "dim") == let_attr(reduce, "index")->d && at &&
                    at->parent != reduce->body;
    }
    return compares;
}

/* ---- V27: one-hot selects ---- */

static void
check_onehot(Verifier *v, const Let *let)
{
    const Let *where = let->body->nrets == 1 ? let->body->rets[0]->def : NULL;
    bool good = let_has(let, MARK_lanes) && strcmp(let_str(let, "op"), "sum") == 0 && where &&
                where->parent == let->body && where->op == OP_where && is_zero(where->args[2]);
    const Let *eq = good ? where->args[0]->def : NULL;
    good = eq && eq->parent == let->body && eq->op == OP_eq && compares_index(eq, let);
    for (int k = 0; k < let->body->n; k++) {
        good &= let_is_map(let->body->lets[k]) || let_is_plain(let->body->lets[k]);
    }
    if (!good) {
        verify_broken(v, 27, "onehot marks a reduction that is not the sum of one element");
    }
}

static void
check_tile(Verifier *v, const Let *let)
{
    int loops = 0;
    bool good = !let_has(let, MARK_vector);
    for (int k = 0; k < let->body->n; k++) {
        const Let *inner = let->body->lets[k];
        good &= inner->op != OP_store && inner->op != OP_buffer && inner->op != OP_reduce;
        if (inner->op == OP_for) {
            loops++;
            good &= let_has(inner, MARK_vector);
            for (int j = 0; j < inner->body->n; j++) {
                good &= !loop_is(inner->body->lets[j]);
            }
        }
    }
    if (!good || loops != 1) {
        verify_broken(v, 19, "tile marks a loop that is not around one vector loop alone");
    }
}

static void
check_recurrences(Verifier *v, const Let *let)
{
    int loops = 0;
    bool good = let_mark_value(let, MARK_recurrences) == 8 && !let_has(let, MARK_vector);
    for (int k = 0; k < let->body->n; k++) {
        const Let *inner = let->body->lets[k];
        loops += loop_is(inner);
        good &= !loop_is(inner) || (inner->op == OP_for &&
                                    !(let_int(inner, "marks") & ~(MARK_width | MARK_distribute)));
        for (int j = 0; loop_is(inner) && j < inner->body->n; j++) {
            good &= !loop_is(inner->body->lets[j]);
        }
    }
    if (!good || loops != 1) {
        verify_broken(v, 20, "recurrences marks a loop that is not around one loop in order alone");
    }
}

/* Does the loop in it do nothing but what a routine for scans does? */
static void
check_scan(Verifier *v, const Let *let)
{
    const Let *loop = let->body->n == 3 ? let->body->lets[2] : NULL;
    int loads = 0, stores = 0, others = 0;
    for (int k = 0; loop && loop->op == OP_for && k < loop->body->n; k++) {
        Op op = loop->body->lets[k]->op;
        loads += op == OP_load;
        stores += op == OP_store;
        others += op != OP_load && op != OP_store && op != OP_cast;
    }
    if (!let_has(let, MARK_recurrences) || loads != 2 || stores != 2 || others != 1) {
        verify_broken(v, 20, "scan marks a loop that does more than a scan of what it loads");
    }
}

/* Of a loop whose body has been checked. */
static void
check_together(Verifier *v, const Let *let)
{
    const char *why = NULL;
    for (int k = 0; k < let->body->n && !why; k++) {
        const Let *inner = let->body->lets[k];
        why = loop_is(inner) ? recurrences_wrong(v->cx, inner) : NULL;
    }
    if (why) {
        verify_broken(v, 20, "recurrences marks a loop whose iterations may not run together: %s",
                      why);
    }
}

/* Threads share the iterations of all parallel loops together: what stands beside an inner one
 * would be done by each of them, or by none where that loop is empty. */
static void
check_parallel(Verifier *v, const Let *let)
{
    const Let *around = let_around(let);
    bool outermost = !loop_is(around);
    if (!outermost && !(around->op == OP_for && let_has(around, MARK_parallel))) {
        verify_broken(v, 18, "parallel marks a loop within one that is not");
    }
    for (int k = 0; k < let->parent->n && !outermost; k++) {
        const Let *beside = let->parent->lets[k];
        if (beside != let && (beside->body || let_writes(beside) || beside->op == OP_buffer)) {
            verify_broken(v, 18, "parallel marks a loop beside '%s' within another",
                          op_info[beside->op].name);
        }
    }
    if (dim_has_index(v->cx, let_dim(let, "extent"))) {
        verify_broken(v, 18, "parallel marks a loop whose extent has an index");
    }
    for (int k = 0; k < let->body->n; k++) {
        if (let->body->lets[k]->op == OP_update) {
            verify_broken(v, 18, "parallel marks a loop that updates");
        }
    }
}

typedef struct {
    const Cx *cx;
    const Let *loop;
} Uneven;

/* Has a loop in it, however deep, an extent with its index? */
static bool
has_extent_of(const void *of, const Let *let)
{
    const Uneven *u = of;
    return loop_is(let) && let != u->loop &&
           dim_uses(u->cx, let_dim(let, "extent"), let_attr(u->loop, "index")->d);
}

/* Iterations that run together have loops that go on together, so these are as long in each. */
static void
check_even(Verifier *v, const Let *let)
{
    bool tile = let_has(let, MARK_tile), vector = let_has(let, MARK_vector);
    if ((tile || vector || let_has(let, MARK_recurrences)) &&
        let_any(let, has_extent_of, &(Uneven){v->cx, let})) {
        verify_broken(v,
                      tile     ? 19
                      : vector ? 42
                               : 20,
                      "%s marks a loop with one in it whose extent has its index",
                      tile     ? "tile"
                      : vector ? "vector"
                               : "recurrences");
    }
}

/* Threads, and the tiles of the loop inside, change the order of the iterations. */
static void
check_independent(Verifier *v, const Let *let)
{
    bool tile = let_has(let, MARK_tile);
    if ((tile || let_has(let, MARK_parallel)) && loop_carries(v->cx, let)) {
        verify_broken(v, tile ? 19 : 18, "%s marks a loop whose iterations need each other",
                      tile ? "tile" : "parallel");
    }
}

static void
check_product(Verifier *v, const Let *let)
{
    if (let_has(let, MARK_fused)) {
        verify_fused(v, let);
    }
    if (let_has(let, MARK_pack)) {
        verify_pack(v, let);
    }
    if (let_has(let, MARK_micro)) {
        verify_micro(v, let);
    }
    if (let_has(let, MARK_batch) || let_has(let, MARK_rows) || let_has(let, MARK_columns)) {
        verify_plain_nest(v, let);
    }
}

static void
check_loop(Verifier *v, const Let *let)
{
    int nsizes = v->nsizes;
    if (let_has(let, MARK_parallel)) {
        check_parallel(v, let);
    }
    if (let_has(let, MARK_onehot)) {
        check_onehot(v, let);
    }
    if (let_has(let, MARK_tile)) {
        check_tile(v, let);
    }
    if (let_has(let, MARK_recurrences)) {
        check_recurrences(v, let);
    }
    verify_index(v, let_attr(let, "index")->d);
    verify_block(v, let->body);
    v->let = let;
    v->nsizes = nsizes;
    if (let_has(let, MARK_recurrences)) {
        check_together(v, let);
    }
    if (let_has(let, MARK_scan)) {
        check_scan(v, let);
    }
    check_independent(v, let);
    check_even(v, let);
    verify_loop_marks(v, let);
    verify_column_marks(v, let);
    if (let->op == OP_reduce) {
        check_reduce(v, let);
    } else if (let->body->nrets) {
        verify_broken(v, 13, "the body of a for returns nothing");
    }
    check_product(v, let);
}

/* ---- V14: scalars ---- */

static bool
is_scalar(const Value *value)
{
    return value_is_const(value) || value->type->rank == 0;
}

static void
check_scalars(Verifier *v, const Let *let)
{
    bool buffer = let->op == OP_buffer, access = let_accesses(let);
    for (int k = access; k < let->nargs; k++) {
        if (!is_scalar(let->args[k])) {
            verify_broken(v, 14, "operand %d is not a scalar", k);
        }
    }
    for (int k = 0; k < let->nres; k++) {
        if (!buffer && !is_scalar(let->res[k])) {
            verify_broken(v, 14, "'%s' is not a scalar", let->res[k]->name);
        }
    }
}

/* ---- V15, V16: loads and stores ---- */

/* Does it stand in a loop without iterations? */
static bool
never_runs(Cx *cx, const Let *let)
{
    bool never = false;
    for (const Let *loop = let_around(let); loop_is(loop) && !never; loop = let_around(loop)) {
        never = dim_range(cx, let_dim(loop, "extent")).hi <= 0;
    }
    return never;
}

/* Is a < b where the let runs: in loops that all have an iteration? */
static bool
is_less(Cx *cx, Dim a, Dim b, const Let *let)
{
    bool less = dim_lt(cx, a, b);
    for (const Let *loop = let_around(let); loop_is(loop) && !less; loop = let_around(loop)) {
        less = dim_lt_in(cx, a, b, let_dim(loop, "extent"));
    }
    return less;
}

static void
check_index(Verifier *v, const Let *let)
{
    const Attr *at = let_attr(let, "at");
    const Type *t = let->args[0]->type;
    if (at->n != t->rank) {
        verify_broken(v, 16, "'%s' has %d axes and is given %d indices", let->args[0]->name,
                      t->rank, at->n);
    }
    for (int ax = 0; ax < at->n && !never_runs(v->cx, let); ax++) {
        if (!dim_le(v->cx, dim_int(v->cx, 0), at->dims[ax]) ||
            !is_less(v->cx, at->dims[ax], t->dims[ax], let)) {
            verify_broken(v, 16, "index %d is not known to be within its axis of '%s'", ax,
                          let->args[0]->name);
        }
    }
}

static void
check_access(Verifier *v, const Let *let)
{
    const Value *a = let->args[0];
    bool ours = a->def && (a->def->op == OP_buffer || a->def == v->kernel);
    bool operand = !a->def || let_around(a->def) == NULL;
    if (!ours && (let_writes(let) || !operand)) {
        verify_broken(v, 15, "'%s' is not something to %s", a->name, op_info[let->op].name);
    }
    check_index(v, let);
    verify_access_marks(v, let);
    if (let->op == OP_load) {
        return;
    }
    const Value *value = let->args[1];
    if (value_is_const(value) ? !literal_fits(value->literal, a->type->dtype)
                              : value->type->dtype != a->type->dtype) {
        verify_broken(v, 15, "what is stored to '%s' must be %s", a->name,
                      dtype_info[a->type->dtype].name);
    }
    if (let->op == OP_store) {
        v->stored[a->id] = true;
        return;
    }
    Op op = let_op(let);
    const char *why = "neither store nor a reduction that combines";
    bool combines = op == OP_store ||
                    (op < OP_COUNT && op_info[op].kind == KIND_RED &&
                     op_info[op].rule == RULE_ACC &&
                     type_red(v->cx, op, type_scalar(v->cx, a->type->dtype), 0, NULL, &why));
    if (!combines) {
        verify_broken(v, 7, "%s", why);
    }
}

static void
check_bind(Verifier *v, const Let *let)
{
    const Type *t = let->args[0]->type;
    if (dtype_info[t->dtype].class != CLASS_INT) {
        verify_broken(v, 7, "the operand must be an integer");
    }
    if (dim_extent(v->cx, let->sizes[0]) != let_dim(let, "extent")) {
        verify_broken(v, 11, "the index has another extent");
    }
    verify_index(v, let->sizes[0]);
}

/* ---- V17, V46: choices ---- */

/* Sets which results the branches of a choice have stored, and returns which were before. */
static bool *
swap_stored(Verifier *v, const bool *stored)
{
    int n = v->kernel->nres;
    bool *before = cx_alloc(v->cx, (size_t)n + 1);
    for (int k = 0; k < n; k++) {
        bool *now = &v->stored[v->kernel->res[k]->id];
        before[k] = *now;
        *now = stored ? stored[k] : *now;
    }
    return before;
}

typedef struct {
    const Cx *cx;
    const Let *choice;
} Condition;

/* Is the name an index that no loop around gives: one that a bind has from data? */
static bool
is_data(const void *arg, Dim name)
{
    const Condition *c = arg;
    bool known = dim_extent(c->cx, name) == DIM_NONE;
    for (const Let *loop = let_around(c->choice); loop_is(loop) && !known;
         loop = let_around(loop)) {
        known = let_dim(loop, "index") == name;
    }
    return !known;
}

/* Loops whose iterations run one by one: a choice is one for an iteration. */
static void
check_place_of_choice(Verifier *v, const Let *let)
{
    const Marks may = MARK_parallel | MARK_unroll | MARK_narrow | MARK_steps | MARK_split |
                      MARK_reorder | MARK_batch | MARK_rows | MARK_columns;
    for (const Let *loop = let_around(let); loop_is(loop); loop = let_around(loop)) {
        if (loop->op != OP_for || (Marks)let_int(loop, "marks") & ~may) {
            verify_broken(v, 46, "it stands in a loop whose iterations do not run one by one");
        }
    }
}

/* ---- V25: a phase of several loops ---- */

/* Do threads share the iterations of both loops alike, or of neither? */
static bool
is_shared_alike(const Let *a, const Let *b)
{
    const Marks counted = MARK_parallel | MARK_vector | MARK_tile | MARK_recurrences;
    Marks of[] = {(Marks)let_int(a, "marks") & counted, (Marks)let_int(b, "marks") & counted};
    bool parallel = (of[0] | of[1]) & MARK_parallel;
    return !parallel || (of[0] == of[1] && let_dim(a, "extent") == let_dim(b, "extent"));
}

static bool
is_in_loop(const Value *v)
{
    return v->def && let_around(v->def) && loop_is(let_around(v->def));
}

static bool
is_same_literal(Literal a, Literal b)
{
    return a.is_int == b.is_int && a.i == b.i && memcmp(&a.f, &b.f, sizeof a.f) == 0;
}

/* Two loops that are compared.  firsts: by Value.id of the second, what the first has there. */
typedef struct {
    const Value **firsts;
} Copies;

static bool
is_same_value(const Copies *c, const Value *x, const Value *y)
{
    if (value_is_const(x) || value_is_const(y)) {
        return value_is_const(x) && value_is_const(y) && is_same_literal(x->literal, y->literal);
    }
    return is_in_loop(x) || is_in_loop(y) ? c->firsts[y->id] == x : x == y;
}

/* Are both the same operation, however deep, on the same values and the same memory of the kernel?
 * Then their phases have the same buffers and the same iterations.  Which elements they access is
 * not compared: where an if makes a size a number, that stands in one of the two. */
static bool
is_copy(const Copies *c, const Let *a, const Let *b)
{
    const Block *in_a = a->body, *in_b = b->body;
    bool same = a->op == b->op && a->nargs == b->nargs && a->nres == b->nres && !in_a == !in_b &&
                (a->op != OP_for || is_shared_alike(a, b)) &&
                let_str(a, "op") == let_str(b, "op") &&
                (!in_a || (in_a->n == in_b->n && in_a->nrets == in_b->nrets));
    for (int k = 0; same && k < a->nargs; k++) {
        same = is_same_value(c, a->args[k], b->args[k]);
    }
    for (int k = 0; same && in_a && k < in_a->n; k++) {
        same = is_copy(c, in_a->lets[k], in_b->lets[k]);
    }
    for (int k = 0; same && in_a && k < in_a->nrets; k++) {
        same = is_same_value(c, in_a->rets[k], in_b->rets[k]);
    }
    for (int k = 0; same && k < a->nres; k++) {
        same = a->res[k]->type->dtype == b->res[k]->type->dtype;
        c->firsts[b->res[k]->id] = a->res[k];
    }
    return same;
}

/* Is each branch one loop, or such a choice again?  *first: the first of these loops. */
static bool
is_one_phase(const Copies *c, const Block *blk, int at, const Let **first)
{
    bool good = true;
    for (int k = at; k < at + 2 && good; k++) {
        const Let *choice = k < blk->n ? blk->lets[k] : NULL;
        const Block *body = choice && choice->op == (k == at ? OP_if : OP_else) ? choice->body
                                                                                : NULL;
        const Let *let = body && body->n ? body->lets[0] : NULL;
        if (let && let->op == OP_for) {
            *first = *first ? *first : let;
            good = body->n == 1 && (let == *first || is_copy(c, *first, let));
        } else {
            good = let && let_has(let, MARK_phase) && body->n == 2 &&
                   is_one_phase(c, body, 0, first);
        }
    }
    return good;
}

static void
check_phase(Verifier *v, const Let *choice, int at)
{
    const Let *first = NULL;
    size_t values = (size_t)v->fn->nvalues;
    Copies c = {cx_alloc(v->cx, values * sizeof *c.firsts)};
    if (loop_is(let_around(choice)) || !is_one_phase(&c, choice->parent, at, &first)) {
        verify_broken(v, 25,
                      "phase marks an if whose branches are not one loop each, of the same "
                      "operations on the same values");
    }
}

/* A result is stored behind an if and its else, where both store it; behind an if alone, where it
 * was before. */
static void
check_choice(Verifier *v, const Let *let)
{
    const Block *around = let->parent;
    int at = 0, n = v->kernel->nres;
    while (around->lets[at] != let) {
        at++;
    }
    bool is_else = let->op == OP_else;
    Condition condition = {v->cx, let};
    Dim a, b;
    check_place_of_choice(v, let);
    if (is_else && (at == 0 || around->lets[at - 1]->op != OP_if)) {
        verify_broken(v, 46, "it does not stand right behind an if");
    }
    if (let_has(let, MARK_phase)) {
        check_phase(v, let, at);
    }
    let_condition(v->cx, let, &a, &b);
    if (dim_any_name(v->cx, a, is_data, &condition) ||
        dim_any_name(v->cx, b, is_data, &condition)) {
        verify_broken(v, 46, "the condition compares an index that is data");
    }
    bool *other = is_else ? v->branch : NULL, *before = swap_stored(v, NULL);
    let_enter(v->cx, let);
    verify_block(v, let->body);
    dim_forget(v->cx);
    v->let = let;
    if (let->body->nrets) {
        verify_broken(v, 46, "its body returns nothing");
    }
    v->branch = swap_stored(v, before);
    for (int k = 0; k < n && is_else; k++) {
        v->stored[v->kernel->res[k]->id] |= other[k] && v->branch[k];
    }
}

/* ---- V26: buffers ---- */

/* The axis, of those not taken, along which elements are `step` apart; -1: there is none.  Along an
 * axis of one place nothing moves. */
static int
axis_of_step(Verifier *v, const Value *buffer, unsigned taken, Dim step)
{
    int found = -1;
    for (int ax = 0; ax < buffer->type->rank && found < 0; ax++) {
        bool free = !(taken >> ax & 1) && !dim_is(v->cx, buffer->type->dims[ax], 1);
        found = free && buffer->strides[ax] == step ? ax : -1;
    }
    return found;
}

/* Is it in a choice that is in a loop?  Memory for the loop is set aside whatever is chosen. */
static bool
is_chosen_in_loop(const Let *let)
{
    const Let *choice = NULL;
    for (const Let *around = let; loop_is(let_around(around)) && !choice;
         around = around->parent->owner) {
        choice = let_is_choice(around) ? around : NULL;
    }
    return choice != NULL;
}

static void
check_buffer(Verifier *v, const Let *let)
{
    const Value *buffer = let->res[0];
    verify_registers(v, let);
    if (is_chosen_in_loop(let) && !let_has(let, MARK_registers)) {
        verify_broken(v, 46, "'%s' is declared in an if that stands in a loop", buffer->name);
    }
    unsigned taken = 0;
    Dim step = dim_int(v->cx, 1);
    int left = 0;
    for (int ax = 0; buffer->strides && ax < buffer->type->rank; ax++) {
        left += !dim_is(v->cx, buffer->type->dims[ax], 1);
    }
    for (; left; left--) {
        int ax = axis_of_step(v, buffer, taken, step);
        if (ax < 0) {
            verify_broken(v, 26, "the strides of '%s' are not those of its axes in any order",
                          buffer->name);
        }
        taken |= 1u << ax;
        step = dim_mul(v->cx, step, buffer->type->dims[ax]);
    }
}

void
verify_loop_let(Verifier *v, const Let *let)
{
    check_scalars(v, let);
    switch (let->op) {
    case OP_buffer:
        check_buffer(v, let);
        break;
    case OP_for:
    case OP_reduce:
        check_loop(v, let);
        break;
    case OP_if:
    case OP_else:
        check_choice(v, let);
        break;
    case OP_load:
    case OP_store:
    case OP_update:
        check_access(v, let);
        break;
    case OP_bind:
        check_bind(v, let);
        break;
    default:
        verify_stage(v, let);
        break;
    }
    verify_uniform(v, let);
    verify_merged(v, let);
    verify_array(v, let);
}

void
verify_loops_kernel(Verifier *v, const Let *kernel)
{
    verify_block(v, kernel->body);
    v->let = kernel;
    for (int k = 0; k < kernel->nres; k++) {
        if (!v->stored[kernel->res[k]->id] && !kernel->res[k]->over) {
            verify_broken(v, 17, "nothing is stored to '%s'", kernel->res[k]->name);
        }
    }
}
