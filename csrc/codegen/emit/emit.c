/* Emission: the loops stage to C, for each target that is wanted.
 *
 * What:     one C function for each phase (a top-level loop of a kernel), for each target: plain
 *           loops for an optimising compiler (emit_cc.c), calls of strips for libtcc (emit_tcc.c).
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

/* ---- buffers ---- */

const char *
scratch_room(Emit *e, Dim bytes)
{
    const char *at = offset_c(e, e->scratch);
    Dim line = dim_int(e->cx, 64);
    bytes = dim_mul(e->cx, dim_div(e->cx, dim_add(e->cx, bytes, dim_int(e->cx, 63)), line), line);
    /* a buffer without elements must have a place all the same */
    bytes = dim_is(e->cx, bytes, 0) ? line : bytes;
    e->scratch = dim_add(e->cx, e->scratch, bytes);
    return at;
}

const char *
private_buffer(Emit *e, const Value *v, int lanes)
{
    return scratch_room(e,
                        dim_mul(e->cx, type_numel(e->cx, v->type),
                                dim_int(e->cx, (int64_t)dtype_info[v->type->dtype].bytes * lanes)));
}

bool
is_private(const Emit *e, const Value *v)
{
    return v->def && v->def->op == OP_buffer && v->def->parent->owner != e->phase->kernel;
}

bool
is_cached(Cx *cx, const Value *buffer)
{
    int64_t n = 0;
    return dim_is_int(cx, type_numel(cx, buffer->type), &n) &&
           n <= DLC_L2 / dtype_info[buffer->type->dtype].bytes;
}

/* ---- what a phase uses of the kernel's own block ---- */

typedef struct {
    const Emit *e;
    bool *used;
} Using;

static void use_let(const Emit *e, bool *used, const Let *let);

static void
use_value(const Emit *e, bool *used, const Value *v)
{
    if (value_is_const(v) || used[v->id]) {
        return;
    }
    used[v->id] = true;
    if (v->def && v->def->parent && v->def->parent->owner == e->phase->kernel) {
        use_let(e, used, v->def);
    }
}

/* If the kernel's own block binds the index, marks the value that it is bound from as used: the
 * index is used with that let. */
static void
use_name(void *arg, Dim name)
{
    const Using *using = arg;
    const Block *root = using->e->phase->kernel->body;
    for (int k = 0; k < root->n; k++) {
        if (root->lets[k]->nsizes && root->lets[k]->sizes[0] == name) {
            use_value(using->e, using->used, root->lets[k]->args[0]);
        }
    }
}

static void
use_let(const Emit *e, bool *used, const Let *let)
{
    Using using = {e, used};
    for (int k = 0; k < let->nargs; k++) {
        use_value(e, used, let->args[k]);
    }
    for (int k = 0; k < let->nattrs; k++) {
        const Attr *a = &let->attrs[k];
        for (int j = 0; a->kind == ATTR_DIMS && j < a->n; j++) {
            dim_names(e->cx, a->dims[j], use_name, &using);
        }
        if (a->kind == ATTR_DIM) {
            dim_names(e->cx, a->d, use_name, &using);
        }
    }
    for (int k = 0; let->body && k < let->body->n; k++) {
        use_let(e, used, let->body->lets[k]);
    }
    for (int k = 0; let->body && k < let->body->nrets; k++) {
        use_value(e, used, let->body->rets[k]);
    }
}

bool
has_update(const Let *let)
{
    bool found = let->op == OP_update;
    for (int k = 0; let->body && k < let->body->n; k++) {
        found |= has_update(let->body->lets[k]);
    }
    return found;
}

