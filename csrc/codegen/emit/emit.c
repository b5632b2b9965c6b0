/* Emission: the loops stage to C, for each target that is wanted.
 *
 * What:     one C function for each phase (a top-level loop of a kernel), for each target: plain
 *           loops for an optimising compiler (emit_cc.c), calls of strips for libtcc
 *           (emit_tcc.c), the loops as they are in portable C (emit_c.c).
 * Requires: a scheduled function of the loops stage.
 * Ensures:  all texts compute the same bits, for any partition of the parallel loop: the order of
 *           everything that is not elementwise is that of docs/bits.md.
 * How:      this file holds what the targets share: which buffers a phase needs, its parallel
 *           loop's iteration count and cost, and its function around the statements.  Dims over
 *           size symbols alone are values of n[], each once; dims with loop indices are written as
 *           expressions over those.  A target's statements are made without a look at another's:
 *           each has names n0, n1, .. of its own for such values.  When all statements are there,
 *           each value gets its place in n[], and the functions are put that read it from there.
 * Why not:  one text for all: an optimiser wants one loop with everything in it, which a compiler
 *           without optimisation cannot use, and the other way round.
 * Example:  x[i, j] of f32[B, N] is x[i * N + j] with `const int64_t N = n[0];`.
 */
#include "emit.h"

/* ---- the emitters ---- */

static const struct {
    const char *head;
    void (*phase)(Emit *e, const Let *loop);
    void (*function)(Emit *e, const Let *loop, const Text *body, Text *unit);
} emitters[] = {
#define TARGET(name, ...) {emit_##name##_head, emit_##name##_phase, emit_##name##_function},
#include "codegen/targets.def"
};

/* ---- a phase ---- */

/* The text of a unit for one target, as it grows. */
typedef struct {
    Text functions, helpers;
    Map made;
} Written;

/* The emission of a phase for one target, whose loops may be the target's own. */
typedef struct {
    const Let *loop;
    Phase phase;
    Emit emit;
    Names names;
    Text body;
} Writing;

/* Gives the target's sizes their places in n[], where sizes of targets before may be already. */
static void
place_sizes(Emit *e, Phase *phase)
{
    for (int j = 0; j < e->nsizes; j++) {
        int k = 0;
        while (k < phase->ndims && phase->dims[k] != e->sizes[j].dim) {
            k++;
        }
        if (k == phase->ndims) {
            phase->dims = cx_grow(e->cx, phase->dims, k, sizeof *phase->dims);
            phase->dims[phase->ndims++] = e->sizes[j].dim;
        }
        e->sizes[j].place = k;
    }
}

/* A phase is called with the same buffers for any target, over the same range. */
static void
check_same(Cx *cx, const Phase *phase, const Phase *of_target)
{
    bool same = phase->nbuffers == of_target->nbuffers && phase->extent == of_target->extent;
    for (int k = 0; same && k < phase->nbuffers; k++) {
        same = phase->buffers[k]->name == of_target->buffers[k]->name;
    }
    if (!same) {
        fail(cx, DIAG_PHASES_DIFFER, phase->name);
    }
}

/* Begins the emission of a phase for a target.  The first target's interface is that of the
 * phase. */
static void
begin(Writing *w, const Lowered *kernel, Target target, int number, Phase *phase)
{
    const Fn *fn = kernel->loops.of[target];
    const Let *let = fn->body->lets[kernel->place];
    w->loop = phase_by_number(let, number);
    w->phase = (Phase){.name = phase->name, .kernel = let};
    w->emit = phase_interface(fn, w->loop, &w->phase);
    w->emit.phase = &w->phase;
    w->emit.target = &target_info[target];
    if (phase->extent == DIM_NONE) {
        phase->buffers = w->phase.buffers;
        phase->nbuffers = w->phase.nbuffers;
        phase->extent = w->phase.extent;
        phase->work = w->phase.work;
    }
    check_same(fn->cx, phase, &w->phase);
}

/* Statements first, for each target that is wanted: by then the sizes of all are known. */
static void
emit_phase(const Lowered *kernel, int number, Phase *phase, Written *units)
{
    const Fn *shared = kernel->loops.shared;
    Cx *cx = shared->cx;
    Writing each[TARGETS];
    phase->extent = DIM_NONE;
    phase->scratch = dim_int(cx, 0);
    for (int k = 0; k < TARGETS; k++) {
        if (kernel->loops.of[k]) {
            Emit *e = &each[k].emit;
            begin(&each[k], kernel, (Target)k, number, phase);
            each[k].body = (Text){.cx = cx};
            each[k].names = (Names){0};
            each[k].names.values = cx_alloc(cx, (size_t)kernel->loops.of[k]->nvalues *
                                                    sizeof *each[k].names.values);
            e->names = &each[k].names;
            e->helpers = &units[k].helpers;
            e->made = &units[k].made;
            e->out = &each[k].body;
            e->indent = 1;
            emitters[k].phase(e, each[k].loop);
            place_sizes(e, phase);
            phase->scratch = dim_max(cx, phase->scratch, e->scratch);
        }
    }
    for (int k = 0; k < TARGETS; k++) {
        if (kernel->loops.of[k]) {
            each[k].phase.ndims = phase->ndims;
            emitters[k].function(&each[k].emit, each[k].loop, &each[k].body, &units[k].functions);
        }
    }
}

static const char *
unit_text(Cx *cx, const char *head, const Written *written)
{
    Text unit = {.cx = cx};
    text_add(&unit, "%s", head);
    text_put(&unit, written->helpers.text, written->helpers.length);
    text_put(&unit, written->functions.text, written->functions.length);
    return unit.text;
}

void
emit_kernels(Cx *cx, int n, const Lowered *kernels, unsigned wanted, Unit *out)
{
    Written units[TARGETS];
    *out = (Unit){0};
    for (int k = 0; k < TARGETS; k++) {
        units[k] = (Written){{.cx = cx}, {.cx = cx}, {0}};
    }
    for (int k = 0; k < n; k++) {
        const Let *kernel = kernels[k].loops.shared->body->lets[kernels[k].place];
        for (int number = 0; phase_by_number(kernel, number); number++) {
            out->phases = cx_grow(cx, out->phases, out->nphases, sizeof *out->phases);
            Phase *phase = &out->phases[out->nphases++];
            *phase = (Phase){.name = cx_format(cx, "k%d_%d", k, number), .kernel = kernel};
            const Let *loop = phase_by_number(kernel, number);
            Dim share = let_chosen(cx, loop);
            int assumed = let_assume(cx, loop);
            emit_phase(&kernels[k], number, phase, units);
            for (; assumed; assumed--) {
                dim_forget(cx);
            }
            phase->extent = dim_mul(cx, share, phase->extent);
            phase->scratch = dim_mul(cx, share, phase->scratch);
        }
    }
    for (int k = 0; k < TARGETS; k++) {
        out->text[k] = wanted & 1u << k ? unit_text(cx, emitters[k].head, &units[k]) : NULL;
    }
}

void
emit_unit(const Loops *loops, Unit *out)
{
    const Fn *fn = loops->shared;
    Lowered *kernels = cx_alloc(fn->cx, (size_t)(fn->body->n + 1) * sizeof *kernels);
    int n = 0;
    for (int k = 0; k < fn->body->n; k++) {
        if (fn->body->lets[k]->op == OP_kernel) {
            kernels[n++] = (Lowered){*loops, k};
        }
    }
    unsigned wanted = 0;
    for (int k = 0; k < TARGETS; k++) {
        wanted |= loops->of[k] ? 1u << k : 0;
    }
    emit_kernels(fn->cx, n, kernels, wanted, out);
}
