/* Random schedules of a unit, between its rewrites and emission.
 *
 * What:     loops are split and change places at random, without their marks.  Then marks
 *           come and go at random: first of those that all targets share, then, after the rewrites
 *           for each target, of its own.  What the verifier accepts has to give the same bits: a
 *           schedule changes no result.
 * How:      a mark is drawn with those that stand beside it: `strip` with `simdlen`, `distribute`
 *           with the stages of the loop's operations, and `flat` and the width of a tile with what
 *           is in arrays of so many elements.  The verifier sees
 *           the function after each change, and a change that it refuses is taken back.
 * Why not:  draw what the rewrites choose from: their thresholds keep tensors of the sizes that a
 *           fuzzer has time for from nearly all schedules. */
#include "schedules.h"

#include "choices.h"
#include "codegen/loops/loops.h"
#include "codegen/rewrites.h"
#include "gen.h"
#include "ir/eval/eval.h"

#include <stdio.h>
#include <string.h>

enum { ORDER, SCHEDULE };

/* Chances in percent. */
enum { DRAWN = 35, BESIDE = 60, TAKEN_AWAY = 30, NESTS = 40 };

typedef struct {
    Fn *fn;
    Marks marks; /* those that are drawn */
    uint64_t *random;
} Draw;

static uint64_t seed;
static const char *path;

void
schedules_use(uint64_t of, const char *to)
{
    seed = of;
    path = to;
}

/* Of the table: marks of a schedule that rewrites of the loops set and emitters read, and the width
 * of tiles, what primitives compute together and which loops multiply, which they read through the
 * facts of loops. Phases are made of the loops that `parallel` marks, and of the choices that
 * `phase` marks, so these stay. */
static Marks
drawn_marks(void)
{
    Marks marks = 0;
#define MARK(name, of, on, value, made, read, what) \
    if ((of) == SCHEDULE && strcmp(made, "schedule") == 0 && strstr(read, "emit")) { \
        marks |= MARK_##name; \
    }
#include "ir/marks.def"
    return (marks | MARK_width | MARK_merged | MARK_micro) & ~(MARK_parallel | MARK_phase);
}

/* Those that say what threads count: all targets have the same. */
static Marks
shared_marks(void)
{
    return MARK_vector | MARK_tile | MARK_recurrences;
}

static void
verify_body(Cx *cx, void *fn)
{
    (void)cx;
    verify_fn(fn);
}

static bool
is_accepted(Fn *fn)
{
    return cx_try(fn->cx, verify_body, fn);
}

static Attr *
marks_in(Let *let)
{
    int k = 0;
    while (k < let->nattrs && let->attrs[k].kind != ATTR_MARKS) {
        k++;
    }
    return k < let->nattrs ? &let->attrs[k] : NULL;
}

/* The attributes as they were: an operation has none for marks until it gets one. */
typedef struct {
    Attr *attrs;
    int nattrs;
    Attr marks;
} Saved;

static Saved
save(Let *let)
{
    const Attr *have = marks_in(let);
    return (Saved){let->attrs, let->nattrs, have ? *have : (Attr){0}};
}

static void
restore(Let *let, const Saved *saved)
{
    let->attrs = saved->attrs;
    let->nattrs = saved->nattrs;
    if (marks_in(let)) {
        *marks_in(let) = saved->marks;
    }
}

/* Small ones, and those of caches and tiles. */
static int64_t
draw_value(uint64_t *random)
{
    static const int64_t values[] = {1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 1024, 4096, 1 << 20};
    return values[below(random, sizeof values / sizeof *values)];
}

/* So many elements of a transposed copy, of what is compared for a place, or of a store that wait
 * for the non-temporal ones: V53. */
static int64_t
elements_in_array(Cx *cx, const Let *let)
{
    enum { LINE = 16, STRIP = 1024, TRANSPOSED = 64 * (128 + 16), OF_BLOCK = 1024 + 16 };
    const Let *loop = let_around(let), *rows = loop_is(loop) ? let_around(loop) : loop;
    int64_t n = 0, flat = loop_is(rows) ? let_mark_value(rows, MARK_flat) : 0;
    if (let->op == OP_load) {
        return TRANSPOSED;
    }
    if (let->op == OP_reduce) {
        return OF_BLOCK;
    }
    if (flat) {
        dim_is_int(cx, loop_extent(loop), &n);
    }
    return loop_is(rows) && let_has(rows, MARK_tile) ? let_mark_value(loop, MARK_width)
           : flat                                    ? flat * n
           : let_has(loop, MARK_strip)               ? STRIP
                                                     : LINE;
}