/* Finds p[k] of the phase: operands, results and buffers of the kernel, in order of first use. */
static void
add_buffers(Emit *e, const Let *let, bool *seen)
{
    const Value *v = let_accesses(let) ? let->args[0] : NULL;
    if (v && !is_private(e, v) && !seen[v->id]) {
        Phase *ph = e->phase;
        seen[v->id] = true;
        ph->buffers = cx_grow(e->cx, ph->buffers, ph->nbuffers, sizeof *ph->buffers);
        ph->buffers[ph->nbuffers++] = let->args[0];
    }
    for (int k = 0; let->body && k < let->body->n; k++) {
        add_buffers(e, let->body->lets[k], seen);
    }
}

/* ---- cost ---- */

typedef struct {
    Cx *cx;
    Dim d;
} Bare;

static void
drop_index(void *arg, Dim name)
{
    Bare *s = arg;
    if (dim_extent(s->cx, name) != DIM_NONE) {
        s->d = dim_replace(s->cx, s->d, name, dim_int(s->cx, 0));
    }
}

static Dim
without_indices(Cx *cx, Dim d)
{
    Bare s = {cx, d};
    dim_names(cx, d, drop_index, &s);
    return s.d;
}

/* The cost of adding an element's value to a reduction.  ends_cost: that of joining its lanes. */
static int64_t
combine_cost(const Let *let)
{
    return let->op == OP_reduce ? op_info[op_info[let_op(let)].combine].cost : 0;
}

static int64_t
ends_cost(const Let *let)
{
    return loop_has(let, MARK_vector) ? DLC_LANES * combine_cost(let) : 0;
}

static Dim
block_work(Cx *cx, const Block *blk)
{
    int64_t own = 0;
    Dim work = dim_int(cx, 0);
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if (loop_is(let) && loop_has(let, MARK_fused)) {
            work = dim_add(
                cx, work,
                dim_div(cx, without_indices(cx, loop_extent(let)), dim_int(cx, COST_FUSED)));
        } else if (loop_is(let)) {
            Dim each = dim_add(cx, block_work(cx, let->body), dim_int(cx, combine_cost(let)));
            own += COST_LOOP + ends_cost(let);
            work = dim_add(cx, work, dim_mul(cx, without_indices(cx, loop_extent(let)), each));
        } else {
            own += op_info[let->op].kind == KIND_MAP ? op_info[let->op].cost : COST_LOAD;
        }
    }
    return dim_add(cx, work, dim_int(cx, own));
}

/* ---- the parallel loop ---- */

/* The number of iterations of a loop that make one parallel iteration. */
static int
loop_step(const Let *loop)
{
    return loop_has(loop, MARK_vector)        ? loop_tile(loop)
           : loop_has(loop, MARK_tile)        ? DLC_ROWS
           : loop_has(loop, MARK_recurrences) ? DLC_RECURRENCES
                                              : 1;
}

/* The number of parallel iterations of a loop.  *each: the number of its own iterations in one. */
static Dim
parallel_count(Cx *cx, const Let *loop, Dim *each)
{
    Dim extent = loop_extent(loop), step = dim_int(cx, loop_step(loop));
    if (loop_step(loop) == 1) {
        *each = step;
        return extent;
    }
    *each = dim_min(cx, extent, step);
    return dim_div(cx, dim_add(cx, extent, dim_int(cx, loop_step(loop) - 1)), step);
}

static void
find_collapsed(Emit *e, const Let *loop)
{
    Dim each, together = dim_int(e->cx, 1);
    const Let *whole = loop;
    e->ncollapsed = 0;
    while (loop && loop_has(loop, MARK_parallel)) {
        e->counts[e->ncollapsed] = parallel_count(e->cx, loop, &each);
        together = dim_mul(e->cx, together, each);
        e->collapsed[e->ncollapsed++] = loop;
        const Let *inner = NULL;
        for (int k = 0; k < loop->body->n && !loop_has(loop, MARK_vector); k++) {
            inner = loop->body->lets[k]->op == OP_for ? loop->body->lets[k] : inner;
        }
        loop = inner;
    }
    if (e->ncollapsed) {
        e->phase->work = dim_mul(e->cx, block_work(e->cx, e->collapsed[e->ncollapsed - 1]->body),
                                 together);
    } else {
        e->phase->work = dim_mul(e->cx, without_indices(e->cx, loop_extent(whole)),
                                 block_work(e->cx, whole->body));
    }
    e->phase->extent = dim_int(e->cx, 1);
    for (int k = 0; k < e->ncollapsed; k++) {
        e->phase->extent = dim_mul(e->cx, e->phase->extent, e->counts[k]);
    }
}

