/* Predicted times: what a program will take, from its loops and from what the machine was measured
 * to do.
 *
 * What:     for each kernel the bytes that it moves and the seconds that it takes, and which of
 *           three limits it sits at: memory, arithmetic, or the start of a kernel.
 * Requires: a verified function of the loops stage.
 * How:      The cycles of a kernel are those of its lets (ir/math/cost.c, the accesses by their
 *           steps in loops/facts.c) times the iterations around.  A call of a microkernel counts by
 *           its operations.  Threads divide this as the launch does.
 *           Its bytes are those of the elements of each tensor that its accesses reach, each once.
 *           How fast they come depends on what the program has touched since it last touched the
 *           tensor: that is the working set, as if caches were least recently used ones.
 *           Processors compute while memory is on its way, so the longer of both counts, and a part
 *           of the other.
 * Why not   simulate caches: strides that evict each other are rare, and lowering avoids them.
 * Example:  dlc.explain has the figures beside the measured ones. */
#include <math.h>
#include <string.h>

#include "codegen/loops/facts.h"
#include "codegen/loops/loops.h"
#include "codegen/processor.h"
#include "predict.h"

/* Cycles. */
static const double reduction_start = 10, /* a sum in lanes begins, and joins them; */
    loop_start = 4, /* another loop begins, */
    short_start = 0.5, /* or a row so short that several are one vector */
    latency = 4, /* until the next step of a sum can begin */
    gathered = 1.5, /* of a load at a place that data gives, */
    strided = 0.75, /* and of an access to elements that are not adjacent */
    rounded = 4, /* of a vector of bfloat16 or another narrow dtype that is rounded */
    extreme = 4, /* of a vector of which the largest or least is found, with its place */
    scalar = 0.5, /* of an access or an operation outside of vectors, at least */
    packed = 0.5; /* of an element that is packed into a panel */

/* The part of the shorter of moving and computing that does not overlap with the longer one. */
static const double apart = 0.4;

/* ---- sizes ---- */

typedef struct {
    Cx *cx;
    int n;
    const FixedSize *sizes;
    const Speeds *speeds;
} Predictor;

/* Of an index the one in the middle of its loop. */
static int64_t
value_of(void *arg, Dim name)
{
    const Predictor *p = arg;
    Dim extent = dim_extent(p->cx, name);
    if (extent != DIM_NONE) {
        int64_t n = dim_eval(p->cx, extent, value_of, arg);
        return n > 1 ? (n - 1) / 2 : 0;
    }
    for (int k = 0; k < p->n; k++) {
        if (strcmp(p->sizes[k].name, dim_name(p->cx, name)) == 0) {
            return p->sizes[k].value;
        }
    }
    return dim_typical(p->cx, name);
}

static double
value(const Predictor *p, Dim d)
{
    return (double)dim_eval(p->cx, d, value_of, (void *)p);
}

static double
iterations(const Predictor *p, const Let *loop)
{
    double n = value(p, loop_extent(loop));
    return n > 0 ? n : 0;
}

static double
elements(const Predictor *p, const Type *t)
{
    double n = 1;
    for (int ax = 0; ax < t->rank; ax++) {
        n *= value(p, t->dims[ax]);
    }
    return n > 0 ? n : 0;
}

/* ---- cycles ---- */

/* What the loops around a let are to it. */
typedef struct {
    const Predictor *p;
    const Facts *facts;
    const Let *vectors; /* the innermost loop around that runs as vectors; NULL: none does */
    double filled; /* the part of their lanes that have an element */
} Around;

typedef struct {
    double cycles, operations; /* of operations: those of microkernels */
} Work;

static double
lanes_of(int bytes)
{
    return (double)isa_info[processor_isa()].vector / (bytes > 0 ? bytes : 1);
}

/* Beyond what an addition takes, which is half a cycle of a vector: cost.def counts the loads and
 * the store of its operands too. */
static double
cycles_of_map(const Around *a, const Let *let)
{
    Dtype dtype = cost_dtype(let);
    int bytes = dtype < DTYPE_COUNT ? dtype_info[dtype].bytes : 4;
    double more = (cost_let(let) - cost_op(OP_add, dtype)) / 4.0;
    double each = 0.5 / lanes_of(bytes) + (more > 0 ? more : 0);
    each += map_rounds(let) ? rounded / lanes_of(bytes) : 0;
    return a->vectors ? each / a->filled : fmax(scalar, each * lanes_of(bytes));
}

