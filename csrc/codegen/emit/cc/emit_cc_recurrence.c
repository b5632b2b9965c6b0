/* Loops marked `recurrences`, for an optimising C compiler: scans along memory.
 *
 * What:     a loop around one whose iterations follow each other; so many of its own run together.
 * Requires: a `recurrences` loop as schedule.c marks it, in stages if the loop in it is marked
 *           distribute (schedule/distribute.c).
 * Ensures:  each recurrence's combinations in their order; the other operations change places.
 * How:      scans alone of floats lie in the lanes of vectors (prelude_scan.h).  Other recurrences
 *           run some at a time, as the mark jam says.  Where the loop is not in stages, that is
 *           element after element of these, and what each has come to is a variable.  In stages, it
 *           is for some elements of the axis one stage after the other, each for all the
 *           recurrences at hand: what can be computed as a vector, into an array; the recurrences,
 *           from that array to another; then what follows.  What a stage wants of an earlier one
 *           stands in an array, loads are made again.
 * Example:  y = cumsum(x) of f32[B, N]:
 *               for 4 rows: for j in N { x[i, j] cast, added, cast, stored; four times };
 *           y = cumsum(exp(x)):
 *               for 8 rows, for 128 columns: exp and cast to f64; run_add_f64; cast to f32.
 */
#include <string.h>

#include "emit_cc.h"

typedef struct {
    Emit *e;
    const Let *rows, *loop;     /* the loop marked recurrences, and the one in it */
    int together, jam, width;   /* their marks recurrences, jam and distribute */
    const char *i, *j;
    bool *wanted;    /* by Value.id, of the rows' own block: the stage at hand wants it */
    bool uses_i, uses_j;        /* does what is being put? */
    int last;    /* stage; vectors have odd numbers, recurrences even ones, from 1 on */
} Recurrences;

static bool
is_run_access(const Recurrences *c, const Let *let)
{
    const Let *buffer = let_accesses(let) ? let->args[0]->def : NULL;
    return buffer && buffer->op == OP_buffer && buffer->parent == c->rows->body;
}

/* ---- stages ---- */

/* 0: what is in no stage, as it is made again where it is wanted, or belongs to a recurrence. */
static int
stage_of(const Recurrences *c, const Let *let)
{
    bool stores = let->op == OP_store && !is_run_access(c, let);
    return stores ? c->last : let_is_map(let) ? cc_stage(let) : 0;
}

static bool
is_recurrence(const Let *let)
{
    return let_is_map(let) && loop_carried(let);
}

/* ---- emission ---- */

/* Recurrences side by side: x[r][k] is combined with what run[r] has come to, into out[r][k]. */
static const char *
make_run(const Recurrences *c, const Let *combine)
{
    Emit *e = c->e;
    int width = c->width;
    const char *op = cc_function(e, combine), *type = type_c(combine->res[0]->type->dtype);
    bool across = let_has(combine, MARK_across);
    const char *name = cx_format(e->cx, "run_%s%s", op + strlen("op_"), across ? "_across" : "");
    if (!new_helper(e, name)) {
        return name;
    }
    if (across) {
        text_add(e->helpers,
                 "\n/* All recurrences together, as a vector. */\nstatic inline void\n"
                 "%s(%s (*out)[%d], %s (*x)[%d], %s *run, int64_t w)\n{\n"
                 "    for (int64_t k = 0; k < w; k++) {\n        LANES\n"
                 "        for (int r = 0; r < %d; r++) {\n"
                 "            out[r][k] = run[r] = %s(run[r], x[r][k]);\n        }\n    }\n}\n",
                 name, type, width, type, width, type, c->together, op);
        return name;
    }
    text_add(
        e->helpers,
        "\n/* Recurrences side by side, each in its order. */\nstatic inline void\n"
        "%s(%s (*out)[%d], %s (*x)[%d], %s *run, int64_t rows, int64_t w)\n{\n    int64_t r = 0;\n",
        name, type, width, type, width, type);
    for (int together = c->jam; together > 0; together = together > 1 ? 1 : 0) {
        text_add(e->helpers, "    for (; r + %d <= rows; r += %d) {\n        %s", together,
                 together, type);
        for (int k = 0; k < together; k++) {
            text_add(e->helpers, "%s v%d = run[r + %d]", k ? "," : "", k, k);
        }
        text_add(e->helpers, ";\n        for (int64_t k = 0; k < w; k++) {\n");
        for (int k = 0; k < together; k++) {
            text_add(e->helpers, "            out[r + %d][k] = v%d = %s(v%d, x[r + %d][k]);\n", k,
                     k, op, k, k);
        }
        text_add(e->helpers, "        }\n");
        for (int k = 0; k < together; k++) {
            text_add(e->helpers, "        run[r + %d] = v%d;\n", k, k);
        }
        text_add(e->helpers, "    }\n");
    }
    text_add(e->helpers, "}\n");
    return name;
}

