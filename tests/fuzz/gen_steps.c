/* Random programs with loops over the elements of arrays: what a step reads and writes is an
 * element, a row, a column or a part, at a position that the number of the step gives.
 *
 * The program is written as text.  A step also chooses by a scalar, has loops in it, carries
 * numbers beside arrays and stacks rows.  All is exact: there are no sums of floats, so conditions
 * may depend on any value.  Where an index could be outside, it is the remainder by the size, and
 * an axis that may be empty is only indexed in a loop over it. */
#include "gen.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MOST_AXES = 5, MOST_VARS = 200, NONE = -1, DEEPEST = 3, TEXT = 48 };

typedef struct {
    char text[TEXT];
    int least;
} Axis;

/* A value; axes are places in axes of Gen. */
typedef struct {
    int id, rank, axes[2];
    Dtype dtype;
} Var;

typedef struct {
    Text *out;
    uint64_t *random;
    Dtype dtype;                /* of most values */
    Axis axes[MOST_AXES];
    int naxes, ids;
    bool plain;                 /* bodies have elements and loops over ranges alone */
} Gen;

/* A function or a body: what it can name. */
typedef struct {
    Gen *g;
    Var vars[MOST_VARS];
    int n, nparams, depth;
    Var step;                   /* id NONE: the function */
    int over;                   /* the axis that the steps go over */
} Scope;

static bool
is_float(Dtype dtype)
{
    return dtype_info[dtype].class == CLASS_FLOAT;
}

static bool
same_type(Var a, Var b)
{
    bool same = a.dtype == b.dtype && a.rank == b.rank;
    for (int ax = 0; same && ax < a.rank; ax++) {
        same = a.axes[ax] == b.axes[ax];
    }
    return same;
}

static Var
of_type(Dtype dtype, int rank, int a, int b)
{
    return (Var){NONE, rank, {a, b}, dtype};
}

/* ---- text ---- */

/* An axis of -1 has one element. */
static const char *
size_text(const Gen *g, int axis)
{
    return axis < 0 ? "1" : g->axes[axis].text;
}

static void
put_type(const Gen *g, Var v, const char *rows)
{
    text_add(g->out, "%s", dtype_info[v.dtype].name);
    if (v.rank || rows) {
        text_add(g->out, "[%s", rows ? rows : "");
        for (int ax = 0; ax < v.rank; ax++) {
            text_add(g->out, "%s%s", ax || rows ? ", " : "", size_text(g, v.axes[ax]));
        }
        text_add(g->out, "]");
    }
}

static void
indent(const Scope *s)
{
    text_add(s->g->out, "%*s", 2 + 2 * s->depth, "");
}

static Var
keep(Scope *s, Var v)
{
    if (s->n < MOST_VARS) {
        s->vars[s->n++] = v;
    }
    return v;
}

/* let vN: type = ..., which is not kept. */
static Var
let(Scope *s, Var type, const char *format, ...)
{
    char what[300];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    type.id = s->g->ids++;
    indent(s);
    text_add(s->g->out, "let v%d: ", type.id);
    put_type(s->g, type, NULL);
    text_add(s->g->out, " = %s\n", what);
    return type;
}

/* ---- choice ---- */

static Var
no_var(void)
{
    return (Var){.id = NONE};
}

/* A value of the type, at best a late one. */
static Var
some(Scope *s, Var like)
{
    Var found = no_var();
    for (int k = s->n - 1; k >= 0; k--) {
        if (same_type(s->vars[k], like) && (found.id == NONE || chance(s->g->random, 30))) {
            found = s->vars[k];
            if (chance(s->g->random, 50)) {
                break;
            }
        }
    }
    return found;
}

static Var
some_of_rank(Scope *s, int least)
{
    for (int k = 0; k < 12 && s->n; k++) {
        int from = chance(s->g->random, 50) && s->n > 6 ? s->n - 6 : 0;
        Var v = s->vars[from + below(s->g->random, s->n - from)];
        if (v.rank >= least && v.dtype == s->g->dtype) {
            return v;
        }
    }
    return no_var();
}

