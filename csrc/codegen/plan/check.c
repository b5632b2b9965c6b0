/* Kernels compared with the interpreter while a plan runs: verify="run".
 *
 * What:     the first run of a kernel with sizes, in each tier, is computed by the interpreter too.
 * How:      The plan keeps each kernel as text, of the kernels stage: what lowering was given.
 *           Before the kernel runs, the interpreter computes what it should store, of the operands
 *           as they lie in memory then.  After its last phase each element is compared.  Of a large
 *           result some boxes are: at its beginning, middle and end (ir/eval/excerpt.c).
 *           The interpreter adds in double and the kernel in an order of its own, so the bits of
 *           a sum differ.  Runs with noise say by how much they may (ir/eval/noise.c).
 *           If the interpreter finds an index out of range, the kernel has to raise.
 * Why not:  the loops stage, which has the kernel's order: then a mistake of lowering would be on
 *           both sides. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/eval/eval.h"
#include "ir/eval/excerpt.h"
#include "plan_build.h"
#include "codegen/processor.h"
#include "plan_run.h"

enum {
    PLACES = 3,                 /* of boxes in a result */
    MOST = 1 << 19,             /* elements that the interpreter computes of a whole kernel, */
    MOST_OF_BOX = 1 << 17,      /* of a box, where it can be made so small, */
    MOST_OF_ALL = 1 << 22,      /* and where it cannot */
    NOISES = 3,                 /* runs with noise */
    FACTOR = 16,                /* the allowed difference, in changes by noise */
    FACTOR_OF_HALVES = 2, /* the same for elements rounded to 16 bits, mostly by that rounding */
    ROUNDINGS = 4, /* and in roundings of the element itself */
};

/* eval_map.c again, compiled for processors with fused multiply-adds. */
EvalMap eval_map_fused;

/* A box of a result: the right elements, and those of the runs with noise. */
typedef struct {
    int result;
    Box box;
    Tensor want, noisy[NOISES];
} Checked;

struct Check {
    Cx *cx;
    const Run *run;
    const CheckedKernel *kernel;
    int first, last; /* its launches; it is compared after the last one */
    bool done; /* the results were as they should be, or too large to compare */
    enum CodeTier tier; /* of all entries */
    Fn *fn;
    Let *let; /* the kernel in it */
    int64_t *sizes; /* by position in fn->sizes */
    Checked *checked;
    int n, left_out; /* boxes; results with elements outside of all boxes */
    const Excerpt *part; /* the program that the interpreter runs */
    uint64_t seed; /* with this noise */
    const char *out_of_range; /* an index that it found: the kernel has to raise */
    KernelFn entries[]; /* by phase: however long the interpreter takes, these run */
};

/* ---- in the plan ---- */

void
plan_check_kernel(Builder *b, KernelUse *use, int place)
{
    Plan *plan = b->plan;
    if (!b->checks) {
        return;
    }
    plan->checks = plan->checks ? plan->checks
                                : plan_keep(b, (size_t)b->kernels->nuses * sizeof *plan->checks);
    CheckedKernel *kernel = &plan->checks[place];
    const Fn *part = kernels_part(b->fn, &use, 1);
    Text text = {.cx = b->cx};
    print_fn(part, &text);
    kernel->text = plan_text_keep(b, text.text);
    kernel->operands = plan_keep(b, ((size_t)part->nparams + 1) * sizeof *kernel->operands);
    kernel->results = plan_keep(b, (size_t)use->let->nres * sizeof *kernel->results);
    for (int k = 0; k < part->nparams; k++) {
        kernel->operands[k] = plan_slot_for(b, part->params[k]);
    }
    for (int k = 0; k < use->let->nres; k++) {
        kernel->results[k] = plan_slot_for(b, use->let->res[k]);
    }
}

/* ---- what is to be compared ---- */

static void
read_kernel(Check *c)
{
    const Plan *plan = c->run->plan;
    c->fn = parse_fn(c->cx, c->kernel->text, "kernel");
    c->let = c->fn->body->lets[0];
    c->sizes = cx_alloc(c->cx, ((size_t)c->fn->nsizes + 1) * sizeof *c->sizes);
    for (int k = 0; k < c->fn->nsizes; k++) {
        for (int j = 0; j < plan->nsizes; j++) {
            bool is = strcmp(plan->size_names[j], dim_name(c->cx, c->fn->sizes[k])) == 0;
            c->sizes[k] = is ? c->run->inst->sizes[j] : c->sizes[k];
        }
    }
}

