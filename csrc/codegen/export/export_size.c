/* Sizes as C: expressions over the size symbols, and the check of what a caller gives.
 *
 * A plan has its sizes as a short program (DimCode), a kernel's own are dims: both become the same
 * expressions.  They are computed without regard to 64 bits; the function sizes_fit has refused
 * before whatever has more, as an instance of a plan does. */
#include <stdlib.h>
#include <string.h>

#include "export_text.h"

/* ---- expressions ---- */

/* 0: a sum, 1: a product, 2: neither. */
static int
level(const char *text)
{
    int depth = 0, least = 2;
    for (const char *c = text; *c; c++) {
        depth += (*c == '(' || *c == '{') - (*c == ')' || *c == '}');
        if (depth == 0 && *c == ' ' && c[1] && c[2] == ' ') {
            int here = c[1] == '*';
            least = here < least ? here : least;
        }
    }
    return text[0] == '-' && least == 2 ? 1 : least;
}

static const char *
factor(Cx *cx, const char *text)
{
    return level(text) == 0 ? cx_format(cx, "(%s)", text) : text;
}

bool
size_number(const char *text, int64_t *value)
{
    char *end;
    *value = strtoll(text, &end, 10);
    return *text && *end == '\0';
}

int64_t
bytes_sum(Export *x, int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) {
        fail(x->cx, DIAG_EXPORT_SIZES);
    }
    return sum;
}

int64_t
bytes_product(Export *x, int64_t a, int64_t b)
{
    int64_t product;
    if (__builtin_mul_overflow(a, b, &product)) {
        fail(x->cx, DIAG_EXPORT_SIZES);
    }
    return product;
}

static const char *
combined(Cx *cx, char kind, const char *a, const char *b, bool checked)
{
    static const struct {
        char kind;
        const char *name;
    } functions[] = {{'/', "size_div"}, {'%', "size_mod"},  {'M', "size_max"},
                     {'m', "size_min"}, {'+', "size_plus"}, {'*', "size_times"}};
    if (kind == '*' && (strcmp(a, "1") == 0 || strcmp(b, "1") == 0)) {
        return strcmp(a, "1") == 0 ? b : a;
    }
    if (kind == '+' && !checked && strncmp(a, "-1 * ", 5) == 0 && *b != '-' && level(a) == 1) {
        return cx_format(cx, "%s - %s", b, a + 5);
    }
    if (kind == '+' && !checked) {
        return *b == '-' ? cx_format(cx, "%s - %s", a, b + 1) : cx_format(cx, "%s + %s", a, b);
    }
    if (kind == '*' && !checked) {
        return cx_format(cx, "%s * %s", factor(cx, a), factor(cx, b));
    }
    if (kind == 's') {
        return cx_format(cx, "size_scale(%s, UINT64_C(%s))", a, b);
    }
    int k = 0;
    while (functions[k].kind != kind) {
        k++;
    }
    return cx_format(cx, "%s(%s, %s%s)", functions[k].name, a, b,
                     kind == '+' || kind == '*' ? ", &over" : "");
}

const char *
size_symbol_c(const Export *x, const char *name)
{
    const Plan *plan = x->main->plan;
    int k = 0;
    while (k < plan->nsizes && strcmp(plan->size_names[k], name) != 0) {
        k++;
    }
    if (k == plan->nsizes) {
        fail(x->cx, DIAG_KERNEL_SIZE, name);
    }
    return x->sizes[k];
}

static const char *
expression(Export *x, const Plan *plan, DimRef ref, bool checked)
{
    const DimCode *code = &plan->dims[ref];
    if (code->op == 'i') {
        return cx_format(x->cx, "%lld", (long long)code->value);
    }
    if (code->op == 'n') {
        return size_symbol_c(x, plan->size_names[code->a]);
    }
    return combined(x->cx, code->op, expression(x, plan, code->a, checked),
                    expression(x, plan, code->b, checked), checked);
}

const char *
size_c(Export *x, ExportPlan *p, DimRef ref)
{
    if (!p->exprs[ref]) {
        p->exprs[ref] = expression(x, p->plan, ref, false);
    }
    return p->exprs[ref];
}

const char *
size_factor_c(Export *x, ExportPlan *p, DimRef ref)
{
    return factor(x->cx, size_c(x, p, ref));
}

/* ---- a kernel's own ---- */

typedef struct {
    Export *x;
    const char **stack;
    int n;
    bool checked;
} Walk;

static void
walk_leaf(void *arg, char kind, int64_t value, Dim name)
{
    Walk *w = arg;
    Cx *cx = w->x->cx;
    w->stack = cx_grow(cx, w->stack, w->n, sizeof *w->stack);
    w->stack[w->n++] = kind == 'n' ? size_symbol_c(w->x, dim_name(cx, name))
                                   : cx_format(cx, "%lld", (long long)value);
}

static void
walk_binary(void *arg, char kind)
{
    Walk *w = arg;
    w->n--;
    w->stack[w->n - 1] = combined(w->x->cx, kind, w->stack[w->n - 1], w->stack[w->n], w->checked);
}

const char *
dim_text_c(Export *x, Dim d, bool checked)
{
    static const DimWalk walk = {walk_leaf, walk_binary};
    Walk w = {x, NULL, 0, checked};
    dim_walk(x->cx, d, &walk, &w);
    return w.stack[0];
}

/* ---- lists ---- */

