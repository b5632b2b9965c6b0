/* The choices of a schedule that are made by measuring: rows of tuning.def as marks and as flags.
 *
 * What:     adds a word to the marks of a kernel's phases; nothing else changes.
 * Requires: loops as schedule.c leaves them.
 * Ensures:  the same operations in the same order: a tuning only says how the C compiler makes
 *           machine code of a loop.
 * Why not:  tune the order of loops or of additions: memory settles the one, the language the
 *           other. */
#include <string.h>

#include "codegen/loops/phase_use.h"
#include "codegen/processor.h"
#include "codegen/rewrites.h"

typedef struct {
    const char *word, *flag;
    int width;
    PassInfo rewrite;
} Tuning;

static void
mark_phase(const PhaseView *phase, const void *word)
{
    if (!let_has(phase->loop, MARK_steps) && fuel_spend(phase->fn->cx)) {
        let_mark(phase->loop, mark_find(word), true);
    }
}

static Fn *
mark_all(Fn *fn, const char *word)
{
    return phases_visit(fn, mark_phase, word);
}

#define TUNING(word, flag, width) \
    static Fn *mark_##word(Fn *fn) { return mark_all(fn, #word); }
#include "tuning.def"

static const Tuning tunings[] = {
#define TUNING(word, flag, width) \
    {#word, \
     flag, \
     width, \
     {#word, STAGE_LOOPS, STAGE_LOOPS, mark_##word, "Marks phases: see tuning.def.", NULL}},
#include "tuning.def"
};

enum { TUNINGS = sizeof tunings / sizeof *tunings };

static bool
is_here(const Tuning *tuning)
{
    return tuning->width <= isa_info[processor_isa()].vector;
}

int
schedule_count(void)
{
    int n = 0;
    for (int k = 0; k < TUNINGS; k++) {
        n += is_here(&tunings[k]);
    }
    return n;
}

const char *
schedule_word(int k)
{
    const Tuning *tuning = tunings;
    while (!is_here(tuning) || k-- > 0) {
        tuning++;
    }
    return tuning->word;
}

const PassInfo *
schedule_rewrite(const char *word)
{
    for (int k = 0; k < TUNINGS; k++) {
        if (strcmp(word, tunings[k].word) == 0) {
            return &tunings[k].rewrite;
        }
    }
    return NULL;
}

const char *
schedule_flag(const char *schedule)
{
    for (int k = 0; schedule && k < TUNINGS; k++) {
        if (strcmp(schedule, tunings[k].word) == 0) {
            return tunings[k].flag;
        }
    }
    return NULL;
}
