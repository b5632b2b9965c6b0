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
#include <string.h>

#include "emit.h"

/* ---- targets ---- */

const TargetInfo target_info[] = {
#define TARGET(name, what) {#name, what},
#include "codegen/targets.def"
};

static const struct {
    const char *head;
    void (*phase)(Emit *e, const Let *loop);
    void (*function)(Emit *e, const Let *loop, const Text *body, Text *unit);
} emitters[] = {
#define TARGET(name, what) {emit_##name##_head, emit_##name##_phase, emit_##name##_function},
#include "codegen/targets.def"
};

Target
target_find(const char *name)
{
    int k = 0;
    while (k < TARGETS && strcmp(target_info[k].name, name) != 0) {
        k++;
    }
    return (Target)k;
}

/* ---- a phase ---- */

/* The text of a unit for one target, as it grows. */
typedef struct {
    Text functions, helpers;
    Map made;
} Written;

/* Gives the target's sizes their places in n[], where sizes of targets before may be already. */
static void
place_sizes(Emit *e)
{
    Phase *phase = e->phase;
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

/* Statements first, for each target that is wanted: by then the sizes of all are known. */
static void
emit_phase(const Fn *fn, const Let *loop, Phase *phase, unsigned wanted, Written *units)
{
    Cx *cx = fn->cx;
    const Emit shared = phase_interface(fn, loop, phase);
    Emit each[TARGETS];
    Text bodies[TARGETS];
    phase->scratch = dim_int(cx, 0);
    for (int k = 0; k < TARGETS; k++) {
        if (wanted & 1u << k) {
            Emit *e = &each[k];
            *e = shared;
            bodies[k] = (Text){.cx = cx};
            e->names = cx_alloc(cx, (size_t)fn->nvalues * sizeof *e->names);
            e->helpers = &units[k].helpers;
            e->made = &units[k].made;
            e->out = &bodies[k];
            e->indent = 1;
            emitters[k].phase(e, loop);
            place_sizes(e);
            phase->scratch = dim_max(cx, phase->scratch, e->scratch);
        }
    }
    for (int k = 0; k < TARGETS; k++) {
        if (wanted & 1u << k) {
            emitters[k].function(&each[k], loop, &bodies[k], &units[k].functions);
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
        const Let *kernel = kernels[k].let;
        int phases = 0;
        for (int j = 0; j < kernel->body->n; j++) {
            const Let *loop = kernel->body->lets[j];
            if (loop->op == OP_for) {
                out->phases = cx_grow(cx, out->phases, out->nphases, sizeof *out->phases);
                Phase *phase = &out->phases[out->nphases++];
                *phase = (Phase){.name = cx_format(cx, "k%d_%d", k, phases++), .kernel = kernel};
                emit_phase(kernels[k].fn, loop, phase, wanted, units);
            }
        }
    }
    for (int k = 0; k < TARGETS; k++) {
        out->text[k] = wanted & 1u << k ? unit_text(cx, emitters[k].head, &units[k]) : NULL;
    }
}

void
emit_unit(const Fn *fn, unsigned wanted, Unit *out)
{
    Lowered *kernels = cx_alloc(fn->cx, (size_t)(fn->body->n + 1) * sizeof *kernels);
    int n = 0;
    for (int k = 0; k < fn->body->n; k++) {
        if (fn->body->lets[k]->op == OP_kernel) {
            kernels[n++] = (Lowered){fn, fn->body->lets[k]};
        }
    }
    emit_kernels(fn->cx, n, kernels, wanted, out);
}