static bool
has_elements(const Scope *s, int axis)
{
    return s->g->axes[axis].least > 0 || (s->step.id != NONE && s->over == axis);
}

/* ---- what a step does ---- */

static Var
scalar_value(Scope *s)
{
    Gen *g = s->g;
    Var v = some(s, of_type(g->dtype, 0, 0, 0));
    if (v.id == NONE || chance(g->random, 15)) {
        Var n = s->step.id != NONE ? s->step : some(s, of_type(DT_i64, 0, 0, 0));
        if (n.id == NONE) {
            n = let(s, of_type(DT_i64, 0, 0, 0), "size dim=%s", size_text(g, 0));
        }
        v = g->dtype == DT_i64 ? n : keep(s, let(s, of_type(g->dtype, 0, 0, 0), "cast v%d", n.id));
    }
    return v;
}

/* A position on the axis, as an i64. */
static Var
position(Scope *s, int axis)
{
    Gen *g = s->g;
    Var t = of_type(DT_i64, 0, 0, 0), i = s->step, size;
    bool inside = i.id != NONE && s->over == axis;
    const Axis *a = &g->axes[axis];
    Var other = some(s, t);
    switch (below(g->random, 7)) {
    case 0:
    case 1:
        if (inside) {
            return i;
        }
        break;
    case 2:
        if (inside) {
            size = let(s, t, "size dim=%s - 1", a->text);
            return let(s, t, "sub v%d, v%d", size.id, i.id);
        }
        break;
    case 3:
        if (inside) {
            i = let(s, t, "sub v%d, 1", i.id);
            return let(s, t, "maximum v%d, 0", i.id);
        }
        break;
    case 4: {
        Var at = some(s, of_type(DT_i64, 1, axis, 0));
        if (at.id != NONE && inside) {
            Var one = let(s, of_type(DT_i64, 1, -1, 0), "reshape v%d", i.id);
            one = let(s, of_type(DT_i64, 1, -1, 0), "gather v%d, v%d axis=0 wrap=1", at.id, one.id);
            other = let(s, t, "reshape v%d", one.id);
        }
        break;
    }
    case 5:
        if (i.id != NONE && other.id != NONE) {
            size = let(s, t, "size dim=%s", size_text(g, below(g->random, g->naxes)));
            i = let(s, t, "mul v%d, v%d", i.id, size.id);
            other = let(s, t, "add v%d, v%d", i.id, other.id);
        }
        break;
    default:
        break;
    }
    i = other.id != NONE && chance(g->random, 70) ? other : i;
    if (i.id == NONE) {
        i = let(s, t, "size dim=%s", size_text(g, below(g->random, g->naxes)));
    }
    i = let(s, t, "add v%d, %d", i.id, below(g->random, 5) - 1);
    size = let(s, t, "size dim=%s", a->text);
    return let(s, t, "remainder v%d, v%d", i.id, size.id);
}

/* One position, in the shape of what is read or written there. */
static Var
index_at(Scope *s, Var array, int axis)
{
    Var at = position(s, array.axes[axis]);
    at = let(s, of_type(DT_i64, 1, -1, 0), "reshape v%d", at.id);
    if (array.rank == 2) {
        Var t = of_type(DT_i64, 2, axis ? array.axes[0] : -1, axis ? -1 : array.axes[1]);
        at = let(s, t, "expand v%d to=[%d]", at.id, axis);
    }
    return at;
}

static Var
part_type(Var array, int axis)
{
    array.axes[axis] = -1;
    return array;
}

/* A part with one position on the axis, as a value without the axis. */
static Var
read_at(Scope *s, Var array, int axis)
{
    Var one = of_type(DT_i64, 1, -1, 0), part = part_type(array, axis), without = part;
    Var at = position(s, array.axes[axis]);
    at = let(s, one, "reshape v%d", at.id);
    part = let(s, part, "gather v%d, v%d axis=%d wrap=%d", array.id, at.id, axis,
               below(s->g->random, 2));
    without.rank = array.rank - 1;
    without.axes[0] = array.rank == 2 ? array.axes[!axis] : NONE;
    return keep(s, let(s, without, "reshape v%d", part.id));
}