static const char *
run_of(Recurrences *c, const Let *combine)
{
    return name_c(c->e, loop_carried(combine)->args[0]);
}

/* An index is declared where it is used. */
static void
put_let(Recurrences *c, const Let *let)
{
    c->uses_i |= facts_uses(c->e->facts, let, loop_index(c->rows));
    c->uses_j |= facts_uses(c->e->facts, let, loop_index(c->loop));
    cc_let(c->e, let);
}

/* What stands in arrays, and where the recurrences have come to. */
static void
declare(Recurrences *c)
{
    Emit *e = c->e;
    for (int k = 0; k < c->loop->body->n; k++) {
        const Let *let = c->loop->body->lets[k];
        if (is_recurrence(let)) {
            put(e, "%s %s_x[%d][%d]%s;", type_c(let->res[0]->type->dtype), name_c(e, let->res[0]),
                c->together, c->width, let_has(let, MARK_across) ? " = {0}" : "");
        }
        if (let_has(let, MARK_array)) {
            put(e, "%s %s_t[%d][%d];", type_c(let->res[0]->type->dtype), name_c(e, let->res[0]),
                c->together, c->width);
        }
    }
    for (int k = 0; k < c->rows->body->n; k++) {
        const Let *let = c->rows->body->lets[k];
        const Value *run = let_writes(let) ? let->args[0] : NULL;
        if (run) {
            put(e, "%s %s[%d];", storage_c(run->type->dtype), name_c(e, run), c->together);
            put_open(e, "for (int64_t recurrence = 0; recurrence < %d; recurrence++)", c->together);
            put(e, "%s[recurrence] = %s;", name_c(e, run),
                cc_value(e, let->args[1], run->type->dtype));
            put_close(e);
        }
    }
}

static void
want(Recurrences *c, const Value *v)
{
    if (!literal_of(v) && v->def && v->def->parent == c->rows->body && !c->wanted[v->id]) {
        c->wanted[v->id] = true;
        for (int k = 0; k < v->def->nargs; k++) {
            want(c, v->def->args[k]);
        }
    }
}

/* Of the rows' own block what the stage wants; then nothing is wanted any more. */
static void
put_row_lets(Recurrences *c, int stage)
{
    const Block *blk = c->loop->body, *own = c->rows->body;
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        bool recurrence = is_recurrence(let);
        for (int j = let->op == OP_store || recurrence;
             stage_of(c, let) == stage + recurrence && j < let->nargs; j++) {
            want(c, let->args[j]);
        }
    }
    for (int k = 0; k < own->n; k++) {
        const Let *let = own->lets[k];
        if (let->nres && let->op != OP_buffer && c->wanted[let->res[0]->id]) {
            put_let(c, let);
            c->wanted[let->res[0]->id] = false;
        }
    }
}

/* Loads an operand, or takes it from an earlier stage's array, once in a stage. */
static void
import(Recurrences *c, const Value *v, int stage, bool *seen)
{
    const Let *from = computed_in(c->loop->body, v);
    if (!from || seen[v->id] || (stage_of(c, from) == stage && !cc_is_source(from))) {
        return;
    }
    seen[v->id] = true;
    if (cc_is_source(from)) {
        put_let(c, from);
    } else {
        put(c->e, "const %s %s = %s_t[recurrence][k];", type_c(v->type->dtype), name_c(c->e, v),
            name_c(c->e, v));
    }
}