static const char *
array_of(Export *x, const ExportPlan *p, int n, const DimRef *refs, bool checked)
{
    Text text = {.cx = x->cx};
    text_add(&text, "(const int64_t[]){%s", n ? "" : "0");
    for (int k = 0; k < n; k++) {
        text_add(&text, "%s%s", k ? ", " : "", expression(x, p->plan, refs[k], checked));
    }
    text_add(&text, "}");
    return text.text;
}

const char *
sizes_c(Export *x, ExportPlan *p, int n, const DimRef *refs)
{
    return array_of(x, p, n, refs, false);
}

const char *
size_params(Export *x, const ExportPlan *p, bool types)
{
    Text text = {.cx = x->cx};
    text_add(&text, "%s", "");
    for (int k = 0; k < p->plan->nsizes; k++) {
        text_add(&text, "%s%s, ", types ? "int64_t " : "",
                 size_symbol_c(x, p->plan->size_names[k]));
    }
    return text.text;
}

void
put_unused(Export *x, const ExportPlan *p, Text *out)
{
    for (int k = 0; k < p->plan->nsizes; k++) {
        text_add(out, "    (void)%s;\n", size_symbol_c(x, p->plan->size_names[k]));
    }
}

/* ---- the check ---- */

/* Conditions, each once. */
typedef struct {
    const char **all;
    int n;
} Conditions;

static void
add_condition(Cx *cx, Conditions *conditions, const char *condition)
{
    for (int k = 0; k < conditions->n; k++) {
        if (strcmp(conditions->all[k], condition) == 0) {
            return;
        }
    }
    conditions->all = cx_grow(cx, conditions->all, conditions->n, sizeof *conditions->all);
    conditions->all[conditions->n++] = condition;
}

static bool
is_known(Export *x, const ExportPlan *p, int n, const DimRef *refs)
{
    bool known = true;
    int64_t value;
    for (int k = 0; k < n; k++) {
        known &= size_number(expression(x, p->plan, refs[k], false), &value);
    }
    return known;
}

static void
check_declared(Export *x, Conditions *all)
{
    const Plan *plan = x->main->plan;
    for (int k = 0; k < plan->ndeclared; k++) {
        const Solve *s = &plan->solves[k];
        const char *name = x->sizes[k];
        if (s->range.lo > -DIM_INF) {
            add_condition(x->cx, all, cx_format(x->cx, "%s >= %lld", name, (long long)s->range.lo));
        }
        if (s->range.hi < DIM_INF) {
            add_condition(x->cx, all, cx_format(x->cx, "%s <= %lld", name, (long long)s->range.hi));
        }
        if (s->divisor > 1) {
            add_condition(x->cx, all,
                          cx_format(x->cx, "%s %% %lld == 0", name, (long long)s->divisor));
        }
    }
}

/* A size that is computed has 64 bits. */
static void
check_bits(Export *x, const char *size, Conditions *all)
{
    if (strstr(size, "&over")) {
        add_condition(x->cx, all, cx_format(x->cx, "%s > INT64_MIN", size));
    }
}

static void
check_plan(Export *x, const ExportPlan *p, Conditions *all)
{
    const Plan *plan = p->plan;
    for (int k = 0; k < plan->nuncertain; k++) {
        add_condition(
            x->cx, all,
            cx_format(x->cx, "%s >= 0", expression(x, plan, plan->uncertain[k].dim, true)));
    }
    for (int k = 0; k < plan->nslots; k++) {
        const Slot *s = &plan->slots[k];
        if (s->kind != SLOT_SCALAR &&
            !(is_known(x, p, s->rank, s->sizes) && is_known(x, p, s->rank, s->strides))) {
            add_condition(x->cx, all,
                          cx_format(x->cx, "size_fits(%d, %s,\n                  %s)", s->rank,
                                    array_of(x, p, s->rank, s->sizes, true),
                                    array_of(x, p, s->rank, s->strides, true)));
        }
    }
    for (int k = 0; k < plan->nlaunches; k++) {
        const Launch *launch = &plan->launches[k];
        const char *scratch = launch_scratch_c(x, p, launch, true), *size;
        int64_t number;
        check_bits(x, expression(x, plan, launch->extent, true), all);
        check_bits(x, expression(x, plan, launch->work, true), all);
        for (int j = 0; (size = launch_size_c(x, p, launch, j)); j++) {
            check_bits(x, size, all);
        }
        if (!size_number(scratch, &number)) { /* the bytes of one piece: of 256 at most */
            add_condition(x->cx, all, cx_format(x->cx, "%s < INT64_C(1) << 50", scratch));
        }
    }
}

void
put_size_check(Export *x, ExportPlan *p, Text *out)
{
    Conditions all = {0};
    Text text = {.cx = x->cx};
    check_declared(x, &all);
    for (int k = 0; k < x->nplans; k++) {
        check_plan(x, &x->plans[k], &all);
    }
    for (int k = 0; k < all.n; k++) {
        text_add(&text, "%s%s", k ? " &&\n        " : "", all.all[k]);
    }
    bool over = text.text && strstr(text.text, "&over");
    text_add(out, "\nstatic int\nsizes_fit(%svoid *unused)\n{\n", size_params(x, p, true));
    text_add(out, "%s    (void)unused;\n    return %s%s;\n}\n", over ? "    int over = 0;\n" : "",
             all.n ? text.text : "1", over ? " && !over" : "");
}
