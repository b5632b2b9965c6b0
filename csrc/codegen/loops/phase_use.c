/* What a phase uses: a loop of the kernel's own block, and what stands beside it for it.
 *
 * How:      The buffers are the operands, results and buffers of the kernel that the loop accesses,
 *           and those that lets of the kernel's own block access for it, in order of first use.
 */
#include "phase_use.h"

#include <string.h>

typedef struct {
    Cx *cx;
    const Let *phase;
    bool *used, *seen;
    PhaseUse *use;
} Using;

static void use_let(const Using *u, const Let *let);

/* Does the phase stand in the block, or in a choice in it? */
static bool
is_root(const Using *u, const Block *blk)
{
    const Block *root = u->phase->parent;
    while (root && root != blk) {
        root = block_around(root);
    }
    return root != NULL;
}

static void
use_value(const Using *u, const Value *v)
{
    if (value_is_const(v) || u->used[v->id]) {
        return;
    }
    u->used[v->id] = true;
    if (v->def && is_root(u, v->def->parent)) {
        use_let(u, v->def);
    }
}

/* If the kernel's own block binds the index, marks the value that it is bound from as used: the
 * index is used with that let. */
static void
use_name(void *arg, Dim name)
{
    const Using *u = arg;
    for (const Block *root = u->phase->parent; root; root = block_around(root)) {
        for (int k = 0; k < root->n; k++) {
            if (root->lets[k]->nsizes && root->lets[k]->sizes[0] == name) {
                use_value(u, root->lets[k]->args[0]);
            }
        }
    }
}

static void
use_let(const Using *u, const Let *let)
{
    for (int k = 0; k < let->nargs; k++) {
        use_value(u, let->args[k]);
    }
    for (int k = 0; k < let->nattrs; k++) {
        const Attr *a = &let->attrs[k];
        for (int j = 0; a->kind == ATTR_DIMS && j < a->n; j++) {
            dim_names(u->cx, a->dims[j], use_name, (void *)u);
        }
        if (a->kind == ATTR_DIM) {
            dim_names(u->cx, a->d, use_name, (void *)u);
        }
    }
    for (int k = 0; let->body && k < let->body->n; k++) {
        use_let(u, let->body->lets[k]);
    }
    for (int k = 0; let->body && k < let->body->nrets; k++) {
        use_value(u, let->body->rets[k]);
    }
}

static void
add_buffers(const Using *u, const Let *let)
{
    Value *v = let_accesses(let) ? let->args[0] : NULL;
    PhaseUse *use = u->use;
    if (v && !buffer_is_private(v) && !u->seen[v->id]) {
        u->seen[v->id] = true;
        use->buffers = cx_grow(u->cx, use->buffers, use->nbuffers, sizeof *use->buffers);
        use->buffers[use->nbuffers++] = v;
        Dim bytes = dim_int(u->cx, dtype_info[v->type->dtype].bytes);
        use->bytes = dim_add(u->cx, use->bytes, dim_mul(u->cx, type_numel(u->cx, v->type), bytes));
    }
    for (int k = 0; let->body && k < let->body->n; k++) {
        add_buffers(u, let->body->lets[k]);
    }
}

/* The lets of root blocks that the phase uses, and what these and the phase access, in order. */
static void
add_root(const Using *u, const Block *root)
{
    if (block_around(root)) {
        add_root(u, block_around(root));
    }
    PhaseUse *use = u->use;
    for (int k = 0; k < root->n; k++) {
        const Let *let = root->lets[k];
        bool used = let->op == OP_bind ? u->used[let->args[0]->id]
                                       : let->nres && u->used[let->res[0]->id];
        if (let == u->phase || (let->op == OP_load && used)) {
            add_buffers(u, let);
        }
        if (used && let->op != OP_buffer) {
            use->lets = cx_grow(u->cx, use->lets, use->nlets, sizeof *use->lets);
            use->lets[use->nlets++] = let;
        }
    }
}

static bool
reads_index(Cx *cx, const Let *let, Dim index)
{
    bool found = false;
    for (int k = 0; k < let->nattrs && !found; k++) {
        const Attr *a = &let->attrs[k];
        found = a->kind == ATTR_DIM && dim_uses(cx, a->d, index);
        for (int j = 0; a->kind == ATTR_DIMS && j < a->n && !found; j++) {
            found = dim_uses(cx, a->dims[j], index);
        }
    }
    for (int k = 0; let->body && k < let->body->n && !found; k++) {
        found = reads_index(cx, let->body->lets[k], index);
    }
    return found;
}

