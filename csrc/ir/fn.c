/* Functions, blocks, lets and values: making them and looking into them. */
#include "cx.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* A name in use, or a stem with the number to try next. */
typedef struct {
    const char *text;
    bool taken;
    int next;
} NameUse;

struct Names {
    Table table;
};

static bool
same_use(const void *entry, const void *key)
{
    return ((const NameUse *)entry)->text == key;
}

static NameUse *
name_use(Fn *fn, const char *interned)
{
    uint64_t hash = hash_mix((uint64_t)(uintptr_t)interned, 1);
    NameUse *use = table_find(&fn->names->table, hash, same_use, interned);
    if (!use) {
        use = cx_alloc(fn->cx, sizeof *use);
        use->text = interned;
        table_add(fn->cx, &fn->names->table, hash, use);
    }
    return use;
}

bool
fn_take_name(Fn *fn, const char *name)
{
    NameUse *use = name_use(fn, cx_intern(fn->cx, name, strlen(name)));
    bool was = use->taken;
    use->taken = true;
    return !was;
}

bool
fn_has_name(const Fn *fn, const char *name, size_t length)
{
    const char *interned = cx_intern(fn->cx, name, length);
    uint64_t hash = hash_mix((uint64_t)(uintptr_t)interned, 1);
    const NameUse *use = table_find(&fn->names->table, hash, same_use, interned);
    return use && use->taken;
}

const char *
fn_fresh_name(Fn *fn, const char *stem)
{
    size_t length = strlen(stem);
    while (length > 1 && isdigit((unsigned char)stem[length - 1])) {
        length--;
    }
    NameUse *from = name_use(fn, cx_intern(fn->cx, stem, length));
    for (;;) {
        Text text = {.cx = fn->cx};
        text_put(&text, stem, length);
        text_add(&text, "%d", from->next++);
        NameUse *use = name_use(fn, cx_intern(fn->cx, text.text, text.length));
        if (!use->taken) {
            use->taken = true;
            return use->text;
        }
    }
}

void
fn_free_name(Fn *fn, const char *name)
{
    size_t length = strlen(name), digits = 0;
    while (digits + 1 < length && isdigit((unsigned char)name[length - 1 - digits])) {
        digits++;
    }
    NameUse *from = name_use(fn, cx_intern(fn->cx, name, length - digits));
    int number = digits < 10 ? atoi(name + length - digits) : INT32_MAX;
    from->next = digits && number < from->next ? number : from->next;
    name_use(fn, cx_intern(fn->cx, name, length))->taken = false;
}

const char *
stage_name(Stage stage)
{
    static const char *const names[] = {"graph", "kernels", "loops"};
    return names[stage];
}

Fn *
fn_new(Cx *cx, const char *name, Stage stage)
{
    Fn *fn = cx_alloc(cx, sizeof *fn);
    fn->cx = cx;
    fn->name = cx_intern(cx, name, strlen(name));
    fn->stage = stage;
    fn->body = cx_alloc(cx, sizeof *fn->body);
    fn->nvalues = 1;
    fn->names = cx_alloc(cx, sizeof *fn->names);
    return fn;
}

void
fn_size(Fn *fn, Dim size)
{
    fn->sizes = cx_grow(fn->cx, fn->sizes, fn->nsizes, sizeof *fn->sizes);
    fn->sizes[fn->nsizes++] = size;
}

/* A new value; name NULL: a fresh one.  The caller sets def and result. */
static Value *
value_new(Fn *fn, const char *name, const Type *type, const Dim *strides)
{
    Value *v = cx_alloc(fn->cx, sizeof *v);
    if (name) {
        fn_take_name(fn, name);
        v->name = cx_intern(fn->cx, name, strlen(name));
    } else {
        v->name = fn_fresh_name(fn, "t");
    }
    v->type = type;
    v->strides = strides ? cx_copy(fn->cx, strides, (size_t)type->rank * sizeof(Dim)) : NULL;
    v->id = fn->nvalues++;
    return v;
}

Value *
fn_param(Fn *fn, const char *name, const Type *type, const Dim *strides)
{
    Value *v = value_new(fn, name, type, strides);
    v->result = fn->nparams;
    fn->params = cx_grow(fn->cx, fn->params, fn->nparams, sizeof *fn->params);
    fn->params[fn->nparams++] = v;
    return v;
}