static double
elements(const Check *c, const Type *t)
{
    Box box = excerpt_whole(c->fn, c->sizes, t);
    double n = 1;
    for (int ax = 0; ax < box.rank; ax++) {
        n *= (double)box.n[ax];
    }
    return n;
}

/* The steps of a loop and of the loops in it. */
static double
steps_of(const Check *c, const Let *let)
{
    Loop loop = let_loop(let);
    double inside = 1;
    for (int k = 0; k < loop.body->body->n; k++) {
        const Let *inner = kernel_loop(loop.body->body->lets[k]);
        inside += inner ? steps_of(c, inner) : 0;
    }
    return inside * elements(c, type_of(c->cx, DT_bool, 1, &loop.steps));
}

/* A loop is interpreted whole.  The cost is that of copies of all values in each step. */
static Excerpt *
part_of_loop(const Check *c, int result)
{
    Excerpt *part = cx_alloc(c->cx, sizeof *part);
    part->fn = c->fn;
    part->result = result;
    part->params = cx_alloc(c->cx, ((size_t)c->fn->nparams + 1) * sizeof *part->params);
    for (int k = 0; k < c->fn->nparams; k++) {
        const Value *v = c->fn->params[k];
        part->params[k] = (ExcerptParam){v, excerpt_whole(c->fn, c->sizes, v->type)};
        part->cost += elements(c, v->type);
    }
    for (int k = 0; k < c->let->nres; k++) {
        part->cost += elements(c, c->let->res[k]->type);
    }
    part->cost *= steps_of(c, kernel_loop(c->let));
    return part;
}

static Excerpt *
part_of(const Check *c, int result, const Box *box)
{
    return kernel_loop(c->let) ? part_of_loop(c, result)
                               : excerpt_new(c->fn, c->sizes, 1, &c->let->body->rets[result], box);
}

/* The tensor in a slot, with its layout. */
static Tensor
tensor_of(const Check *c, int slot)
{
    PlanTensor shape;
    run_shape(c->run, slot, &shape);
    Tensor t = {.dtype = c->run->plan->slots[slot].dtype, .rank = shape.rank};
    memcpy(t.sizes, shape.sizes, (size_t)shape.rank * sizeof *t.sizes);
    memcpy(t.strides, shape.strides, (size_t)shape.rank * sizeof *t.strides);
    t.data = run_data(c->run, slot);
    return t;
}

static Tensor
box_of(const Tensor *t, const Box *box)
{
    Tensor part = *t;
    bool some = true;
    for (int ax = 0; ax < t->rank; ax++) {
        part.sizes[ax] = box->n[ax];
        some = some && box->n[ax] > 0;
    }
    part.data = some ? tensor_at(t, box->first) : t->data;
    return part;
}

/* seed 0: without noise. */
static void
interpret(const Check *c, const Excerpt *part, uint64_t seed, Tensor *out)
{
    Tensor *in = cx_alloc(c->cx, ((size_t)part->fn->nparams + 1) * sizeof *in);
    for (int k = 0; k < part->fn->nparams; k++) {
        Tensor t = tensor_of(c, c->kernel->operands[part->params[k].of->result]);
        in[k] = box_of(&t, &part->params[k].box);
    }
    bool fused = isa_info[processor_isa()].fuses;
    Tensor *all = cx_alloc(c->cx, ((size_t)part->fn->body->nrets + 1) * sizeof *all);
    eval_fn_how(part->fn, (EvalHow){fused ? eval_map_fused : eval_map, seed}, c->sizes, in, all);
    *out = all[part->result];
}

/* Shrinks the box around its place, along outer axes first, until it costs little enough. */
static double
shrink_box(const Check *c, int result, int place, Box *box)
{
    double cost = part_of(c, result, box)->cost;
    for (int ax = 0; ax < box->rank && cost > MOST_OF_BOX; ax++) {
        int64_t all = box->n[ax];
        while (box->n[ax] > 1 && cost > MOST_OF_BOX) {
            double n = (double)box->n[ax] * MOST_OF_BOX / cost;
            box->n[ax] = n < 1 ? 1 : (int64_t)n;
            box->first[ax] = (all - box->n[ax]) * place / (PLACES - 1);
            cost = part_of(c, result, box)->cost;
        }
    }
    return cost;
}