/* An index that nothing reads is checked all the same, by every phase: whatever it is the index of
 * has one element for all of its values. */
static void
use_unread(const Using *u, const Block *root)
{
    for (int k = 0; k < root->n; k++) {
        const Let *bind = root->lets[k];
        bool read = bind->op != OP_bind;
        for (int j = 0; j < root->n && !read; j++) {
            read = reads_index(u->cx, root->lets[j], bind->sizes[0]);
        }
        if (!read) {
            use_value(u, bind->args[0]);
        }
    }
}

PhaseUse
phase_use(const Fn *fn, const Let *phase)
{
    Cx *cx = fn->cx;
    size_t values = (size_t)fn->nvalues;
    PhaseUse use = {.bytes = dim_int(cx, 0)};
    Using u = {.cx = cx,
               .phase = phase,
               .used = cx_alloc(cx, values * sizeof(bool)),
               .seen = cx_alloc(cx, values * sizeof(bool)),
               .use = &use};
    use_let(&u, phase);
    for (const Block *root = phase->parent; root; root = block_around(root)) {
        use_unread(&u, root);
    }
    add_root(&u, phase->parent);
    return use;
}

void
phase_order(int n, Value **buffers, const PhaseUse *shared)
{
    for (int k = 0; k < shared->nbuffers; k++) {
        for (int j = k; j < n; j++) {
            if (buffers[j]->name == shared->buffers[k]->name) {
                Value *v = buffers[j];
                buffers[j] = buffers[k];
                buffers[k] = v;
            }
        }
    }
}

int
phase_parallel(const Let *phase, const Let *loops[MAX_LOOPS])
{
    int n = 0;
    for (const Let *loop = phase; loop && let_has(loop, MARK_parallel);) {
        loops[n++] = loop;
        const Let *inner = NULL;
        for (int k = 0; k < loop->body->n && !let_has(loop, MARK_vector); k++) {
            inner = loop->body->lets[k]->op == OP_for ? loop->body->lets[k] : inner;
        }
        loop = inner;
    }
    return n;
}

bool
phase_in_order(const PhaseUse *use, const Let *phase)
{
    bool in_order = let_has(phase, MARK_steps);
    for (int k = 0; k < use->nlets && in_order; k++) {
        const Let *let = use->lets[k];
        in_order = let->op != OP_load || !loop_accesses(phase, OP_store, let->args[0]);
    }
    return in_order;
}

int
phase_launched(const PhaseUse *use, const Let *phase, const Let *loops[MAX_LOOPS])
{
    loops[0] = phase;
    return phase_in_order(use, phase) ? 1 : phase_parallel(phase, loops);
}

/* ---- phases of several loops ---- */

const Let *
phase_loop(const Let *phase)
{
    while (phase->op != OP_for) {
        phase = phase->body->lets[0];
    }
    return phase;
}

/* Two loops that are compared.  What the second one binds is known by what the first one has in its
 * place. */
typedef struct {
    Cx *cx;
    const Value **values; /* by Value.id of the second: that of the first */
    Renamed indices; /* of the second, and of the first */
} Alike;

static bool
is_same_dim(const Alike *s, Dim a, Dim b)
{
    if (a != b) {
        dims_rename(s->cx, &s->indices, 1, &b);
    }
    return a == b;
}

static bool
are_same_dims(const Alike *s, int n, const Dim *a, const Dim *b)
{
    bool same = true;
    for (int k = 0; k < n && same; k++) {
        same = is_same_dim(s, a[k], b[k]);
    }
    return same;
}

static bool
is_same_attr(Alike *s, const Attr *a, const Attr *b)
{
    bool same = a->key == b->key && a->kind == b->kind && a->i == b->i && a->n == b->n &&
                a->letters == b->letters;
    if (!same || (a->kind == ATTR_STR && a->s != b->s)) {
        return false;
    }
    switch (a->kind) {
    case ATTR_DIM:
        return is_same_dim(s, a->d, b->d);
    case ATTR_DIMS:
        return are_same_dims(s, a->n, a->dims, b->dims);
    case ATTR_AXES:
        return a->n == 0 || memcmp(a->axes, b->axes, (size_t)a->n * sizeof *a->axes) == 0;
    case ATTR_NAME:
        if (a->d != DIM_NONE && b->d != DIM_NONE) {
            renamed_add(s->cx, &s->indices, b->d, a->d);
            return true;
        }
        return a->d == b->d && a->s == b->s;
    case ATTR_MARKS:
        for (int k = 0; k < MARK_COUNT && same; k++) {
            same = attr_mark_value(a, k) == attr_mark_value(b, k);
        }
        return same;
    default:
        return true;
    }
}