static Var
any_array(Scope *s)
{
    Var v = some_of_rank(s, 1);
    return v;
}

static void
do_read(Scope *s)
{
    Var a = any_array(s);
    if (a.id != NONE) {
        int axis = below(s->g->random, a.rank);
        if (has_elements(s, a.axes[axis])) {
            read_at(s, a, axis);
        }
    }
}

static void
do_write(Scope *s)
{
    static const char *const ops[] = {"store", "store", "store", "sum", "amax", "amin"};
    Gen *g = s->g;
    Var a = any_array(s);
    if (a.id == NONE) {
        return;
    }
    int axis = below(g->random, a.rank);
    if (!has_elements(s, a.axes[axis])) {
        return;
    }
    Var part = part_type(a, axis), without = part, v = no_var();
    without.rank = a.rank - 1;
    without.axes[0] = a.rank == 2 ? a.axes[!axis] : NONE;
    v = some(s, without);
    if (v.id != NONE) {
        v = let(s, part, "reshape v%d", v.id);
    } else {
        v = scalar_value(s);
        v = let(s, part, "expand v%d to=[]", v.id);
    }
    Var at = index_at(s, a, axis);
    keep(s, let(s, a, "scatter v%d, v%d, v%d op=%s axis=%d wrap=%d", a.id, at.id, v.id,
                ops[g->dtype == DT_bool ? 0 : below(g->random, 6)], axis, below(g->random, 2)));
}

/* Replaces one or two elements of an axis by those of another value. */
static void
do_slice(Scope *s)
{
    Gen *g = s->g;
    Var a = any_array(s);
    if (a.id == NONE) {
        return;
    }
    int axis = below(g->random, a.rank), from = below(g->random, 3), n = 1 + below(g->random, 2);
    Var v = some(s, a);
    const char *size = size_text(g, a.axes[axis]);
    if (g->axes[a.axes[axis]].least < from + n) {
        return;
    }
    const char *pieces[3];
    char text[3][2 * TEXT];
    const int starts[3] = {0, below(g->random, 2) ? from : 0, from + n};
    int ids[3];
    snprintf(text[0], sizeof text[0], "%d", from);
    snprintf(text[1], sizeof text[1], "%d", n);
    snprintf(text[2], sizeof text[2], "%s - %d", size, from + n);
    for (int k = 0; k < 3; k++) {
        pieces[k] = text[k];
        ids[k] = g->ids++;
        indent(s);
        text_add(g->out, "let v%d: %s[", ids[k], dtype_info[a.dtype].name);
        for (int ax = 0; ax < a.rank; ax++) {
            text_add(g->out, "%s%s", ax ? ", " : "",
                     ax == axis ? pieces[k] : size_text(g, a.axes[ax]));
        }
        text_add(g->out, "] = slice v%d axis=%d start=%d step=1\n", k == 1 ? v.id : a.id, axis,
                 starts[k]);
    }
    keep(s, let(s, a, "cat v%d, v%d, v%d axis=%d", ids[0], ids[1], ids[2], axis));
}

static void
do_map(Scope *s)
{
    static const char *const ops[] = {"add", "sub", "maximum", "minimum", "mul", "div"};
    Gen *g = s->g;
    Var a = some_of_rank(s, chance(g->random, 50));
    if (a.id == NONE) {
        return;
    }
    Var b = some(s, a);
    const char *op = ops[below(g->random, is_float(g->dtype) ? 6 : 5)];
    if (g->dtype == DT_bool) {
        op = chance(g->random, 50) ? "bit_xor" : "bit_and";
    }
    if (chance(g->random, 30)) {
        keep(s, let(s, a, "%s v%d, %s", op, a.id, is_float(g->dtype) ? "0.5" : "1"));
    } else {
        keep(s, let(s, a, "%s v%d, v%d", op, a.id, b.id));
    }
}