int
collapsed_at(const Emit *e, const Let *loop)
{
    for (int k = 0; k < e->ncollapsed; k++) {
        if (e->collapsed[k] == loop) {
            return k;
        }
    }
    return -1;
}

static const char *
collapsed_name(Emit *e, int k)
{
    const char *index = index_c(e, loop_index(e->collapsed[k]));
    return loop_step(e->collapsed[k]) > 1 ? cx_format(e->cx, "%s_tile", index) : index;
}

void
put_indices(Emit *e, const char *at)
{
    const char *rest = at;
    if (e->ncollapsed == 1) {
        put(e, "const int64_t %s = %s;", collapsed_name(e, 0), at);
    }
    for (int k = e->ncollapsed - 1; k > 0; k--) {
        const char *name = collapsed_name(e, k), *count = dim_c(e, e->counts[k]);
        const char *over = k == 1 ? collapsed_name(e, 0)
                                  : cx_format(e->cx, "t%d_%srest", k, e->copy.second ? "next_" : "");
        put(e, "const int64_t %s = %s / %s, %s = %s %% %s;", over, rest, count, name, rest, count);
        rest = over;
    }
}

bool
is_copied(const Emit *e, const Let *loop)
{
    bool copied = false;
    for (int k = 0; k < e->copy.nloops && !copied; k++) {
        copied = e->copy.loops[k] == loop;
    }
    return copied;
}

/* Is a count other than the outermost one not a number?  Then each iteration would divide by a
 * variable, which takes as long as a short row. */
static bool
divides_slowly(const Emit *e)
{
    bool slowly = false;
    for (int k = 1; k < e->ncollapsed; k++) {
        slowly |= !dim_is_int(e->cx, e->counts[k], NULL);
    }
    return slowly;
}

/* Puts the indices of iteration lo.  Returns the expression that advances all but the last one, as
 * an odometer does. */
static const char *
put_counters(Emit *e)
{
    const char *first = collapsed_name(e, 0), *all = cx_format(e->cx, "%s = 0", first);
    const char *rest = "lo", *next = cx_format(e->cx, "++%s", first);
    for (int k = 1; k < e->ncollapsed; k++) {
        all = cx_format(e->cx, "%s, %s = 0", all, collapsed_name(e, k));
    }
    put(e, "int64_t %s;", all);
    put_open(e, "if (lo < hi)");
    for (int k = e->ncollapsed - 1; k > 0; k--) {
        const char *count = dim_c(e, e->counts[k]),
                   *over = k > 1 ? cx_format(e->cx, "t%d_rest", k) : first;
        put(e, "%s = %s %% %s;", collapsed_name(e, k), rest, count);
        put(e, "%s%s = %s / %s;", k > 1 ? "const int64_t " : "", over, rest, count);
        rest = over;
    }
    put_close(e);
    for (int k = 1; k < e->ncollapsed - 1; k++) {
        const char *i = collapsed_name(e, k);
        next = cx_format(e->cx, "++%s == %s && (%s = 0, %s)", i, dim_c(e, e->counts[k]), i, next);
    }
    return next;
}

/* Two loops: the last index runs in one of its own, in which compilers see what does not change. */
static void
open_counters(Emit *e)
{
    const char *next = put_counters(e), *last = collapsed_name(e, e->ncollapsed - 1),
               *count = dim_c(e, e->counts[e->ncollapsed - 1]);
    put_open(e, "for (int64_t t = lo; t < hi; %s = 0, (void)(%s))", last, next);
    put(e, "const int64_t t_end = %s - %s < hi - t ? t + %s - %s : hi;", count, last, count, last);
    put_open(e, "for (; t < t_end; t++, %s++)", last);
}