static void
add_checked(Check *c, int result, const Box *box)
{
    Checked *checked = &c->checked[c->n];
    Excerpt *part = part_of(c, result, box);
    bool reduces = false;
    *checked = (Checked){.result = result, .box = *box};
    c->part = part;
    interpret(c, part, 0, &checked->want);
    for (int k = 0; k < part->fn->body->n; k++) {
        reduces |= kernel_loop(part->fn->body->lets[k]) ||
                   op_info[part->fn->body->lets[k]->op].kind == KIND_RED;
    }
    for (int k = 0; k < NOISES; k++) {
        checked->noisy[k] = checked->want;
        if (reduces) {
            interpret(c, part, (uint64_t)k + 1, &checked->noisy[k]);
        }
    }
    c->n++;
}

static bool
is_empty(const Box *box)
{
    bool empty = false;
    for (int ax = 0; ax < box->rank; ax++) {
        empty |= box->n[ax] == 0;
    }
    return empty;
}

static void
add_result(Check *c, int result)
{
    Box all = excerpt_whole(c->fn, c->sizes, c->let->res[result]->type);
    int before = c->n;
    if (is_empty(&all)) {
        return;                 /* nothing is computed for a result without elements */
    }
    if (part_of(c, result, &all)->cost <= (double)MOST / c->let->nres) {
        add_checked(c, result, &all);
        return;
    }
    for (int place = 0; place < PLACES && !kernel_loop(c->let); place++) {
        Box box = all;
        if (shrink_box(c, result, place, &box) <= MOST_OF_ALL) {
            add_checked(c, result, &box);
        }
    }
    c->left_out += c->n == before;
}

static void
prepare(Cx *cx, void *arg)
{
    Check *c = arg;
    read_kernel(c);
    c->checked = cx_alloc(cx, (size_t)(PLACES * c->let->nres) * sizeof *c->checked);
    for (int k = 0; k < c->let->nres; k++) {
        add_result(c, k);
    }
}

static void
interpret_again(Cx *cx, void *arg)
{
    const Check *c = arg;
    Tensor *out = cx_alloc(cx, sizeof *out);
    interpret(c, c->part, c->seed, out);
}

/* The index out of range that the interpreter has found, if the kernel must find it too: it reads
 * the same memory, and no rounding of a sum changes the index.  Otherwise NULL. */
static const char *
certain_index(Check *c)
{
    const char *found = cx_diag(c->cx)->message;
    bool certain = cx_diag(c->cx)->code == DIAG_EVAL_INDEX && c->part && !c->part->more;
    for (c->seed = 0; c->seed <= NOISES && certain; c->seed++) {
        certain = !cx_try(c->cx, interpret_again, c) && cx_diag(c->cx)->code == DIAG_EVAL_INDEX;
    }
    return certain ? found : NULL;
}

/* ---- comparison ---- */

static void
element_text(Text *out, const Box *box, const int64_t *index)
{
    text_add(out, "[");
    for (int ax = 0; ax < box->rank; ax++) {
        text_add(out, ax ? ", %lld" : "%lld", (long long)(box->first[ax] + index[ax]));
    }
    text_add(out, "]");
}

/* The operators of the kernel and their lines, each once. */
static const char *
places_of(const Check *c)
{
    Text text = {.cx = c->cx};
    const char *last = NULL;
    for (int k = 0; k < c->let->body->n; k++) {
        const Loc *loc = &c->let->body->lets[k]->loc;
        if (loc->node && !(text.text && strstr(text.text, loc->node))) {
            bool said = !loc->source || (last && strcmp(last, loc->source) == 0);
            text_add(&text, "%s%s%s%s", text.text ? "\n    " : "    ", loc->node, said ? "" : ", ",
                     said ? "" : loc->source);
            last = loc->source ? loc->source : last;
        }
    }
    return text.text ? text.text : "    (without places)";
}

static const char no_file[] = "(no file could be written)";

