/* Smaller programs that still fail, by delta debugging on the text.
 *
 * What:     the smallest text found for which a predicate holds, from one for which it does.
 * Requires  a verified function of the graph stage; the predicate refuses (false) what does not
 *           parse or breaks a
 * and ensures: rule, since a candidate may;
 *           one of the graph stage, for which the predicate has held.
 * How:      steps, repeated until none helps. The tail is dropped: of the first half, quarter, ..
 *           of the lets, the values without users are returned instead of the results. Results are
 *           dropped, many at once and then one by one. The head is dropped: values of many lets,
 *           then of one, become parameters. A value is replaced by one of its operands, or by the
 *           number 1. Promised layouts are dropped, and numbers (including sizes) become smaller.
 *           Each time, unused lets, parameters and size symbols are dropped, and so are the source
 *           positions of lets.
 * Why not   lines of the text: nearly every text without a line is none.
 * Example:  python -m dlc reduce bug.dlc; build/test-fuzz shrinks what it finds.
 */
#include "print.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CUT = 1, MOST_RESULTS = MAX_RANK };

/* A candidate: the returned values, the lets whose values are parameters (marked CUT), and the
 * values read in place of others. */
typedef struct {
    Fn *fn;
    Value **rets;
    int *was; /* by result: which one of fn's, whose layout is promised; -1: none */
    int nrets;
    bool plain; /* no layout of a parameter is promised */
    Value **stand; /* by Value.id: the value read instead, or NULL */
    bool *live; /* by Value.id */
} Candidate;

typedef struct {
    Cx *cx;
    bool (*fails)(void *arg, const char *text);
    void *arg;
    const char *best;
    Candidate c; /* of the best text, as it is */
} Shrink;

/* ---- the text of a candidate ---- */

static Value *
stand_of(const Candidate *c, Value *v)
{
    while (!value_is_const(v) && c->stand[v->id]) {
        v = c->stand[v->id];
    }
    return v;
}

static void
need(Candidate *c, Value *v)
{
    v = stand_of(c, v);
    if (value_is_const(v) || c->live[v->id]) {
        return;
    }
    c->live[v->id] = true;
    for (int k = 0; v->def && v->def->mark != CUT && k < v->def->nargs; k++) {
        need(c, v->def->args[k]);
    }
}

static bool
let_lives(const Candidate *c, const Let *let)
{
    bool lives = false;
    for (int k = 0; k < let->nres; k++) {
        lives |= c->live[let->res[k]->id];
    }
    return lives;
}

static void
put_let(const Candidate *c, const Let *let, Text *out)
{
    Let copy = *let;
    copy.loc = (Loc){0};
    copy.args = cx_alloc(c->fn->cx, (size_t)let->nargs * sizeof *copy.args + 1);
    for (int k = 0; k < let->nargs; k++) {
        copy.args[k] = stand_of(c, let->args[k]);
    }
    print_let(&copy, 2, out);
}

static void
put_body(const Candidate *c, Text *out)
{
    const Block *body = c->fn->body;
    for (int k = 0; k < body->n; k++) {
        if (body->lets[k]->mark != CUT && let_lives(c, body->lets[k])) {
            put_let(c, body->lets[k], out);
        }
    }
    for (int k = 0; k < c->nrets; k++) {
        text_add(out, k ? ", %s" : "  ret %s", stand_of(c, c->rets[k])->name);
    }
    text_add(out, "\n}\n");
}

static void
put_param(const Value *v, bool plain, int *n, Text *out)
{
    Value copy = *v;
    copy.strides = plain ? NULL : v->strides;
    copy.over = NULL;
    text_add(out, (*n)++ ? ", " : "");
    print_binder(&copy, out);
}

static void
put_params(const Candidate *c, Text *out)
{
    int n = 0;
    for (int k = 0; k < c->fn->nparams; k++) {
        if (c->live[c->fn->params[k]->id]) {
            put_param(c->fn->params[k], c->plain, &n, out);
        }
    }
    for (int k = 0; k < c->fn->body->n; k++) {
        const Let *let = c->fn->body->lets[k];
        for (int j = 0; j < let->nres && let->mark == CUT; j++) {
            if (c->live[let->res[j]->id]) {
                put_param(let->res[j], true, &n, out);
            }
        }
    }
    text_add(out, ") -> (");
    for (int k = 0; k < c->nrets; k++) {
        text_add(out, k ? ", " : "");
        if (c->was[k] >= 0) {
            print_result(c->fn, c->was[k], out);
        } else {
            type_text(c->fn->cx, stand_of(c, c->rets[k])->type, out);
        }
    }
    text_add(out, ") {\n");
}

static bool
in_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The next position in the text where the word occurs by itself, or NULL. */
static const char *
find_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) {
        bool begins = at == text || (!in_word(at[-1]) && at[-1] != '.');
        if (begins && !in_word(at[length]) && at[length] != '.') {
            return at;
        }
    }
    return NULL;
}