/* One mark, with its value. */
static void
give(Draw *d, Let *let, int k)
{
    let_take_marks(d->fn->cx, let);
    bool index = let->op == OP_reduce && op_info[let_op(let)].rule == RULE_INDEX;
    if (mark_at(k) == MARK_array) {
        let_mark_with(d->fn->cx, let, MARK_array, elements_in_array(d->fn->cx, let));
    } else if (mark_at(k) == MARK_parts && index) {
        let_mark_with(d->fn->cx, let, MARK_parts, 2);
    } else if (mark_info[k].has_value) {
        let_mark_with(d->fn->cx, let, mark_at(k), draw_value(d->random));
    } else {
        let_mark(let, mark_at(k), true);
    }
}

/* `jam_row` stands beside `jam`, `simdlen` beside `strip`, `places` beside `parts`, and `array`
 * beside `nontemporal` and `transpose`. */
static bool
is_beside(int k, int base)
{
    size_t length = strlen(mark_info[base].name);
    bool row = k != base && strncmp(mark_info[k].name, mark_info[base].name, length) == 0 &&
               mark_info[k].name[length] == '_';
    return row || (mark_at(k) == MARK_simdlen && mark_at(base) == MARK_strip) ||
           (mark_at(k) == MARK_places && mark_at(base) == MARK_parts) ||
           (mark_at(k) == MARK_array && mark_at(base) & (MARK_nontemporal | MARK_transpose));
}

/* The mark and some of those beside it, or the mark alone, if the verifier accepts them. */
static void
draw_mark(Draw *d, Let *let, int base)
{
    Saved before = save(let);
    for (int alone = 0; alone < 2; alone++) {
        give(d, let, base);
        for (int k = 0; k < MARK_COUNT && !alone; k++) {
            bool may = is_beside(k, base) && marks_of(let->op) & d->marks & mark_at(k);
            if (may && chance(d->random, BESIDE)) {
                give(d, let, k);
            }
        }
        if (is_accepted(d->fn)) {
            return;
        }
        restore(let, &before);
    }
}

/* The operation's stage after one of that stage.  In recurrences what continues the iteration
 * before is in even ones, all else in odd ones. */
static int
next_stage(Draw *d, int stage, const Let *map, bool recurrences)
{
    int carried = loop_carried(map) != NULL;
    return stage + (recurrences ? stage % 2 == carried : chance(d->random, DRAWN));
}

/* The marks of a loop and of all lets in it. */
typedef struct {
    Fn *fn;
    Let **lets;
    Saved *saved;
    int n;
} Nest;

static void
save_let(Nest *nest, Let *let)
{
    nest->lets = cx_grow(nest->fn->cx, nest->lets, nest->n, sizeof *nest->lets);
    nest->saved = cx_grow(nest->fn->cx, nest->saved, nest->n, sizeof *nest->saved);
    nest->lets[nest->n] = let;
    nest->saved[nest->n++] = save(let);
    for (int k = 0; let->body && k < let->body->n; k++) {
        save_let(nest, let->body->lets[k]);
    }
}

/* Takes the changes back, if the verifier refuses them. */
static void
settle(Nest *nest)
{
    bool accepted = is_accepted(nest->fn);
    for (int k = 0; k < nest->n && !accepted; k++) {
        restore(nest->lets[k], &nest->saved[k]);
    }
}

/* Marks what is in arrays because of the marks that are there: by the rewrite, which may make no
 * other change. */
static void
set_arrays(Fn *fn, const char *rewrite)
{
    PassOptions options = {.no_file = true, .fuel = 0};
    pass_run(rewrite_find(rewrite), fn, &options);
}

