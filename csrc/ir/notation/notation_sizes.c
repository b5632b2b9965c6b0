/* Einstein notation: the sizes of a line's indices.
 *
 * An index has the size of the axes that it reads whole: two of them are of one size, and where
 * both are parameters their symbols become one.  An index that only stands in sums, as x of I[x+k],
 * has as many places as keep every such read without an edge inside of its axis.  One that only
 * reads with an edge has the size of the axis. */
#include "notation.h"

#include <string.h>

Named *
named_find(Scene *s, const char *name)
{
    for (int k = 0; k < s->nnamed; k++) {
        if (s->named[k].name == name) {
            return &s->named[k];
        }
    }
    return NULL;
}

int
letter_find(const Scene *s, const char *name)
{
    for (int k = 0; k < s->nletters; k++) {
        if (s->letters[k].name == name) {
            return k;
        }
    }
    return -1;
}

static void
letter_add(Scene *s, const char *name, const char *at, bool reduced)
{
    if (letter_find(s, name) >= 0) { /* of another reduction of the line: the same size */
        return;
    }
    if (s->nletters == MAX_LETTERS) {
        notation_fail(s->notation, at,
                      "a line may have %d indices: give a part of it a line of its own",
                      MAX_LETTERS);
    }
    s->letters[s->nletters++] = (Letter){.name = name, .at = at, .reduced = reduced};
}

static void
letters_of(Scene *s, const Expr *e)
{
    for (int k = 0; e->kind == EXPR_REDUCE && k < e->nnames; k++) {
        letter_add(s, e->names[k], e->at, true);
    }
    for (int k = 0; k < e->n; k++) {
        letters_of(s, e->args[k]);
    }
}

/* ---- the form of an index ---- */

Dim
size_read(Scene *s, const Expr *e)
{
    if (e->literal.i < 0) {
        int k = letter_find(s, e->name);
        if (k < 0) {
            notation_fail(s->notation, e->at,
                          "'%s' is no index of this line; of an argument: size(%s, 0)", e->name,
                          e->name);
        }
        return s->letters[k].dim;
    }
    Named *of = named_find(s, e->name);
    if (!of || e->literal.i >= of->rank) {
        notation_fail(s->notation, e->at,
                      of ? "'%s' has no axis of that number: axes count from 0"
                         : "'%s' is no argument, and no earlier line",
                      e->name);
    }
    return of->dims[e->literal.i];
}

static void
affine_add(Affine *a, int letter, int64_t times)
{
    for (int k = 0; k < a->n; k++) {
        if (a->letter[k] == letter) {
            a->times[k] += times;
            return;
        }
    }
    a->letter[a->n] = letter;
    a->times[a->n++] = times;
}

static bool
affine_sum(Scene *s, const Expr *e, int64_t times, Affine *out)
{
    Affine a = {.offset = dim_int(s->cx, 0)}, b = a;
    int64_t factor;
    switch (e->op) {
    case OP_neg:
        return affine_read(s, e->args[0], &a) && a.n < 4 && affine_sum(s, e->args[0], -times, out);
    case OP_add:
    case OP_sub:
        return affine_sum(s, e->args[0], times, out) &&
               affine_sum(s, e->args[1], e->op == OP_add ? times : -times, out);
    case OP_mul:
        if (!affine_read(s, e->args[0], &a) || !affine_read(s, e->args[1], &b)) {
            return false;
        }
        if (a.n == 0 && dim_is_int(s->cx, a.offset, &factor)) {
            return affine_sum(s, e->args[1], times * factor, out);
        }
        return b.n == 0 && dim_is_int(s->cx, b.offset, &factor) &&
               affine_sum(s, e->args[0], times * factor, out);
    case OP_COUNT:
        break;
    default:
        return false;
    }
    if (e->kind == EXPR_NUMBER && e->literal.is_int) {
        out->offset = dim_add(s->cx, out->offset, dim_int(s->cx, times * e->literal.i));
        return true;
    }
    if (e->kind == EXPR_SIZE) {
        Dim d = size_read(s, e);
        out->offset = d == DIM_NONE || out->offset == DIM_NONE
                          ? DIM_NONE
                          : dim_add(s->cx, out->offset, dim_mul(s->cx, d, dim_int(s->cx, times)));
        return out->offset != DIM_NONE;
    }
    int k = e->kind == EXPR_NAME ? letter_find(s, e->name) : -1;
    if (k < 0 || out->n == 4) {
        return false;
    }
    affine_add(out, k, times);
    return true;
}

