/* Derivatives and batches of a text.  Each is a step from a program to a program, so that any
 * number of them may follow each other.
 *
 *   steps = { step " " }
 *   gradient:<by parameter>/<by result>   the gradients of the parameters that have a 1; behind the
 *                                         parameters come the gradients of the results with a 1
 *   tangent:<by parameter>                the tangents of all results that have numbers with a
 *                                         point; behind the parameters come the tangents of those
 *                                         with a 1
 *   batch:<by parameter>                  those with a 1, and all results, have an axis more, the
 *                                         first
 *
 * "batch:01 gradient:10/1" is so the gradient of the first parameter, for each of a batch of second
 * ones. */
#include "derive.h"
#include "notation.h"

#include <string.h>

typedef struct {
    Cx *cx;
    const char *all;            /* for messages */
    const char *next;
    Build *b;                   /* of the program so far */
    const Type *const *types;   /* of the arguments in the end; NULL: sizes are symbols */
    int nargs;
} Steps;

static _Noreturn void
no_steps(const Steps *s)
{
    fail(s->cx, DIAG_NOTATION_STEPS, s->all);
}

static bool
take(Steps *s, const char *word)
{
    size_t n = strlen(word);
    bool is = strncmp(s->next, word, n) == 0;
    s->next += is ? n : 0;
    return is;
}

/* Reads n flags and returns how many of them are set. */
static int
flags_read(Steps *s, int n, bool *out)
{
    int set = 0;
    for (int k = 0; k < n; k++, s->next++) {
        if (*s->next != '0' && *s->next != '1') {
            no_steps(s);
        }
        out[k] = *s->next == '1';
        set += out[k];
    }
    return set;
}

static bool *
flags_new(const Steps *s, int n)
{
    return cx_alloc(s->cx, (size_t)(n + 1) * sizeof(bool));
}

/* A parameter like each of the values with a flag; out: the values, and the new ones. */
static int
like_flagged(const Steps *s, const char *stem, int n, Value *const *values, const bool *flags,
             Value **of, Value **made)
{
    Fn *fn = build_fn(s->b);
    int count = 0;
    for (int k = 0; k < n; k++) {
        if (flags[k]) {
            if (!derive_has(values[k])) {
                no_steps(s);
            }
            of[count] = values[k];
            made[count++] = fn_param(fn, fn_fresh_name(fn, stem), values[k]->type, NULL);
        }
    }
    return count;
}

static Value **
values_new(const Steps *s, int n)
{
    return cx_alloc(s->cx, (size_t)(n + 1) * sizeof(Value *));
}

/* What has no derivative, because nothing depends on it, has zeros. */
static void
results_of_step(const Steps *s, int n, Value *const *like, Value **results)
{
    for (int k = 0; k < n; k++) {
        results[k] = results[k] ? results[k] : derive_zero(s->b, like[k]->type);
    }
    fn_results(build_fn(s->b), n, results, NULL);
}

static void
gradient_step(Steps *s)
{
    Fn *fn = build_fn(s->b);
    int nparams = fn->nparams, nrets = fn->body->nrets, nby = 0;
    bool *wanted = flags_new(s, nparams), *seeded = flags_new(s, nrets);
    Value **by = values_new(s, nparams), **of = values_new(s, nrets),
          **seeds = values_new(s, nrets), **out = values_new(s, nparams);
    flags_read(s, nparams, wanted);
    if (!take(s, "/")) {
        no_steps(s);
    }
    flags_read(s, nrets, seeded);
    for (int k = 0; k < nparams; k++) {
        if (wanted[k]) {
            by[nby++] = fn->params[k];
        }
    }
    int nof = like_flagged(s, "seed", nrets, fn->body->rets, seeded, of, seeds);
    derive(s->b, nof, of, seeds, nby, by, out);
    results_of_step(s, nby, by, out);
}

static void
tangent_step(Steps *s)
{
    Fn *fn = build_fn(s->b);
    int nparams = fn->nparams, nof = 0;
    bool *has = flags_new(s, nparams);
    Value **by = values_new(s, nparams), **given = values_new(s, nparams),
          **of = values_new(s, fn->body->nrets), **out = values_new(s, fn->body->nrets);
    flags_read(s, nparams, has);
    for (int k = 0; k < fn->body->nrets; k++) {
        if (derive_has(fn->body->rets[k])) {
            of[nof++] = fn->body->rets[k];
        }
    }
    int nby = like_flagged(s, "tangent", nparams, fn->params, has, by, given);
    tangents(s->b, nby, by, given, nof, of, out);
    results_of_step(s, nof, of, out);
}

/* ---- batches ---- */

/* A size symbol with a name that the function does not use yet. */
static Dim
new_size(const Steps *s, const Fn *fn)
{
    const char *name = "batch";
    for (int k = 0; k < fn->nsizes; k++) {
        if (fn->sizes[k] == dim_size(s->cx, cx_intern(s->cx, name, strlen(name)))) {
            name = cx_format(s->cx, "%s_", name);
            k = -1;
        }
    }
    return dim_size(s->cx, cx_intern(s->cx, name, strlen(name)));
}

