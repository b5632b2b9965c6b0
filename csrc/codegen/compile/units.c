/* Units: kernels that are lowered, emitted and compiled together.
 *
 * What:     code for the kernels that nobody has made before.
 * How:      units are of bounded size, those with the most work first: libtcc makes a unit at once,
 *           the C compiler gets it in that order.
 * Why not:  one unit a graph: the hottest kernel would wait for the last one, and a kernel of
 *           another graph could not be found again.  One unit a kernel: the prelude is read for
 *           each, 20 ms. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/rewrites.h"
#include "kernels.h"

/* ---- which kernels make a unit ---- */

static int
by_work(const void *a, const void *b)
{
    const NewKernel *x = a, *y = b;
    return x->work != y->work ? (x->work < y->work) - (x->work > y->work)
                              : (x->place > y->place) - (x->place < y->place);
}

static int
by_place(const void *a, const void *b)
{
    const NewKernel *x = a, *y = b;
    return (x->place > y->place) - (x->place < y->place);
}

/* A kernel whose schedule is written has a unit of its own, in which its loops have the same names
 * each time. */
static bool
same_unit(const NewKernel *a, const NewKernel *b)
{
    return !a->use->schedule && !b->use->schedule;
}

int
unit_next(Kernels *ks, int first)
{
    int end = first + 1, lets = ks->fresh[first].let->body->n;
    if (first == 0) {
        qsort(ks->fresh, (size_t)ks->nfresh, sizeof *ks->fresh, by_work);
        lets = ks->fresh->let->body->n;
    }
    for (; end < ks->nfresh && same_unit(&ks->fresh[first], &ks->fresh[end]); end++) {
        lets += ks->fresh[end].let->body->n;
        if (lets > DLC_UNIT) {
            break;
        }
    }
    qsort(ks->fresh + first, (size_t)(end - first), sizeof *ks->fresh, by_place);
    return end - first;
}

Fn *
unit_program(const Kernels *ks, const NewKernel *group, int n)
{
    KernelUse **uses = cx_alloc(ks->cx, (size_t)n * sizeof *uses);
    for (int k = 0; k < n; k++) {
        uses[k] = group[k].use;
    }
    return kernels_part(ks->fn, uses, n);
}

Fn *
unit_again(const Kernels *ks, KernelUse *use, int *at, int64_t *fuel)
{
    const Made *made = use->same_as ? use->same_as->made : NULL;
    *at = 0;
    if (!made || made->fuel < 0) {
        return kernels_part(ks->fn, &use, 1);
    }
    KernelUse **uses = cx_copy(ks->cx, made->uses, (size_t)made->n * sizeof *uses);
    while (uses[*at] != use->same_as) {
        ++*at;
    }
    uses[*at] = use;
    *fuel = made->fuel;
    return kernels_part(ks->fn, uses, made->n);
}

/* ---- its texts ---- */

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

/* Phases have the names of the emitter in the text, and their keys as symbols. */
static const char *
head_of(Cx *cx, const Unit *unit, const NewKernel *group, const Fn *loops, int n,
        const char **symbols)
{
    Text head = {.cx = cx};
    for (int k = 0, at = 0; k < n; k++) {
        for (int j = 0; at < unit->nphases && unit->phases[at].kernel == loops->body->lets[k];
             j++) {
            char symbol[32];
            kernel_symbol(&group[k].use->key.key, j, symbol);
            text_add(&head, "#define %s %s\n", unit->phases[at].name, symbol);
            symbols[at++] = cx_format(cx, "%s", symbol);
        }
    }
    return head.text ? head.text : "";
}

unsigned
unit_targets(const Kernels *ks)
{
    unsigned cc = ks->options->mode == MODE_TCC ? 0 : 1u << target_for(COMPILER_CC);
    return 1u << target_for(COMPILER_LIBTCC) | cc | ks->options->targets;
}

/* What the C compiler gets: the phases, and what the disk cache keeps beside them. */
static const char *
cc_text(Cx *cx, const char *head, const Unit *unit, const NewKernel *group, int n,
        const char **shapes, const Fn *part)
{
    Text text = {.cx = cx};
    text_add(&text, "%s%s", head, unit->text[target_for(COMPILER_CC)]);
    for (int k = 0; k < n; k++) {
        char symbol[32];
        kernel_shape_symbol(&group[k].use->key.key, symbol);
        put_constant(&text, symbol, shapes[k]);
    }
    put_constant(&text, "dlc_program", kernels_text(part));
    return text.text;
}