bool
affine_read(Scene *s, const Expr *e, Affine *out)
{
    *out = (Affine){.offset = dim_int(s->cx, 0)};
    bool is = affine_sum(s, e, 1, out);
    int n = 0;
    for (int k = 0; k < out->n; k++) {
        out->letter[n] = out->letter[k];
        out->times[n] = out->times[k];
        n += out->times[k] != 0;
    }
    out->n = n;
    return is;
}

/* ---- whole axes ---- */

static _Noreturn void
two_sizes(Scene *s, const Expr *e, const Letter *letter, Dim axis)
{
    Text before = {.cx = s->cx}, here = {.cx = s->cx};
    dim_text(s->cx, letter->dim, &before);
    dim_text(s->cx, axis, &here);
    if (s->fixed) {
        fail(s->cx, DIAG_TWO_SIZES, letter->name, before.text, e->name, here.text);
    }
    notation_fail(s->notation, e->at,
                  "index '%s' has the size %s before, and the axis of '%s' has %s: "
                  "read a part by a range (for %s in 0..n)",
                  letter->name, before.text, e->name, here.text, letter->name);
}

/* Is it the size of a parameter's axis that nothing else determines? */
static bool
is_free(const Scene *s, Dim d)
{
    return !s->fixed && dim_is_name(s->cx, d);
}

static void
make_equal(Scene *s, const Expr *e, Letter *letter, Dim axis)
{
    Dim from = is_free(s, axis) ? axis : letter->dim, to = from == axis ? letter->dim : axis;
    if (!is_free(s, from) || dim_uses(s->cx, to, from)) {
        two_sizes(s, e, letter, axis);
    }
    for (int k = 0; k < s->nnamed; k++) {
        for (int ax = 0; ax < s->named[k].rank; ax++) {
            s->named[k].dims[ax] = dim_replace(s->cx, s->named[k].dims[ax], from, to);
        }
    }
    for (int k = 0; k < s->nletters; k++) {
        if (s->letters[k].dim != DIM_NONE) {
            s->letters[k].dim = dim_replace(s->cx, s->letters[k].dim, from, to);
        }
    }
    s->again = true;
}

static void
whole_axes(Scene *s, const Expr *e)
{
    for (int k = 0; k < e->n; k++) {
        whole_axes(s, e->args[k]);
    }
    Named *of = e->kind == EXPR_READ ? named_find(s, e->name) : NULL;
    for (int ax = 0; of && ax < e->n; ax++) {
        int k = e->args[ax]->kind == EXPR_NAME ? letter_find(s, e->args[ax]->name) : -1;
        if (k < 0 || s->letters[k].span) {
            continue;
        }
        if (s->letters[k].dim == DIM_NONE) {
            s->letters[k].dim = of->dims[ax];
        } else if (s->letters[k].dim != of->dims[ax]) {
            make_equal(s, e, &s->letters[k], of->dims[ax]);
        }
    }
}

/* ---- what is left ---- */

/* How many places the one letter of unknown size may have; false: there is none, or several. */
static bool
places(Scene *s, const Affine *a, Dim axis, int *letter, Dim *out)
{
    Cx *cx = s->cx;
    int unknown = -1;
    Dim last = dim_sub(cx, dim_sub(cx, axis, dim_int(cx, 1)), a->offset);
    for (int k = 0; k < a->n; k++) {
        Dim dim = s->letters[a->letter[k]].dim;
        if (dim == DIM_NONE) {
            if (unknown >= 0 || a->times[k] < 0) {
                return false;
            }
            unknown = k;
        } else if (a->times[k] > 0) {
            last = dim_sub(cx, last,
                           dim_mul(cx, dim_int(cx, a->times[k]), dim_sub(cx, dim, dim_int(cx, 1))));
        }
    }
    if (unknown < 0) {
        return false;
    }
    *letter = a->letter[unknown];
    *out = dim_add(cx, dim_div(cx, last, dim_int(cx, a->times[unknown])), dim_int(cx, 1));
    return true;
}