int
open_parallel(Emit *e)
{
    if (e->ncollapsed == 0 || (e->ncollapsed == 1 && loop_has(e->collapsed[0], MARK_vector))) {
        return 0;
    }
    if (e->ncollapsed == 1) {
        const char *i = collapsed_name(e, 0);
        put_open(e, "for (int64_t %s = lo; %s < hi; %s++)", i, i, i);
        return 1;
    }
    if (divides_slowly(e)) {
        open_counters(e);
        return 2;
    }
    put_open(e, "for (int64_t t = lo; t < hi; t++)");
    put_indices(e, "t");
    return 1;
}

/* The bounds of a vector loop: all of it, the tiles lo..hi, or the one tile of collapsed loops. */
void
vector_bounds(Emit *e, const Let *loop, const char **from, const char **to)
{
    const char *extent = dim_c(e, loop_extent(loop)), *i = index_c(e, loop_index(loop));
    int at = collapsed_at(e, loop), tile = loop_tile(loop);
    *from = "0";
    *to = extent;
    if (at < 0) {
        return;
    }
    *from = cx_format(e->cx, "%s_lo", i);
    *to = cx_format(e->cx, "%s_hi", i);
    if (e->ncollapsed == 1) {
        put(e, "const int64_t %s = lo * %d;", *from, tile);
        put(e, "const int64_t %s = hi * %d < %s ? hi * %d : %s;", *to, tile, extent, tile, extent);
    } else {
        put(e, "const int64_t %s = %s * %d;", *from, collapsed_name(e, at), tile);
        put(e, "const int64_t %s = %s + %d < %s ? %s + %d : %s;", *to, *from, tile, extent, *from,
            tile, extent);
    }
}

/* ---- the function of a phase ---- */

void
put_pointers(Emit *e, Text *unit)
{
    const Phase *ph = e->phase;
    for (int k = 0; k < ph->nbuffers; k++) {
        const Value *v = ph->buffers[k];
        bool written = v->def && (v->def == ph->kernel || v->def->op == OP_buffer);
        text_add(unit, "    %s%s *%s = p[%d];\n", written ? "" : "const ",
                 storage_c(v->type->dtype), name_c(e, v), k);
    }
    if (!dim_is(e->cx, e->scratch, 0)) {
        text_add(unit, "    char *scratch = p[%d];\n", ph->nbuffers);
    }
}

void
put_size(Emit *e, int k, Text *unit)
{
    Text dim = {.cx = e->cx};
    bool name = dim_is_name(e->cx, e->sizes[k].dim);
    dim_text(e->cx, e->sizes[k].dim, &dim);
    text_add(unit, "    const int64_t %s = n[%d];%s%s%s\n", size_name(e, k), e->sizes[k].place,
             name ? "" : " /* ", name ? "" : dim.text, name ? "" : " */");
}

void
put_sizes(Emit *e, Text *unit, void (*put_one)(Emit *e, int k, Text *unit))
{
    for (int place = 0; place < e->phase->ndims; place++) {
        for (int k = 0; k < e->nsizes; k++) {
            if (e->sizes[k].place == place && e->sizes[k].declared) {
                put_one(e, k, unit);
            }
        }
    }
}

/* Lists where the phase's lets come from: FX nodes and lines of the user's program. */
typedef struct {
    Cx *cx;
    Text *unit;
    const char *source, *node;
} Sources;

