/* Flags of the C compiler as marks: rows of tuning.def.
 *
 * What:     a unit is compiled with the flags of the marks that its loops have.
 * Requires: loops of a target that a C compiler makes machine code of.
 * Ensures:  the same operations in the same order: a flag only says how the C compiler makes
 *           machine code of a loop.
 * Why not:  attributes of functions: compilers other than gcc have none for these. */
#include "codegen/processor.h"
#include "codegen/rewrites.h"

typedef struct {
    Marks mark;
    const char *flag;
    int width;
} Tuning;

#define TUNING(word, flag, width) {(Marks)1 << MARK_INDEX_##word, flag, width},
static const Tuning tunings[] = {
#include "tuning.def"
};

enum { TUNINGS = sizeof tunings / sizeof *tunings };

const char *
tuning_flag(int k)
{
    return tunings[k].flag;
}

static bool
has_mark(const void *mark, const Let *let)
{
    return let->op == OP_for && let_has(let, *(const Marks *)mark);
}

unsigned
tuning_flags(const Fn *loops)
{
    unsigned flags = 0;
    for (int k = 0; k < TUNINGS; k++) {
        flags |= block_any(loops->body, has_mark, &tunings[k].mark) ? 1u << k : 0;
    }
    return flags;
}

Marks
tuning_marks(void)
{
    Marks marks = 0;
    for (int k = 0; k < TUNINGS; k++) {
        marks |= tunings[k].mark;
    }
    return marks;
}

bool
tuning_matters(Marks mark)
{
    int k = 0;
    while (k < TUNINGS && tunings[k].mark != mark) {
        k++;
    }
    return k == TUNINGS || tunings[k].width <= isa_info[processor_isa()].vector;
}
