/* The choice of the microkernels for this processor, and their lookup by name. */
#include "micro.h"
#include "codegen/processor.h"

#include <string.h>

/* Those of the instruction set that the strips have chosen: the two fuse multiplications alike. */
static const Micro *
choose(void)
{
#if defined(__x86_64__)
    const char *isa = strip_isa();

    return strcmp(isa, "avx512") == 0 ? micro_avx512
           : strcmp(isa, "avx2") == 0 ? micro_avx2
                                      : micro_sse2;
#else
    return micro_neon;
#endif
}

const Micro *
micro_of(const char *dtype)
{
    for (const Micro *m = choose(); m->dtype; m++) {
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