static bool
is_same_value(const Alike *s, const Value *a, const Value *b)
{
    if (value_is_const(a) || value_is_const(b)) {
        Literal x = a->literal, y = b->literal;
        return value_is_const(a) && value_is_const(b) && x.is_int == y.is_int && x.i == y.i &&
               memcmp(&x.f, &y.f, sizeof x.f) == 0;
    }
    return a == (s->values[b->id] ? s->values[b->id] : b);
}

static bool
is_same_result(const Alike *s, const Value *a, const Value *b)
{
    bool strided = a->strides && b->strides;
    s->values[b->id] = a;
    return a->type == b->type && !a->strides == !b->strides &&
           (!strided || are_same_dims(s, a->type->rank, a->strides, b->strides));
}

/* Do both, and all that is in them, compute the same with the same marks? */
static bool
is_same_let(Alike *s, const Let *a, const Let *b)
{
    bool same = a->op == b->op && a->nargs == b->nargs && a->nres == b->nres &&
                a->nattrs == b->nattrs && a->nsizes == b->nsizes && !a->body == !b->body &&
                (!a->body || (a->body->n == b->body->n && a->body->nrets == b->body->nrets));
    for (int k = 0; same && k < a->nargs; k++) {
        same = is_same_value(s, a->args[k], b->args[k]);
    }
    for (int k = 0; same && k < a->nattrs; k++) {
        same = is_same_attr(s, &a->attrs[k], &b->attrs[k]);
    }
    for (int k = 0; same && k < a->nsizes; k++) {
        renamed_add(s->cx, &s->indices, b->sizes[k], a->sizes[k]);
    }
    for (int k = 0; same && k < a->nres; k++) {
        same = is_same_result(s, a->res[k], b->res[k]);
    }
    for (int k = 0; same && a->body && k < a->body->n; k++) {
        same = is_same_let(s, a->body->lets[k], b->body->lets[k]);
    }
    for (int k = 0; same && a->body && k < a->body->nrets; k++) {
        same = is_same_value(s, a->body->rets[k], b->body->rets[k]);
    }
    return same;
}

static bool
is_same_loop(const Fn *fn, const Let *a, const Let *b)
{
    Alike s = {.cx = fn->cx, .values = cx_alloc(fn->cx, (size_t)fn->nvalues * sizeof *s.values)};
    return a == b || is_same_let(&s, a, b);
}

/* The size that the condition is about: the symbol that it makes a number, or whose largest value
 * it says; DIM_NONE: it says something else. */
static Dim
size_chosen_by(const Fn *fn, const Let *choice)
{
    Dim found = DIM_NONE;
    for (int k = 0; k < fn->nsizes; k++) {
        Dim size = fn->sizes[k];
        let_enter(fn->cx, choice);
        Range range = dim_range(fn->cx, size);
        dim_forget(fn->cx);
        bool number = range.lo == range.hi && dim_range(fn->cx, size).hi > range.hi;
        found = number || let_dim(choice, "left") == size ? size : found;
    }
    return found;
}

Dim
phase_size_between(const Fn *fn, const Block *blk, int at)
{
    Dim size = size_chosen_by(fn, blk->lets[at]);
    for (int k = at; k < at + 2 && size != DIM_NONE; k++) {
        const Block *body = blk->lets[k]->body;
        bool same = is_same_loop(fn, phase_loop(blk->lets[at]), phase_loop(body->lets[0]));
        let_enter(fn->cx, blk->lets[k]);
        same = same && (body->lets[0]->op == OP_for || phase_size_between(fn, body, 0) == size);
        size = same ? size : DIM_NONE;
        dim_forget(fn->cx);
    }
    return size;
}

/* ---- visits ---- */

/* Is it a branch of an if marked phase?  Its loops may have one text with those of the others, so
 * what is found out of them may not depend on its condition. */
static bool
is_length(const Block *root, int k)
{
    const Let *let = root->lets[k];
    return let_is_choice(let) && let_has(let->op == OP_else ? root->lets[k - 1] : let, MARK_phase);
}