/* The lets of a stage for one element, and what the recurrences that come next take. */
static void
put_lets(Recurrences *c, int stage)
{
    Emit *e = c->e;
    const Block *blk = c->loop->body;
    bool *seen = cx_alloc(e->cx, (size_t)e->fn->nvalues * sizeof *seen);
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        bool recurrence = is_recurrence(let);
        if (stage_of(c, let) != stage + recurrence) {
            continue;
        }
        for (int j = let->op == OP_store || recurrence; j < let->nargs; j++) {
            import(c, let->args[j], stage, seen);
        }
        if (recurrence) {
            put(e, "%s_x[recurrence][k] = %s;", name_c(e, let->res[0]),
                cc_value(e, let->args[1], let->res[0]->type->dtype));
            continue;
        }
        put_let(c, let);
        if (let_has(let, MARK_array)) {
            put(e, "%s_t[recurrence][k] = %s;", name_c(e, let->res[0]), name_c(e, let->res[0]));
        }
    }
}

static void
put_vectors(Recurrences *c, int stage)
{
    Emit *e = c->e;
    Text *out = e->out, rows = {.cx = e->cx}, body = {.cx = e->cx};
    c->uses_i = c->uses_j = false;
    e->indent += 2;
    e->out = &body;
    put_lets(c, stage);
    e->indent--;
    e->out = &rows;
    put_row_lets(c, stage);
    e->indent--;
    e->out = out;
    if (!body.length) {
        return;
    }
    put_open(e, "for (int64_t recurrence = 0; recurrence < recurrences; recurrence++)");
    if (c->uses_i) {
        put(e, "const int64_t %s = %s_from + recurrence;", c->i, c->i);
    }
    text_put(out, rows.text, rows.length);
    put(e, "INDEPENDENT");
    put_open(e, "for (int64_t k = 0; k < w; k++)");
    if (c->uses_j) {
        put(e, "const int64_t %s = %s_at + k;", c->j, c->j);
    }
    text_put(out, body.text, body.length);
    put_close(e);
    put_close(e);
}

static void
put_recurrences(Recurrences *c, int stage)
{
    Emit *e = c->e;
    for (int k = 0; k < c->loop->body->n; k++) {
        const Let *let = c->loop->body->lets[k];
        if (stage_of(c, let) == stage) {
            const char *v = name_c(e, let->res[0]);
            put(e, "%s(%s_t, %s_x, %s, %sw);", make_run(c, let), v, v, run_of(c, let),
                let_has(let, MARK_across) ? "" : "recurrences, ");
        }
    }
}

static void
put_stages(Recurrences *c)
{
    Emit *e = c->e;
    const char *extent = dim_c(e, loop_extent(c->loop));
    c->last = cc_last_stage(c->loop);
    c->last += c->last % 2 == 0;
    put(e, "const int64_t recurrences = %s_to - %s_from;", c->i, c->i);
    declare(c);
    put_open(e, "for (int64_t %s_at = 0; %s_at < %s; %s_at += %d)", c->j, c->j, extent, c->j,
             c->width);
    put(e, "const int64_t w = %s - %s_at < %d ? %s - %s_at : %d;", extent, c->j, c->width, extent,
        c->j, c->width);
    for (int stage = 1; stage <= c->last; stage++) {
        (stage % 2 ? put_vectors : put_recurrences)(c, stage);
    }
    put_close(e);
}

/* A let of one of the recurrences that run together, whose buffers have an element for each. */
static void
put_own_let(Recurrences *c, const Let *let, int recurrence)
{
    if (is_run_access(c, let)) {
        cc_stand(c->e, let, cx_format(c->e->cx, "%s[%d]", name_c(c->e, let->args[0]), recurrence));
        put_let(c, let);
        cc_stand(c->e, let, NULL);
    } else {
        put_let(c, let);
    }
}