static Var
compare(Scope *s, Var a)
{
    static const char *const ops[] = {"lt", "le", "gt", "ne", "eq"};
    Var b = some(s, a), t = a;
    t.dtype = DT_bool;
    if (a.dtype == DT_bool || b.id == NONE || a.id == b.id) {
        return let(s, t, "%s v%d, %s", a.dtype == DT_bool ? "eq" : ops[below(s->g->random, 5)],
                   a.id, is_float(a.dtype) ? "0.5" : "1");
    }
    return let(s, t, "%s v%d, v%d", ops[below(s->g->random, 5)], a.id, b.id);
}

static void
do_where(Scope *s)
{
    Var a = some_of_rank(s, 0);
    if (a.id != NONE) {
        Var m = compare(s, a), b = some(s, a), c = some(s, a);
        keep(s, let(s, a, "where v%d, v%d, v%d", m.id, b.id, c.id));
    }
}

static void
do_reduce(Scope *s)
{
    Var a = any_array(s);
    bool good = a.id != NONE && a.dtype != DT_bool;
    for (int ax = 0; good && ax < a.rank; ax++) {
        good = has_elements(s, a.axes[ax]);
    }
    if (good) {
        keep(s, let(s, of_type(a.dtype, 0, 0, 0), "%s v%d axes=[%s]",
                    chance(s->g->random, 50) ? "amax" : "amin", a.id, a.rank == 2 ? "0, 1" : "0"));
    }
}

static void
do_spread(Scope *s)
{
    Var a = any_array(s), v = scalar_value(s);
    if (a.id != NONE) {
        keep(s, let(s, a, "expand v%d to=[]", v.id));
    }
}

static void
do_count(Scope *s)
{
    Var t = of_type(DT_i64, 0, 0, 0), a = some(s, t);
    a = a.id == NONE ? s->step : a;
    if (a.id != NONE) {
        keep(s, let(s, t, "add v%d, %d", a.id, 1 + below(s->g->random, 3)));
    }
}

/* ---- bodies ---- */

static void statements(Scope *s, int n);

static void
put_operands(const Gen *g, int first, int n, const Var *vars)
{
    for (int k = 0; k < n; k++) {
        text_add(g->out, "%sv%d", k || !first ? ", " : " ", vars[k].id);
    }
}

static Var
param(Scope *s, Var like, bool first)
{
    like.id = s->g->ids++;
    text_add(s->g->out, "%sv%d: ", first ? "" : ", ", like.id);
    put_type(s->g, like, NULL);
    return keep(s, like);
}

/* Up to `most` values that differ, behind the n that there are. */
static int
choose(Scope *s, int n, int most, bool arrays, Var *to)
{
    for (int tries = 0; tries < 3 * most && most > 0; tries++) {
        Var v = s->vars[below(s->g->random, s->n)];
        bool good = !arrays || v.rank > 0 || v.dtype == DT_i64;
        for (int k = 0; k < n && good; k++) {
            good = to[k].id != v.id;
        }
        if (good) {
            to[n++] = v;
            most--;
        }
    }
    return n;
}

static Scope *
inner_scope(Scope *s)
{
    Scope *in = cx_alloc(s->g->out->cx, sizeof *in);
    *in = (Scope){.g = s->g, .depth = s->depth + 1, .step = no_var(), .over = NONE};
    return in;
}

static void
put_returns(const Scope *in, const char *first, int n, const Var *vars)
{
    indent(in);
    text_add(in->g->out, "ret%s", first);
    put_operands(in->g, !*first, n, vars);
    text_add(in->g->out, "\n");
}

/* What the body returns for a value that it takes: mostly a new one. */
static Var
next_of(Scope *in, Var taken)
{
    return chance(in->g->random, 12) ? taken : some(in, taken);
}

static void
put_results(Scope *s, int n, const Var *types, Var *made, const char *rows, int carries)
{
    Gen *g = s->g;
    indent(s);
    text_add(g->out, "let ");
    for (int k = 0; k < n; k++) {
        made[k] = types[k];
        made[k].id = g->ids++;
        text_add(g->out, "%sv%d: ", k ? ", " : "", made[k].id);
        put_type(g, types[k], k < carries ? NULL : rows);
    }
}