static double
cycles_of_access(const Around *a, const Let *let)
{
    const AccessFacts *access = facts_access(a->facts, let);
    if (!a->vectors) {
        return scalar;
    }
    const Step *step = facts_step(a->facts, let, loop_index(a->vectors));
    double by = step ? value(a->p, step->step) : NAN;
    if (isnan(by)) {
        return access->from_loops ? strided : gathered;
    }
    if (by == 0 && !let_writes(let)) {
        return 0; /* before the loop */
    }
    bool narrow = is_narrow(let->args[0]->type->dtype);
    double vector = (let_writes(let) ? 1 : 0.5) / lanes_of(access->bytes);
    vector += narrow ? (let_writes(let) ? rounded : 1) / lanes_of(4) : 0;
    return fabs(by) <= 1 ? vector / a->filled : strided;
}

/* Do its iterations run as vectors?  A C compiler makes them of the innermost loop, too. */
static bool
runs_as_vectors(const Let *loop)
{
    if (loop->op == OP_reduce) {
        return let_has(loop, MARK_lanes) || let_has(loop, MARK_pairs);
    }
    return let_has(loop, MARK_vector) ||
           (!let_has(loop, MARK_steps) && loop_count(loop->body) == 0);
}

static Work work_of_block(const Around *a, const Block *blk);

/* The multiplications of a call of a microkernel, as many as they would be in f32. */
static double
products_in(const Predictor *p, const Let *loop)
{
    double in = 0;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        in += loop_is(let) ? products_in(p, let) : 0;
    }
    if (loop->op == OP_reduce && in == 0) {
        in = fmax(1, dtype_info[loop->res[0]->type->dtype].bytes / 4.0);
    }
    return iterations(p, loop) * in;
}

static double
iterations_in(const Predictor *p, const Let *loop)
{
    double in = 0;
    for (int k = 0; k < loop->body->n; k++) {
        in += loop_is(loop->body->lets[k]) ? iterations_in(p, loop->body->lets[k]) : 0;
    }
    return iterations(p, loop) * (in > 0 ? in : 1);
}

static Work
work_of_loop_let(const Around *a, const Let *loop)
{
    if (let_has(loop, MARK_micro)) {
        return (Work){.operations = 2 * products_in(a->p, loop)};
    }
    if (let_has(loop, MARK_pack)) {
        return (Work){.cycles = packed * iterations_in(a->p, loop)};
    }
    double n = iterations(a->p, loop), start = loop_start;
    Around in = *a;
    if (runs_as_vectors(loop)) {
        double lanes = lanes_of(4);
        in.vectors = loop;
        in.filled = n > DLC_SHORT_ROW ? n / (ceil(n / lanes) * lanes) : 1;
        start = n > DLC_SHORT_ROW ? loop_start : short_start;
    }
    Work each = work_of_block(&in, loop->body);
    if (loop->op == OP_reduce) {
        bool lanes = runs_as_vectors(loop);
        start = lanes ? reduction_start : start;
        bool places = let_op(loop) == OP_argmax || let_op(loop) == OP_argmin;
        each.cycles += lanes || a->vectors ? (places ? extreme : 0.5) / lanes_of(4) : latency;
    } else if (let_has(loop, MARK_steps)) {
        each.cycles += latency;
    }
    return (Work){start + n * each.cycles, n * each.operations};
}

/* Ports of their own load and store while others compute, so the longer of both counts. */
static Work
work_of_block(const Around *a, const Block *blk)
{
    Work all = {0};
    double computing = 0, accessing = 0;
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        Work w = {0};
        if (loop_is(let)) {
            w = work_of_loop_let(a, let);
        } else if (let_is_choice(let)) {
            if (value(a->p, choice_share(a->p->cx, let)) > 0) {
                w = work_of_block(a, let->body);
            }
        } else if (let_is_map(let)) {
            computing += cycles_of_map(a, let);
        } else if (let_accesses(let)) {
            accessing += cycles_of_access(a, let);
        }
        all.cycles += w.cycles;
        all.operations += w.operations;
    }
    all.cycles += fmax(computing, accessing);
    return all;
}

/* ---- threads ---- */

/* The iterations that threads share, and the innermost loop of them. */
static double
shared_by_threads(const Predictor *p, const Let *phase, const Let **last)
{
    double n = 1;
    *last = phase;
    for (const Let *let = phase; let && let->op == OP_for && let_has(let, MARK_parallel);) {
        n *= iterations(p, let);
        *last = let;
        let = let->body->n == 1 ? let->body->lets[0] : NULL;
    }
    return n;
}

/* How many threads the phase gets, by plan_sizes.c and parallel.c; *most: the largest part of its
 * iterations that one of them has. */
static int
threads_of(const Predictor *p, const Let *phase, double *most)
{
    const Let *last;
    double n = shared_by_threads(p, phase, &last);
    double work = value(p, work_of_iteration(p->cx, last));
    double grain = ceil(DLC_GRAIN / fmax(work, 1));
    double threads = fmax(1, fmin(p->speeds->threads, floor(n / grain)));
    *most = n > 0 ? ceil(n / threads) / n : 1;
    return (int)threads;
}

