/* The dependence test against all iterations of random nests, and against the interpreter.
 *
 * A nest of two loops, often with a third or a reduction inside, loads and stores elements of one
 * buffer at random subscripts: with symbols, flat ones, quotients, triangular loops.
 *   1. Every two iterations that access one element, one of them writing, are in a dependence that
 *      the test names, in their direction and at its distance.
 *   2. Where the test allows it, the rewrites reorder and split, and both, make other loops of the
 *      two, and the interpreter gives the same bits; where not, the verifier refuses it.
 *   3. With sizes that are numbers, the test forbids few nests that could change places.
 * Arguments: how many nests, the first seed. */
#include "../../csrc/codegen/rewrites.h"
#include "../../csrc/ir/verify/dependence.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOPS = 3, MOST_ACCESSES = 24, MOST_EVENTS = 1 << 14 };

typedef enum { FORM_NUMBERS, FORM_SYMBOLS, FORM_FLAT, FORM_QUOTIENT, FORM_TRIANGLE, FORMS } Form;

typedef struct {
    uint64_t random;
    Form form;
    int extents[LOOPS], depth;
    int rows, columns; /* of the buffer, with FORM_NUMBERS and FORM_TRIANGLE */
    int names;
    uint64_t seed; /* of what it runs on */
    bool plain; /* one statement, which mostly loads what nothing stores */
    Text out;
    const char *text; /* the whole program, once it is made */
} Nest;

/* Of all nests: which the test allows and forbids, and which it forbids though no pair of
 * iterations is against it. */
static int allowed, forbidden, fixed_free, fixed_refused, changed;

static int
below(Nest *n, int64_t most)
{
    return (int)sample_below(&n->random, most);
}

/* ---- the text ---- */

/* A subscript with the loops' indices, its least value 0 or a little above; *size: what the axis
 * needs. */
static void
add_affine(Nest *n, int depth, int *size)
{
    static const char names[] = "ijk";
    int low = 0, high = 0;
    Text sum = {.cx = n->out.cx};
    for (int k = 0; k < depth; k++) {
        int step = below(n, 2) ? 1 + (n->plain && k == 0) : below(n, 5) - 2,
            far = step * (n->extents[k] - 1);
        low += far < 0 ? far : 0;
        high += far > 0 ? far : 0;
        text_add(&sum, "%d*%c + ", step, names[k]);
    }
    int start = below(n, 3) - low;
    text_add(&n->out, "%s%d", sum.text, start);
    *size = high + start + 1 > *size ? high + start + 1 : *size;
}

static void
add_subscripts(Nest *n, int depth)
{
    static const char *const symbols[][2] = {
        {"i", "i + 1"}, {"i + 1", "i"}, {"N - 1 - i", "i + 2"}, {"i + 1", "i + 1"}};
    static const char *const columns[] = {"j", "j + 1", "M - 1 - j", "j + 2"};
    static const char *const flat[] = {"M*i + j",     "M*i + j + 1", "M*i + M - 1 - j",
                                       "M*i + j + M", "N*j + i",     "j"};
    static const char *const quotients[] = {"(M*i + j)//2", "(i + j)//2", "2*i + j % 2", "i//2 + j",
                                            "2*(j//2) + 1"};
    switch (n->form) {
    case FORM_SYMBOLS:
        text_add(&n->out, "%s, %s", symbols[below(n, 4)][below(n, 2)], columns[below(n, 4)]);
        break;
    case FORM_FLAT:
        text_add(&n->out, "0, %s", flat[below(n, 6)]);
        break;
    case FORM_QUOTIENT:
        text_add(&n->out, "%d, %s", below(n, 2), quotients[below(n, 5)]);
        break;
    default:
        add_affine(n, depth, &n->rows);
        text_add(&n->out, ", ");
        add_affine(n, depth, &n->columns);
    }
}

