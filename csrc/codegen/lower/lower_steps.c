/* Loops in kernels: the steps of a loop as one loop in order.
 *
 * What:     a kernel that is a loop becomes phases that copy what the loop carries to the kernel's
 *           results, and a phase marked `steps` whose body is all that a step of the loop does.
 * Requires: V47: the loop's body has kernels and sizes alone.
 * Ensures:  the operations of each step, in their order, and so the bits of the loop outside of a
 *           kernel.  A copy whose result takes the memory of its operand is dropped (lower.c).
 * How:      The body is lowered like a function of its own.  Its lets then stand in the loop, with
 *           other memory: what is carried is in the place of the kernel's result, also while a
 *           kernel of the body has it in place; a row is a row of the tensor of all rows; all else
 *           is a buffer of the loop.  The number of the step is the loop's index, so an index of
 *           it is proved and not checked.  What the body has made elsewhere is copied after all its
 *           kernels, because they may still read what was carried.
 * Why not:  two places for what is carried, as a plan has them: then each step would have to know
 *           which of them is the older one, and what is carried is either in place or short.
 * Example:  loop a, x carries=1 steps=[N - 1] (i: i64, c: f64[N], x: f64[N]) { let d over c = .. }:
 *           for i in N - 1 steps { load a[i]; load x[i + 1]; ..; store a[i + 1] }
 */
#include <string.h>

#include "lower.h"

/* Where a value of the body is: in a tensor, or in one row of it; nowhere: the number of the
 * step. */
typedef struct {
    Value *of;
    bool row;
} StepPlace;

typedef struct {
    Lower *lo;
    Let *kernel; /* the new one */
    Loop loop;
    Dim at; /* the step */
    int first; /* places are by the id in the body, which begin here, */
    StepPlace *places;
    Value *number; /* a buffer with the number of the step around, if the loop reads that */
} Steps;

static StepPlace *
place_of_value(const Steps *s, const Value *v)
{
    return &s->places[v->id - s->first];
}

/* ---- copies ---- */

/* The index of an element, in the row of this step if it is in one. */
static void
element_of(const Steps *s, StepPlace p, int rank, const Dim *at, Dim *out)
{
    out[0] = s->at;
    memcpy(out + p.row, at, (size_t)rank * sizeof *at);
}

/* Copies all elements, in a loop at least, because only loops store. */
static void
copy(const Steps *s, StepPlace from, StepPlace to, const Type *t)
{
    Lower *lo = s->lo;
    Dim at[MAX_RANK + 1], out[MAX_RANK + 1];
    int opened = 0;
    for (int ax = 0; ax < t->rank; ax++) {
        bool one = extent_is_one(lo->cx, t->dims[ax]);
        at[ax] = one ? dim_int(lo->cx, 0) : builder_open(&lo->out, "j", t->dims[ax]);
        opened += !one;
    }
    if (!lo->out.depth) {
        builder_open(&lo->out, "j", dim_int(lo->cx, 1));
        opened++;
    }
    element_of(s, from, t->rank, at, out);
    Value *v = !from.of                   ? builder_size(&lo->out, s->at)
               : type_is_empty(lo->cx, t) ? lower_load(lo, from.of, out)
                                          : lower_load_here(lo, from.of, out);
    element_of(s, to, t->rank, at, out);
    lower_store(lo, to.of, out, v);
    while (opened-- > 0) {
        builder_close(&lo->out);
    }
}

/* ---- the body ---- */

static void
set_params(const Steps *s, const Lowering *in, const Fn *body)
{
    const Loop *loop = &s->loop;
    for (int k = 0; k < loop->carries + loop->rows + loop->stays; k++) {
        const Value *arg = loop_arg(loop, k);
        Value *operand = arg == in->number ? s->number : in->leaf[arg->id];
        bool carried = k < loop->carries;
        *place_of_value(s, body->params[1 + k]) = (StepPlace){
            carried ? s->kernel->res[k] : operand,
            !carried && k < loop->carries + loop->rows,
        };
    }
}

/* The row, if it is one and nothing else of what the body returns; -1: it is not. */
static int
row_of_result(const Steps *s, const Fn *body, const Value *v)
{
    int row = -1, times = 0;
    for (int k = 0; k < body->body->nrets; k++) {
        bool is = body->body->rets[k] == v;
        times += is;
        row = is && k >= s->loop.carries ? k : row;
    }
    return times == 1 ? row : -1;
}

