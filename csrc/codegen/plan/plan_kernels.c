/* Machine code for the kernels of a function: what the process has, then what the disk cache has,
 * then what is compiled.
 *
 * What:     a Kernel for every kernel let; equal ones share it.
 * How:      kernels are told apart by key before anything is lowered.  What is new is lowered,
 *           emitted and compiled in units of bounded size, those with the most work first: libtcc
 *           makes a unit at once, the C compiler gets it in that order.
 * Why not:  one unit a graph: the hottest kernel would wait for the last one, and a kernel of
 *           another graph could not be found again.  One unit a kernel: the prelude is read for
 *           each, 20 ms. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plan_build.h"

typedef struct {
    const Let *let;
    KernelUse *use;
    Key id, disk;
    double work;
    int place;                  /* in the function */
} New;

typedef struct {
    Cx *cx;
    Builder *b;
    const Fn *fn;
    const CompileOptions *options;
    PassOptions passes;         /* the fuel is what fusion has left */
    bool anew;                  /* nothing that was made before is taken */
    CcTarget *target;           /* NULL: no C compiler is wanted */
    New *fresh;
    int nfresh;
} Maker;

/* ---- looking ---- */

/* The key in this process: a kernel is shared by those who want it compiled in the same way. */
static void
key_here(const Maker *m, const KernelKey *key, Key *disk, Key *id)
{
    /* not all rewrites */
    char mode = (char)((m->options->passes.fuel < 0 ? '0' : 'a') + m->options->mode);
    Sha256 s;
    *disk = key->key;
    sha256_begin(&s);
    sha256_add(&s, &mode, 1);
    if (m->target) {
        cc_target_key(m->target, key->key.hex, sizeof key->key.hex, disk);
        sha256_add(&s, cc_target_cache(m->target), strlen(cc_target_cache(m->target)) + 1);
    }
    sha256_add(&s, disk->hex, sizeof disk->hex);
    key_end(&s, id);
}

static Kernel *
from_disk(Cache *cache, const Key *disk, const Key *id, const Key *key)
{
    void *object = cache_load(cache, disk->hex);
    Kernel *kernel = object ? kernel_load(id, key, object) : NULL;
    count_add(COUNT_CACHE_HITS, kernel != NULL);
    return kernel;
}

/* A rough count of what it computes; sizes that are not known count as their least value, or 64. */
static double
estimate_work(Cx *cx, const Let *kernel)
{
    double work = 0;
    for (int k = 0; k < kernel->body->n; k++) {
        const Let *let = kernel->body->lets[k];
        const Type *t = let->nres ? let->res[0]->type : NULL;
        for (int j = 0; j < let->nargs; j++) { /* a reduction does the work of its operand */
            const Type *arg = let->args[j]->type;
            t = arg && (!t || arg->rank > t->rank) ? arg : t;
        }
        double elements = op_info[let->op].kind == KIND_MAP ? op_info[let->op].cost : 1;
        for (int ax = 0; t && ax < t->rank; ax++) {
            int64_t least = dim_range(cx, t->dims[ax]).lo;
            elements *= dim_is_int(cx, t->dims[ax], NULL) || least > 64 ? (double)least : 64;
        }
        work += elements;
    }
    return work;
}

static const New *
find_new(const Maker *m, const Key *id)
{
    for (int k = 0; k < m->nfresh; k++) {
        if (strcmp(m->fresh[k].id.hex, id->hex) == 0) {
            return &m->fresh[k];
        }
    }
    return NULL;
}

static void
look_up(Maker *m, Cache *cache, KernelUse *use, int place)
{
    New new = {.let = use->let, .use = use, .place = place};
    key_here(m, &use->key, &new.disk, &new.id);
    if (m->target && m->options->used) {
        m->options->used(m->options->used_arg, new.disk.hex);
    }
    use->kernel = m->anew ? NULL : kernel_find(&new.id);
    if (!use->kernel && find_new(m, &new.id)) {
        use->same_as = find_new(m, &new.id)->use;
        return;
    }
    if (!use->kernel && cache) {
        use->kernel = from_disk(cache, &new.disk, &new.id, &use->key.key);
    }
    if (!use->kernel) {
        new.work = estimate_work(m->cx, use->let);
        m->fresh = cx_grow(m->cx, m->fresh, m->nfresh, sizeof *m->fresh);
        m->fresh[m->nfresh++] = new;
    }
}