/* A loop in stages, if the verifier accepts them. */
static void
draw_stages(Draw *d, Let *loop)
{
    static const int64_t widths[] = {16, 128, 256, 1024};
    enum { OF_RECURRENCES = 128 };
    Cx *cx = d->fn->cx;
    bool recurrences = let_has(loop->parent->owner, MARK_recurrences);
    int64_t width = widths[below(d->random, sizeof widths / sizeof *widths)];
    Nest nest = {.fn = d->fn};
    save_let(&nest, loop);
    let_take_marks(cx, loop);
    let_mark_with(cx, loop, MARK_distribute, recurrences ? OF_RECURRENCES : width);
    for (int k = 0, stage = 1; k < loop->body->n; k++) {
        Let *let = loop->body->lets[k];
        if (let_is_map(let)) {
            stage = next_stage(d, stage, let, recurrences);
            let_take_marks(cx, let);
            let_mark_with(cx, let, MARK_stage, stage);
            let_mark(let, MARK_across, loop_carried(let) && chance(d->random, BESIDE));
        } else if (let_has(let, MARK_array)) {
            let_mark(let, MARK_array, false);
        }
    }
    set_arrays(d->fn, "distribute");
    set_arrays(d->fn, "flatten");
    settle(&nest);
}

/* All that is in arrays because of the loop is in others, or in none: width 0. */
static void
resize(Cx *cx, const Block *blk, int64_t width)
{
    for (int k = 0; k < blk->n; k++) {
        Let *let = blk->lets[k];
        if (let_has(let, MARK_array) && !let_has(let, MARK_transpose)) {
            let_mark_with(cx, let, MARK_array, width);
            let_mark(let, MARK_array, width > 0);
        }
        if (let->body) {
            resize(cx, let->body, width);
        }
    }
}

/* A loop whose iterations run so many at a time, or one by one where there are arrays. */
static void
draw_width(Draw *d, Let *loop)
{
    Nest nest = {.fn = d->fn};
    save_let(&nest, loop);
    int64_t width = (int64_t)16 << below(d->random, 9);
    let_mark_with(d->fn->cx, loop, MARK_width, width);
    resize(d->fn->cx, loop->body, chance(d->random, TAKEN_AWAY) ? 0 : width);
    settle(&nest);
}

static Let *
outermost(Let *loop)
{
    while (loop_is(loop->parent->owner)) {
        loop = loop->parent->owner;
    }
    return loop;
}

/* The lets of the loop, and of those around, are in no arrays. */
static void
take_arrays(Fn *fn, Let *loop)
{
    resize(fn->cx, loop->body, 0);
    for (; loop_is(loop->parent->owner); loop = loop->parent->owner) {
        for (int k = 0; k < loop->parent->n; k++) {
            Let *let = loop->parent->lets[k];
            if (!loop_is(let) && let_has(let, MARK_array)) {
                let_mark(let, MARK_array, false);
            }
        }
    }
    set_arrays(fn, "distribute");
}

/* Rows that run as one, so many at a time or (take) one by one. */
static void
draw_flat(Draw *d, Let *loop, bool take)
{
    enum { LINE = 16 };
    Cx *cx = d->fn->cx;
    Nest nest = {.fn = d->fn};
    save_let(&nest, outermost(loop));
    let_take_marks(cx, loop);
    take_arrays(d->fn, loop);
    if (take) {
        let_mark(loop, MARK_flat | MARK_flat_row, false);
    } else {
        let_mark_with(cx, loop, MARK_flat, LINE << below(d->random, 6));
        let_mark_with(cx, loop, MARK_flat_row, 1 + (int64_t)below(d->random, 2 * LINE));
        set_arrays(d->fn, "flatten");
    }
    settle(&nest);
}

/* The loop as one: without stages. */
static void
take_stages(Draw *d, Let *loop)
{
    Nest nest = {.fn = d->fn};
    save_let(&nest, loop);
    let_mark(loop, MARK_distribute, false);
    for (int k = 0; k < loop->body->n; k++) {
        Let *let = loop->body->lets[k];
        if (let_is_map(let) && marks_in(let)) {
            let_mark(let, MARK_stage | MARK_across | MARK_array, false);
        }
    }
    settle(&nest);
}