static void
do_branch(Scope *s)
{
    Gen *g = s->g;
    Var taken[8], made[8], cond = compare(s, scalar_value(s));
    int nres = choose(s, 0, 1 + below(g->random, 2), true, taken);
    int n = choose(s, nres, below(g->random, 4), false, taken);
    if (!nres) {
        return;
    }
    put_results(s, nres, taken, made, NULL, nres);
    text_add(g->out, " = branch v%d", cond.id);
    put_operands(g, 0, n, taken);
    for (int k = 0; k < 2; k++) {
        Var rets[8];
        Scope *in = inner_scope(s);
        text_add(g->out, " (");
        for (int j = 0; j < n; j++) {
            rets[j] = param(in, taken[j], j == 0);
        }
        text_add(g->out, ") {\n");
        statements(in, below(g->random, 4));
        for (int j = 0; j < nres; j++) {
            rets[j] = next_of(in, rets[j]);
        }
        put_returns(in, "", nres, rets);
        indent(s);
        text_add(g->out, k ? "}\n" : "} else");
    }
    for (int k = 0; k < nres; k++) {
        keep(s, made[k]);
    }
}

/* How many steps, and the axis that they are positions of. */
static void
choose_steps(Gen *g, int depth, char *text, int *over, int *whole)
{
    int most = depth > 1 && g->naxes > 2 ? 2 : g->naxes; /* not all of N*M in a loop in a loop */
    int axis = below(g->random, most), least = g->axes[axis].least;
    *over = axis;
    *whole = NONE;
    if (chance(g->random, 25) || depth > 2) { /* nor of N*M steps in N in N others */
        int n = below(g->random, 5);
        snprintf(text, 2 * TEXT, "%d", n);
        *over = n <= least ? axis : NONE;
    } else if (least > 0 && chance(g->random, 40)) {
        snprintf(text, 2 * TEXT, "%s - 1", g->axes[axis].text);
    } else {
        snprintf(text, 2 * TEXT, "%s", g->axes[axis].text);
        *whole = axis;
    }
}

static Var
condition(Scope *in)
{
    Gen *g = in->g;
    Var t = of_type(DT_bool, 0, 0, 0);
    Var more = let(in, t, "lt v%d, %d", in->step.id, below(g->random, 6));
    Var v = some(in, of_type(chance(g->random, 50) ? g->dtype : DT_i64, 0, 0, 0));
    if (v.id != NONE && chance(g->random, 60)) {
        v = compare(in, v);
        more = let(in, t, "bit_and v%d, v%d", more.id, v.id);
    }
    return more;
}

/* down: from a size down to the number of the step around, which is the operand behind all others;
 * else up from that. */
typedef struct {
    Var operands[16], results[8], made[8];
    int carries, rows, n, nres;
    bool ranges, down;
    const char *size; /* of a loop over a range, which is an operand of carried values before all */
} Loops;

/* What the loop counts by, behind a step; more: is there another one? */
static Var
put_count(const Loops *l, Scope *in, Var counter, Var limit, Var *more)
{
    Var i64 = of_type(DT_i64, 0, 0, 0), yes = of_type(DT_bool, 0, 0, 0);
    int by = 1 + below(in->g->random, 2);
    if (l->down) {
        Var next = let(in, i64, "sub v%d, %d", counter.id, by);
        *more = let(in, yes, "gt v%d, v%d", next.id, limit.id);
        return next;
    }
    Var next = let(in, i64, "add v%d, %d", counter.id, by),
        size = let(in, i64, "size dim=%s", l->size);
    *more = let(in, yes, "lt v%d, v%d", next.id, size.id);
    return next;
}

/* The first number and the bool before the first step of a loop over a range that begins, or ends,
 * at the number of the step around. */