static void
put_sizes(const Fn *fn, const char *used_in, Text *out)
{
    int n = 0;
    for (int k = 0; k < fn->nsizes; k++) {
        if (find_word(used_in, dim_name(fn->cx, fn->sizes[k]))) {
            text_add(out, n++ ? ", " : "[");
            print_size(fn->sizes[k], out);
        }
    }
    text_add(out, n ? "](" : "(");
}

static const char *
write_text(Candidate *c)
{
    Text out = {.cx = c->fn->cx}, rest = {.cx = c->fn->cx};
    memset(c->live, 0, (size_t)c->fn->nvalues * sizeof *c->live);
    for (int k = 0; k < c->nrets; k++) {
        const Result *r = c->was[k] >= 0 ? &c->fn->results[c->was[k]] : NULL;
        need(c, c->rets[k]);
        if (r && (r->kind == RESULT_INTO || r->kind == RESULT_VIEW_PARAM)) {
            need(c, c->fn->params[r->of]);
        }
    }
    put_params(c, &rest);
    put_body(c, &rest);
    text_add(&out, "dlc 1 graph\n\nfn %s", c->fn->name);
    put_sizes(c->fn, rest.text, &out);
    text_put(&out, rest.text, rest.length);
    return out.text;
}

/* ---- trying ---- */

/* Parses the best text so far and makes it the candidate. */
static void
open_best(Shrink *s)
{
    Fn *fn = parse_fn(s->cx, s->best, "case");
    int n = fn->body->nrets;
    s->c = (Candidate){.fn = fn, .rets = fn->body->rets, .nrets = n};
    s->c.stand = cx_alloc(s->cx, (size_t)fn->nvalues * sizeof *s->c.stand);
    s->c.live = cx_alloc(s->cx, (size_t)fn->nvalues * sizeof *s->c.live);
    s->c.was = cx_alloc(s->cx, (size_t)n * sizeof *s->c.was + 1);
    memset(s->c.stand, 0, (size_t)fn->nvalues * sizeof *s->c.stand);
    for (int k = 0; k < n; k++) {
        s->c.was[k] = k;
    }
}

/* If a smaller text fails, it becomes the best one, and its program is opened. */
static bool
try_text(Shrink *s, const char *text)
{
    size_t length = strlen(text), before = strlen(s->best);
    bool smaller = length < before || (length == before && strcmp(text, s->best) < 0);
    if (!smaller || !s->fails(s->arg, text)) {
        return false;
    }
    s->best = text;
    open_best(s);
    return true;
}

static bool
try_it(Shrink *s, const Candidate *c)
{
    Candidate copy = *c;
    return try_text(s, write_text(&copy));
}

/* ---- results ---- */

/* Values of the first n lets that none of these reads; false: none, or too many. */
static bool
return_first(Shrink *s, int n, Candidate *out)
{
    const Block *body = s->c.fn->body;
    bool *used = cx_alloc(s->cx, (size_t)s->c.fn->nvalues);
    memset(used, 0, (size_t)s->c.fn->nvalues);
    *out = s->c;
    out->rets = cx_alloc(s->cx, MOST_RESULTS * sizeof *out->rets);
    out->was = cx_alloc(s->cx, MOST_RESULTS * sizeof *out->was);
    out->nrets = 0;
    for (int k = n - 1; k >= 0; k--) {
        const Let *let = body->lets[k];
        for (int j = 0; j < let->nres; j++) {
            if (used[let->res[j]->id]) {
                continue;
            }
            if (out->nrets == MOST_RESULTS) {
                return false;
            }
            out->was[out->nrets] = -1;
            out->rets[out->nrets++] = let->res[j];
        }
        for (int j = 0; j < let->nargs; j++) {
            used[value_is_const(let->args[j]) ? 0 : let->args[j]->id] = true;
        }
    }
    return out->nrets > 0;
}

static bool
drop_tail(Shrink *s)
{
    bool better = false;
    for (int low = 1, high = s->c.fn->body->n; low < high;) {
        int middle = (low + high) / 2;
        Candidate c;
        if (return_first(s, middle, &c) && try_it(s, &c)) {
            better = true;
            high = s->c.fn->body->n < middle ? s->c.fn->body->n : middle;
        } else {
            low = middle + 1;
        }
    }
    return better;
}

/* Tries the candidate without the n results from k on. */
static bool
drop_results(Shrink *s, int k, int n)
{
    Candidate c = s->c;
    c.rets = cx_copy(s->cx, c.rets, (size_t)c.nrets * sizeof *c.rets);
    c.was = cx_copy(s->cx, c.was, (size_t)c.nrets * sizeof *c.was);
    c.nrets = 0;
    for (int j = 0; j < s->c.nrets; j++) {
        if (j < k || j >= k + n) {
            /* A view of another result names it by its number, which changes. */
            bool view = s->c.fn->results[j].kind == RESULT_VIEW_RESULT;
            c.was[c.nrets] = view ? -1 : s->c.was[j];
            c.rets[c.nrets++] = s->c.rets[j];
        }
    }
    return c.nrets > 0 && try_it(s, &c);
}

/* ---- lets ---- */

