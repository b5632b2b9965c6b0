/* Random programs with a loop or a branch: a body is a random program.
 *
 * What a step computes comes from gen_fn.  Results that have the type of a parameter are carried;
 * the others are stacked: as many rows as there are steps, or as the loop says after the last one.
 * Some parameters are rows.  A second loop around the first one makes nested ones. */
#include "gen.h"

/* With so many steps a plan makes the launches of a body ready. */
enum { MOST_STEPS = 14 };

typedef struct {
    Cx *cx;
    uint64_t random;
    Fn *body;
    int carries, rows;
    bool whiles;
    bool stacks;                /* whiles: rows of all steps, whose number is a size */
    Dim steps, taken;
    int most;                   /* steps of all loops of the program */
} Flow;

/* A body's tensors are dense, and its results are values. */
static void
plain(Fn *fn)
{
    for (int k = 0; k < fn->nparams; k++) {
        fn->params[k]->strides = NULL;
        fn->params[k]->given = false;
    }
    fn_results(fn, fn->body->nrets, fn->body->rets, NULL);
    fn_free_sizes(fn);
}

static void
move_param(Fn *fn, int from, int to)
{
    Value *v = fn->params[from];
    for (int k = from; k > to; k--) {
        fn->params[k] = fn->params[k - 1];
    }
    fn->params[to] = v;
    for (int k = 0; k < fn->nparams; k++) {
        fn->params[k]->result = k;
    }
}

static void
swap_results(Fn *fn, int a, int b)
{
    Value *v = fn->body->rets[a];
    fn->body->rets[a] = fn->body->rets[b];
    fn->body->rets[b] = v;
}

/* Pairs results with parameters of their types, which come first then, in one order. */
static void
carry(Flow *f)
{
    Fn *fn = f->body;
    for (int r = 0; r < fn->body->nrets; r++) {
        for (int p = f->carries; p < fn->nparams; p++) {
            if (fn->params[p]->type == fn->body->rets[r]->type && r >= f->carries) {
                move_param(fn, p, f->carries);
                swap_results(fn, r, f->carries);
                f->carries++;
                break;
            }
        }
    }
}

/* Some of the parameters behind the carried ones are rows; they come next. */
static void
choose_rows(Flow *f)
{
    for (int p = f->carries; p < f->body->nparams && !f->whiles; p++) {
        if (f->body->params[p]->type->rank < MAX_RANK && chance(&f->random, 40)) {
            move_param(f->body, p, f->carries + f->rows++);
        }
    }
}

/* Does another step follow?  Until one that is chosen, or as long as the loop's bound says. */
static void
add_condition(Flow *f)
{
    Fn *fn = f->body;
    Build *b = build_new(fn);
    Value *rets[64];
    int64_t last = below(&f->random, f->most - 1);
    int n = f->stacks ? fn->body->nrets : f->carries;
    rets[0] = build_map(b, OP_lt, fn->params[0], build_int(b, last), NULL);
    for (int k = 0; k < n; k++) {
        rets[k + 1] = fn->body->rets[k];
    }
    fn_results(fn, n + 1, rets, NULL);
}

static Value *
operand(Flow *f, Fn *fn, int k)
{
    const Value *inside = f->body->params[k];
    bool row = k >= f->carries && k < f->carries + f->rows;
    const Type *t = row ? type_of_rows(f->cx, inside->type, f->steps) : inside->type;
    return fn_param(fn, fn_fresh_name(fn, "x"), t, NULL);
}

static void
declare(Fn *fn, Dim steps)
{
    bool known = dim_is_int(fn->cx, steps, NULL);
    for (int k = 0; k < fn->nsizes; k++) {
        fn_take_name(fn, dim_name(fn->cx, fn->sizes[k]));
        known |= fn->sizes[k] == steps;
    }
    if (!known) {
        fn_size(fn, steps);
        fn_take_name(fn, dim_name(fn->cx, steps));
    }
}

static Fn *
outer(Flow *f)
{
    Fn *fn = fn_new(f->cx, "flow", STAGE_GRAPH);
    for (int k = 0; k < f->body->nsizes; k++) {
        fn_size(fn, f->body->sizes[k]);
    }
    return fn;
}

static Fn *
loop_of(Flow *f)
{
    Cx *cx = f->cx;
    Value *args[128];
    const Type *types[64];
    Fn *fn = outer(f);
    int n = 0, params = f->body->nparams;
    f->steps = chance(&f->random, 50) ? dim_int(cx, below(&f->random, f->most))
                                      : dim_size(cx, "steps");
    dim_declare(cx, dim_size(cx, "steps"), (Range){0, f->most}, 1);
    declare(fn, f->steps);
    if (f->whiles) {
        args[n++] = fn_param(fn, "go", type_scalar(cx, DT_bool), NULL);
    }
    for (int k = 0; k < params; k++) {
        args[n++] = operand(f, fn, k);
    }
    int nres = f->whiles && !f->stacks ? f->carries : f->body->body->nrets;
    f->taken = f->steps;
    if (f->stacks) {
        f->taken = dim_size(cx, fn_fresh_name(fn, "taken"));
        dim_declare(cx, f->taken, (Range){0, f->most}, 1);
    }
    for (int k = 0; k < nres; k++) {
        const Type *t = f->body->body->rets[k]->type;
        types[k] = k < f->carries ? t : type_of_rows(cx, t, f->taken);
    }
    fn_param(f->body, fn_fresh_name(f->body, "step"), type_scalar(cx, DT_i64), NULL);
    move_param(f->body, params, 0);
    if (f->whiles) {
        add_condition(f);
    }
    fn_free_sizes(f->body);
    const Attr attrs[] = {attr_int(cx, "carries", f->carries), attr_int(cx, "rows", f->rows),
                          attr_int(cx, "while", f->whiles), attr_dims(cx, "steps", 1, &f->steps)};
    Let *let = build_let(build_new(fn), OP_loop, n, args, attrs, NULL, nres, types, NULL);
    let_bodies(cx, let, 1, &f->body);
    if (f->stacks) {
        let->nsizes = 1;
        let->sizes = cx_copy(cx, &f->taken, sizeof f->taken);
    }
    fn_results(fn, nres, let->res, NULL);
    return fn;
}