/* Finds the memory of what a kernel of the body makes. */
static void
set_result(const Steps *s, const Fn *body, const Value *v)
{
    int row = row_of_result(s, body, v);
    StepPlace *p = place_of_value(s, v);
    if (v->over) {
        *p = *place_of_value(s, v->over);
    } else if (row >= 0) {
        *p = (StepPlace){s->kernel->res[row], true};
    } else {
        p->of = builder_buffer(&s->lo->out, 1, v->type->dtype, v->type->rank, v->type->dims);
    }
}

/* Gives the accesses of the lets their memory in the loop. */
static void
move_accesses(const Steps *s, const Block *blk)
{
    Dim out[MAX_RANK + 1];
    for (int k = 0; k < blk->n; k++) {
        Let *let = blk->lets[k];
        Value *v = let_accesses(let) ? let->args[0] : NULL;
        StepPlace p = v && v->id - s->first >= 0 ? *place_of_value(s, v) : (StepPlace){0};
        for (int j = 0; p.of && p.row && j < let->nattrs; j++) {
            Attr *a = &let->attrs[j];
            if (a->kind == ATTR_DIMS) {
                element_of(s, p, a->n, a->dims, out);
                *a = attr_dims(s->lo->cx, a->key, a->n + 1, out);
            }
        }
        if (p.of) {
            let->args[0] = p.of;
        }
        if (let->body) {
            move_accesses(s, let->body);
        }
    }
}

static void
append_all(const Steps *s, const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        builder_append(&s->lo->out, blk->lets[k]);
    }
}

static void
put_body(const Steps *s, const Fn *body)
{
    const Block *blk = body->body;
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        for (int j = 0; j < let->nres; j++) {
            set_result(s, body, let->res[j]);
        }
        if (let->op == OP_kernel) {
            move_accesses(s, let->body);
            append_all(s, let->body);
        } else {
            Value *size = builder_size(&s->lo->out, let_dim(let, "dim"));
            StepPlace to = *place_of_value(s, let->res[0]);
            Dim at[MAX_RANK + 1];
            element_of(s, to, 0, at + 1, at);
            lower_store(s->lo, to.of, at, size);
        }
    }
}

/* ---- the next values ---- */

static bool
same_place(StepPlace a, StepPlace b)
{
    return a.of == b.of && a.row == b.row;
}

/* Copies what the body returns to where the next step, or the reader of the rows, finds it. What
 * is still in the place of something else that is carried is saved before that is overwritten. */
static void
put_next(const Steps *s, const Fn *body)
{
    Cx *cx = s->lo->cx;
    int n = body->body->nrets;
    StepPlace *from = cx_alloc(cx, ((size_t)n + 1) * sizeof *from),
              *to = cx_alloc(cx, ((size_t)n + 1) * sizeof *to);
    for (int k = 0; k < n; k++) {
        const Value *v = body->body->rets[k];
        from[k] = *place_of_value(s, v);
        to[k] = (StepPlace){s->kernel->res[k], k >= s->loop.carries};
        bool carried = from[k].of && from[k].of->def == s->kernel && !from[k].row;
        if (!same_place(from[k], to[k]) && carried && k < s->loop.carries) {
            StepPlace saved = {
                .of = builder_buffer(&s->lo->out, 1, v->type->dtype, v->type->rank, v->type->dims)};
            copy(s, from[k], saved, v->type);
            from[k] = saved;
        }
    }
    for (int k = n - 1; k >= 0; k--) { /* rows first: they may be of what is carried */
        if (!same_place(from[k], to[k])) {
            copy(s, from[k], to[k], body->body->rets[k]->type);
        }
    }
}

/* What the loop begins with.  Of a loop in another one that may be the number of the other's step,
 * which is in no memory. */
static void
put_first(Steps *s, const Lowering *in)
{
    s->at = in->step;
    for (int k = 0; k < s->loop.carries; k++) {
        const Value *arg = loop_arg(&s->loop, k);
        StepPlace from = {.of = arg == in->number ? NULL : in->leaf[arg->id]};
        copy(s, from, (StepPlace){.of = s->kernel->res[k]}, s->kernel->res[k]->type);
    }
    for (int k = s->loop.carries + s->loop.rows; k < s->loop.carries + s->loop.rows + s->loop.stays;
         k++) {
        if (loop_arg(&s->loop, k) == in->number && !s->number) {
            s->number = builder_buffer(&s->lo->out, 0, DT_i64, 0, NULL);
            copy(s, (StepPlace){0}, (StepPlace){.of = s->number}, in->number->type);
        }
    }
}