static Var
begin_range(Scope *s, Loops *l)
{
    Var i64 = of_type(DT_i64, 0, 0, 0), yes = of_type(DT_bool, 0, 0, 0);
    Var size = let(s, i64, "size dim=%s", l->size), from, go;
    if (l->down) {
        from = let(s, i64, "sub v%d, 1", size.id);
        go = let(s, yes, "gt v%d, v%d", from.id, s->step.id);
    } else {
        from = let(s, i64, "add v%d, %d", s->step.id, below(s->g->random, 3));
        go = let(s, yes, "lt v%d, v%d", from.id, size.id);
    }
    memmove(l->operands + 1, l->operands, (size_t)l->n * sizeof *l->operands);
    l->operands[0] = from;
    l->carries++;
    l->operands[++l->n] = s->step;
    l->n++;
    return go;
}

static void
choose_operands(Scope *s, Loops *l, int whole, bool whiles)
{
    Gen *g = s->g;
    l->carries = l->n = choose(s, 0, 1 + below(g->random, 3), true, l->operands);
    for (int k = 0; k < s->n && whole != NONE && !whiles && l->rows < 2; k++) {
        if (s->vars[k].rank && s->vars[k].axes[0] == whole && chance(g->random, 25)) {
            l->operands[l->n++] = s->vars[k];
            l->rows++;
        }
    }
    for (int stays = below(g->random, 3); stays > 0; stays--) { /* they may be carried as well */
        l->operands[l->n++] = s->vars[below(g->random, s->n)];
    }
}

/* The body, in a text of its own: its results say what the let's are. */
static void
put_body(Scope *s, Loops *l, Scope *in, bool whiles)
{
    Gen *g = s->g;
    Var rets[8];
    char cond[20] = "";
    text_add(g->out, " (v%d: i64", in->step.id);
    for (int k = 0; k < l->n; k++) {
        Var v = l->operands[k];
        if (k >= l->carries && k < l->carries + l->rows) {
            v.rank--;
            v.axes[0] = v.axes[1];
        }
        rets[k < 8 ? k : 7] = param(in, v, false);
    }
    text_add(g->out, ") {\n");
    Var counter = rets[0], limit = in->vars[in->n - 1], more;
    statements(in, l->ranges ? 1 + below(g->random, 3) : 2 + below(g->random, 6));
    for (int k = 0; k < l->carries; k++) {
        l->results[k] = rets[k] = next_of(in, rets[k]);
    }
    if (l->ranges) {
        l->results[0] = rets[0] = put_count(l, in, counter, limit, &more);
        snprintf(cond, sizeof cond, " v%d", more.id);
    } else if (whiles) {
        snprintf(cond, sizeof cond, " v%d", condition(in).id);
    }
    for (l->nres = l->carries; l->nres < 5 && !whiles && chance(g->random, 25); l->nres++) {
        Var v = in->vars[below(g->random, in->n)];
        if (v.rank > 1) {
            break;
        }
        l->results[l->nres] = rets[l->nres] = v;
    }
    put_returns(in, cond, l->nres, rets);
    indent(s);
    text_add(g->out, "}\n");
}