/* The row's own lets and those of one element, for one recurrence. */
static void
put_element(Recurrences *c, int recurrence)
{
    Emit *e = c->e;
    Text *out = e->out, body = {.cx = e->cx};
    const Block *blocks[] = {c->rows->body, c->loop->body};
    put_scope(e);
    c->uses_i = false;
    e->out = &body;
    for (int j = 0; j < 2; j++) {
        for (int k = 0; k < blocks[j]->n; k++) {
            const Let *let = blocks[j]->lets[k];
            if (j == 1 || (let->nres && let->op != OP_buffer)) {
                put_own_let(c, let, recurrence);
            }
        }
    }
    e->out = out;
    if (c->uses_i) {
        put(e, "const int64_t %s = %s_at + %d;", c->i, c->i, recurrence);
    }
    text_put(out, body.text, body.length);
    put_close(e);
}

/* Recurrences side by side, element after element. */
static void
put_interleaved(Recurrences *c, int together)
{
    Emit *e = c->e;
    const Block *own = c->rows->body;
    put_open(e, "for (; %s_at + %d <= %s_to; %s_at += %d)", c->i, together, c->i, c->i, together);
    for (int k = 0; k < own->n; k++) {
        const Let *let = own->lets[k];
        for (int recurrence = 0; let_writes(let) && recurrence < together; recurrence++) {
            put_own_let(c, let, recurrence);
        }
        if (let->op == OP_buffer) {
            put(e, "%s %s[%d];", storage_c(let->res[0]->type->dtype), name_c(e, let->res[0]),
                together);
        }
    }
    cc_open_loop(e, c->j, "0", dim_c(e, loop_extent(c->loop)));
    for (int recurrence = 0; recurrence < together; recurrence++) {
        put_element(c, recurrence);
    }
    put_close(e);
    put_close(e);
}

/* All eight at once, where prelude_scan.h can. */
static void
put_rows_at_once(Recurrences *c)
{
    Emit *e = c->e;
    Scan s;
    if (!(let_has(c->rows, MARK_scan) && scan_alone(e->facts, c->rows, &s) && s.at_once)) {
        return;
    }
    put_open(e, "if (%s_to - %s_from == %d)", c->i, c->i, c->together);
    put(e, "const int64_t %s = %s_from, %s = 0;", c->i, c->i, c->j);
    put(e, "dlc_scan_rows_%s_f32(%s + %s, %s, %s + %s, %s, %s, %s, %s);", op_info[s.op].name,
        name_c(e, s.store->args[0]), offset_c(e, access_offset(e, s.store)), dim_c(e, s.to.row),
        name_c(e, s.load->args[0]), offset_c(e, access_offset(e, s.load)), dim_c(e, s.from.row),
        cc_value(e, s.first->args[1], s.wide), dim_c(e, loop_extent(s.loop)),
        use_nontemporal_c(e, s.store));
    put(e, "%s_at = %s_to;", c->i, c->i);
    put_close(e);
}

/* In one loop: what the recurrences have come to stands in variables. */
static void
put_plain(Recurrences *c)
{
    Emit *e = c->e;
    if (facts_loop(c->e->facts, c->rows)->is_plain && facts_loop(c->e->facts, c->loop)->is_plain) {
        put(e, "int64_t %s_at = %s_from;", c->i, c->i);
        put_rows_at_once(c);
        if (c->jam > 1) {
            put_interleaved(c, c->jam);
        }
        put_interleaved(c, 1);
    } else {
        cc_open_loop(e, c->i, cx_format(e->cx, "%s_from", c->i), cx_format(e->cx, "%s_to", c->i));
        cc_block(e, c->rows->body);
        put_close(e);
    }
}

void
cc_recurrences(Emit *e, const Let *rows)
{
    Recurrences c = {.e = e, .rows = rows, .loop = loop_inner(rows)};
    c.together = (int)let_mark_value(rows, MARK_recurrences);
    c.jam = let_has(rows, MARK_jam) ? (int)let_mark_value(rows, MARK_jam) : 1;
    c.width = (int)let_mark_value(c.loop, MARK_distribute);
    c.i = index_c(e, loop_index(rows));
    c.j = index_c(e, loop_index(c.loop));
    c.wanted = cx_alloc(e->cx, (size_t)e->fn->nvalues * sizeof *c.wanted);
    int opened = open_rows(e, rows, c.together);
    (let_has(c.loop, MARK_distribute) ? put_stages : put_plain)(&c);
    if (opened) {
        put_close(e);
    }
}