/* ---- memory ---- */

/* A tensor that a step reads or writes. */
typedef struct {
    const Value *root;
    double bytes; /* of the elements that it reaches, with those beside them in lines */
    double whole; /* of all that the tensor has */
    bool written;
    double since; /* bytes touched since it was touched before */
} Touch;

typedef struct {
    const Predictor *p;
    const Let *kernel;
    const Facts *facts;
    Touch *of;
    int n;
} Touches;

static const Value *
root_of(const Value *v)
{
    const Value *root = value_root(v);
    while (root && root->over) {
        root = value_root(root->over); /* a result in place */
    }
    return root ? root : v;
}

/* Of the lines that it has elements in. */
static double
bytes_of(const Predictor *p, const Value *v)
{
    const Type *t = v->type;
    double n = elements(p, t), bytes = dtype_info[t->dtype].bytes, span = 1;
    for (int ax = 0; v->strides && ax < t->rank; ax++) {
        span += (value(p, t->dims[ax]) - 1) * fabs(value(p, v->strides[ax]));
    }
    return n > 0 && v->strides ? fmin(fmax(span, 1) * bytes, n * DLC_LINE) : n * bytes;
}

static Touch *
touch(Touches *t, const Value *v)
{
    const Value *root = root_of(v);
    for (int k = 0; k < t->n; k++) {
        if (t->of[k].root == root) {
            return &t->of[k];
        }
    }
    t->of = cx_grow(t->p->cx, t->of, t->n, sizeof *t->of);
    t->of[t->n] = (Touch){.root = root};
    t->of[t->n].whole = bytes_of(t->p, root);
    return &t->of[t->n++];
}

/* Bytes of the lines that an access reaches: of a tensor's elements each once. */
static double
bytes_reached(const Touches *t, const Let *access)
{
    const Predictor *p = t->p;
    const AccessFacts *a = facts_access(t->facts, access);
    double reached = 1, nearest = INFINITY;
    for (int k = 0; k < a->nsteps; k++) {
        double by = a->steps[k].step == DIM_NONE ? 1 : fabs(value(p, a->steps[k].step));
        double n = value(p, dim_extent(p->cx, a->steps[k].index));
        if ((by != 0 || !a->from_loops) && n > 1) { /* data may give each its own place */
            reached *= n;
            nearest = by != 0 ? fmin(nearest, by) : nearest;
        }
    }
    double lines = isinf(nearest) ? 1 : fmin(fmax(nearest, 1), (double)DLC_LINE / a->bytes);
    return reached * lines * a->bytes;
}

static void
add_accesses(Touches *t, const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if (let_accesses(let) && !facts_access(t->facts, let)->is_private) {
            Touch *to = touch(t, let->args[0]);
            to->bytes = fmax(to->bytes, fmin(bytes_reached(t, let), to->whole));
            to->written |= let_writes(let);
            to->bytes = to->written ? to->whole : to->bytes; /* by several stores, or in place */
        }
        if (let->body && !(let_is_choice(let) && value(t->p, choice_share(t->p->cx, let)) <= 0)) {
            add_accesses(t, let->body);
        }
    }
}

/* Along the table, in which working sets grow by a factor. */
static double
rate_at(const double *rates, double bytes)
{
    double at = log(fmax(bytes, SPEED_FIRST) / SPEED_FIRST) / log(SPEED_STEP);
    int k = at >= SPEED_LEVELS - 1 ? SPEED_LEVELS - 2 : (int)at;
    double part = fmin(at - k, 1);
    return exp((1 - part) * log(rates[k]) + part * log(rates[k + 1]));
}

/* A copy reads as much as it writes, so what is over behind reading is for writing. */
static double
seconds_to_move(const Traffic *traffic, const Touch *t)
{
    double read = rate_at(traffic->read, t->since), copy = rate_at(traffic->copy, t->since);
    double write = fmax(2 / copy - 1 / read, 1 / copy);
    return t->bytes * (t->written ? write : 1 / read);
}

/* ---- the program ---- */

typedef struct {
    Predicted *of;
    Touches *touches; /* by step */
    int *threads;
    int n;
    const Touch **seen; /* by Value.id: for which touch it was counted last */
} Steps;

static void
predict_phase(const Predictor *p, const Facts *facts, const Let *phase, Predicted *out,
              int *threads)
{
    Around a = {.p = p, .facts = facts, .filled = 1};
    Work w = work_of_loop_let(&a, phase);
    double most;
    int n = threads_of(p, phase, &most);
    out->computing += most * (w.cycles / p->speeds->clock + w.operations / p->speeds->product);
    out->starting += p->speeds->launch + (n > 1 ? p->speeds->fork : 0);
    *threads = n > *threads ? n : *threads;
}