static void
do_loop(Scope *s)
{
    Gen *g = s->g;
    Loops l = {.carries = 0};
    char steps[2 * TEXT];
    int over, whole;
    bool plain = g->plain && s->depth > 0;
    bool whiles = plain || chance(g->random, 20),
         bound = !whiles || (!plain && chance(g->random, 40));
    choose_steps(g, s->depth + 1, steps, &over, &whole);
    over = bound ? over : NONE;
    choose_operands(s, &l, whole, whiles);
    if (!l.carries) {
        return;
    }
    Scope *in = inner_scope(s);
    in->step = of_type(DT_i64, 0, 0, 0);
    in->step.id = g->ids++;
    in->over = over;
    keep(in, in->step);
    Text *out = g->out, body = {.cx = out->cx};
    l.ranges = whiles && !bound && s->step.id != NONE;
    l.down = chance(g->random, 40);
    l.size = size_text(g, below(g->random, s->depth > 1 && g->naxes > 2 ? 2 : g->naxes));
    Var go = l.ranges ? begin_range(s, &l) : whiles ? compare(s, scalar_value(s)) : no_var();
    g->out = &body;
    put_body(s, &l, in, whiles);
    g->out = out;
    put_results(s, l.nres, l.results, l.made, steps, l.carries);
    text_add(out, " = loop");
    if (whiles) {
        text_add(out, " v%d", go.id);
    }
    put_operands(g, !whiles, l.n, l.operands);
    text_add(out, " carries=%d rows=%d", l.carries, l.rows);
    text_add(out, whiles ? " while=1" : "");
    if (bound) {
        text_add(out, " steps=[%s]", steps);
    }
    text_add(out, "%s", body.text);
    for (int k = 0; k < l.nres; k++) {
        Var v = l.made[k];
        if (k >= l.carries && whole == NONE) {
            continue; /* an axis that no other value has */
        }
        if (k >= l.carries) {
            v.axes[1] = v.axes[0];
            v.axes[0] = whole;
            v.rank++;
        }
        keep(s, v);
    }
}

static void
statements(Scope *s, int n)
{
    static const struct {
        int weight;
        void (*put)(Scope *s);
    } kinds[] = {
        {18, do_read},  {26, do_write}, {8, do_slice}, {16, do_map},   {8, do_where},
        {6, do_reduce}, {4, do_spread}, {4, do_count}, {5, do_branch}, {5, do_loop},
    };
    for (; n > 0 && s->g->plain && s->depth; n--) {
        int k = below(s->g->random, s->depth < DEEPEST ? 10 : 8);
        (k < 3 ? do_read : k < 7 ? do_write : k < 8 ? do_count : do_loop)(s);
    }
    for (; n > 0; n--) {
        int left = below(s->g->random, s->depth < DEEPEST ? 100 : 90), k = 0;
        while (left >= kinds[k].weight) {
            left -= kinds[k++].weight;
        }
        kinds[k].put(s);
    }
}

/* ---- the function ---- */

static void
choose_axes(Gen *g, char *declared, size_t room)
{
    static const struct {
        const char *range;
        int least;
    } ranges[] = {
        {"0..20", 0}, {"1..20", 1}, {"2..30", 2}, {"4..12", 4}, {"0..60", 0}, {"1..2", 1},
    };
    static const int numbers[] = {0, 1, 2, 3, 5, 9, 17};
    static const char *const names[] = {"N", "M"};
    size_t at = 0;
    declared[0] = '\0';
    for (int k = 0; k < 2; k++) {
        Axis *a = &g->axes[g->naxes++];
        if (chance(g->random, 60)) {
            int kind = below(g->random, 6);
            snprintf(a->text, sizeof a->text, "%s", names[k]);
            a->least = ranges[kind].least;
            at += (size_t)snprintf(declared + at, room - at, "%s%s in %s", at ? ", " : "", names[k],
                                   ranges[kind].range);
        } else {
            a->least = numbers[below(g->random, 7)];
            snprintf(a->text, sizeof a->text, "%d", a->least);
        }
    }
    if (strcmp(g->axes[0].text, g->axes[1].text) == 0) {
        g->naxes = 1;
    } else if (chance(g->random, 40)) {
        Axis *a = &g->axes[g->naxes++];
        a->least = g->axes[0].least * g->axes[1].least;
        snprintf(a->text, sizeof a->text, "%.20s*%.20s", g->axes[0].text, g->axes[1].text);
    }
}

static void
put_strides(const Gen *g, Var v)
{
    if (v.rank == 1 && chance(g->random, 40)) {
        text_add(g->out, " strides=[%d]", 1 + below(g->random, 3));
    } else if (v.rank == 2 && chance(g->random, 50)) {
        const char *rows = size_text(g, v.axes[0]), *columns = size_text(g, v.axes[1]);
        switch (below(g->random, 3)) {
        case 0:
            text_add(g->out, " strides=[1, %s]", rows);
            break;
        case 1:
            text_add(g->out, " strides=[%s + 3, 1]", columns);
            break;
        default:
            text_add(g->out, " strides=[2*(%s), 2]", columns);
            break;
        }
    }
}