/* ---- its code ---- */

static void
submit(const Kernels *ks, Code *code, const NewKernel *group, int n, const Fn *loops,
       const char *text, bool *done)
{
    char error[2048] = "";
    Key *keys = cx_alloc(ks->cx, (size_t)n * sizeof *keys);
    for (int k = 0; k < n; k++) {
        keys[k] = group[k].disk;
    }
    CcOptions cc = ks->options->cc;
    cc.wait = ks->options->mode == MODE_CC;
    cc.caches = ks->options->once;
    cc.target = ks->target;
    cc.keys = keys;
    cc.nkeys = n;
    cc.flags = tuning_flags(loops);
    *done = jit_cc_submit(code, text, &cc, error, sizeof error);
    if (!*done && cc.wait) {
        log_line("%s: the libtcc tier is used", error);
    }
}

/* Both tiers of a unit; the Code is the caller's.  cc: NULL if no C compiler is wanted; loops: what
 * it gets of them. */
static void
compile_texts(const Kernels *ks, Code *code, const NewKernel *group, int n, const Fn *loops,
              const char *tcc, const char *cc)
{
    char error[2048] = "";
    bool done = false;
    if (ks->options->mode == MODE_CC) {
        submit(ks, code, group, n, loops, cc, &done);
    }
    if (!done && !jit_tcc_compile(code, tcc, error, sizeof error)) {
        if (errno == ENOMEM) {
            fail(ks->cx, DIAG_MEMORY, strlen(tcc));
        }
        fail(ks->cx, DIAG_LIBTCC, error);
    }
    if (ks->options->mode == MODE_AUTO) {
        submit(ks, code, group, n, loops, cc, &done);
    }
}

static void
drop(void *code)
{
    code_unref(code);
}

/* Each kernel has its phases among the entries of the unit's code, one kernel's after the
 * other's. */
static void
give_kernels(const Kernels *ks, const Loops *loops, const NewKernel *group, int n,
             const char *const *shapes, Code *code)
{
    Made *made = cx_alloc(ks->cx, sizeof *made);
    *made = (Made){cx_alloc(ks->cx, (size_t)n * sizeof *made->uses), n, ks->fuel};
    for (int k = 0, first = 0; k < n; k++) {
        KernelUse *use = made->uses[k] = group[k].use;
        use->made = made;
        if (!(use->kernel = kernel_new(&group[k].id, shapes[k], code, first))) {
            fail(loops->shared->cx, DIAG_MEMORY, sizeof *use->kernel);
        }
        first += use->kernel->nphases;
        use->lowered = (Lowered){*loops, k};
    }
}

void
unit_compile(Kernels *ks, const NewKernel *group, int n, const Fn *program, const Loops *all,
             const Unit *unit)
{
    Cx *cx = ks->cx;
    const Fn *loops = all->shared;
    if (ks->options->unit) {
        ks->options->unit(ks->options->unit_arg, all, unit);
    }
    const char **symbols = cx_alloc(cx, ((size_t)unit->nphases + 1) * sizeof *symbols);
    const char *head = head_of(cx, unit, group, loops, n, symbols);
    const char **shapes = cx_alloc(cx, (size_t)n * sizeof *shapes);
    for (int k = 0; k < n; k++) {
        shapes[k] = shape_write(cx, &group[k].use->key, loops->body->lets[k], unit);
    }
    Code *code = code_new(symbols, unit->nphases);
    if (!code) {
        fail(cx, DIAG_MEMORY, (size_t)unit->nphases);
    }
    cx_cleanup(cx, drop, code);
    if (unit->nphases) {
        const char *cc = ks->options->mode == MODE_TCC
                             ? NULL
                             : cc_text(cx, head, unit, group, n, shapes, program);
        const char *tcc = cx_format(cx, "%s%s", head, unit->text[target_for(COMPILER_LIBTCC)]);
        compile_texts(ks, code, group, n, all->of[target_for(COMPILER_CC)], tcc, cc);
        stored_put(ks, group, n, shapes, tcc);
    }
    give_kernels(ks, all, group, n, shapes, code);
}