static void
predict_root(const Predictor *p, const Fn *fn, const Block *root, Predicted *out, Touches *touches,
             int *threads)
{
    const Facts *facts = NULL; /* with those of the accesses in the root itself */
    for (int k = 0; k < root->n; k++) {
        const Let *let = root->lets[k];
        if (loop_is(let)) {
            touches->facts = facts = facts_of_phase(fn, let);
            predict_phase(p, facts, let, out, threads);
        } else if (let_is_choice(let) && value(p, choice_share(p->cx, let)) > 0) {
            predict_root(p, fn, let->body, out, touches, threads);
        }
    }
    for (int k = 0; k < root->n && facts; k++) {
        Let *let = root->lets[k];
        touches->facts = loop_is(let) ? facts_of_phase(fn, let) : facts;
        if (!let_is_choice(let)) {
            add_accesses(touches, &(Block){.lets = &let, .n = 1});
        }
    }
}

static void
add_operands(Touches *t, const Let *let)
{
    for (int k = 0; k < let->nargs + let->nres; k++) {
        const Value *v = k < let->nargs ? let->args[k] : let->res[k - let->nargs];
        if (!value_is_const(v)) {
            Touch *to = touch(t, v);
            to->bytes = fmax(to->bytes, bytes_of(t->p, v));
            to->written |= k >= let->nargs;
        }
    }
}

static void
add_step(const Predictor *p, const Fn *fn, const Let *let, Steps *s)
{
    Cx *cx = p->cx;
    s->of = cx_grow(cx, s->of, s->n, sizeof *s->of);
    s->touches = cx_grow(cx, s->touches, s->n, sizeof *s->touches);
    s->threads = cx_grow(cx, s->threads, s->n, sizeof *s->threads);
    s->of[s->n] = (Predicted){.let = let};
    s->touches[s->n] = (Touches){.p = p, .kernel = let};
    s->threads[s->n] = 1;
    if (let->op == OP_kernel) {
        predict_root(p, fn, let->body, &s->of[s->n], &s->touches[s->n], &s->threads[s->n]);
    } else {
        add_operands(&s->touches[s->n], let);
        s->of[s->n].starting = p->speeds->launch;
        s->threads[s->n] = p->speeds->threads;
    }
    s->n++;
}

/* Bytes of what a call touches between the last touch of the tensor and this one, each tensor once.
 * Calls follow one another, so for the first touch the last one of the call before counts. */
static double
touched_since(const Steps *s, int at, const Touch *of)
{
    double bytes = 0;
    bool found = false;
    for (int k = 0; k < s->n && !found; k++) {
        int step = (at - k + s->n) % s->n;
        for (int j = 0; j < s->touches[step].n; j++) {
            const Touch *t = &s->touches[step].of[j];
            found |= k > 0 && t->root == of->root;
            bytes += s->seen[t->root->id] == of ? 0 : t->bytes;
            s->seen[t->root->id] = of;
        }
    }
    return bytes;
}

static void
finish_step(const Predictor *p, const Steps *s, int at)
{
    Predicted *out = &s->of[at];
    const Traffic *traffic = s->threads[at] > 1 ? &p->speeds->together : &p->speeds->alone;
    for (int k = 0; k < s->touches[at].n; k++) {
        Touch *t = &s->touches[at].of[k];
        t->since = touched_since(s, at, t);
        out->bytes += t->bytes;
        out->moving += seconds_to_move(traffic, t);
    }
    double longer = fmax(out->moving, out->computing), other = fmin(out->moving, out->computing);
    out->seconds = longer + apart * other + out->starting;
    out->limit = out->starting > fmax(out->moving, out->computing) ? LIMIT_LAUNCH
                 : out->moving > out->computing                    ? LIMIT_MEMORY
                                                                   : LIMIT_ARITHMETIC;
}

int
predict_program(const Fn *loops, int n, const FixedSize *sizes, const Speeds *speeds,
                Predicted **out)
{
    Predictor p = {loops->cx, n, sizes, speeds};
    Steps s = {.seen = cx_alloc(p.cx, ((size_t)loops->nvalues + 1) * sizeof *s.seen)};
    for (int k = 0; k < loops->body->n; k++) {
        const Let *let = loops->body->lets[k];
        bool moves = let->op == OP_call || let->op == OP_cat;
        if (let->op == OP_kernel || moves) {
            add_step(&p, loops, let, &s);
        }
    }
    for (int k = 0; k < s.n; k++) {
        finish_step(&p, &s, k);
    }
    *out = s.of;
    return s.n;
}

const char *
limit_name(Limit limit)
{
    static const char *const names[] = {"memory", "arithmetic", "launch"};
    return names[limit];
}