/* ---- making ---- */

/* The text as a C string constant. */
static void
put_constant(Text *out, const char *name, const char *text)
{
    text_add(out, "const char %s[] =\n    \"", name);
    for (const char *c = text; *c;) {
        size_t plain = strcspn(c, "\n\"\\");
        text_put(out, c, plain);
        c += plain;
        if (*c == '\n') {
            text_add(out, c[1] ? "\\n\"\n    \"" : "\\n");
        } else if (*c) {
            text_add(out, "\\%c", *c);
        }
        c += *c != '\0';
    }
    text_add(out, "\";\n");
}

/* The kernel of the loops stage that was made of the new one: lowering keeps the order. */
static const Let *
lowered(const Fn *loops, int k)
{
    return loops->body->lets[k];
}

/* Phases have the names of the emitter in the text, and their keys as symbols. */
static const char *
head_of(Cx *cx, const Unit *unit, const New *group, const Fn *loops, int n, const char **symbols)
{
    Text head = {.cx = cx};
    for (int k = 0, at = 0; k < n; k++) {
        for (int j = 0; at < unit->nphases && unit->phases[at].kernel == lowered(loops, k); j++) {
            char symbol[32];
            kernel_symbol(&group[k].use->key.key, j, symbol);
            text_add(&head, "#define %s %s\n", unit->phases[at].name, symbol);
            symbols[at++] = cx_format(cx, "%s", symbol);
        }
    }
    return head.text ? head.text : "";
}

static void
submit(Maker *m, Code *code, const New *group, int n, const char *text, bool *done)
{
    char error[2048] = "";
    Key *keys = cx_alloc(m->cx, (size_t)n * sizeof *keys);
    for (int k = 0; k < n; k++) {
        keys[k] = group[k].disk;
    }
    CcOptions cc = m->options->cc;
    cc.wait = m->options->mode == MODE_CC;
    cc.target = m->target;
    cc.keys = keys;
    cc.nkeys = n;
    cc.schedule = group->use->schedule;
    *done = jit_cc_submit(code, text, &cc, error, sizeof error);
    if (!*done && cc.wait) {
        log_line("%s: the libtcc tier is used", error);
    }
}

/* Both tiers of a unit; the Code is the caller's. */
static void
compile_texts(Maker *m, Code *code, const New *group, int n, const char *tcc, const char *cc)
{
    char error[2048] = "";
    bool done = false;
    if (m->options->mode == MODE_CC) {
        submit(m, code, group, n, cc, &done);
    }
    if (!done && !jit_tcc_compile(code, tcc, error, sizeof error)) {
        if (errno == ENOMEM) {
            fail(m->cx, DIAG_MEMORY, strlen(tcc));
        }
        fail(m->cx, DIAG_LIBTCC, error);
    }
    if (m->options->mode == MODE_AUTO) {
        submit(m, code, group, n, cc, &done);
    }
}

static void
drop(void *code)
{
    code_unref(code);
}

static bool
has_key(const KernelUse *use, const KernelKey *key)
{
    bool has = false;
    for (; use && !has; use = use->shorts) {
        has = strcmp(use->key.key.hex, key->key.hex) == 0;
    }
    return has;
}

/* The result takes no parameter's memory, in neither of the kernels for short rows and for others:
 * one that is there already was made to. */
static void
drop_in_place(KernelUse *use, int result)
{
    use->let->res[result]->over = NULL;
    for (; use; use = use->shorts) {
        kernel_unref(use->kernel);
        use->kernel = NULL;
        use->loops = (Lowered){0};
    }
}

/* Results of which the loops read an element late lose their parameters, in all kernels with the
 * key. */
static bool
drop_overs(Maker *m, const New *new, const Let *loops)
{
    bool dropped = false;
    for (int j = 0; j < loops->nres; j++) {
        const Value *v = loops->res[j];
        bool drop = new->let->res[j]->over && (!v->over || in_place_wrong_loops(m->cx, v));
        for (int k = 0; k < m->b->nuses && drop; k++) {
            if (has_key(&m->b->uses[k], &new->use->key)) {
                drop_in_place(&m->b->uses[k], j);
            }
        }
        dropped |= drop;
    }
    return dropped;
}

