/* Emission: the loops stage to C, for each target that is wanted.
 *
 * What:     one C function for each phase (a top-level loop of a kernel), for each target: plain
 *           loops for an optimising compiler (emit_cc.c), calls of strips for libtcc
 *           (emit_tcc.c), the loops as they are in portable C (emit_c.c).  An if marked phase is
 *           one phase: a function for each of its loops, and one that chooses.
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
#define TARGET(name, what, compiler, calls, fused, width, branches, emitter, ...) \
    {emit_##name##_head, emit_##emitter##_phase, emit_##emitter##_function},
#include "codegen/targets.def"
};

/* ---- a phase ---- */

/* The text of a unit for one target, as it grows. */
typedef struct {
    Text functions, helpers;
    Map made;
} Written;

/* The emission of a loop of a phase for one target, whose loops may be the target's own. */
typedef struct {
    const Let *loop;
    Phase phase;
    Emit emit;
    Names names;
    Text body;
} Writing;

/* The emission of a phase for one target: of its loop; or, if it chooses from several, of these and
 * of what chooses, which is the last one. */
typedef struct {
    const Lowered *kernel;
    Target target;
    const PhaseUse *shared; /* of the loops before they are a target's */
    Writing **all;
    int n;
} PhaseWriting;

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

static Writing *
begin(const PhaseWriting *of, const Let *loop, const char *name, Written *unit)
{
    const Fn *fn = of->kernel->loops.of[of->target];
    Writing *w = cx_alloc(fn->cx, sizeof *w);
    Emit *e = &w->emit;
    w->loop = loop;
    w->phase = (Phase){.name = name, .kernel = fn->body->lets[of->kernel->place]};
    *e = phase_interface(of->target, fn, w->loop, &w->phase);
    phase_order(w->phase.nbuffers, w->phase.buffers, of->shared);
    e->phase = &w->phase;
    w->body = (Text){.cx = fn->cx};
    w->names = (Names){
        .values = cx_alloc(fn->cx, (size_t)fn->nvalues * sizeof *w->names.values),
    };
    e->names = &w->names;
    e->helpers = &unit->helpers;
    e->made = &unit->made;
    e->out = &w->body;
    e->indent = 1;
    return w;
}

static void
add_writing(PhaseWriting *of, Writing *w)
{
    of->all = cx_grow(w->emit.cx, of->all, of->n, sizeof *of->all);
    of->all[of->n++] = w;
}

/* Makes the statements of a loop, for the sizes that are assumed, as a function. */
static Writing *
write_part(PhaseWriting *of, const Let *loop, const Writing *chooser, Dim given, Written *unit)
{
    const char *name = cx_format(chooser->emit.cx, "%s_part%d", chooser->phase.name, of->n);
    Writing *w = begin(of, loop, name, unit);
    w->phase.is_part = true;
    w->phase.given = given;
    emitters[of->target].phase(&w->emit, loop);
    add_writing(of, w);
    return w;
}

/* Puts calls of the functions of the loops.  part: the one function for all of them, or NULL. */
static void
write_choice(PhaseWriting *of, const Block *blk, int at, Writing *chooser, const Writing *part,
             Written *unit)
{
    Emit *e = &chooser->emit;
    const Let *let = blk->lets[at];
    if (let->op == OP_for) {
        part = part ? part : write_part(of, let, chooser, DIM_NONE, unit);
        Dim given = part->phase.given;
        put(e, "return %s(p, n, lo, hi%s%s);", part->phase.name, given == DIM_NONE ? "" : ", ",
            given == DIM_NONE ? "" : dim_c(e, given));
        return;
    }
    Dim size = part ? DIM_NONE : phase_size_between(e->fn, blk, at);
    if (size != DIM_NONE) {
        part = write_part(of, phase_loop(let), chooser, size, unit);
    }
    for (int k = at; k < at + 2; k++) {
        open_choice(e, blk->lets[k]);
        write_choice(of, blk->lets[k]->body, 0, chooser, part, unit);
        close_choice(e);
    }
}

/* The statements.  The first target's interface is that of the phase. */
static void
write_phase(PhaseWriting *of, int number, Phase *phase, Written *unit)
{
    const Fn *fn = of->kernel->loops.of[of->target];
    const Let *let = phase_by_number(fn->body->lets[of->kernel->place], number);
    Writing *w = begin(of, phase_loop(let), phase->name, unit);
    if (phase->extent == DIM_NONE) {
        phase->buffers = w->phase.buffers;
        phase->nbuffers = w->phase.nbuffers;
        phase->extent = w->phase.extent;
        phase->work = w->phase.work;
        phase->in_order = w->phase.in_order;
    }
    check_same(fn->cx, phase, &w->phase);
    if (let->op == OP_for) {
        emitters[of->target].phase(&w->emit, let);
    } else {
        write_choice(of, let->parent, place_of(let), w, NULL, unit);
    }
    add_writing(of, w);
    for (int k = 0; k < of->n; k++) {
        place_sizes(&of->all[k]->emit, phase);
        phase->scratch = dim_max(fn->cx, phase->scratch, of->all[k]->emit.scratch);
    }
}

/* The functions, when the sizes of all targets have their places. */
static void
put_functions(const PhaseWriting *of, const Phase *phase, Text *unit)
{
    for (int k = 0; k < of->n; k++) {
        Writing *w = of->all[k];
        w->phase.ndims = phase->ndims;
        if (of->n > 1 && k == of->n - 1) {
            put_phase_head(&w->emit, unit, "");
            put_sizes(&w->emit, unit, put_size, NULL);
            put_body(&w->body, unit);
        } else {
            emitters[of->target].function(&w->emit, w->loop, &w->body, unit);
        }
    }
}

/* Statements first, for each target that is wanted: by then the sizes of all are known. */
static void
emit_phase(const Lowered *kernel, int number, Phase *phase, Written *units)
{
    PhaseWriting each[TARGETS];
    const Fn *fn = kernel->loops.shared;
    PhaseUse shared = phase_use(fn,
                                phase_loop(phase_by_number(fn->body->lets[kernel->place], number)));
    phase->extent = DIM_NONE;
    phase->scratch = dim_int(fn->cx, 0);
    for (int k = 0; k < TARGETS; k++) {
        if (kernel->loops.of[k]) {
            each[k] = (PhaseWriting){.kernel = kernel, .target = (Target)k, .shared = &shared};
            write_phase(&each[k], number, phase, &units[k]);
        }
    }
    for (int k = 0; k < TARGETS; k++) {
        if (kernel->loops.of[k]) {
            put_functions(&each[k], phase, &units[k].functions);
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
