/* The choice of the strips for this processor, and how they are found by name. */
#include "codegen/processor.h"
#include "strips.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* The table in the order of the names, and what the processor has; written once. */
static struct {
    pthread_once_t once;
    Isa isa;
    const char *flag;
    bool multiplies_bf16, multiplies_f16;
    const StripRow **rows;
    size_t count;
} strips = {.once = PTHREAD_ONCE_INIT};

const IsaInfo isa_info[] = {
#define ISA(name, vector, fuses) {#name, vector, fuses},
#include "isa.def"
};

static const StripRow *const rows_of[] = {
#define ISA(name, vector, fuses) strip_rows_##name,
#include "isa.def"
};

#if defined(__x86_64__)
/* Leaf 7 of cpuid: bit 23 of edx in subleaf 0 is AVX512-FP16, bit 5 of eax in subleaf 1 is
 * AVX512-BF16.  A processor with matrix units (AMX) has both, or the second and no f16.  In a
 * virtual machine the instruction takes as long as compiling a small kernel. */
static void
find_halves(void)
{
    unsigned a = 0, b = 0, c = 0, d = 0;

    strips.multiplies_f16 = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 23 & 1);
    strips.multiplies_bf16 = __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
}
#endif

/* The widest set that the processor has, or a narrower one that DLC_ISA names: so code for other
 * processors is tried on this one.  AVX2 comes with FMA, see DLC_FMA. */
static Isa
choose(void)
{
#if defined(__x86_64__)
    const char *asked = getenv("DLC_ISA");
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");

    find_halves();
    if (asked && avx512 && strcmp(asked, isa_info[ISA_avx2].name) == 0) {
        avx512 = false;
        strips.flag = "-mno-avx512f";
    }
    if (asked && avx2 && strcmp(asked, isa_info[ISA_sse2].name) == 0) {
        avx2 = false;
        strips.flag = "-march=x86-64";
    }
    return !avx2 ? ISA_sse2 : avx512 ? ISA_avx512 : ISA_avx2;
#else
    return ISA_neon;
#endif
}

static int
by_name(const void *a, const void *b)
{
    return strcmp((*(const StripRow *const *)a)->name, (*(const StripRow *const *)b)->name);
}

/* Without memory there are no strips. */
static void
sort_rows(void)
{
    strips.isa = choose();
    const StripRow *rows = rows_of[strips.isa];
    size_t count = 0;

    while (rows[count].name) {
        count++;
    }
    strips.rows = malloc(count * sizeof *strips.rows);
    if (!strips.rows) {
        return;
    }
    for (size_t k = 0; k < count; k++) {
        strips.rows[k] = &rows[k];
    }
    qsort(strips.rows, count, sizeof *strips.rows, by_name);
    strips.count = count;
}

void *
strip_find(const char *name)
{
    StripRow wanted = {.name = name};
    const StripRow *key = &wanted;

    pthread_once(&strips.once, sort_rows);
    const StripRow **found = bsearch(&key, strips.rows, strips.count, sizeof key, by_name);
    return found ? (void *)(*found)->fn : NULL;
}

Isa
processor_isa(void)
{
    pthread_once(&strips.once, sort_rows);
    return strips.isa;
}

const char *
strip_flag(void)
{
    pthread_once(&strips.once, sort_rows);
    return strips.flag;
}

bool
processor_multiplies(Dtype dtype)
{
    pthread_once(&strips.once, sort_rows);
    return (dtype == DT_bf16 && strips.multiplies_bf16) ||
           (dtype == DT_f16 && strips.multiplies_f16);
}