Value *
fn_param_like(Fn *fn, const Value *v)
{
    Value *param = fn_param(fn, v->name, v->type, v->strides);
    param->given = v->given;
    return param;
}

void
fn_results(Fn *fn, int n, Value *const *values, const Result *results)
{
    fn->body->rets = cx_copy(fn->cx, values, (size_t)n * sizeof *values);
    fn->body->nrets = n;
    fn->results = results ? cx_copy(fn->cx, results, (size_t)n * sizeof *results)
                          : cx_alloc(fn->cx, (size_t)n * sizeof *results);
}

Let *
let_new(Fn *fn, Op op, int nargs, Value *const *args, int nattrs, const Attr *attrs)
{
    Let *let = cx_alloc(fn->cx, sizeof *let);
    let->op = op;
    let->nargs = nargs;
    let->args = cx_copy(fn->cx, args, (size_t)nargs * sizeof *args);
    let->nattrs = nattrs;
    let->attrs = cx_copy(fn->cx, attrs, (size_t)nattrs * sizeof *attrs);
    return let;
}

Value *
let_result(Fn *fn, Let *let, const char *name, const Type *type, const Dim *strides)
{
    Value *v = value_new(fn, name, type, strides);
    v->def = let;
    v->result = let->nres;
    let->res = cx_grow(fn->cx, let->res, let->nres, sizeof *let->res);
    let->res[let->nres++] = v;
    return v;
}

Let **
lets_new(Cx *cx, int n)
{
    size_t room = 1;
    while (room < (size_t)n) {
        room *= 2; /* as cx_grow has it */
    }
    return cx_alloc(cx, room * sizeof(Let *));
}

void
block_append(Cx *cx, Block *blk, Let *let)
{
    blk->lets = cx_grow(cx, blk->lets, blk->n, sizeof *blk->lets);
    blk->lets[blk->n++] = let;
    let->parent = blk;
}

static Attr
attr(Cx *cx, const char *key, AttrKind kind)
{
    return (Attr){.key = cx_intern(cx, key, strlen(key)), .kind = kind};
}

Attr
attr_int(Cx *cx, const char *key, int64_t i)
{
    Attr a = attr(cx, key, ATTR_INT);
    a.i = i;
    return a;
}

Attr
attr_dim(Cx *cx, const char *key, Dim d)
{
    Attr a = attr(cx, key, ATTR_DIM);
    a.d = d;
    return a;
}

Attr
attr_axes(Cx *cx, const char *key, int n, const int *axes)
{
    Attr a = attr(cx, key, ATTR_AXES);
    a.n = n;
    a.axes = cx_copy(cx, axes, (size_t)n * sizeof *axes);
    return a;
}

Attr
attr_dims(Cx *cx, const char *key, int n, const Dim *dims)
{
    Attr a = attr(cx, key, ATTR_DIMS);
    a.n = n;
    a.dims = cx_copy(cx, dims, (size_t)n * sizeof *dims);
    return a;
}

Attr
attr_str(Cx *cx, const char *key, const char *s)
{
    Attr a = attr(cx, key, ATTR_STR);
    a.s = cx_intern(cx, s, strlen(s));
    return a;
}

Attr
attr_letters(Cx *cx, const char *key, const Contraction *letters)
{
    Attr a = attr(cx, key, ATTR_LETTERS);
    a.letters = letters;
    return a;
}

Attr
attr_name(Cx *cx, const char *key, const char *name, Dim index)
{
    Attr a = attr(cx, key, ATTR_NAME);
    a.s = cx_intern(cx, name, strlen(name));
    a.d = index;
    return a;
}

bool
value_is_view(const Value *v)
{
    return v->def && op_info[v->def->op].kind == KIND_VIEW;
}

bool
value_is_view_of(const Value *v, const Value *of)
{
    while (v != of && value_is_view(v)) {
        v = v->def->args[0];
    }
    return v == of;
}

bool
value_is_const(const Value *v)
{
    return v->name == NULL;
}

const Attr *
let_attr(const Let *let, const char *key)
{
    for (int k = 0; k < let->nattrs; k++) {
        if (strcmp(let->attrs[k].key, key) == 0) {
            return &let->attrs[k];
        }
    }
    static const Attr none;     /* a let that the verifier would refuse */
    return &none;
}

bool
attr_has_axis(const Attr *axes, int axis)
{
    bool has = false;
    for (int k = 0; k < axes->n; k++) {
        has |= axes->axes[k] == axis;
    }
    return has;
}

