/* Predicted times: what a program will take, from its loops and from what the machine was measured
 * to do.
 *
 * What:     for each kernel the bytes that it moves and the seconds that it takes, and which of
 *           three limits it sits at: memory, arithmetic, or the start of a kernel.
 * Requires: a verified function of the loops stage.
 * How:      The cycles of a phase are those of its lets (ir/math/cost.c, the accesses by their
 *           steps in loops/facts.c) times the iterations around, as its marks say they run.  A call
 *           of a microkernel counts by its operations.  Threads divide this as the launch does.
 *           The bytes of a phase are those of the elements of each tensor that its accesses reach,
 *           each once.  How fast they come depends on what the program has touched since it last
 *           touched the tensor: that is the working set, as if caches were least recently used
 *           ones.  What several loops in an iteration read, and lines of which an iteration uses a
 *           part, come again from where such an iteration leaves them.
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
static const double reduction_start = 8, /* a sum in lanes begins, and joins them; */
    loop_start = 8, /* another loop begins, */
    short_start = 1, /* or a row so short that several are one vector */
    latency = 4, /* until the next step of a sum can begin */
    summed = 4.5, /* of a vector of sums that a step of a reduction over columns adds to, */
    kept = 2, /* and of one that is kept in an array for the next loop */
    gathered = 1.5, /* of a load at a place that data gives, */
    strided = 0.9, /* and of an access to elements that are not adjacent */
    rounded = 7, /* of a vector of bfloat16 or another narrow dtype that is rounded */
    extreme = 4, /* of a vector of which the largest or least is found, with its place */
    simple = 0.5, /* of a vector that is added, or what is as cheap */
    carried = 1.2, /* of the load and the store in cost.def, of a vector */
    scalar = 0.5, /* of an access or an operation outside of vectors, at least */
    packed = 0.5; /* of an element that is packed into a panel */

/* How many times as long a function takes among others as alone (cost.def), and in the form for
 * near operands as in the usual one. */
static const double among_others = 1.3, near_form = 0.34;

/* Instructions that a processor looks ahead over: so far the steps of a row, of which each waits
 * for the one before, overlap with those of the next row.  A step of a vector is about three. */
static const double ahead = 225, in_a_step = 3;

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
    bool has_near; /* functions are computed in their form for near operands */
} Around;

typedef struct {
    double cycles, operations; /* of operations: those of microkernels */
} Work;

static double
lanes_of(int bytes)
{
    return (double)isa_info[processor_isa()].vector / (bytes > 0 ? bytes : 1);
}

static double
cycles_of_map(const Around *a, const Let *let)
{
    Dtype dtype = cost_dtype(let);
    int bytes = dtype < DTYPE_COUNT ? dtype_info[dtype].bytes : 4;
    double vector = 1 / lanes_of(bytes), each = simple * vector;
    if (cost_let(let) > cost_op(OP_add, dtype)) {
        double own = fmax(cost_let(let) / 4.0 - carried * vector, 0);
        each += among_others * own *
                (a->has_near && op_info[let->op].flags & OPF_NEAR ? near_form : 1);
    }
    each += map_rounds(let) ? rounded / lanes_of(bytes) : 0;
    return a->vectors ? each / a->filled : fmax(scalar, each * lanes_of(bytes));
}

static double
cycles_of_access(const Around *a, const Let *let)
{
    const AccessFacts *access = facts_access(a->facts, let);
    if (!a->vectors) {
        return access->is_private ? 0 : scalar;
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
    const Let *around = let_around(loop);
    bool ordered = let_has(loop, MARK_steps) ||
                   (around->op == OP_for && let_has(around, MARK_recurrences));
    return let_has(loop, MARK_vector) || (!ordered && loop_count(loop->body) == 0);
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

/* How many of a reduction's steps go on while one waits for the step before it. */
static double
steps_at_once(const Let *loop)
{
    const Let *rows = let_around(loop);
    double n = let_has(loop, MARK_lanes) ? DLC_LANES : 1;
    n *= let_has(loop, MARK_parts) ? (double)let_mark_value(loop, MARK_parts) : 1;
    bool together = rows->op == OP_for && let_has(loop, MARK_joint) && let_has(rows, MARK_jam);
    return together ? n * (double)let_mark_value(rows, MARK_jam) : n;
}

/* A loop in a vector loop begins once for each tile of that. */
static double
begins_for(const Around *a)
{
    double width = a->vectors && let_has(a->vectors, MARK_width)
                       ? (double)let_mark_value(a->vectors, MARK_width)
                       : DLC_COLUMNS;
    return a->vectors ? fmax(1, fmin(width, iterations(a->p, a->vectors))) : 1;
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
    in.has_near |= loop->op == OP_for && let_has(loop, MARK_near);
    if (!a->vectors && runs_as_vectors(loop)) {
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
        if (let_has(loop, MARK_lanes)) {
            double instructions = in_a_step * n / lanes_of(4);
            each.cycles = fmax(each.cycles, latency / steps_at_once(loop) /
                                                fmax(1, ahead / fmax(instructions, 1)));
        } else if (a->vectors) {
            double steps = let_has(loop, MARK_jam) ? (double)let_mark_value(loop, MARK_jam) : 1;
            each.cycles += summed / steps / lanes_of(4);
        }
    } else if (let_has(loop, MARK_steps)) {
        each.cycles += latency;
    }
    return (Work){start / begins_for(a) + n * each.cycles, n * each.operations};
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
            computing += a->vectors && let_has(let, MARK_array) ? kept / lanes_of(4) : 0;
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
    double stored; /* bytes that stores reach */
    double since; /* bytes touched since it was touched before */
} Touch;

/* Loops in one iteration, or in a tile of iterations, read a tensor again that one before them has
 * read. */
typedef struct {
    double bytes; /* that are read again, in all iterations, */
    double since; /* after so many others */
} Again;

typedef struct {
    const Predictor *p;
    const Let *kernel;
    const Facts *facts;
    Touch *of;
    int n;
    Again *again;
    int nagain;
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
            double bytes = bytes_reached(t, let);
            bytes = let_writes(let) ? to->stored + bytes : bytes; /* stores go to different parts */
            to->stored = let_writes(let) ? bytes : to->stored;
            to->bytes = fmin(fmax(to->bytes, bytes), to->whole);
            to->written |= let_writes(let);
        }
        if (let->body && !(let_is_choice(let) && value(t->p, choice_share(t->p->cx, let)) <= 0)) {
            add_accesses(t, let->body);
        }
    }
}

