/* Changes of a kernel's schedule: the rows of changes.def carried out on its loops.
 *
 * What:     a candidate is the loops of the target cc with a mark more, a mark less or another
 *           value, wherever the verifier accepts it.  Which schedule that is says its text
 *           (nest/written.c).
 * Requires: loops as the rewrites of the target, or earlier changes, leave them.
 * Ensures:  verified loops, which compute the same bits.
 * How:      the change is made everywhere at once.  If that is refused, it is made on one let after
 *           the other, and taken back where it is refused.  What is in arrays because of a mark is
 *           resized with it; where stages or flat rows change, the rewrite that marks arrays says
 *           anew which there are.
 * Why not:  one let at a time: equal loops of a kernel gain by the same change, and a search has
 *           time for some fifty candidates. */
#include "search.h"

#include <math.h>
#include <string.h>

#include "codegen/loops/loops.h"
#include "codegen/rewrites.h"
#include "ir/costs.h"

typedef enum { TIMES, OVER, SET, GIVE, TAKE } How;
typedef enum { PART, CONDITION } As;

typedef struct {
    Marks mark;
    const char *name;
    How how;
    int64_t by;
    double gain;
} Change;

typedef struct {
    Marks mark, beside;
    As as;
} Beside;

static const Change changes[] = {
#define CHANGE(mark, how, by, gain) {(Marks)1 << MARK_INDEX_##mark, #mark, how, by, gain},
#include "changes.def"
};