static Literal
one_of(const Type *t)
{
    return (Literal){.is_int = dtype_info[t->dtype].class < CLASS_FLOAT, .i = 1, .f = 1};
}

/* The other body: constants of the same types. */
static Fn *
constants(Flow *f)
{
    Value *rets[64];
    Fn *fn = fn_new(f->cx, "flow", STAGE_GRAPH);
    Build *b = build_new(fn);
    for (int k = 0; k < f->body->nparams; k++) {
        fn_param(fn, fn_fresh_name(fn, "y"), f->body->params[k]->type, NULL);
    }
    for (int k = 0; k < f->body->body->nrets; k++) {
        const Type *t = f->body->body->rets[k]->type;
        rets[k] = k < f->carries ? fn->params[k] : build_const(b, t, one_of(t));
    }
    fn_results(fn, f->body->body->nrets, rets, NULL);
    fn_free_sizes(fn);
    return fn;
}

static Fn *
branch_of(Flow *f)
{
    Value *args[128];
    const Type *types[64];
    Fn *fn = outer(f), *other = constants(f);
    int nres = f->body->body->nrets;
    declare(fn, dim_int(f->cx, 0));
    args[0] = fn_param(fn, "p", type_scalar(f->cx, DT_bool), NULL);
    for (int k = 0; k < f->body->nparams; k++) {
        args[k + 1] = operand(f, fn, k);
    }
    for (int k = 0; k < nres; k++) {
        types[k] = f->body->body->rets[k]->type;
    }
    Fn *bodies[] = {f->body, other};
    int first = below(&f->random, 2);
    Fn *order[] = {bodies[first], bodies[1 - first]};
    Let *let = build_let(build_new(fn), OP_branch, f->body->nparams + 1, args, NULL, NULL, nres,
                         types, NULL);
    let_bodies(f->cx, let, 2, order);
    fn_results(fn, nres, let->res, NULL);
    return fn;
}

/* The language has no constants of complex and 8-bit floating-point numbers. */
static bool
has_no_constant(const Fn *fn)
{
    bool has = false;
    for (int k = 0; k < fn->body->nrets; k++) {
        has |= dtype_info[fn->body->rets[k]->type->dtype].class >= CLASS_COMPLEX;
    }
    return has;
}

static bool
has_axes_left(const Fn *fn)
{
    bool left = fn->nparams < 60 && fn->body->nrets < 30;
    for (int k = 0; k < fn->body->nrets; k++) {
        left &= fn->body->rets[k]->type->rank < MAX_RANK;
    }
    return left;
}

static Fn *
around(Cx *cx, uint64_t *random, int most, Fn *body)
{
    plain(body);
    Flow f = {.cx = cx, .random = *random, .body = body, .most = most};
    bool branch = !has_no_constant(body) && (chance(&f.random, 30) || !has_axes_left(body));
    if (!branch && !has_axes_left(body)) {
        return body;
    }
    carry(&f);
    f.whiles = !branch && f.carries && chance(&f.random, 40);
    f.stacks = f.whiles && body->body->nrets > f.carries && chance(&f.random, 70);
    if (!branch) {
        choose_rows(&f);
    }
    Fn *fn = branch ? branch_of(&f) : loop_of(&f);
    *random = f.random;
    return fn;
}

/* A body returns nothing of a size that it binds: of rows that are numbers the sum, of others
 * nothing. */
static void
reduce_taken(Fn *fn)
{
    const Let *let = fn->body->n ? fn->body->lets[fn->body->n - 1] : NULL;
    Value *rets[64];
    int n = 0, first = 0;
    Build *b = build_new(fn);
    for (int k = 0; k < fn->body->nrets; k++) {
        Value *v = fn->body->rets[k];
        DtypeClass class = dtype_info[v->type->dtype].class;
        bool rows = let && let->nsizes && k >= let_int(let, "carries");
        if (!rows) {
            rets[n++] = v;
        } else if (class == CLASS_INT || class == CLASS_FLOAT) {
            rets[n++] = build_red(b, OP_sum, v, 1, &first);
        }
    }
    fn_results(fn, n, rets, NULL);
}

Fn *
gen_flow(Cx *cx, uint64_t seed)
{
    uint64_t random = sample_seed(seed ^ 0x10091);
    int most = chance(&random, 60) ? 4 : MOST_STEPS;
    Fn *fn = around(cx, &random, most, gen_fn(cx, seed));
    if (chance(&random, 30)) {
        reduce_taken(fn);
        fn = around(cx, &random, most, fn);
    }
    verify_fn(fn);
    return fn;
}