static void
take_away(Draw *d, Let *let, int k)
{
    Saved before = save(let);
    let_mark(let, mark_at(k), false);
    if (!is_accepted(d->fn)) {
        restore(let, &before);
    }
}

static void
draw_marks(void *arg, Let *let)
{
    Draw *d = arg;
    Marks may = marks_of(let->op) & d->marks;
    int order[MARK_COUNT] = {0};
    shuffle(d->random, MARK_COUNT, order);
    for (int k = 0; k < MARK_COUNT && may; k++) {
        Marks mark = mark_at(order[k]);
        if (may & mark && let_has(let, mark)) {
            if (!chance(d->random, TAKEN_AWAY)) {
                continue;
            }
            if (mark == MARK_distribute) {
                take_stages(d, let);
            } else if (mark == MARK_flat) {
                draw_flat(d, let, chance(d->random, BESIDE));
            } else if (mark == MARK_width && chance(d->random, BESIDE)) {
                draw_width(d, let);
            } else {
                take_away(d, let, order[k]);
            }
        } else if (may & mark && chance(d->random, DRAWN)) {
            if (mark == MARK_distribute) {
                draw_stages(d, let);
            } else if (mark == MARK_flat) {
                draw_flat(d, let, false);
            } else if (mark == MARK_width) {
                draw_width(d, let);
            } else {
                draw_mark(d, let, order[k]);
            }
        }
    }
}

static void
write_loops(const Fn *fn, const char *target)
{
    Text text = {.cx = fn->cx};
    print_fn(fn, &text);
    FILE *file = fopen(cx_format(fn->cx, "%s.%s.dlc", path, target), "a");
    if (!file || fputs(text.text, file) < 0 || fclose(file) != 0) {
        fail_as(fn->cx, DIAG_ARGUMENT, "%s.%s.dlc cannot be written", path, target);
    }
}

static void
draw_of(Fn *fn, Marks marks, uint64_t *random)
{
    Draw draw = {fn, marks, random};
    fn_each_let(fn, draw_marks, &draw);
}

static void
take_shared(void *arg, Let *let)
{
    (void)arg;
    if (loop_is(let)) {
        let_mark(let, shared_marks() | MARK_parallel | MARK_onehot, false);
    }
}

static void
nests_body(Cx *cx, void *arg)
{
    Draw *d = arg;
    PassOptions options = {.verify = true, .no_file = true, .fuel = -1};
    (void)cx;
    fn_each_let(d->fn, take_shared, NULL);
    draw_of(d->fn, d->marks, d->random);
    pass_run(rewrite_find("nests"), d->fn, &options);
}

/* Other loops of these, where the verifier accepts it, which a copy tells: these must stay the same
 * function.  They have no marks then. */
static bool
draw_nests(Fn *fn, uint64_t *random)
{
    uint64_t same = *random;
    Draw trial = {fn_clone(fn), MARK_split | MARK_reorder, &same},
         draw = {fn, MARK_split | MARK_reorder, random};
    bool accepted = cx_try(fn->cx, nests_body, &trial);
    if (accepted) {
        nests_body(fn->cx, &draw);
    }
    return accepted;
}

/* The casts are safe: nobody else has this unit's loops. */
void
schedules_draw(Loops *loops)
{
    PassOptions options = {.verify = true, .fuel = -1};
    uint64_t random = sample_seed(seed);
    Marks shared = shared_marks(), own = drawn_marks() & ~shared;
    bool nests = seed && chance(&random, NESTS) && draw_nests((Fn *)loops->shared, &random);
    choices_draw((Fn *)loops->shared);
    if (!seed && !choices_are_drawn()) {
        return;
    }
    draw_of((Fn *)loops->shared, seed ? shared | (nests ? MARK_parallel : 0) : 0, &random);
    for (int k = 0; k < TARGETS; k++) {
        bool wanted = loops->of[k];
        loops->of[k] = NULL;
        loops_for(loops, wanted ? 1u << k : 0, &options);
        if (wanted && seed && loops->of[k] != loops->shared) {
            draw_of((Fn *)loops->of[k], own, &random);
        }
        if (wanted && path) {
            write_loops(loops->of[k], target_info[k].name);
        }
    }
}