/* How many of the steps from here on give the parameter an axis. */
static int
axes_of_batches(const char *steps, int param)
{
    int n = 0;
    for (const char *at = strstr(steps, "batch:"); at; at = strstr(at, "batch:")) {
        at += strlen("batch:");
        n += (int)strspn(at, "01") > param && at[param] == '1';
    }
    return n;
}

/* The size of the batch by an argument, whose axes of later steps stand before its own. */
static Dim
size_of_batch(const Steps *s, int nparams, const bool *which)
{
    for (int k = 0; k < nparams && k < s->nargs; k++) {
        int later = axes_of_batches(s->next, k);
        if (which[k] && later < s->types[k]->rank) {
            return s->types[k]->dims[later];
        }
    }
    no_steps(s);
}

static void
batch_step(Steps *s)
{
    Fn *fn = build_fn(s->b);
    bool *which = flags_new(s, fn->nparams);
    if (!flags_read(s, fn->nparams, which)) {
        no_steps(s);
    }
    Dim size = s->types ? size_of_batch(s, fn->nparams, which) : new_size(s, fn);
    s->b = batch(fn, which, size);
    if (!s->types) {
        fn_size(build_fn(s->b), size);
    }
}

static void
run_steps(Steps *s)
{
    while (*s->next) {
        if (take(s, "gradient:")) {
            gradient_step(s);
        } else if (take(s, "tangent:")) {
            tangent_step(s);
        } else if (take(s, "batch:")) {
            batch_step(s);
        } else {
            no_steps(s);
        }
        if (*s->next && !take(s, " ")) {
            no_steps(s);
        }
    }
}

/* ---- programs ---- */

Fn *
notation_fn(const Notation *n, const char *steps, const Dtype *dtypes)
{
    Steps s = {.cx = n->cx, .all = steps, .next = steps, .b = notation_of_dtypes(n, dtypes)};
    run_steps(&s);
    return build_fn(s.b);
}

/* The types of the text's own parameters, without the axes of batches; false: there are too few. */
static bool
types_of_text(const Notation *n, Cx *cx, const char *steps, int nargs, const Type *const *given,
              const Type **out)
{
    if (nargs < n->nparams) {
        return false;
    }
    for (int k = 0; k < n->nparams; k++) {
        int more = axes_of_batches(steps, k);
        if (given[k]->rank != n->ranks[k] + more) {
            return false;
        }
        out[k] = type_of(cx, given[k]->dtype, n->ranks[k], given[k]->dims + more);
    }
    return true;
}

static bool
fits(const Fn *fn, int nargs, const Type *const *types, int nres)
{
    bool is = nargs == fn->nparams && nres == fn->body->nrets;
    for (int k = 0; is && k < nargs; k++) {
        is = types[k] == fn->params[k]->type;
    }
    return is;
}

/* Builds the lets of one function in another one. */
static void
build_all(const Fn *fn, Build *b, Value *const *args, Value **results)
{
    const bool *used = values_in_use(fn);
    Value **map = cx_alloc(fn->cx, (size_t)fn->nvalues * sizeof *map);
    for (int k = 0; k < fn->nparams; k++) {
        map[fn->params[k]->id] = args[k];
    }
    for (int k = 0; k < fn->body->n; k++) {
        if (used[fn->body->lets[k]->res[0]->id]) {
            build_again(b, fn->body->lets[k], map);
        }
    }
    for (int k = 0; k < fn->body->nrets; k++) {
        results[k] = map[fn->body->rets[k]->id];
    }
}

/* Steps have a function of their own: they are not to see lets that stand around it. */
bool
notation_build(const Notation *n, const char *steps, Build *b, int nargs, Value *const *args,
               int nres, Value **results)
{
    Cx *cx = build_cx(b);
    const Type **types = cx_alloc(cx, (size_t)(nargs + 1) * sizeof *types),
               **own = cx_alloc(cx, (size_t)(n->nparams + 1) * sizeof *own);
    for (int k = 0; k < nargs; k++) {
        types[k] = args[k]->type;
    }
    if (!types_of_text(n, cx, steps, nargs, types, own)) {
        return false;
    }
    if (!*steps) {
        bool all = nargs == n->nparams && nres == n->nresults;
        if (all) {
            notation_lines(n, b, args, results);
        }
        return all;
    }
    Steps s = {.cx = cx, .all = steps, .next = steps, .types = types, .nargs = nargs};
    s.b = notation_of_types(n, cx, own);
    run_steps(&s);
    bool is = fits(build_fn(s.b), nargs, types, nres);
    if (is) {
        build_all(build_fn(s.b), b, args, results);
    }
    return is;
}