/* edge: of reads with an edge, whose letter gets the size of the axis. */
static void
sums_of(Scene *s, const Expr *e, bool edge, Dim *found)
{
    for (int k = 0; k < e->n; k++) {
        sums_of(s, e->args[k], edge, found);
    }
    Named *of = e->kind == EXPR_READ && (e->edge != EDGE_NONE) == edge ? named_find(s, e->name)
                                                                       : NULL;
    for (int ax = 0; of && ax < e->n; ax++) {
        Affine a;
        int letter;
        Dim dim;
        if (affine_read(s, e->args[ax], &a) && places(s, &a, of->dims[ax], &letter, &dim)) {
            dim = edge ? of->dims[ax] : dim;
            Dim *to = &found[letter];
            *to = *to == DIM_NONE || dim_le(s->cx, dim, *to) ? dim
                  : dim_le(s->cx, *to, dim) || edge          ? *to
                                                             : dim_min(s->cx, *to, dim);
        }
    }
}

static bool
sums_once(Scene *s, const Line *line, bool edge)
{
    Dim found[MAX_LETTERS] = {DIM_NONE};
    bool any = false;
    sums_of(s, line->body, edge, found);
    for (int k = 0; k < s->nletters; k++) {
        if (found[k] != DIM_NONE) {
            s->letters[k].dim = found[k];
            any = true;
        }
    }
    return any;
}

/* Reads the bound of a range, which consists of numbers and sizes. */
static Dim
bound_of(Scene *s, const Expr *e)
{
    Cx *cx = s->cx;
    if (e->kind == EXPR_NUMBER && e->literal.is_int) {
        return dim_int(cx, e->literal.i);
    }
    if (e->kind == EXPR_SIZE) {
        Dim d = size_read(s, e);
        if (d == DIM_NONE) {
            notation_fail(s->notation, e->at, "the size of index '%s' is not known here", e->name);
        }
        return d;
    }
    Dim a = e->n == 2 ? bound_of(s, e->args[0]) : DIM_NONE,
        b = e->n == 2 ? bound_of(s, e->args[1]) : DIM_NONE;
    switch (e->n == 2 ? e->op : OP_COUNT) {
    case OP_add:
        return dim_add(cx, a, b);
    case OP_sub:
        return dim_sub(cx, a, b);
    case OP_mul:
        return dim_mul(cx, a, b);
    case OP_div_floor:
        return dim_div(cx, a, b);
    case OP_remainder:
        return dim_mod(cx, a, b);
    case OP_maximum:
        return dim_max(cx, a, b);
    case OP_minimum:
        return dim_min(cx, a, b);
    default:
        break;
    }
    notation_fail(s->notation, e->at,
                  "a range ends with a number, a size as in 0..size(x, 0), or sums, products, "
                  "// and %% of these");
}

/* A maximum needs a place, and a window too: then steps of rows that it makes longer are not
 * negative. */
static void
need_place(Scene *s, int letter)
{
    Dim d = s->letters[letter].dim;
    if (!s->fixed && dim_is_name(s->cx, d)) {
        dim_declare(s->cx, d, (Range){1, DIM_INF}, 1);
    }
}