/* Bytes that the access reaches in so many iterations of the loop. */
static double
bytes_in_tile(const Touches *t, const Let *access, const Let *loop, double tile)
{
    const Predictor *p = t->p;
    const AccessFacts *a = facts_access(t->facts, access);
    double reached = 1, nearest = INFINITY;
    for (int k = 0, last = 0; k < a->nsteps && !last; k++) {
        last = a->steps[k].index == loop_index(loop);
        double by = a->steps[k].step == DIM_NONE ? 1 : fabs(value(p, a->steps[k].step));
        double n = last ? tile : value(p, dim_extent(p->cx, a->steps[k].index));
        if (by != 0 && n > 1) {
            reached *= n;
            nearest = fmin(nearest, by);
        }
    }
    double lines = isinf(nearest) ? 1 : fmin(fmax(nearest, 1), (double)DLC_LINE / a->bytes);
    return reached * lines * a->bytes;
}

/* A tensor that the loops in a body read. */
typedef struct {
    const Value *root;
    double tile, all; /* bytes in a tile, and in all iterations */
    double passes; /* the loops that read it */
    int loop; /* the last of them */
} Read;

typedef struct {
    Touches *t;
    const Let *around;
    double tile, all; /* iterations */
    double bytes; /* in a tile, of all tensors */
    Read *of;
    int n;
} Reads;

/* A microkernel finds its operands in caches: tiles are as large as that allows. */
static bool
is_call(const Let *let)
{
    return let->op == OP_for && (let_has(let, MARK_micro) || let_has(let, MARK_pack));
}

static void
add_reads(Reads *r, const Block *blk, int loop)
{
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if (let->body && !is_call(let)) {
            add_reads(r, let->body, loop);
        }
        if (!let_accesses(let) || facts_access(r->t->facts, let)->is_private) {
            continue;
        }
        const Value *root = root_of(let->args[0]);
        int at = 0;
        while (at < r->n && r->of[at].root != root) {
            at++;
        }
        if (at == r->n) {
            r->of = cx_grow(r->t->p->cx, r->of, r->n, sizeof *r->of);
            r->of[r->n++] = (Read){.root = root, .loop = -1};
        }
        Read *in = &r->of[at];
        double tile = bytes_in_tile(r->t, let, r->around, r->tile);
        r->bytes += fmax(tile - in->tile, 0);
        in->tile = fmax(in->tile, tile);
        in->all = fmax(in->all, bytes_in_tile(r->t, let, r->around, r->all));
        in->passes += in->loop != loop && !let_writes(let);
        in->loop = let_writes(let) ? in->loop : loop;
    }
}

/* What iterations of the loop, and of those in it, read again: what several loops in its body read,
 * and lines of which an iteration uses a part.  outer: iterations of the loops around. */