/* The kernel as a program of the graph stage, its operands as they lay; a loop as it is. */
static const char *
reproducer(const Check *c)
{
    int n = c->let->nres;
    if (kernel_loop(c->let)) {
        const char *whole = reproducer_write(c->cx, "kernel", c->kernel->text);
        return whole ? cx_format(c->cx, "python -m dlc run %s", whole) : no_file;
    }
    Box *boxes = cx_alloc(c->cx, (size_t)n * sizeof *boxes);
    for (int k = 0; k < n; k++) {
        boxes[k] = excerpt_whole(c->fn, c->sizes, c->let->res[k]->type);
    }
    Excerpt *part = excerpt_new(c->fn, c->sizes, n, c->let->body->rets, boxes);
    for (int k = 0; k < part->fn->nparams; k++) {
        Tensor t = tensor_of(c, c->kernel->operands[part->params[k].of->result]);
        Dim strides[MAX_RANK];
        for (int ax = 0; ax < t.rank; ax++) {
            strides[ax] = dim_int(c->cx, t.strides[ax]);
        }
        part->fn->params[k]->strides = cx_copy(c->cx, strides, sizeof strides);
    }
    Text text = {.cx = c->cx};
    print_fn(part->fn, &text);
    const char *path = reproducer_write(c->cx, "kernel", text.text);
    return path ? cx_format(c->cx, "python -m dlc run %s", path) : no_file;
}

static const char *
number_text(const Check *c, const Tensor *t, const int64_t *index)
{
    Text text = {.cx = c->cx};
    sample_element(t, index, &text);
    return text.text;
}

static const char *const tiers[] = {"no code", "libtcc's code", "the C compiler's code",
                                    "the C compiler's code of another schedule"};

static _Noreturn void
report_index(const Check *c)
{
    fail(c->cx, DIAG_INDEX_MISSED, tiers[c->tier], c->run->plan->launches[c->last].name,
         c->out_of_range, places_of(c), reproducer(c));
}

static _Noreturn void
report(const Check *c, const Checked *checked, const Tensor *got, const int64_t *index)
{
    Text at = {.cx = c->cx}, type = {.cx = c->cx};
    element_text(&at, &checked->box, index);
    type_text(c->cx, c->let->res[checked->result]->type, &type);
    fail(c->cx, DIAG_KERNEL_WRONG, tiers[c->tier], checked->result, type.text,
         c->run->plan->launches[c->last].name, at.text, number_text(c, got, index),
         number_text(c, &checked->want, index), places_of(c), reproducer(c));
}

/* Is a floating point number close to the right one, or in a place where noise makes infinities and
 * NaN? */
static bool
is_within_noise(Dtype dtype, const void *want, const void *const noisy[NOISES], const void *got)
{
    double right = sample_number(dtype, want), is = sample_number(dtype, got), moved = 0;
    bool finite = isfinite(right) && isfinite(is), crossed = false;
    for (int k = 0; k < NOISES; k++) {
        double x = sample_number(dtype, noisy[k]);
        moved = fmax(moved, fabs(x - right));
        crossed |= isnan(x) != isnan(right) || isfinite(x) != isfinite(right);
    }
    if (right == is || (isnan(right) && isnan(is)) || crossed) {
        return true;
    }
    double size = fmax(fabs(right), fabs(is)), tiny = dtype == DT_f16 ? 0x1p-24 : 0x1p-126;
    double factor = dtype_info[dtype].compute == dtype ? FACTOR : FACTOR_OF_HALVES;
    return finite &&
           fabs(is - right) <= factor * moved + ROUNDINGS * sample_epsilon(dtype) * size + tiny;
}

/* Is one number of an element right?  If it is not floating point, it must be equal unless noise
 * changes it. */
static bool
is_right(const Checked *checked, const Tensor *got, const int64_t *index, int part)
{
    Dtype dtype = dtype_component(got->dtype);
    size_t bytes = (size_t)dtype_info[dtype].bytes;
    const void *want = tensor_part(&checked->want, index, part),
               *is = tensor_part(got, index, part), *noisy[NOISES];
    bool same = memcmp(want, is, bytes) == 0, moved = false;
    for (int k = 0; k < NOISES; k++) {
        noisy[k] = tensor_part(&checked->noisy[k], index, part);
        moved |= memcmp(want, noisy[k], bytes) != 0;
    }
    return same || (dtype_info[dtype].class == CLASS_FLOAT ? is_within_noise(dtype, want, noisy, is)
                                                           : moved);
}