bool
let_is_made(const Let *let)
{
    const OpInfo *info = &op_info[let->op];
    bool node = info->kind == KIND_NODE && info->fuses != FUSES_FREE && strchr(info->stages, 'K');
    return info->kind == KIND_MAP || info->kind == KIND_RED || node;
}

int64_t
let_int(const Let *let, const char *key)
{
    return let_attr(let, key)->i;
}

bool
let_has_effect(const Let *let)
{
    bool effect = let->op == OP_call && let_int(let, "effect");
    for (int k = 0; k < let->nbodies && !effect; k++) {
        const Block *body = let->bodies[k]->body;
        for (int j = 0; j < body->n && !effect; j++) {
            effect = let_has_effect(body->lets[j]);
        }
    }
    return effect;
}

bool
let_is_flow(const Let *let)
{
    return op_info[let->op].flags & OPF_FLOW;
}

bool
let_is_opaque(const Let *let)
{
    return let->op == OP_call || let_is_flow(let);
}

void
let_bodies(Cx *cx, Let *let, int n, Fn *const *bodies)
{
    let->bodies = cx_copy(cx, bodies, (size_t)n * sizeof *bodies);
    let->nbodies = n;
}

bool
let_is_plain(const Let *let)
{
    return op_info[let->op].flags & OPF_PLAIN;
}

bool
let_is_map(const Let *let)
{
    return op_info[let->op].kind == KIND_MAP;
}

bool
loop_is(const Let *let)
{
    return op_info[let->op].flags & OPF_LOOP;
}

bool
let_is_choice(const Let *let)
{
    return op_info[let->op].flags & OPF_CHOICE;
}

const Let *
let_around(const Let *let)
{
    const Let *around = let->parent->owner;
    while (around && let_is_choice(around)) {
        around = around->parent->owner;
    }
    return around;
}

/* The let before it in its block, or NULL; of one that is not in it yet, the last. */
static const Let *
let_before(const Let *let)
{
    const Let *before = NULL;
    for (int k = 0; k < let->parent->n && let->parent->lets[k] != let; k++) {
        before = let->parent->lets[k];
    }
    return before;
}

bool
let_excludes(const Let *a, const Let *b)
{
    return (b->op == OP_else && let_before(b) == a) || (a->op == OP_else && let_before(a) == b);
}

void
let_condition(Cx *cx, const Let *choice, Dim *a, Dim *b)
{
    const Let *first = choice->op == OP_else ? let_before(choice) : choice;
    Dim left = let_dim(first, "left"), right = let_dim(first, "right");
    *a = first == choice ? left : dim_add(cx, right, dim_int(cx, 1));
    *b = first == choice ? right : left;
}

bool
let_enter(Cx *cx, const Let *let)
{
    bool choice = let_is_choice(let);
    Dim a, b;
    if (choice) {
        let_condition(cx, let, &a, &b);
        dim_assume(cx, a, b);
    }
    return choice;
}

int
let_assume(Cx *cx, const Let *let)
{
    const Let *choice = let->parent->owner;
    int n = choice && let_is_choice(choice) ? let_assume(cx, choice) : 0;
    return n + (choice && let_enter(cx, choice));
}

bool
let_writes(const Let *let)
{
    return op_info[let->op].flags & OPF_WRITES;
}

bool
let_accesses(const Let *let)
{
    return op_info[let->op].flags & OPF_ACCESS;
}

Op
let_op(const Let *let)
{
    const char *name = let_str(let, "op");
    return op_find(name, strlen(name));
}

Dim
let_dim(const Let *let, const char *key)
{
    return let_attr(let, key)->d;
}

const char *
let_str(const Let *let, const char *key)
{
    return let_attr(let, key)->s;
}

static void
each_let(Block *blk, void (*visit)(void *arg, Let *let), void *arg)
{
    for (int k = 0; k < blk->n; k++) {
        visit(arg, blk->lets[k]);
        if (blk->lets[k]->body) {
            each_let(blk->lets[k]->body, visit, arg);
        }
    }
}

bool
let_interleaves(Cx *cx, const Let *let)
{
    enum { MOST = 4 };
    bool few = let->op == OP_cat && let->nargs > 1 && let->nargs <= MOST;
    for (int k = 0; few && k < let->nargs; k++) {
        few = dim_is(cx, let->args[k]->type->dims[let_int(let, "axis")], 1);
    }
    return few;
}

