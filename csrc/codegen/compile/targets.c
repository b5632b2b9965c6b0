/* The rows of targets.def, and what they mean on this processor. */
#include <string.h>

#include "ir/costs.h"
#include "codegen/phase.h"
#include "codegen/processor.h"

const TargetInfo target_info[] = {
#define SET(field, value) .field = value,
#define TARGET(name, what, compiler, calls, fused, width, branches, emitter, arrays, pragmas, \
               costs, rewrites) \
    {#name,    what,   COMPILER_##compiler, CALLS_##calls, FUSED_##fused, width, \
     branches, arrays, {pragmas},           {costs}},
#include "codegen/targets.def"
#undef SET
};

Target
target_find(const char *name)
{
    int k = 0;
    while (k < TARGETS && strcmp(target_info[k].name, name) != 0) {
        k++;
    }
    return (Target)k;
}

Target
target_for(Compiler compiler)
{
    int k = 0;
    while (target_info[k].compiler != compiler) {
        k++;
    }
    return (Target)k;
}

const TargetInfo *
target_of(const Fn *fn)
{
    return &target_info[fn->target ? fn->target - 1 : 0];
}

unsigned
targets_compiled(void)
{
    unsigned found = 0;
    for (int k = 0; k < TARGETS; k++) {
        found |= target_info[k].compiler != COMPILER_ANY ? 1u << k : 0;
    }
    return found;
}

bool
target_fuses(Target target)
{
    return target_info[target].fused == FUSED_ALWAYS || isa_info[processor_isa()].fuses;
}