/* Values of n lets from k on become parameters. */
static bool
cut(Shrink *s, int k, int n)
{
    const Block *body = s->c.fn->body;
    for (int j = k; j < k + n; j++) {
        body->lets[j]->mark = CUT;
    }
    if (try_it(s, &s->c)) {
        return true;
    }
    for (int j = k; j < k + n; j++) {
        body->lets[j]->mark = 0;
    }
    return false;
}

/* Calls `step` with ever smaller parts of `count`: half, a quarter, .. one. */
static bool
in_chunks(Shrink *s, int (*count)(const Shrink *s), bool (*step)(Shrink *s, int k, int n))
{
    bool better = false;
    for (int n = (count(s) + 1) / 2; n > 0; n /= 2) {
        for (int k = 0; k < count(s);) {
            int most = count(s) - k < n ? count(s) - k : n;
            if (step(s, k, most)) {
                better = true;
            } else {
                k += n;
            }
        }
    }
    return better;
}

static int
count_lets(const Shrink *s)
{
    return s->c.fn->body->n;
}
static int
count_results(const Shrink *s)
{
    return s->c.nrets > 1 ? s->c.nrets : 0;
}

static bool
stand_for(Shrink *s, Value *v, Value *other)
{
    s->c.stand[v->id] = other;
    if (try_it(s, &s->c)) {
        return true;
    }
    s->c.stand[v->id] = NULL;
    return false;
}

/* An operand of the same type is read, or 1, or the value alone is returned. */
static bool
replace(Shrink *s, Let *let)
{
    static Value whole = {.literal = {.is_int = true, .i = 1}}, real = {.literal = {.f = 1}};
    Value *v = let->res[0];
    for (int k = 0; k < let->nargs; k++) {
        if (!value_is_const(let->args[k]) && let->args[k]->type == v->type &&
            stand_for(s, v, let->args[k])) {
            return true;
        }
    }
    Candidate c = s->c;
    int none = -1;
    c.rets = &v;
    c.was = &none;
    c.nrets = 1;
    if (try_it(s, &c)) {
        return true;
    }
    return stand_for(s, v, dtype_info[v->type->dtype].class == CLASS_FLOAT ? &real : &whole);
}

static bool
replace_each(Shrink *s)
{
    bool better = false;
    for (int k = 0; k < s->c.fn->body->n;) {
        Let *let = s->c.fn->body->lets[k];
        if (let->nres == 1 && replace(s, let)) {
            better = true;
        } else {
            k++;
        }
    }
    return better;
}

/* ---- layouts and numbers ---- */

static bool
drop_promises(Shrink *s)
{
    Candidate c = s->c;
    c.was = cx_copy(s->cx, c.was, (size_t)c.nrets * sizeof *c.was + 1);
    memset(c.was, -1, (size_t)c.nrets * sizeof *c.was);
    bool better = try_it(s, &c);
    c = s->c;
    c.plain = true;
    return try_it(s, &c) || better;
}

/* The text with every number `from` replaced by `to`. */
static const char *
renumber(Shrink *s, const char *from, const char *to)
{
    Text out = {.cx = s->cx};
    const char *rest = strchr(s->best, '\n'); /* after the version */
    text_put(&out, s->best, (size_t)(rest - s->best));
    for (const char *at = find_word(rest, from); at; at = find_word(rest, from)) {
        text_put(&out, rest, (size_t)(at - rest));
        text_add(&out, "%s", to);
        rest = at + strlen(from);
    }
    text_add(&out, "%s", rest);
    return out.text;
}

static bool
lessen(Shrink *s, long number)
{
    static const long parts[] = {0, 64, 16, 4, 2}; /* 0: as small as it can be and not special */
    char from[32], to[32];
    snprintf(from, sizeof from, "%ld", number);
    for (int k = 0; k < 5; k++) {
        long less = parts[k] ? number / parts[k] : 2;
        snprintf(to, sizeof to, "%ld", less);
        if (less >= 2 && less < number && try_text(s, renumber(s, from, to))) {
            return true;
        }
    }
    return false;
}

static bool
lessen_numbers(Shrink *s)
{
    bool better = false;
    for (const char *at = strchr(s->best, '\n'); *at; at++) {
        if (isdigit((unsigned char)*at) && !in_word(at[-1]) && at[-1] != '.') {
            char *end;
            long number = strtol(at, &end, 10);
            if (*end != '.' && !in_word(*end) && number > 2 && lessen(s, number)) {
                better = true;
                at = strchr(s->best, '\n');
            } else {
                at = end - 1;
            }
        }
    }
    return better;
}

const char *
shrink(Cx *cx, const char *text, bool (*fails)(void *arg, const char *text), void *arg)
{
    Shrink s = {cx, fails, arg, text, {0}};
    bool better = true;
    open_best(&s);
    try_it(&s, &s.c); /* without dead lets, and without source positions */
    while (better) {
        better = drop_tail(&s);
        better |= in_chunks(&s, count_results, drop_results);
        better |= in_chunks(&s, count_lets, cut);
        better |= replace_each(&s);
        better |= drop_promises(&s);
        better |= lessen_numbers(&s);
    }
    return s.best;
}