void
fn_each_let(Fn *fn, void (*visit)(void *arg, Let *let), void *arg)
{
    each_let(fn->body, visit, arg);
}

/* ---- loops and branches ---- */

Loop
let_loop(const Let *let)
{
    const Attr *steps = let_attr(let, "steps");
    Loop loop = {
        .let = let,
        .body = let->bodies[0],
        .whiles = let_int(let, "while") != 0,
        .counted = steps->n > 0,
        .steps = steps->n ? steps->dims[0] : DIM_NONE,
        .taken = let->nsizes && let_int(let, "while") ? let->sizes[0]
                 : steps->n                           ? steps->dims[0]
                                                      : DIM_NONE,
        .at = let->nsizes && !let_int(let, "while") ? let->sizes[0] : DIM_NONE,
        .carries = (int)let_int(let, "carries"),
        .rows = (int)let_int(let, "rows"),
    };
    loop.stays = let->nargs - loop.whiles - loop.carries - loop.rows;
    loop.stacks = let->nres - loop.carries;
    return loop;
}

const Let *
kernel_loop(const Let *kernel)
{
    const Block *body = kernel->op == OP_kernel ? kernel->body : NULL;
    return body && body->n == 1 && body->lets[0]->op == OP_loop ? body->lets[0] : NULL;
}

Value *
loop_arg(const Loop *loop, int k)
{
    return loop->let->args[loop->whiles + k];
}

Value *
loop_param(const Loop *loop, int k)
{
    return loop->body->params[1 + k];
}

Value *
loop_next(const Loop *loop, int k)
{
    return loop->body->body->rets[loop->whiles + k];
}

const Type *
type_of_row(Cx *cx, const Type *t)
{
    return type_of(cx, t->dtype, t->rank - 1, t->dims + 1);
}

const Type *
type_of_rows(Cx *cx, const Type *t, Dim rows)
{
    Dim dims[MAX_RANK] = {rows};
    for (int ax = 0; ax < t->rank; ax++) {
        dims[ax + 1] = t->dims[ax];
    }
    return type_of(cx, t->dtype, t->rank + 1, dims);
}

/* ---- sizes from outside ---- */

typedef struct {
    Fn *fn;
    Dim *bound;                 /* by the function's own lets */
    int nbound;
} Free;

static void
see_name(void *arg, Dim name)
{
    Free *f = arg;
    bool known = dim_extent(f->fn->cx, name) != DIM_NONE; /* a loop index */
    for (int k = 0; k < f->nbound && !known; k++) {
        known = f->bound[k] == name;
    }
    for (int k = 0; k < f->fn->nsizes && !known; k++) {
        known = f->fn->sizes[k] == name;
    }
    if (!known) {
        fn_size(f->fn, name);
    }
}

static void
see_dims(Free *f, int n, const Dim *dims)
{
    for (int k = 0; k < n; k++) {
        dim_names(f->fn->cx, dims[k], see_name, f);
    }
}

static void
see_value(Free *f, const Value *v)
{
    see_dims(f, v->type->rank, v->type->dims);
    see_dims(f, v->strides ? v->type->rank : 0, v->strides);
}

static void
see_bound(void *arg, Let *let)
{
    Free *f = arg;
    for (int k = 0; k < let->nsizes; k++) {
        f->bound = cx_grow(f->fn->cx, f->bound, f->nbound, sizeof *f->bound);
        f->bound[f->nbound++] = let->sizes[k];
    }
}

static void
see_let(void *arg, Let *let)
{
    Free *f = arg;
    for (int k = 0; k < let->nattrs; k++) {
        const Attr *a = &let->attrs[k];
        see_dims(f, a->kind == ATTR_DIMS ? a->n : 0, a->dims);
        see_dims(f, a->kind == ATTR_DIM, &a->d);
    }
    for (int k = 0; k < let->nres; k++) {
        see_value(f, let->res[k]);
    }
    for (int k = 0; k < let->nbodies; k++) {
        see_dims(f, let->bodies[k]->nsizes, let->bodies[k]->sizes);
    }
}

void
fn_free_sizes(Fn *fn)
{
    Free f = {.fn = fn};
    fn->nsizes = 0;
    fn->sizes = NULL;
    fn_each_let(fn, see_bound, &f);
    for (int k = 0; k < fn->nparams; k++) {
        see_value(&f, fn->params[k]);
    }
    fn_each_let(fn, see_let, &f);
}