static void
put_sources(Sources *s, const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        Loc loc = blk->lets[k]->loc;
        if (loc.source && loc.source != s->source) {
            Text line = {.cx = s->cx};
            text_add(&line, "%s", loc.source);
            for (char *c = line.text; *c; c++) {
                bool ends = (*c == '*' && c[1] == '/') || (*c == '/' && c[1] == '*');
                *c = ends || *c == '\n' ? ' ' : *c;
            }
            text_add(s->unit, "\n * %s", line.text);
        }
        if (loc.node && loc.node != s->node) {
            bool after_source = loc.source && loc.source != s->source;
            const char *join = after_source ? ": " : s->node ? ", " : "\n * from ";
            text_add(s->unit, "%s%s", join, loc.node);
        }
        s->source = loc.source ? loc.source : s->source;
        s->node = loc.node ? loc.node : s->node;
        if (blk->lets[k]->body) {
            put_sources(s, blk->lets[k]->body);
        }
    }
}

void
put_header(const Emit *e, const Let *loop, Text *unit)
{
    const Phase *ph = e->phase;
    text_add(unit, "\n/* %s, phase of", ph->name);
    for (int k = 0; k < ph->kernel->nres; k++) {
        text_add(unit, "%s %s", k ? "," : "", ph->kernel->res[k]->name);
    }
    for (int k = 0; k < ph->nbuffers; k++) {
        text_add(unit, "\n * p[%d] %s: ", k, ph->buffers[k]->name);
        type_text(e->cx, ph->buffers[k]->type, unit);
    }
    Sources s = {.cx = e->cx, .unit = unit};
    put_sources(&s, loop->body);
    text_add(unit, " */\n");
}

void
put_phase_head(const Emit *e, Text *unit)
{
    const char *name = e->phase->name,
               *takes = "void *const *p, const int64_t *n, int64_t lo, int64_t hi";
    text_add(unit, "int %s(%s);\n\nint\n%s(%s)\n{\n", name, takes, name, takes);
}

void
put_phase_end(Text *unit)
{
    text_add(unit, "    (void)p, (void)n;\n    return fault;\n}\n");
}

/* ---- targets ---- */

static const struct {
    const char *name, *what, *head;
    void (*phase)(Emit *e, const Let *loop);
    void (*function)(Emit *e, const Let *loop, const Text *body, Text *unit);
} targets[] = {
#define TARGET(name, primitives, what)                                                             \
    {#name, what, emit_##name##_head, emit_##name##_phase, emit_##name##_function},
#include "codegen/targets.def"
};

const char *
target_name(Target target)
{
    return targets[target].name;
}

const char *
target_what(Target target)
{
    return targets[target].what;
}

Target
target_find(const char *name)
{
    int k = 0;
    while (k < TARGETS && strcmp(targets[k].name, name) != 0) {
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

/* What is so of a phase for all targets: what it uses, its buffers, its parallel loops, its cost. */
static Emit
find_interface(const Fn *fn, const Let *loop, Phase *phase)
{
    Cx *cx = fn->cx;
    size_t values = (size_t)fn->nvalues;
    bool *used = cx_alloc(cx, values * sizeof *used), *seen = cx_alloc(cx, values * sizeof *seen);
    Emit e = {.cx = cx, .fn = fn, .phase = phase, .used = used, .scratch = dim_int(cx, 0)};
    use_let(&e, used, loop);
    for (int k = 0; k < phase->kernel->body->n; k++) {
        const Let *let = phase->kernel->body->lets[k];
        if (let == loop || (let->op == OP_load && used[let->res[0]->id])) {
            add_buffers(&e, let, seen);
        }
    }
    find_collapsed(&e, loop);
    return e;
}

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
    const Emit shared = find_interface(fn, loop, phase);
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
            targets[k].phase(e, loop);
            place_sizes(e);
            phase->scratch = dim_max(cx, phase->scratch, e->scratch);
        }
    }
    for (int k = 0; k < TARGETS; k++) {
        if (wanted & 1u << k) {
            targets[k].function(&each[k], loop, &bodies[k], &units[k].functions);
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
        out->text[k] = wanted & 1u << k ? unit_text(cx, targets[k].head, &units[k]) : NULL;
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