/* What the C compiler gets: the phases, and what the disk cache keeps beside them. */
static const char *
cc_text(Cx *cx, const char *head, const Unit *unit, const New *group, int n, const char **shapes,
        const Fn *part)
{
    Text text = {.cx = cx};
    text_add(&text, "%s%s", head, unit->text[TARGET_cc]);
    for (int k = 0; k < n; k++) {
        char symbol[32];
        kernel_shape_symbol(&group[k].use->key.key, symbol);
        put_constant(&text, symbol, shapes[k]);
    }
    put_constant(&text, "dlc_program", plan_part_text(part));
    return text.text;
}

/* A function of the group's kernels alone. */
static Fn *
part_of(Maker *m, const New *group, int n)
{
    KernelUse **uses = cx_alloc(m->cx, (size_t)n * sizeof *uses);
    for (int k = 0; k < n; k++) {
        uses[k] = group[k].use;
    }
    return plan_part(m->fn, uses, n);
}

/* false: results of the kernels have lost their parameters. */
static bool
check_in_place(Maker *m, const New *group, int n, const Fn *loops)
{
    bool dropped = false;
    for (int k = 0; k < n; k++) {
        dropped |= drop_overs(m, &group[k], lowered(loops, k));
    }
    return !dropped;
}

/* Each kernel has its phases among the entries of the unit's code, one kernel's after the
 * other's. */
static void
give_kernels(const Fn *loops, const New *group, int n, const char *const *shapes, Code *code)
{
    for (int k = 0, first = 0; k < n; k++) {
        KernelUse *use = group[k].use;
        if (!(use->kernel = kernel_new(&group[k].id, shapes[k], code, first))) {
            fail(loops->cx, DIAG_MEMORY, sizeof *use->kernel);
        }
        first += use->kernel->nphases;
        use->loops = (Lowered){loops, lowered(loops, k)};
    }
}

/* False: kernels have lost parameters, and with them their keys. */
static bool
make_unit(Maker *m, const New *group, int n)
{
    Cx *cx = m->cx;
    Fn *part = part_of(m, group, n), *loops = loops_make(part, group->use->schedule, &m->passes);
    if (!check_in_place(m, group, n, loops)) {
        return false;
    }
    Unit unit;
    emit_unit(loops, 1u << TARGET_tcc | 1u << TARGET_cc, &unit);
    if (m->options->unit) {
        m->options->unit(m->options->unit_arg, loops, &unit);
    }
    const char **symbols = cx_alloc(cx, ((size_t)unit.nphases + 1) * sizeof *symbols);
    const char *head = head_of(cx, &unit, group, loops, n, symbols);
    const char **shapes = cx_alloc(cx, (size_t)n * sizeof *shapes);
    for (int k = 0; k < n; k++) {
        shapes[k] = shape_write(cx, &group[k].use->key, lowered(loops, k), &unit);
    }
    Code *code = code_new(symbols, unit.nphases);
    if (!code) {
        fail(cx, DIAG_MEMORY, (size_t)unit.nphases);
    }
    cx_cleanup(cx, drop, code);
    if (unit.nphases) {
        compile_texts(m, code, group, n, cx_format(cx, "%s%s", head, unit.text[TARGET_tcc]),
                      cc_text(cx, head, &unit, group, n, shapes, part));
    }
    give_kernels(loops, group, n, shapes, code);
    return true;
}

static int
by_work(const void *a, const void *b)
{
    const New *x = a, *y = b;
    return x->work != y->work ? (x->work < y->work) - (x->work > y->work)
                              : (x->place > y->place) - (x->place < y->place);
}

static int
by_place(const void *a, const void *b)
{
    const New *x = a, *y = b;
    return (x->place > y->place) - (x->place < y->place);
}

/* A unit has one set of flags, and one range of each size. */
static bool
same_unit(const New *a, const New *b)
{
    const char *x = a->use->schedule, *y = b->use->schedule;
    return a->use->row == b->use->row && (x && y ? strcmp(x, y) == 0 : x == y);
}

/* Units of what has most work first; within a unit the function's order, so that names are bound
 * before they are used. */
