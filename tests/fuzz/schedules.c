/* Random schedules of a unit, between its rewrites and emission.
 *
 * What:     marks of the loops come and go at random: first of those that all targets share, then,
 *           after the rewrites for each target, of its own.  What the verifier accepts has to
 *           give the same bits: a schedule changes no result.
 * How:      a mark is drawn with those that stand beside it: `flat` with `flat_row`, `strip` with
 *           `simdlen`, `distribute` with the stages of the loop's operations.  The verifier sees
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
enum { DRAWN = 35, BESIDE = 60, TAKEN_AWAY = 30 };

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

/* One mark, with its value. */
static void
give(Draw *d, Let *let, int k)
{
    let_take_marks(d->fn->cx, let);
    if (mark_info[k].has_value) {
        let_mark_with(d->fn->cx, let, mark_at(k), draw_value(d->random));
    } else {
        let_mark(let, mark_at(k), true);
    }
}

/* `flat_row` stands beside `flat`, and `simdlen` beside `strip`. */
static bool
is_beside(int k, int base)
{
    size_t length = strlen(mark_info[base].name);
    bool row = k != base && strncmp(mark_info[k].name, mark_info[base].name, length) == 0 &&
               mark_info[k].name[length] == '_';
    return row || (mark_at(k) == MARK_simdlen && mark_at(base) == MARK_strip);
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

/* A loop in stages, if the verifier accepts them. */
static void
draw_stages(Draw *d, Let *loop)
{
    static const int64_t widths[] = {16, 128, 256, 1024};
    enum { OF_RECURRENCES = 128 };
    Cx *cx = d->fn->cx;
    bool recurrences = let_has(loop->parent->owner, MARK_recurrences);
    Saved before = save(loop), *of = cx_alloc(cx, (size_t)loop->body->n * sizeof *of);
    int64_t width = widths[below(d->random, sizeof widths / sizeof *widths)];
    let_take_marks(cx, loop);
    let_mark_with(cx, loop, MARK_distribute, recurrences ? OF_RECURRENCES : width);
    for (int k = 0, stage = 1; k < loop->body->n; k++) {
        Let *let = loop->body->lets[k];
        of[k] = save(let);
        if (let_is_map(let)) {
            stage = next_stage(d, stage, let, recurrences);
            let_take_marks(cx, let);
            let_mark_with(cx, let, MARK_stage, stage);
            let_mark(let, MARK_across, loop_carried(let) && chance(d->random, BESIDE));
        }
    }
    if (!is_accepted(d->fn)) {
        restore(loop, &before);
        for (int k = 0; k < loop->body->n; k++) {
            restore(loop->body->lets[k], &of[k]);
        }
    }
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
            if (chance(d->random, TAKEN_AWAY)) {
                take_away(d, let, order[k]);
            }
        } else if (may & mark && chance(d->random, DRAWN)) {
            if (mark == MARK_distribute) {
                draw_stages(d, let);
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

/* The casts are safe: nobody else has this unit's loops. */
void
schedules_draw(Loops *loops)
{
    PassOptions options = {.verify = true, .fuel = -1};
    uint64_t random = sample_seed(seed);
    Marks shared = shared_marks(), own = drawn_marks() & ~shared;
    choices_draw((Fn *)loops->shared);
    if (!seed && !choices_are_drawn()) {
        return;
    }
    draw_of((Fn *)loops->shared, seed ? shared : 0, &random);
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
