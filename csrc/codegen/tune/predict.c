/* Predicted times: what a program will take, from its loops and from what the machine was measured
 * to do.
 *
 * What:     for each kernel the bytes that it moves and the seconds that it takes, and which of
 *           three limits it sits at: memory, arithmetic, or the start of a kernel.
 * Requires: a verified function of the loops stage.
 * How:      cycles.c has the cycles of a phase.  Threads divide them as the launch does.
 *           The bytes of a phase are those of the elements of each tensor that its accesses reach,
 *           each once.  How fast they come depends on what the program has touched since it last
 *           touched the tensor: that is the working set, as if caches were least recently used
 *           ones.  What several loops in an iteration read, and lines of which an iteration uses a
 *           part, come again from where such an iteration leaves them.  Stores that bypass the
 *           caches have a rate of their own, and so has memory that is read in short runs.
 *           Processors compute while memory is on its way, so the longer of both counts, and a part
 *           of the other.
 * Why not   simulate caches: strides that evict each other are rare, and lowering avoids them.
 * Example:  dlc.explain has the figures beside the measured ones. */
#include <math.h>
#include <string.h>

#include "codegen/loops/loops.h"
#include "predictor.h"

/* In a page.  Nearer ones are fetched as well as what follows. */
static const double most_jumps = 2;

/* The part of the shorter of moving and computing that does not overlap with the longer one. */
static const double apart = 0.4;

/* ---- tensors ---- */

static double
elements(const Predictor *p, const Type *t)
{
    double n = 1;
    for (int ax = 0; ax < t->rank; ax++) {
        n *= predicted_value(p, t->dims[ax]);
    }
    return n > 0 ? n : 0;
}

/* ---- threads ---- */

/* The iterations that threads share, and the innermost loop of them. */
static double
shared_by_threads(const Predictor *p, const Let *phase, const Let **last)
{
    double n = 1;
    *last = phase;
    for (const Let *let = phase; let && let->op == OP_for && let_has(let, MARK_parallel);) {
        n *= predicted_iterations(p, let);
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
    double work = predicted_value(p, work_of_iteration(p->cx, last));
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
    double jumped; /* bytes that are read in runs, times pages in a run */
    double bypassed; /* bytes of all tensors from which on stores bypass the caches */
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
        span += (predicted_value(p, t->dims[ax]) - 1) * fabs(predicted_value(p, v->strides[ax]));
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
    t->of[t->n] = (Touch){.root = root, .bypassed = INFINITY};
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
        double by = a->steps[k].step == DIM_NONE ? 1 : fabs(predicted_value(p, a->steps[k].step));
        double n = predicted_value(p, dim_extent(p->cx, a->steps[k].index));
        if ((by != 0 || !a->from_loops) && n > 1) { /* data may give each its own place */
            reached *= n;
            nearest = by != 0 ? fmin(nearest, by) : nearest;
        }
    }
    double lines = isinf(nearest) ? 1 : fmin(fmax(nearest, 1), (double)DLC_LINE / a->bytes);
    return reached * lines * a->bytes;
}

/* The loop over columns around an access in a reduction over rows: a tile of them comes first. */
static const Let *
columns_around(const Let *access)
{
    const Let *rows = let_around(access), *columns = rows ? let_around(rows) : NULL;
    return rows && rows->op == OP_reduce && columns && columns->op == OP_for &&
                   let_has(columns, MARK_vector)
               ? columns
               : NULL;
}

/* How many times in a page what a load reads goes on elsewhere, and not behind what iterations
 * before have read. */
static double
jumps_in_page(const Touches *t, const Let *access)
{
    const Predictor *p = t->p;
    const AccessFacts *a = facts_access(t->facts, access);
    const Let *columns = columns_around(access);
    double run = columns ? predicted_iterations(p, columns) : 1;
    if (let_has(access, MARK_prefetch_rows) && let_mark_value(access, MARK_prefetch_rows) > 1) {
        return 0; /* coming rows are fetched */
    }
    for (int k = 0; k < a->nsteps; k++) {
        double by = a->steps[k].step == DIM_NONE ? NAN : fabs(predicted_value(p, a->steps[k].step));
        bool in_tile = columns && a->steps[k].index == loop_index(columns);
        if (!in_tile && by != run && by != 0) {
            break;
        }
        run *= by == run ? predicted_value(p, dim_extent(p->cx, a->steps[k].index)) : 1;
    }
    return SPEED_PAGE / fmax(run * a->bytes, SPEED_PAGE / most_jumps);
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
            if (!let_writes(let)) {
                to->jumped = fmax(to->jumped, fmin(bytes, to->whole) * jumps_in_page(t, let));
            }
            to->bytes = fmin(fmax(to->bytes, bytes), to->whole);
            to->written |= let_writes(let);
            bool bypasses = let_writes(let) && let_has(let, MARK_nontemporal) &&
                            to->whole >= (double)let_mark_value(let, MARK_nontemporal);
            to->bypassed = bypasses ? (double)let_mark_value(let, MARK_footprint) : to->bypassed;
        }
        if (let->body &&
            !(let_is_choice(let) && predicted_value(t->p, choice_share(t->p->cx, let)) <= 0)) {
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
        double by = a->steps[k].step == DIM_NONE ? 1 : fabs(predicted_value(p, a->steps[k].step));
        double n = last ? tile : predicted_value(p, dim_extent(p->cx, a->steps[k].index));
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
        if (!let_accesses(let) || facts_access(r->t->facts, let)->is_private ||
            let_has(let, MARK_transpose)) { /* which reads whole lines */
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
    double n = predicted_iterations(t->p, loop);
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

/* A copy reads as much as it writes, so what is over behind reading is for writing.  all: bytes of
 * the phase's tensors. */
static double
seconds_to_move(const Traffic *traffic, const Touch *t, double all)
{
    bool bypasses = all >= t->bypassed;
    double since = bypasses ? INFINITY : t->since;
    double read = rate_at(traffic->read, since);
    double copy = bypasses ? traffic->streamed : rate_at(traffic->copy, since);
    double write = fmax(2 / copy - 1 / read, bypasses ? 0 : 1 / copy);
    double near = traffic->read[SPEED_NEAR], last = traffic->read[SPEED_LEVELS - 1];
    double memory = fmin((1 / read - 1 / near) / (1 / last - 1 / near + 1e-20), 1);
    double jump = fmax(1 / traffic->jumping - 1 / last, 0) * fmax(memory, 0);
    return t->bytes * (t->written ? write : 1 / read) + t->jumped * jump;
}

/* The first two caches are a thread's own. */
static double
again_seconds(const Touches *t, int threads)
{
    const Speeds *speeds = t->p->speeds;
    double seconds = 0;
    for (int k = 0; k < t->nagain; k++) {
        double since = t->again[k].since;
        double rate = since < DLC_L2 || threads == 1
                          ? rate_at(speeds->alone.read, since) * threads
                          : rate_at(speeds->together.read, since * threads);
        seconds += since > SPEED_FIRST ? t->again[k].bytes / rate : 0;
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
    Work w = predicted_work(p, facts, phase);
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
        } else if (let_is_choice(let) && predicted_value(p, choice_share(p->cx, let)) > 0) {
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
    double moving = again_seconds(&part->touches, part->threads), all = 0;
    for (int k = 0; k < part->touches.n; k++) {
        all += part->touches.of[k].whole;
    }
    for (int k = 0; k < part->touches.n; k++) {
        Touch *t = &part->touches.of[k];
        t->since = touched_since(s, at, t);
        out->bytes += t->bytes;
        moving += seconds_to_move(traffic, t, all);
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