/* A value: an element, the sum of a few, or one that the iteration keeps for itself. */
static int
add_value(Nest *n, int depth)
{
    int v = n->names++, kind = below(n, n->plain ? 12 : 6);
    if (kind > 5) {
        text_add(&n->out, "let v%d: f64 = load s[%d, %d]\n", v, below(n, 2), below(n, 2));
    } else if (kind == 0 && depth < LOOPS) {
        text_add(&n->out, "let v%d: f64 = reduce sum k in 2 { let w%d: f64 = load a[", v, v);
        int before = n->extents[LOOPS - 1];
        n->extents[LOOPS - 1] = 2;
        add_subscripts(n, n->form == FORM_NUMBERS ? LOOPS : depth);
        n->extents[LOOPS - 1] = before;
        text_add(&n->out, "] ret w%d }\n", v);
    } else if (kind == 1) {
        text_add(&n->out, "let p%d: f64[2] = buffer\nlet w%d: f64 = load a[", v, v);
        add_subscripts(n, depth);
        text_add(&n->out, "]\nstore p%d[1] = w%d\nlet v%d: f64 = load p%d[1]\n", v, v, v, v);
    } else {
        text_add(&n->out, "let v%d: f64 = load a[", v);
        add_subscripts(n, depth);
        text_add(&n->out, "]\n");
    }
    return v;
}

static void
add_store(Nest *n, int depth)
{
    static const char *const ops[] = {"sub", "mul", "add"};
    int a = add_value(n, depth), b = add_value(n, depth), v = n->names++;
    text_add(&n->out, "let v%d: f64 = %s v%d, v%d\n", v, ops[below(n, 3)], a, b);
    text_add(&n->out, "let u%d: f64 = sub v%d, 0.7\nstore a[", v, v);
    add_subscripts(n, depth);
    text_add(&n->out, "] = u%d\n", v);
}

/* The nest alone; the buffer's size follows from it. */
static void
add_nest(Nest *n)
{
    bool sized = n->form != FORM_NUMBERS && n->form != FORM_TRIANGLE;
    for (int k = 0; k < LOOPS; k++) {
        n->extents[k] = 1 + below(n, 5);
    }
    n->depth = sized ? 2 : 2 + (below(n, 3) == 0);
    if (sized) {
        text_add(&n->out, "for i in N { for j in M {\n");
    } else if (n->form == FORM_TRIANGLE) {
        n->extents[1] = n->extents[0];
        text_add(&n->out, "for i in %d { for j in %s {\n", n->extents[0],
                 below(n, 2) ? "i + 1" : cx_format(n->out.cx, "%d - i", n->extents[0]));
    } else {
        text_add(&n->out, "for i in %d { for j in %d {\n", n->extents[0], n->extents[1]);
    }
    if (n->depth == LOOPS) {
        text_add(&n->out, "for k in %d {\n", n->extents[2]);
    }
    n->plain = below(n, 3) > 0;
    for (int k = 1 + (!n->plain && below(n, 2)); k > 0; k--) {
        add_store(n, n->depth);
    }
    text_add(&n->out, n->depth == LOOPS ? "} } }\n" : "} }\n");
}

static char *
nest_text(Cx *cx, Nest *n)
{
    static const char *const sizes[FORMS] = {[FORM_SYMBOLS] = "N + 3, M + 3",
                                             [FORM_FLAT] = "1, N*M + M + 1",
                                             [FORM_QUOTIENT] = "2, N*M + 2*N + M + 3"};
    n->out = (Text){.cx = cx};
    add_nest(n);
    const char *of = sizes[n->form] ? sizes[n->form] : cx_format(cx, "%d, %d", n->rows, n->columns);
    const char *each = strchr(of, ',');
    const char *rows = cx_intern(cx, of, (size_t)(each - of)), *columns = each + 2;
    return cx_format(
        cx,
        "dlc 1 loops\n\nfn f[N in 1..5, M in 1..5](x: f64[%s], s: f64[2, 2]) -> (f64[%s]) {\n"
        "let y: f64[%s] = kernel {\nlet a: f64[%s] = buffer\n"
        "for r in %s { for c in %s { let t: f64 = load x[r, c] store a[r, c] = t } }\n"
        "%s"
        "for r1 in %s { for c1 in %s { let t1: f64 = load a[r1, c1] store y[r1, c1] = t1 } }\n"
        "}\nret y\n}\n",
        of, of, of, of, rows, columns, n->out.text, rows, columns);
}

/* ---- all its iterations ---- */

typedef struct {
    const Let *access;
    int64_t at[2], index[DEPENDENCE_LOOPS];
    int nloops;
    const Let *loops[DEPENDENCE_LOOPS];
} Event;