static void
need_places(Scene *s, const Expr *e)
{
    for (int k = 0; k < e->n; k++) {
        Affine a;
        need_places(s, e->args[k]);
        bool window = e->kind == EXPR_READ && affine_read(s, e->args[k], &a) && a.n > 1;
        for (int j = 0; window && j < a.n; j++) {
            if (s->letters[a.letter[j]].reduced) {
                need_place(s, a.letter[j]);
            }
        }
    }
    bool needs = e->kind == EXPR_REDUCE &&
                 (e->op == OP_amax || e->op == OP_amin || op_info[e->op].rule == RULE_INDEX);
    for (int k = 0; needs && k < e->nnames; k++) {
        need_place(s, letter_find(s, e->names[k]));
    }
}

/* ---- the order of the letters ----
 *
 * Loops over a value have the order of its letters.  The result's is given; the others are where
 * operands have them: so few operands are transposed, and loops go along what is adjacent. */

/* first[a][b]: a is before b; closed, so that a before b and b before c has a before c. */
typedef struct {
    bool first[MAX_LETTERS][MAX_LETTERS];
} Before;

/* Letter a before letter b, unless b is before a already. */
static void
before_add(Before *before, int n, int a, int b)
{
    if (a == b || before->first[b][a]) {
        return;
    }
    for (int x = 0; x < n; x++) {
        for (int y = 0; y < n; y++) {
            bool leads = x == a || before->first[x][a], follows = y == b || before->first[b][y];
            before->first[x][y] |= leads && follows;
        }
    }
}

/* As the axes of each read are ordered, those whose index is a letter alone. */
static void
before_reads(const Scene *s, const Expr *e, Before *before)
{
    int last = -1;
    for (int k = 0; k < e->n; k++) {
        bool alone = e->kind == EXPR_READ && e->args[k]->kind == EXPR_NAME;
        int letter = alone ? letter_find(s, e->args[k]->name) : -1;
        if (last >= 0 && letter >= 0) {
            before_add(before, s->nletters, last, letter);
        }
        last = letter >= 0 ? letter : last;
        before_reads(s, e->args[k], before);
    }
}

static void
order_letters(Scene *s, const Line *line)
{
    Before before = {{{false}}};
    Letter ordered[MAX_LETTERS];
    bool placed[MAX_LETTERS] = {false};
    for (int k = 1; k < line->nleft; k++) {
        before_add(&before, s->nletters, k - 1, k);
    }
    before_reads(s, line->body, &before);
    for (int n = 0; n < s->nletters; n++) {
        int next = 0;
        for (bool waits = true; waits; next += waits) {
            waits = placed[next];
            for (int k = 0; k < s->nletters; k++) {
                waits |= before.first[k][next] && !placed[k];
            }
        }
        placed[next] = true;
        ordered[n] = s->letters[next];
    }
    memcpy(s->letters, ordered, (size_t)s->nletters * sizeof *ordered);
}

void
sizes_of_line(Scene *s, const Line *line)
{
    s->nletters = 0;
    for (int k = 0; k < line->nleft; k++) {
        letter_add(s, line->left[k], line->at, false);
    }
    letters_of(s, line->body);
    order_letters(s, line);
    whole_axes(s, line->body); /* sizes that a bound may name */
    for (int k = 0; k < line->nspans; k++) {
        const Span *span = &line->spans[k];
        int letter = letter_find(s, span->name);
        if (letter < 0) {
            notation_fail(s->notation, span->at, "'%s' is no index of this line", span->name);
        }
        s->letters[letter].span = true;
    }
    for (int k = 0; k < s->nletters; k++) {
        s->letters[k].dim = DIM_NONE;
    }
    whole_axes(s, line->body);
    for (int k = 0; k < line->nspans; k++) {
        s->letters[letter_find(s, line->spans[k].name)].dim = bound_of(s, line->spans[k].bound);
    }
    while (sums_once(s, line, false) || sums_once(s, line, true)) {
    }
    for (int k = 0; k < s->nletters; k++) {
        if (s->letters[k].dim == DIM_NONE) {
            notation_fail(s->notation, s->letters[k].at,
                          "nothing tells the size of index '%s': write for %s in 0..n at "
                          "the end of the line",
                          s->letters[k].name, s->letters[k].name);
        }
    }
    need_places(s, line->body);
}
