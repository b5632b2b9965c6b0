/* The choice of the microkernels for this processor, and their lookup by name. */
#include "micro.h"
#include "codegen/machine.h"
#include "codegen/processor.h"
#include "ir/costs.h"

#include <string.h>

/* The pass pad_rows, which may not see machine.def, counts with the cache of the microkernels. */
_Static_assert((int)DLC_SAME_SET % (int)COST_SAME_SET == 0 && (int)COST_LINE == (int)DLC_LINE,
               "rows that share no set by costs.def share none by machine.def");

/* By instruction set: that of the strips is taken, so that both fuse multiplications alike. */
static const Micro *const micros[] = {
#define ISA(name, vector, fuses) micro_##name,
#include "codegen/strips/isa.def"
};

const Micro *
micro_of(const char *dtype)
{
    for (const Micro *m = micros[processor_isa()]; m->dtype; m++) {
        if (strcmp(m->dtype, dtype) == 0) {
            return m;
        }
    }
    return NULL;
}

void *
micro_find(const char *name)
{
    const char *dtype = strrchr(name, '_');
    const Micro *m = dtype ? micro_of(dtype + 1) : NULL;
    size_t n = m ? (size_t)(dtype - name) : 0;

#define IS(prefix) (n == sizeof prefix - 1 && memcmp(name, prefix, n) == 0)
    return IS("micro")            ? (void *)m->micro
           : IS("micro_unpacked") ? (void *)m->unpacked
           : IS("micro_each")     ? (void *)m->each
           : IS("pack")           ? (void *)m->pack
           : IS("pack_scattered") ? (void *)m->scattered
                                  : NULL;
#undef IS
}