typedef struct {
    Cx *cx;
    const Fn *fn;
    const int64_t *sizes;
    const Let *path[DEPENDENCE_LOOPS];
    int64_t index[DEPENDENCE_LOOPS];
    int depth, n;
    Event *events;
} Trace;

static int64_t
value_of(void *arg, Dim name)
{
    Trace *t = arg;
    for (int k = 0; k < t->depth; k++) {
        if (let_dim(t->path[k], "index") == name) {
            return t->index[k];
        }
    }
    for (int k = 0; k < t->fn->nsizes; k++) {
        if (t->fn->sizes[k] == name) {
            return t->sizes[k];
        }
    }
    abort();
}

static void
trace(Trace *t, const Let *let)
{
    if (let_accesses(let) && let->args[0]->type->rank == 2) {
        const Attr *at = let_attr(let, "at");
        if (t->n == MOST_EVENTS) {
            abort();
        }
        Event *e = &t->events[t->n++];
        *e = (Event){.access = let, .nloops = t->depth};
        memcpy(e->index, t->index, sizeof e->index);
        memcpy(e->loops, t->path, sizeof e->loops);
        for (int ax = 0; ax < 2; ax++) {
            e->at[ax] = dim_eval(t->cx, at->dims[ax], value_of, t);
        }
    }
    if (!loop_is(let)) {
        return;
    }
    int64_t extent = dim_eval(t->cx, let_dim(let, "extent"), value_of, t);
    int k = t->depth++;
    t->path[k] = let;
    for (t->index[k] = 0; t->index[k] < extent; t->index[k]++) {
        for (int j = 0; j < let->body->n; j++) {
            trace(t, let->body->lets[j]);
        }
    }
    t->depth--;
}

static bool
has_distance(Trace *t, const Dependence *d, int k, int64_t distance)
{
    return d->distances[k] == DIM_NONE || dim_eval(t->cx, d->distances[k], value_of, t) == distance;
}

/* Does the dependence say this of the two, of which x ran first? */
static bool
says(Trace *t, const Dependence *d, const Event *x, const Event *y)
{
    bool said = d->from == x->access && d->to == y->access;
    for (int k = 0; k < d->nloops && said; k++) {
        int64_t distance = y->index[k] - x->index[k];
        Direction is = distance > 0   ? ITERATION_LATER
                       : distance < 0 ? ITERATION_EARLIER
                                      : ITERATION_SAME;
        said = d->loops[k] == x->loops[k] && d->directions[k] == is &&
               has_distance(t, d, k, distance);
    }
    return said;
}

static const Let *
nest_of(const Fn *fn)
{
    const Block *body = fn->body->lets[0]->body;
    for (int k = 0; k < body->n; k++) {
        if (body->lets[k]->op == OP_for &&
            strcmp(dim_name(fn->cx, let_dim(body->lets[k], "index")), "i") == 0) {
            return body->lets[k];
        }
    }
    abort();
}

/* Whether some pair of iterations is against a change of the two loops. */
static bool
check_all(Cx *cx, const Fn *fn, const int64_t *sizes, const Dependences *found)
{
    Trace t = {.cx = cx, .fn = fn, .sizes = sizes};
    t.events = cx_alloc(cx, MOST_EVENTS * sizeof *t.events);
    trace(&t, nest_of(fn));
    bool against = false;
    for (int a = 0; a < t.n; a++) {
        for (int b = a + 1; b < t.n; b++) {
            const Event *x = &t.events[a], *y = &t.events[b];
            if (x->access->args[0] != y->access->args[0] || x->at[0] != y->at[0] ||
                x->at[1] != y->at[1] || !(let_writes(x->access) || let_writes(y->access))) {
                continue;
            }
            bool said = false;
            for (int k = 0; k < found->n && !said; k++) {
                said = says(&t, &found->of[k], x, y);
            }
            if (!said) {
                fail(cx, DIAG_BUILD, "nest", "two iterations of one element are in no dependence");
            }
            against |= x->index[0] < y->index[0] && x->index[1] > y->index[1];
        }
    }
    return against;
}

/* ---- the interpreter in the changed order ---- */

