/* Random programs of one thing that is done to rows, or to columns: what schedules have forms for.
 *
 * A random graph hardly ever has a scan of what is loaded, a sum of which one element is not zero,
 * the place of an extreme, several passes over a row, a sum of gathered rows, or short rows, with
 * nothing beside it.  So these are written as text, with sizes, types and operations at random, and
 * at times with an operation before. */
#include "gen.h"

#include <string.h>

typedef struct {
    Text *out;
    uint64_t *random;
    const char *dtype, *rows, *columns, *type; /* type: that of x */
    const char *x; /* what is reduced: the parameter, or what is computed of it */
} Gen;

#define ANY(g, list) (list)[below((g)->random, (int)(sizeof(list) / sizeof *(list)))]

static void
put_before(Gen *g)
{
    static const char *const maps[] = {"exp", "neg", "sqrt", "tanh"};
    if (g->dtype[0] == 'f' && chance(g->random, 30)) {
        text_add(g->out, "  let e: %s = %s x\n", g->type, ANY(g, maps));
        g->x = "e";
    }
}

static void
put_scan(Gen *g)
{
    static const char *const ops[] = {"sum", "prod", "amax", "amin", "logaddexp"};
    bool floats = g->dtype[0] != 'i';
    put_before(g);
    text_add(g->out, "  let y: %s = scan %s op=%s axis=%d\n", g->type, g->x,
             ops[below(g->random, floats ? 5 : 4)], below(g->random, 4) == 0 ? 0 : 1);
}

static void
put_onehot(Gen *g)
{
    const char *n = g->columns, *r = g->rows;
    put_before(g);
    text_add(g->out,
             "  let i: i64[%s] = iota axis=0\n  let j: i64[%s, %s] = expand i to=[1]\n"
             "  let b: i64[%s, %s] = expand k to=[0]\n  let c: bool[%s, %s] = eq j, b\n"
             "  let o: %s = where c, %s, 0\n  let y: %s[%s] = sum o axes=[1]\n",
             n, r, n, r, n, r, n, g->type, g->x, g->dtype, r);
}

static void
put_place(Gen *g)
{
    static const char *const ops[] = {"argmax", "argmin"};
    text_add(g->out, "  let y: i64[%s] = %s x axes=[1]\n", g->rows, ANY(g, ops));
}

/* Centred and scaled, as norms and softmax are. */
static void
put_norm(Gen *g)
{
    static const char *const ops[] = {"sum", "amax", "amin"};
    bool exps = chance(g->random, 50);
    text_add(g->out,
             "  let m: %s[%s] = %s x axes=[1]\n  let a: %s = expand m to=[0]\n"
             "  let d: %s = sub x, a\n  let q: %s = %s\n  let s: %s[%s] = sum q axes=[1]\n"
             "  let f: %s = expand s to=[0]\n  let y: %s = %s q, f\n",
             g->dtype, g->rows, exps ? "amax" : ANY(g, ops), g->type, g->type, g->type,
             exps ? "exp d" : "mul d, d", g->dtype, g->rows, g->type, g->type,
             exps ? "div" : "add");
}

static void
put_gathered(Gen *g)
{
    const char *n = g->columns;
    text_add(g->out,
             "  let z: i64[%s, 3] = bit_and t, 1\n"
             "  let l: %s[%s, 3, %s] = gather x, z axis=0 wrap=%d\n"
             "  let y: %s[%s, %s] = sum l axes=[1]\n",
             g->rows, g->dtype, g->rows, n, below(g->random, 3), g->dtype, g->rows, n);
}

/* With what each column has one of, and each row. */
static void
put_channels(Gen *g)
{
    static const char *const maps[] = {"sub", "mul", "maximum"};
    text_add(g->out,
             "  let b: %s = expand m to=[1]\n  let c: %s = expand r to=[0]\n"
             "  let d: %s = %s x, b\n  let y: %s = %s d, c\n",
             g->type, g->type, g->type, ANY(g, maps), g->type, ANY(g, maps));
}

static void
put_program(Gen *g)
{
    enum { SCAN, ONEHOT, PLACE, NORM, GATHERED, CHANNELS, FORMS };
    static const char *const rows[] = {"2", "3", "9", "20", "B"};
    static const char *const columns[] = {"1", "3", "5", "16", "17", "33", "50", "64", "130", "N"};
    static const char *const dtypes[] = {"f32", "f32", "f32", "f64", "i64", "bf16"};
    static const char *const floats[] = {"f32", "f32", "f64"};
    Cx *cx = g->out->cx;
    int form = below(g->random, FORMS);
    g->rows = ANY(g, rows);
    g->columns = ANY(g, columns);
    g->dtype = form == NORM ? ANY(g, floats) : ANY(g, dtypes);
    g->type = cx_format(cx, "%s[%s, %s]", g->dtype, g->rows, g->columns);
    g->x = "x";
    const char *result = form == ONEHOT  ? cx_format(cx, "%s[%s]", g->dtype, g->rows)
                         : form == PLACE ? cx_format(cx, "i64[%s]", g->rows)
                                         : g->type;
    text_add(g->out, "dlc 1 graph\n\nfn fuzz[B in 2..inf, N in 1..inf](x: %s", g->type);
    text_add(g->out, form == ONEHOT ? ", k: i64[%s]" : "", g->rows);
    text_add(g->out, form == GATHERED ? ", t: i64[%s, 3]" : "", g->rows);
    if (form == CHANNELS) {
        text_add(g->out, ", m: %s[%s], r: %s[%s]", g->dtype, g->columns, g->dtype, g->rows);
    }
    text_add(g->out, ") -> (%s) {\n", result);
    static void (*const put[FORMS])(Gen *g) = {put_scan, put_onehot,   put_place,
                                               put_norm, put_gathered, put_channels};
    put[form](g);
    text_add(g->out, "  ret y\n}\n");
}

Fn *
gen_rows(Cx *cx, uint64_t seed)
{
    uint64_t random = sample_seed(seed);
    Text out = {.cx = cx};
    put_program(&(Gen){.out = &out, .random = &random});
    Fn *fn = parse_fn(cx, out.text, "rows");
    verify_fn(fn);
    return fn;
}
