/* Cycles of the phases of a program of loops.
 *
 * What:     how many cycles a thread computes, and how many operations microkernels do.
 * How:      The cycles of a phase are those of its lets (ir/math/cost.c, the accesses by their
 *           steps in loops/facts.c) times the iterations around, as its marks say they run.  A call
 *           of a microkernel counts by its operations.
 * Why not   simulate a processor: its ports and what it looks ahead over are in a few constants,
 *           which were fitted to the functions of the benchmark. */
#include <math.h>
#include <string.h>

#include "codegen/loops/loops.h"
#include "codegen/processor.h"
#include "predictor.h"

/* Cycles. */
static const double reduction_start = 5, /* a sum in lanes begins, and joins them, */
    fill_start = 4, /* more if lanes without an element are filled; */
    loop_start = 8, /* another loop begins, */
    short_start = 3, /* or one that is a few vectors without a loop, */
    flat_start = 1, /* or a row of which several are one vector */
    latency = 3, /* until the next step of a sum can begin */
    summed = 4.5, /* of a vector of sums that a step of a reduction over columns adds to, */
    kept = 2, /* and of one that is kept in an array for the next loop */
    gathered = 1.5, /* of a load at a place that data gives, */
    strided = 0.9, /* and of an access to elements that are not adjacent, */
    interleaved = 0.1, /* for each of a few elements from one to the next, */
    transposed = 0.4, /* or that go through a tile in which they are adjacent */
    crossing = 0.5, /* of a vector that has its elements in two lines, more, */
    rounded = 7, /* of a vector of bfloat16 or another narrow dtype that is rounded */
    extreme = 4, /* of a vector of which the largest or least is found, with its place */
    simple = 0.5, /* of a vector that is added, or what is as cheap */
    carried = 1.2, /* of the load and the store in cost.def, of a vector */
    scalar = 0.5, /* of an access or an operation outside of vectors, at least */
    divided = 0.5, /* the part of a vector's time that one division takes */
    packed = 0.5, /* of an element that is packed into a panel */
    scanned = 6.5; /* of a vector of which the sums so far are made */

/* How many times as long a function takes among others as alone (cost.def), and in the form for
 * near operands as in the usual one. */
static const double among_others = 1.3, near_form = 0.34;

/* Instructions that a processor looks ahead over: so far the steps of a row, of which each waits
 * for the one before, overlap with those of the next row.  A step of a vector is about three. */
static const double ahead = 225, in_a_step = 3;

/* Vectors of sums that stay in registers. */
static const double few = 8;

/* ---- sizes ---- */

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

double
predicted_value(const Predictor *p, Dim d)
{
    return (double)dim_eval(p->cx, d, value_of, (void *)p);
}

double
predicted_iterations(const Predictor *p, const Let *loop)
{
    double n = predicted_value(p, loop_extent(loop));
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
    /* A unit that divides takes a part of a vector at a time. */
    bool divides = let->op == OP_div || let->op == OP_sqrt || let->op == OP_rsqrt;
    double alone = each * lanes_of(bytes) * (divides ? divided : 1);
    return a->vectors ? each / a->filled : fmax(scalar, alone);
}

/* May a vector of the row have its elements in two lines: do rows, or what is read of them, begin
 * anywhere? */
static bool
crosses_lines(const Around *a, const AccessFacts *access)
{
    double first = predicted_value(a->p, access->offset), lanes = (double)DLC_LINE / access->bytes;
    bool crosses = false;
    for (int k = 0; k < access->nsteps; k++) {
        const Step *step = &access->steps[k];
        double by = step->step == DIM_NONE ? 0 : predicted_value(a->p, step->step);
        first -= by * (double)value_of((void *)a->p, step->index);
        crosses |= step->index != loop_index(a->vectors) && fmod(by, lanes) != 0;
    }
    return crosses || fmod(first, lanes) != 0;
}