static void
compare(Cx *cx, void *arg)
{
    const Check *c = arg;
    (void)cx;
    if (c->out_of_range) {
        report_index(c);
    }
    for (int k = 0; k < c->n; k++) {
        const Checked *checked = &c->checked[k];
        Tensor all = tensor_of(c, c->kernel->results[checked->result]);
        Tensor got = box_of(&all, &checked->box);
        int64_t index[MAX_RANK] = {0};
        if (tensor_numel(&got) == 0) {
            continue;
        }
        do {
            for (int part = 0; part < dtype_components(got.dtype); part++) {
                if (!is_right(checked, &got, index, part)) {
                    report(c, checked, &got, index);
                }
            }
        } while (tensor_next(&got, index));
    }
}

/* ---- in a run ---- */

/* Is the launch the first one of a kernel that runs here, and is the kernel to be checked in the
 * tier that it is in? */
static bool
is_due(const Run *run, int launch)
{
    const Launch *first = &run->plan->launches[launch];
    unsigned bit = 1u << code_tier(first->code, first->entry);
    return launch_begins(first, run->inst->values) &&
           !(atomic_load(&run->inst->checked[launch]) & bit);
}

/* A check of the kernel in the tier that all of its phases have now.  NULL: a better one is just
 * coming, it has been checked meanwhile, or there is no memory. */
static Check *
check_new(Run *run, int launch)
{
    const Launch *first = &run->plan->launches[launch];
    Check *c = calloc(1, sizeof *c + (size_t)first->phases * sizeof *c->entries);
    bool same = c != NULL;
    for (int k = 0; k < first->phases && same; k++) {
        enum CodeTier tier;
        c->entries[k] = code_entry_of(first[k].code, first[k].entry, &tier);
        same = k == 0 || tier == c->tier;
        c->tier = tier;
    }
    unsigned char bit = same ? (unsigned char)(1 << c->tier) : 0;
    Cx *cx = same && !(atomic_fetch_or(&run->inst->checked[launch], bit) & bit) ? cx_new() : NULL;
    if (!cx) {
        free(c);
        return NULL;
    }
    c->cx = cx;
    c->run = run;
    c->kernel = &run->plan->checks[first->use];
    c->first = launch;
    c->last = launch + first->phases - 1;
    return c;
}

void
check_begin(Run *run, int launch)
{
    const char *name = run->plan->launches[launch].name;
    Check *c = is_due(run, launch) ? check_new(run, launch) : NULL;
    if (!c) {
        return;
    }
    run->check = c;
    run_leave(run);
    if (!cx_try(c->cx, prepare, c)) {
        c->n = 0;
        c->out_of_range = certain_index(c);
        if (!c->out_of_range) {
            c->left_out = 1;
            log_line("verify: %s is not compared: %s", name, cx_diag(c->cx)->message);
        }
    } else if (c->left_out) {
        log_line("verify: %s is not compared: %d results are too large", name, c->left_out);
    }
    count_add(c->left_out ? COUNT_UNCHECKED : COUNT_CHECKED, 1);
}

KernelFn
check_entry(const Run *run, int launch)
{
    const Check *c = run->check;
    return c && launch >= c->first && launch <= c->last ? c->entries[launch - c->first] : NULL;
}

int
check_end(Run *run, int launch)
{
    Check *c = run->check;
    if (!c || c->last != launch) {
        return 0;
    }
    run_leave(run);
    bool right = cx_try(c->cx, compare, c);
    if (!right) {
        run_enter(run);
        run->host->fault(run->host->arg, FAULT_WRONG, cx_diag(c->cx)->message, NULL);
    }
    c->done = right;
    check_drop(run);
    return right ? 0 : -1;
}

/* After a run with a check: a kernel that was wrong, or did not complete, is checked again in the
 * next call. */
void
check_drop(Run *run)
{
    const Check *c = run->check;
    if (!c->done) {
        atomic_fetch_and(&run->inst->checked[c->first], (unsigned char)~(1 << c->tier));
    }
    cx_free(c->cx);
    free(run->check);
    run->check = NULL;
}