void
phases_each(Fn *fn, const Block *root, void (*visit)(Fn *fn, Let *phase, void *arg), void *arg)
{
    for (int k = 0; k < root->n; k++) {
        Let *let = root->lets[k];
        if (is_length(root, k)) {
            phases_each(fn, let->body, visit, arg);
        } else if (let_enter(fn->cx, let)) {
            phases_each(fn, let->body, visit, arg);
            dim_forget(fn->cx);
        } else if (let->op == OP_for) {
            visit(fn, let, arg);
        }
    }
}

typedef struct {
    void (*visit)(const PhaseView *phase, const void *arg);
    const void *arg;
} PhaseVisitor;

static void
visit_phase(Fn *fn, Let *loop, void *visitor)
{
    const PhaseVisitor *v = visitor;
    const Let *parallel[MAX_LOOPS];
    PhaseView phase = {.fn = fn, .loop = loop, .facts = facts_of_phase(fn, loop)};
    phase.nest = (Nest){fn->cx, parallel, phase_parallel(loop, parallel)};
    v->visit(&phase, v->arg);
}

Fn *
phases_visit(Fn *fn, void (*visit)(const PhaseView *phase, const void *arg), const void *arg)
{
    PhaseVisitor visitor = {visit, arg};
    for (int k = 0; k < fn->body->n; k++) {
        if (fn->body->lets[k]->op == OP_kernel) {
            phases_each(fn, fn->body->lets[k]->body, visit_phase, &visitor);
        }
    }
    return fn;
}

/* ---- loops ---- */

static void
visit_loops(Cx *cx, Let *let, bool (*visit)(Let *loop, void *arg), void *arg)
{
    bool choice = let_enter(cx, let);
    if (!choice && (!loop_is(let) || loop_is_call(let) || !visit(let, arg))) {
        return;
    }
    for (int k = 0; k < let->body->n; k++) {
        visit_loops(cx, let->body->lets[k], visit, arg);
    }
    if (choice) {
        dim_forget(cx);
    }
}

void
phase_visit_loops(const PhaseView *phase, bool (*visit)(Let *loop, void *arg), void *arg)
{
    visit_loops(phase->fn->cx, phase->loop, visit, arg);
}

typedef struct {
    const PhaseView *phase;
    bool (*visit)(const PhaseView *phase, Let *loop);
} LoopVisitor;

static bool
visit_loop(Let *loop, void *arg)
{
    const LoopVisitor *visitor = arg;
    return visitor->visit(visitor->phase, loop);
}

static void
visit_loops_of_phase(const PhaseView *phase, const void *arg)
{
    LoopVisitor visitor = *(const LoopVisitor *)arg;
    visitor.phase = phase;
    phase_visit_loops(phase, visit_loop, &visitor);
}

Fn *
loops_visit(Fn *fn, bool (*visit)(const PhaseView *phase, Let *loop))
{
    return phases_visit(fn, visit_loops_of_phase, &(LoopVisitor){.visit = visit});
}

/* ---- rows ---- */

typedef struct {
    const PhaseView *phase;
    void (*visit)(const PhaseView *phase, Let *rows);
} RowVisitor;

static bool
has_rows(const Nest *nest, const Let *loop)
{
    int last = nest->n - 1;
    if (last > 0 && let_has(nest->parallel[last], MARK_vector)) {
        last--;
    }
    bool other = loop->op != OP_for || loop_is_recurrence(loop);
    for (int k = 0; k < nest->n; k++) {
        other |= nest->parallel[k] == loop && k != last;
    }
    return !other;
}

static bool
visit_rows(Let *loop, void *arg)
{
    const RowVisitor *visitor = arg;
    bool other = loop_is_vector(loop) || let_has(loop, MARK_tile) ||
                 let_has(loop, MARK_recurrences);
    if (!other && !let_has(loop, MARK_steps) && has_rows(&visitor->phase->nest, loop)) {
        visitor->visit(visitor->phase, loop);
    }
    return !other;
}

static void
visit_rows_of_phase(const PhaseView *phase, const void *arg)
{
    RowVisitor visitor = *(const RowVisitor *)arg;
    visitor.phase = phase;
    if (!phase->facts->updates) {
        phase_visit_loops(phase, visit_rows, &visitor);
    }
}

Fn *
phases_visit_rows(Fn *fn, void (*visit)(const PhaseView *phase, Let *rows))
{
    return phases_visit(fn, visit_rows_of_phase, &(RowVisitor){.visit = visit});
}

bool
is_written_in(const Value *buffer, const Let *kernel)
{
    return buffer->def && (buffer->def == kernel || buffer->def->op == OP_buffer);
}