static Tensor
run(Cx *cx, const Fn *fn, uint64_t seed, const int64_t *sizes)
{
    Tensor out[1], *in = cx_alloc(cx, (size_t)fn->nparams * sizeof *in);
    sample_named(fn, seed, sizes, in);
    eval_fn_at(fn, sizes, in, out);
    return out[0];
}

static void
interchange(Fn *fn)
{
    Let *outer = (Let *)nest_of(fn), *inner = outer->body->lets[0];
    Attr *attrs = outer->attrs;
    outer->attrs = inner->attrs;
    inner->attrs = attrs;
}

static bool
is_same(const Tensor *a, const Tensor *b)
{
    return memcmp(a->data, b->data, (size_t)tensor_numel(a) * sizeof(double)) == 0;
}

static void
verify_body(Cx *cx, void *fn)
{
    (void)cx;
    verify_fn(fn);
}

/* Does V55 allow loops to change places where `may`, and do the rewrites keep all bits?  The loops
 * have random marks. */
static void
check_rewrites(Cx *cx, Nest *n, const Fn *fn, bool may, const int64_t *sizes, const Tensor *before)
{
    uint64_t seed = n->random;
    for (int reorder = 0; reorder < 2; reorder++) {
        Fn *other = fn_clone(fn);
        Let *outer = (Let *)nest_of(other), *inner = outer->body->lets[0];
        let_mark(outer, MARK_reorder, reorder);
        for (int k = 0; k < 2; k++) {
            if (below(n, 3)) {
                let_mark_with(cx, k ? inner : outer, MARK_split, 1 + below(n, 5));
            }
        }
        bool accepted = cx_try(cx, verify_body, other);
        if (accepted != (may || !reorder)) {
            fail(cx, DIAG_BUILD, "nest", accepted ? "V55 allows it" : cx_diag(cx)->message);
        }
        if (accepted) {
            other = rewrite_reorder(rewrite_split(other));
            verify_fn(other);
            Tensor after = run(cx, other, n->seed, sizes);
            if (!is_same(before, &after)) {
                fail(cx, DIAG_BUILD, "nest",
                     "loops are split or change places, and results change");
            }
        }
    }
    n->random = seed;
}

static void
check_nest(Cx *cx, void *arg)
{
    Nest *n = arg;
    n->seed = n->random;
    n->form = (Form)below(n, FORMS);
    const char *text = nest_text(cx, n);
    n->text = text;
    Fn *fn = parse_fn(cx, text, "nest");
    verify_fn(fn);
    int64_t *sizes = cx_alloc(cx, (size_t)fn->nsizes * sizeof *sizes);
    for (int k = 0; k < fn->nsizes; k++) {
        sizes[k] = 1 + below(n, 5);
    }
    Dependences found = dependences_of(cx, nest_of(fn));
    bool against = check_all(cx, fn, sizes, &found);
    Tensor before = run(cx, fn, n->seed, sizes);
    if (n->form == FORM_TRIANGLE) {
        /* the inner loop's extent has the outer index: they cannot change places */
        check_rewrites(cx, n, fn, false, sizes, &before);
        return;
    }
    bool may = !dependence_against_interchange(&found);
    check_rewrites(cx, n, fn, may, sizes, &before);
    interchange(fn);
    verify_fn(fn);
    Tensor after = run(cx, fn, n->seed, sizes);
    bool same = is_same(&before, &after);
    if (may && (against || !same)) {
        fail(cx, DIAG_BUILD, "nest", "the loops may change places, and results change");
    }
    allowed += may;
    forbidden += !may;
    changed += !same;
    fixed_free += n->form == FORM_NUMBERS && !against;
    fixed_refused += n->form == FORM_NUMBERS && !against && !may;
}

int
main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 100, failures = 0;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    for (int k = 0; k < count; k++) {
        Cx *cx = cx_new();
        Nest n = {.random = sample_seed(first + (uint64_t)k)};
        if (!cx_try(cx, check_nest, &n)) {
            failures++;
            fprintf(stderr, "seed %llu: %s\n%s\n",
                    (unsigned long long)first + (unsigned long long)k, cx_diag(cx)->message,
                    n.text);
        }
        cx_free(cx);
    }
    printf("%d allowed, %d forbidden, %d changed, %d free of which %d forbidden\n", allowed,
           forbidden, changed, fixed_free, fixed_refused);
    return failures != 0;
}