static const Beside besides[] = {
#define BESIDE(mark, beside, as) \
    {(Marks)1 << MARK_INDEX_##mark, (Marks)1 << MARK_INDEX_##beside, as},
#include "changes.def"
};

enum { CHANGES = sizeof changes / sizeof *changes, BESIDES = sizeof besides / sizeof *besides };

int
change_count(void)
{
    return CHANGES;
}

const char *
change_name(Cx *cx, int change)
{
    static const char *const signs[] = {"*", "/", "=", "+", "-"};
    if (change >= CHANGES) {
        return nest_name(change - CHANGES);
    }
    const Change *c = &changes[change];
    return cx_format(cx, c->by ? "%s%s%lld" : "%s%s", c->name, signs[c->how], (long long)c->by);
}

double
change_gain(int change)
{
    double gain = change < CHANGES ? changes[change].gain : nest_gain(change - CHANGES);
    return log1p(gain / 100);
}

/* ---- the lets of a phase ---- */

/* The attributes as they were: an operation has none for marks until it gets one. */
typedef struct {
    Let *let;
    Attr *attrs, marks;
    int nattrs;
} Saved;

typedef struct {
    Fn *fn;
    const CallSizes *sizes;
    const Change *change;
    int phase, at; /* the phase that is wanted; the one before the next */
    const Let *root; /* of the phase that the walk is in */
    Saved *lets; /* of the phases that are wanted */
    int n;
} Walk;

static int64_t
size_of(void *arg, Dim name)
{
    const Walk *w = arg;
    for (int k = 0; k < w->sizes->n; k++) {
        if (strcmp(w->sizes->of[k].name, dim_name(w->fn->cx, name)) == 0) {
            return w->sizes->of[k].value;
        }
    }
    return dim_typical(w->fn->cx, name);
}

static Attr *
marks_in(const Let *let)
{
    int k = 0;
    while (k < let->nattrs && let->attrs[k].kind != ATTR_MARKS) {
        k++;
    }
    return k < let->nattrs ? &let->attrs[k] : NULL;
}

/* Does the phase that the loop begins run at these sizes? */
static bool
begins_phase(Walk *w, const Let *let)
{
    Cx *cx = w->fn->cx;
    const Let *around = let->op == OP_for ? let_around(let) : let;
    return around && !loop_is(around) && let->op == OP_for &&
           dim_eval(cx, let_chosen(cx, let), size_of, w) > 0;
}

static void
add_let(void *arg, Let *let)
{
    Walk *w = arg;
    if (begins_phase(w, let)) {
        w->root = let;
        w->at++;
    }
    bool wanted = w->root && let_is_inside(let, w->root) &&
                  (w->phase == SCOPE_ALL || w->phase == w->at);
    if (wanted && marks_of(let->op)) {
        const Attr *marks = marks_in(let);
        w->lets = cx_grow(w->fn->cx, w->lets, w->n, sizeof *w->lets);
        w->lets[w->n++] = (Saved){let, let->attrs, marks ? *marks : (Attr){0}, let->nattrs};
    }
}

static Walk
walk(Fn *fn, const CallSizes *sizes, const Change *change, int phase)
{
    Walk w = {.fn = fn, .sizes = sizes, .change = change, .phase = phase, .at = -1};
    fn_each_let(fn, add_let, &w);
    return w;
}

int
change_phases(const Fn *loops, const CallSizes *sizes)
{
    return walk((Fn *)loops, sizes, NULL, SCOPE_ALL).at + 1; /* which changes nothing */
}

static void
save_all(Walk *w)
{
    for (int k = 0; k < w->n; k++) {
        const Attr *marks = marks_in(w->lets[k].let);
        w->lets[k].attrs = w->lets[k].let->attrs;
        w->lets[k].nattrs = w->lets[k].let->nattrs;
        w->lets[k].marks = marks ? *marks : (Attr){0};
    }
}

static void
restore_all(const Walk *w)
{
    for (int k = 0; k < w->n; k++) {
        w->lets[k].let->attrs = w->lets[k].attrs;
        w->lets[k].let->nattrs = w->lets[k].nattrs;
        if (marks_in(w->lets[k].let)) {
            *marks_in(w->lets[k].let) = w->lets[k].marks;
        }
    }
}

/* ---- marks ---- */

static void
take(Let *let, Marks marks)
{
    if (marks_of(let->op) & marks && marks_in(let)) {
        let_mark(let, marks_of(let->op) & marks, false);
    }
}

static void
take_inside(const Let *let, Marks marks)
{
    for (int k = 0; let->body && k < let->body->n; k++) {
        take(let->body->lets[k], marks);
        take_inside(let->body->lets[k], marks);
    }
}

static Marks
marks_beside(Marks mark, bool conditions)
{
    Marks all = 0;
    for (int k = 0; k < BESIDES; k++) {
        bool goes = besides[k].mark == mark && (!conditions || besides[k].as == CONDITION);
        all |= goes ? besides[k].beside : 0;
    }
    return all;
}

/* What becomes of an array of so many elements, where a mark's value that it has to do with does;
 * 0: none.  In flat rows an array has some for each row, and may have a row more. */
static int64_t
resized(const Change *c, int64_t elements, int64_t old, int64_t value, int64_t row)
{
    if (c->mark != MARK_flat) {
        return elements == old ? value : elements;
    }
    int64_t rest = elements % old == 0 ? 0 : row;
    return (elements - rest) % old == 0 && value ? (elements - rest) / old * value + rest : 0;
}

static void
resize(Cx *cx, const Change *c, const Block *blk, int64_t old, int64_t value, int64_t row)
{
    for (int k = 0; k < blk->n; k++) {
        Let *let = blk->lets[k];
        if (marks_of(let->op) & MARK_array && let_has(let, MARK_array)) {
            int64_t elements = resized(c, let_mark_value(let, MARK_array), old, value, row);
            let_mark_with(cx, let, MARK_array, elements ? elements : 1);
            let_mark(let, MARK_array, elements > 0);
        }
        if (let->body) {
            resize(cx, c, let->body, old, value, row);
        }
    }
}

static bool
has_any(const Let *let, Marks marks)
{
    bool any = false;
    for (int k = 0; k < MARK_COUNT; k++) {
        any |= marks & marks_of(let->op) & mark_at(k) && let_has(let, mark_at(k));
    }
    return any;
}

static bool
applies(const Change *c, const Let *let)
{
    bool can = marks_of(let->op) & c->mark, has = can && let_has(let, c->mark);
    int64_t value = has ? let_mark_value(let, c->mark) : 0;
    switch (c->how) {
    case GIVE:
        return can && !has;
    case SET:
        return has && (value != c->by || has_any(let, marks_beside(c->mark, true)));
    case OVER:
        return has && value % c->by == 0;
    case TIMES:
        return has && value <= INT32_MAX / c->by;
    case TAKE:
        return has;
    }
    return false;
}

static void
change_let(const Walk *w, Let *let)
{
    Cx *cx = w->fn->cx;
    const Change *c = w->change;
    int64_t old = c->how == GIVE ? 0 : let_mark_value(let, c->mark);
    int64_t value = c->how == TIMES ? old * c->by : c->how == OVER ? old / c->by : c->by;
    int64_t row = let_has(let, MARK_flat) ? let_mark_value(let, MARK_flat_row) : 0;
    let_take_marks(cx, let);
    if (c->how == TAKE) {
        Marks beside = marks_beside(c->mark, false);
        let_mark(let, c->mark, false);
        take(let, beside);
        take_inside(let, beside);
    } else if (mark_info[__builtin_ctzll((uint64_t)c->mark)].has_value) {
        let_mark_with(cx, let, c->mark, value);
        take(let, c->how == SET ? marks_beside(c->mark, true) : 0);
    } else {
        let_mark(let, c->mark, true);
    }
    if (c->mark & (MARK_width | MARK_distribute | MARK_flat) && let->body && old) {
        resize(cx, c, let->body, old, c->how == TAKE ? 0 : value, row);
    }
}

static void
verify_body(Cx *cx, void *fn)
{
    (void)cx;
    verify_fn(fn);
}

/* Is the let to be changed?  A flag of the C compiler is a phase's. */
static bool
is_wanted(const Walk *w, const Let *let)
{
    bool flag = w->change->mark & tuning_marks();
    return applies(w->change, let) && (!flag || !loop_is(let_around(let)));
}

const Fn *
change_make(const Fn *loops, const CallSizes *sizes, int change, int phase)
{
    Cx *cx = loops->cx;
    if (!tuning_matters(changes[change].mark)) {
        return NULL;
    }
    Fn *fn = fn_clone(loops);
    Walk w = walk(fn, sizes, &changes[change], phase);
    int wanted = 0;
    for (int k = 0; k < w.n; k++) {
        if (is_wanted(&w, w.lets[k].let)) {
            change_let(&w, w.lets[k].let);
            wanted++;
        }
    }
    if (!wanted || cx_try(cx, verify_body, fn)) {
        return wanted ? fn : NULL;
    }
    restore_all(&w);
    int accepted = 0;
    for (int k = 0; k < w.n && wanted > 1; k++) {
        if (is_wanted(&w, w.lets[k].let)) {
            save_all(&w);
            change_let(&w, w.lets[k].let);
            bool ok = cx_try(cx, verify_body, fn);
            accepted += ok;
            if (!ok) {
                restore_all(&w);
            }
        }
    }
    return accepted ? fn : NULL;
}