/* ---- the number of the step as a size ---- */

typedef struct {
    Cx *cx;
    Dim size, by;
} With;

static Fn *body_with(const Fn *body, Dim size, Dim by);

static void
replace_dims(void *arg, Let *let)
{
    const With *with = arg;
    for (int k = 0; k < let->nattrs; k++) {
        Attr *a = &let->attrs[k];
        if (a->kind == ATTR_DIM) {
            a->d = dim_replace(with->cx, a->d, with->size, with->by);
        } else if (a->kind == ATTR_DIMS) {
            Dim *dims = cx_copy(with->cx, a->dims, (size_t)a->n * sizeof *dims);
            for (int j = 0; j < a->n; j++) {
                dims[j] = dim_replace(with->cx, dims[j], with->size, with->by);
            }
            a->dims = dims;
        }
    }
    for (int k = 0; k < let->nbodies; k++) {
        let->bodies[k] = body_with(let->bodies[k], with->size, with->by);
    }
}

/* The body with another dim in place of a size, also in the bodies of loops in it. */
static Fn *
body_with(const Fn *body, Dim size, Dim by)
{
    Fn *fn = fn_clone(body);
    fn_each_let(fn, replace_dims, &(With){fn->cx, size, by});
    return fn;
}

/* ---- what nobody reads ---- */

/* How often each value is used, other than as the memory that is written. */
static void
count_reads(int *reads, const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        for (int j = let_writes(let); j < let->nargs; j++) {
            reads[value_is_const(let->args[j]) ? 0 : let->args[j]->id]++;
        }
        if (let->body) {
            count_reads(reads, let->body);
        }
    }
    for (int k = 0; k < blk->nrets; k++) {
        reads[value_is_const(blk->rets[k]) ? 0 : blk->rets[k]->id]++;
    }
}

static bool
is_unread(const int *reads, const Let *let)
{
    bool made = let->op == OP_load || let->op == OP_size || let->op == OP_const ||
                let->op == OP_reduce || let->op == OP_buffer || op_info[let->op].kind == KIND_MAP;
    if (let_writes(let)) {
        const Value *to = let->args[0];
        return to->def && to->def->op == OP_buffer && !reads[to->id];
    }
    for (int k = 0; k < let->nres && made; k++) {
        made = !reads[let->res[k]->id];
    }
    return made || (let->op == OP_for && !let->body->n);
}

static bool
drop_once(const int *reads, Block *blk)
{
    int n = 0, before = blk->n;
    bool dropped = false;
    for (int k = 0; k < before; k++) {
        Let *let = blk->lets[k];
        if (is_unread(reads, let)) {
            dropped = true;
            continue;
        }
        dropped |= let->body && drop_once(reads, let->body);
        blk->lets[n++] = let;
    }
    blk->n = n;
    return dropped;
}

/* Drops buffers that are only written, the stores to them and what only they need: a step may make
 * what the loop in which it stands carries and does not return. */
static void
drop_unread(const Lower *lo, Block *blk)
{
    size_t bytes = ((size_t)lo->fn->nvalues + 1) * sizeof(int);
    int *reads = cx_alloc(lo->cx, bytes);
    do {
        memset(reads, 0, bytes);
        count_reads(reads, blk);
    } while (drop_once(reads, blk));
}

void
lower_steps(const Lowering *in, const Let *old, Let *kernel)
{
    Cx *cx = in->fn->cx;
    Lower *lo = cx_alloc(cx, sizeof *lo);
    Steps s = {.lo = lo, .kernel = kernel, .loop = let_loop(kernel_loop(old))};
    *lo = (Lower){.cx = cx, .fn = in->fn, .out = {.cx = cx, .fn = in->fn}, .kernel = kernel};
    builder_begin(&lo->out, kernel->body);
    put_first(&s, in);
    s.at = builder_open(&lo->out, "i", s.loop.steps);
    s.first = in->fn->nvalues;
    const Fn *body = s.loop.at == DIM_NONE ? s.loop.body : body_with(s.loop.body, s.loop.at, s.at);
    body = lower_body(in->fn, body, s.at);
    s.places = cx_alloc(cx, ((size_t)(body->nvalues - s.first) + 1) * sizeof *s.places);
    set_params(&s, in, body);
    put_body(&s, body);
    put_next(&s, body);
    let_mark(builder_close(&lo->out), MARK_steps, true);
    drop_unread(lo, kernel->body);
}