static bool
make_new(Maker *m)
{
    bool made = true;
    if (m->nfresh) {
        qsort(m->fresh, (size_t)m->nfresh, sizeof *m->fresh, by_work);
    }
    for (int k = 0, end; k < m->nfresh && made; k = end) {
        int lets = m->fresh[k].let->body->n;
        for (end = k + 1; end < m->nfresh && same_unit(&m->fresh[k], &m->fresh[end]); end++) {
            lets += m->fresh[end].let->body->n;
            if (lets > DLC_UNIT) {
                break;
            }
        }
        qsort(m->fresh + k, (size_t)(end - k), sizeof *m->fresh, by_place);
        Range full = plan_narrow(m->cx, m->fresh[k].use->row);
        made = make_unit(m, m->fresh + k, end - k);
        plan_widen(m->cx, m->fresh[k].use->row, full);
    }
    return made;
}

static void
drop_target(void *target)
{
    cc_target_unref(target);
}

void
plan_find_uses(Builder *b)
{
    KernelCoder *coder = kernel_coder(b->fn);
    for (int k = 0; k < b->fn->body->n; k++) {
        const Let *let = b->fn->body->lets[k];
        if (let->op == OP_kernel) {
            b->uses = cx_grow(b->cx, b->uses, b->nuses, sizeof *b->uses);
            KernelUse *use = &b->uses[b->nuses++];
            *use = (KernelUse){.let = let};
            kernel_key(coder, let, &use->key);
        }
    }
}

void
plan_schedule(KernelUse *use, const char *schedule)
{
    Sha256 s;
    sha256_begin(&s);
    sha256_add(&s, use->key.key.hex, sizeof use->key.key.hex);
    sha256_add(&s, schedule, strlen(schedule));
    key_end(&s, &use->key.key);
    use->schedule = schedule;
}

static void
key_again(Builder *b)
{
    KernelCoder *coder = kernel_coder(b->fn);
    for (int k = 0; k < b->nuses; k++) {
        for (KernelUse *use = &b->uses[k]; use; use = use->shorts) {
            use->same_as = NULL;
            if (!use->kernel) {
                plan_key(b->cx, coder, use);
                if (use->schedule) {
                    plan_schedule(use, use->schedule);
                }
            }
        }
    }
}

static bool
find_or_make(Maker *m)
{
    Cache cache;
    bool open = m->target && !m->anew && *cc_target_cache(m->target) &&
                cache_open(&cache, cc_target_cache(m->target));
    m->nfresh = 0;
    for (int k = 0; k < m->b->nuses; k++) {
        for (KernelUse *use = &m->b->uses[k]; use; use = use->shorts) {
            if (!use->kernel) {
                look_up(m, open ? &cache : NULL, use, k);
            }
        }
    }
    if (open) {
        cache_close(&cache);
    }
    return make_new(m);
}

void
plan_kernels(Builder *b, const CompileOptions *options)
{
    Maker m = {.cx = b->cx, .b = b, .fn = b->fn, .options = options, .passes = options->passes};
    CcOptions cc = options->cc;
    m.anew = m.passes.verify || m.passes.fuel >= 0;
    m.passes.trace = NULL; /* of fusion's passes: those here run once a unit */
    /* what some rewrites make has the key of what all do */
    cc.cache = m.passes.fuel >= 0 ? "" : cc.cache;
    if (options->mode != MODE_TCC && b->nuses) {
        if (!(m.target = cc_target_new(&cc))) {
            fail(b->cx, DIAG_MEMORY, sizeof(void *));
        }
        cx_cleanup(b->cx, drop_target, m.target);
    }
    while (!find_or_make(&m)) {
        key_again(b);
    }
    for (int k = 0; k < b->nuses; k++) {
        for (KernelUse *use = &b->uses[k]; use; use = use->shorts) {
            if (use->same_as) {
                use->kernel = kernel_find(&use->same_as->kernel->id);
                use->loops = (Lowered){0};
            }
        }
    }
}

Lowered
plan_lowered(Builder *b, KernelUse *use, const CompileOptions *options)
{
    if (!use->loops.fn) {
        PassOptions passes = {.fuel = options->passes.fuel};
        Range full = plan_narrow(b->cx, use->row);
        const Fn *loops = loops_make(plan_part(b->fn, &use, 1), use->schedule, &passes);
        plan_widen(b->cx, use->row, full);
        use->loops = (Lowered){loops, lowered(loops, 0)};
    }
    return use->loops;
}