static void
add_again(Touches *t, const Let *loop, double outer)
{
    double n = iterations(t->p, loop);
    bool tiled = runs_as_vectors(loop) && loop_count(loop->body);
    double width = let_has(loop, MARK_width) ? (double)let_mark_value(loop, MARK_width)
                                             : DLC_COLUMNS;
    Reads reads = {.t = t, .around = loop, .tile = tiled ? fmin(n, width) : 1, .all = n};
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        if (loop_is(let) && !is_call(let)) {
            add_reads(&reads, let->body, k);
            if (let->op == OP_for) {
                add_again(t, let, outer * n);
            }
        }
    }
    for (int k = 0; k < reads.n; k++) {
        const Read *read = &reads.of[k];
        double whole = touch(t, read->root)->whole;
        double again = read->passes * n / fmax(reads.tile, 1) * read->tile - fmin(read->all, whole);
        if (again > 0 && read->passes > 0) {
            t->again = cx_grow(t->p->cx, t->again, t->nagain, sizeof *t->again);
            t->again[t->nagain++] = (Again){outer * again, reads.bytes};
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

/* Beyond what it takes to read them from the first cache.  The first two caches are a thread's
 * own. */
static double
again_seconds(const Touches *t, int threads)
{
    const Speeds *speeds = t->p->speeds;
    double seconds = 0, first = speeds->alone.read[0] * threads;
    for (int k = 0; k < t->nagain; k++) {
        double since = t->again[k].since;
        double rate = since < DLC_L2 || threads == 1
                          ? rate_at(speeds->alone.read, since) * threads
                          : rate_at(speeds->together.read, since * threads);
        seconds += t->again[k].bytes * fmax(1 / rate - 1 / first, 0);
    }
    return seconds;
}

/* ---- the program ---- */

/* A phase of a kernel, or another step. */
typedef struct {
    int step;
    Touches touches;
    int threads;
    double computing, starting;
} Part;

typedef struct {
    Predicted *of;
    Part *parts;
    int n, nparts;
    const Touch **seen; /* by Value.id: for which touch it was counted last */
} Steps;

static Part *
add_part(const Predictor *p, Steps *s, const Let *let)
{
    s->parts = cx_grow(p->cx, s->parts, s->nparts, sizeof *s->parts);
    s->parts[s->nparts] = (Part){.step = s->n - 1, .touches = {.p = p, .kernel = let}};
    return &s->parts[s->nparts++];
}

static void
predict_phase(const Predictor *p, const Facts *facts, const Let *phase, Part *out)
{
    Around a = {.p = p, .facts = facts, .filled = 1};
    Work w = work_of_loop_let(&a, phase);
    double most;
    out->threads = threads_of(p, phase, &most);
    out->computing = most * (w.cycles / p->speeds->clock + w.operations / p->speeds->product);
    out->starting = p->speeds->launch + (out->threads > 1 ? p->speeds->fork : 0);
    out->touches.facts = facts;
    add_accesses(&out->touches, &(Block){.lets = (Let **)&phase, .n = 1});
    add_again(&out->touches, phase, 1);
}

static void
predict_root(const Predictor *p, const Fn *fn, const Block *root, const Let *kernel, Steps *s)
{
    int first = s->nparts;
    for (int k = 0; k < root->n; k++) {
        const Let *let = root->lets[k];
        if (loop_is(let)) {
            predict_phase(p, facts_of_phase(fn, let), let, add_part(p, s, kernel));
        } else if (let_is_choice(let) && value(p, choice_share(p->cx, let)) > 0) {
            predict_root(p, fn, let->body, kernel, s);
        }
    }
    for (int k = 0; k < root->n && first < s->nparts; k++) { /* beside the phases */
        Let *let = root->lets[k];
        if (!loop_is(let) && !let_is_choice(let)) {
            add_accesses(&s->parts[first].touches, &(Block){.lets = &let, .n = 1});
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
    s->of = cx_grow(p->cx, s->of, s->n, sizeof *s->of);
    s->of[s->n++] = (Predicted){.let = let};
    if (let->op == OP_kernel) {
        predict_root(p, fn, let->body, let, s);
    } else {
        Part *part = add_part(p, s, let);
        add_operands(&part->touches, let);
        part->starting = p->speeds->launch;
        part->threads = p->speeds->threads;
    }
}

/* Bytes of what a call touches between the last touch of the tensor and this one, each tensor once.
 * Calls follow one another, so for the first touch the last one of the call before counts. */
static double
touched_since(const Steps *s, int at, const Touch *of)
{
    double bytes = 0;
    bool found = false;
    for (int k = 0; k < s->nparts && !found; k++) {
        const Touches *touches = &s->parts[(at - k + s->nparts) % s->nparts].touches;
        for (int j = 0; j < touches->n; j++) {
            const Touch *t = &touches->of[j];
            found |= k > 0 && t->root == of->root;
            bytes += s->seen[t->root->id] == of ? 0 : t->bytes;
            s->seen[t->root->id] = of;
        }
    }
    return bytes;
}

static void
finish_part(const Predictor *p, const Steps *s, int at)
{
    Part *part = &s->parts[at];
    Predicted *out = &s->of[part->step];
    const Traffic *traffic = part->threads > 1 ? &p->speeds->together : &p->speeds->alone;
    double moving = again_seconds(&part->touches, part->threads);
    for (int k = 0; k < part->touches.n; k++) {
        Touch *t = &part->touches.of[k];
        t->since = touched_since(s, at, t);
        out->bytes += t->bytes;
        moving += seconds_to_move(traffic, t);
    }
    double longer = fmax(moving, part->computing), other = fmin(moving, part->computing);
    out->moving += moving;
    out->computing += part->computing;
    out->starting += part->starting;
    out->seconds += longer + apart * other + part->starting;
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
    for (int k = 0; k < s.nparts; k++) {
        finish_part(&p, &s, k);
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