static double
cycles_of_access(const Around *a, const Let *let)
{
    const AccessFacts *access = facts_access(a->facts, let);
    if (!a->vectors) {
        return access->is_private ? 0 : scalar;
    }
    const Step *step = facts_step(a->facts, let, loop_index(a->vectors));
    double by = step ? predicted_value(a->p, step->step) : NAN;
    if (isnan(by)) {
        return access->from_loops ? strided : gathered;
    }
    if (by == 0 && !let_writes(let)) {
        return 0; /* before the loop */
    }
    bool narrow = is_narrow(let->args[0]->type->dtype);
    double vector = (let_writes(let) ? 1 : 0.5) / lanes_of(access->bytes);
    vector += narrow ? (let_writes(let) ? rounded : 1) / lanes_of(4) : 0;
    if (fabs(by) <= 1) {
        bool crosses = isa_info[processor_isa()].vector == DLC_LINE && crosses_lines(a, access);
        vector += crosses ? crossing * (let_writes(let) ? 2 : 1) / lanes_of(access->bytes) : 0;
        return vector / a->filled;
    }
    return let_has(let, MARK_transpose) ? transposed : fmin(interleaved * fabs(by), strided);
}

/* Are the values of its recurrences those of sums so far, in vectors? */
static bool
is_scan(const Let *loop)
{
    const Let *rows = let_around(loop);
    return loop->op == OP_for && rows->op == OP_for && let_has(rows, MARK_scan) &&
           let_has(rows, MARK_recurrences) && loop_count(loop->body) == 0;
}

bool
runs_as_vectors(const Let *loop)
{
    if (loop->op == OP_reduce) {
        return let_has(loop, MARK_lanes) || let_has(loop, MARK_pairs);
    }
    const Let *around = let_around(loop);
    bool ordered = let_has(loop, MARK_steps) ||
                   (around->op == OP_for && let_has(around, MARK_recurrences) && !is_scan(loop));
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
    return predicted_iterations(p, loop) * in;
}

static double
iterations_in(const Predictor *p, const Let *loop)
{
    double in = 0;
    for (int k = 0; k < loop->body->n; k++) {
        in += loop_is(loop->body->lets[k]) ? iterations_in(p, loop->body->lets[k]) : 0;
    }
    return predicted_iterations(p, loop) * (in > 0 ? in : 1);
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
    return a->vectors ? fmax(1, fmin(width, predicted_iterations(a->p, a->vectors))) : 1;
}

/* Is the loop a few whole vectors, of which registers hold the sums? */
static bool
is_unrolled(const Around *a, const Let *loop)
{
    int64_t n;
    return dim_is_int(a->p->cx, loop_extent(loop), &n) && (double)n <= few * lanes_of(4) &&
           fmod((double)n, lanes_of(4)) == 0;
}

static bool
is_flat_row(const Let *loop)
{
    const Let *rows = let_around(loop);
    return rows->op == OP_for && let_has(rows, MARK_flat);
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
    bool chooses = loop->op == OP_reduce && let_has(loop, MARK_onehot); /* one element */
    double n = chooses ? 1 : predicted_iterations(a->p, loop), start = loop_start;
    Around in = *a;
    in.has_near |= loop->op == OP_for && let_has(loop, MARK_near);
    if (!a->vectors && runs_as_vectors(loop)) {
        double lanes = lanes_of(4);
        in.vectors = loop;
        in.filled = n > DLC_SHORT_ROW ? n / (ceil(n / lanes) * lanes) : 1;
        start = is_flat_row(loop)                    ? flat_start
                : n <= lanes || is_unrolled(a, loop) ? short_start
                                                     : loop_start;
    }
    Work each = work_of_block(&in, loop->body);
    if (loop->op == OP_reduce) {
        bool lanes = runs_as_vectors(loop);
        start = lanes ? reduction_start + (let_has(loop, MARK_fill) ? fill_start : 0) : start;
        bool places = let_op(loop) == OP_argmax || let_op(loop) == OP_argmin;
        each.cycles += lanes || a->vectors ? (places ? extreme : 0.5) / lanes_of(4) : latency;
        if (let_has(loop, MARK_lanes)) {
            double instructions = in_a_step * n / lanes_of(4);
            each.cycles = fmax(each.cycles, latency / steps_at_once(loop) /
                                                fmax(1, ahead / fmax(instructions, 1)));
        } else if (a->vectors && !is_unrolled(a, a->vectors)) {
            double steps = let_has(loop, MARK_jam) ? (double)let_mark_value(loop, MARK_jam) : 1;
            each.cycles += summed / (steps <= n ? steps : 1) / lanes_of(4);
        }
    } else if (is_scan(loop)) {
        each.cycles += scanned / lanes_of(8);
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
            if (predicted_value(a->p, choice_share(a->p->cx, let)) > 0) {
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

Work
predicted_work(const Predictor *p, const Facts *facts, const Let *phase)
{
    Around a = {.p = p, .facts = facts, .filled = 1};
    return work_of_loop_let(&a, phase);
}
