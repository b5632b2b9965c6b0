/* What of a schedule is chosen by measuring: rows of knobs.def as marks of loops and as flags.
 *
 * What:     adds words to the marks of the loops that they are for; nothing else changes.
 * Requires: loops as schedule.c leaves them.
 * Ensures:  the same operations in the same order: a knob says how the C compiler makes machine code of a loop,
 *           or where emit_cc*.c cut it.
 * Why not:  the order of loops and of additions: the one is settled by memory, the other by the language. */
#include <string.h>

#include "emit_cc.h"

enum { PHASES, VECTORS };

typedef struct { const char *word; int loops; const char *flag, *isa; } Knob;

static const Knob knobs[] = {
#define KNOB(word, loops, flag, isa) {#word, loops, flag, isa},
#include "knobs.def"
};

enum { KNOBS = sizeof knobs / sizeof *knobs };

static bool
is_here(const Knob *knob)
{
    return !knob->isa || strcmp(knob->isa, strip_isa()) == 0;
}

int
schedule_count(void)
{
    int n = 0;
    for (int k = 0; k < KNOBS; k++) {
        n += is_here(&knobs[k]);
    }
    return n;
}

const char *
schedule_word(int k)
{
    const Knob *knob = knobs;
    while (!is_here(knob) || k-- > 0) {
        knob++;
    }
    return knob->word;
}

static bool
has_word(const char *words, const char *word)
{
    size_t size = strlen(word);
    for (const char *p = words; p && *p; p += strcspn(p, " "), p += *p == ' ') {
        if (strncmp(p, word, size) == 0 && (p[size] == ' ' || p[size] == '\0')) {
            return true;
        }
    }
    return false;
}

void
schedule_flags(const char *schedule, const char **flags, int room)
{
    int n = 0;
    for (int k = 0; k < KNOBS && n + 1 < room; k++) {
        if (knobs[k].flag && has_word(schedule, knobs[k].word)) {
            flags[n++] = knobs[k].flag;
        }
    }
    flags[n] = NULL;
}

static bool
is_for(const Fn *fn, const Knob *knob, const Let *let)
{
    const Let *around = let->parent->owner;
    if (let->op != OP_for) {
        return false;
    }
    return knob->loops == PHASES ? around && around->op == OP_kernel : loop_has(let, "vector") && cc_could_stage(fn, let);
}

/* Marks, if told to, the loops in the block that the schedule is for; are there any? */
static bool
find_loops(Fn *fn, const Block *blk, const char *schedule, bool marks)
{
    bool any = false;
    for (int k = 0; k < blk->n; k++) {
        Let *let = blk->lets[k];
        for (int j = 0; j < KNOBS; j++) {
            if (has_word(schedule, knobs[j].word) && is_for(fn, &knobs[j], let)) {
                any = true;
                if (marks) {
                    loop_mark(fn->cx, let, knobs[j].word);
                }
            }
        }
        any |= let->body && find_loops(fn, let->body, schedule, marks);
    }
    return any;
}

bool
schedule_suits(const Fn *loops, const Let *kernel, const char *schedule)
{
    return find_loops((Fn *)loops, kernel->body, schedule, false);
}

void
schedule_mark(Fn *loops, Let *kernel, const char *schedule)
{
    find_loops(loops, kernel->body, schedule, true);
}