static Var
array_type(Gen *g, int k)
{
    bool positions = k > 1 && chance(g->random, 25), number = k > 0 && chance(g->random, 20);
    int a = below(g->random, g->naxes), b = below(g->random, g->naxes < 2 ? 1 : 2);
    Dtype dtype = positions ? DT_i64 : g->dtype;
    return of_type(dtype, number ? 0 : positions || a > 1 || chance(g->random, 60) ? 1 : 2, a, b);
}

/* Values that are views of parameters. */
static void
put_views(Scope *s)
{
    for (int k = 0; k < s->nparams; k++) {
        Var v = s->vars[k], t = v;
        if (v.rank == 2 && chance(s->g->random, 30)) {
            t.axes[0] = v.axes[1];
            t.axes[1] = v.axes[0];
            keep(s, let(s, t, "permute v%d perm=[1, 0]", v.id));
        } else if (v.rank && chance(s->g->random, 20)) {
            keep(s, let(s, t, "flip v%d axes=[0]", v.id));
        }
    }
}

static Dtype
any_dtype(Gen *g)
{
    static const Dtype often[] = {DT_f32,  DT_f32,  DT_f64, DT_f64, DT_i64, DT_i32,
                                  DT_bool, DT_bf16, DT_f16, DT_u8,  DT_i8,  DT_i16};
    return often[below(g->random, (int)(sizeof often / sizeof *often))];
}

/* The results: the last values, one perhaps into a parameter that is dense in any order. */
static int
choose_results(Scope *s, Var *rets, int *into)
{
    Gen *g = s->g;
    int n = 0;
    for (int k = s->n - 1; k >= s->nparams && n < 3; k -= 1 + below(g->random, 2)) {
        rets[n++] = s->vars[k];
    }
    if (!n) {
        rets[n++] = let(s, of_type(DT_i64, 0, 0, 0), "size dim=%s", size_text(g, 0));
    }
    *into = NONE;
    for (int k = 0; k < s->nparams && *into == NONE; k++) {
        bool fits = same_type(s->vars[k], rets[0]) && s->vars[k].rank;
        *into = fits && chance(g->random, 60) ? s->vars[k].id : NONE;
    }
    return n;
}

Fn *
gen_steps(Cx *cx, uint64_t seed)
{
    uint64_t random = sample_seed(seed ^ 0x57e95);
    char declared[200];
    Text head = {.cx = cx}, body = {.cx = cx};
    Gen g = {.out = &head, .random = &random, .plain = chance(&random, 30)};
    Scope *s = cx_alloc(cx, sizeof *s);
    Var rets[3];
    int into;
    *s = (Scope){.g = &g, .step = no_var(), .over = NONE};
    g.dtype = any_dtype(&g);
    choose_axes(&g, declared, sizeof declared);
    text_add(&head, "dlc 1 graph\n\nfn steps%s%s%s(", *declared ? "[" : "", declared,
             *declared ? "]" : "");
    for (int k = 2 + below(&random, 4); k > 0; k--) {
        Var v = param(s, array_type(&g, s->n), s->n == 0);
        put_strides(&g, v);
    }
    s->nparams = s->n;
    g.out = &body;
    put_views(s);
    statements(s, below(&random, 2));
    do_loop(s);
    statements(s, below(&random, 2));
    for (int k = below(&random, 2); k > 0; k--) {
        do_loop(s);
    }
    int n = choose_results(s, rets, &into);
    put_returns(s, "", n, rets);
    text_add(&head, ") -> (");
    g.out = &head;
    for (int k = 0; k < n; k++) {
        text_add(&head, k ? ", " : "");
        put_type(&g, rets[k], NULL);
        if (k == 0 && into != NONE) {
            text_add(&head, " into v%d", into);
        }
    }
    text_add(&head, ") {\n%s}\n", body.text);
    Fn *fn = parse_fn(cx, head.text, "steps");
    verify_fn(fn);
    return fn;
}
