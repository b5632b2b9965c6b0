/* Changes of the loops themselves: the rows NEST of changes.def carried out.
 *
 * What:     a candidate is a loop that is split, changes places with the one in it, or both.
 * Requires: the loops that all targets share, with the marks that dlc has chosen.
 * Ensures:  lines of a schedule that make verified loops, which compute the same bits: rule V55
 *           refuses two loops whose order two accesses need.
 * How:      the marks of the shared loops are taken away, the change is carried out, and the
 *           rewrites that choose marks choose them anew for the loops that there are then.  The
 *           lines say all of it, so a compile of the text does the same.
 * Why not   several changes in each other: a nest of three and more loops that threads and vectors
 *           do not share is rare, and each candidate is a compile. */
#include <string.h>

#include "codegen/loops/facts.h"
#include "codegen/loops/loops.h"
#include "codegen/rewrites.h"
#include "ir/costs.h"
#include "search.h"

typedef struct {
    const char *name;
    int64_t split, inner;
    bool reorders;
    double gain;
} Nest;

static const Nest nests[] = {
#define NEST(name, split, inner, reorders, gain) {#name, split, inner, reorders, gain},
#include "changes.def"
};

enum { NESTS = sizeof nests / sizeof *nests };

int
nest_count(void)
{
    return NESTS;
}

const char *
nest_name(int nest)
{
    return nests[nest].name;
}

double
nest_gain(int nest)
{
    return nests[nest].gain;
}

/* ---- the loops ---- */

typedef struct {
    Let *wanted;
    int at, n; /* at: the number of the wanted one; n: loops so far */
} Count;

/* Is it a loop of elements, and no part of a product or of steps in order? */
static bool
is_free(const Let *let)
{
    static const Marks fixed = MARK_steps | MARK_micro | MARK_pack | MARK_batch | MARK_rows |
                               MARK_columns;
    bool free = let->op == OP_for;
    for (; free && loop_is(let); let = let_around(let)) {
        for (int k = 0; k < MARK_COUNT && free && let->op == OP_for; k++) {
            free = !(fixed & mark_at(k)) || !let_has(let, mark_at(k));
        }
    }
    return free;
}

static void
count_loop(void *arg, Let *let)
{
    Count *c = arg;
    if (is_free(let)) {
        c->wanted = c->n == c->at ? let : c->wanted;
        c->n++;
    }
}

static Count
count_loops(Fn *fn, int at)
{
    Count c = {NULL, at, 0};
    fn_each_let(fn, count_loop, &c);
    return c;
}

int
nest_loops(const Fn *shared)
{
    return count_loops((Fn *)shared, -1).n; /* which changes nothing */
}

/* ---- a change ---- */

static void
take_marks(void *arg, Let *let)
{
    (void)arg;
    if (let->op == OP_for) {
        let_mark(let, MARK_parallel | MARK_vector | MARK_tile | MARK_recurrences, false);
    }
}

typedef struct {
    const CallSizes *sizes;
    Cx *cx;
} Sizes;

static int64_t
size_of(void *arg, Dim name)
{
    const Sizes *s = arg;
    for (int k = 0; k < s->sizes->n; k++) {
        if (strcmp(s->sizes->of[k].name, dim_name(s->cx, name)) == 0) {
            return s->sizes->of[k].value;
        }
    }
    return dim_extent(s->cx, name) != DIM_NONE ? 0 : dim_typical(s->cx, name);
}

/* Are there several blocks? */
static bool
splits(const Fn *fn, const CallSizes *sizes, const Let *loop, int64_t block)
{
    Sizes s = {sizes, fn->cx};
    return block == 0 || dim_eval(fn->cx, loop_extent(loop), size_of, &s) > block;
}

static void
mark_loop(Fn *fn, Let *loop, int64_t split, bool reorders, Text *out)
{
    text_add(out, "for %s", dim_name(fn->cx, loop_index(loop)));
    if (split) {
        let_mark_with(fn->cx, loop, MARK_split, split);
        text_add(out, " split=%lld", (long long)split);
    }
    if (reorders) {
        let_mark(loop, MARK_reorder, true);
        text_add(out, " reorder");
    }
    text_add(out, "\n");
}

typedef struct {
    const char *shared; /* as text: its loops get the names that those of a compile get */
    const CallSizes *sizes;
    const Nest *nest;
    int loop;
    Text out;
} Change;

static void
verify_again(Fn *fn)
{
    facts_forget(fn);
    verify_fn(fn);
}

static void
change(Cx *cx, void *arg)
{
    Change *c = arg;
    const Nest *nest = c->nest;
    Fn *fn = parse_fn(cx, c->shared, "schedule");
    Let *loop = count_loops(fn, c->loop).wanted;
    Let *inner = loop->body->n == 1 ? loop->body->lets[0] : NULL;
    bool two = nest->reorders || nest->inner;
    if ((two && (!inner || inner->op != OP_for || !is_free(inner))) ||
        !splits(fn, c->sizes, loop, nest->split) ||
        (two && !splits(fn, c->sizes, inner, nest->inner))) {
        return;
    }
    Text lines = {.cx = cx};
    fn_each_let(fn, take_marks, NULL);
    if (nest->inner) {
        mark_loop(fn, inner, nest->inner, false, &lines);
        rewrite_split(fn);
    }
    mark_loop(fn, loop, nest->split, nest->reorders, &lines);
    verify_again(fn);
    rewrite_parallelise(rewrite_vectorise(rewrite_reorder(rewrite_split(fn))));
    verify_again(fn);
    written_print(fn, TARGETS, &lines);
    text_add(&c->out, "%s", lines.text);
}

const char *
nest_make(const Fn *shared, const CallSizes *sizes, int nest, int loop)
{
    Text text = {.cx = shared->cx};
    Cx *cx = cx_new();
    print_fn(shared, &text);
    Change c = {text.text, sizes, &nests[nest], loop, {.cx = shared->cx}};
    bool made = cx && cx_try(cx, change, &c);
    if (cx) {
        cx_free(cx);
    }
    return made ? c.out.text : NULL;
}
