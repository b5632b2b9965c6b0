/* Cost: what an element of an operation takes, in quarters of a cycle of a vectorised loop.
 *
 * What arithmetic costs was measured for each instruction set of x86-64, and predicted for 64-bit
 * ARM (cost.def): tanh in float32 is 26 units with SSE2 and 4 with AVX-512, while memory is as far
 * from the one as from the other, so that the wider the vectors, the more is computed again.  For
 * processors without a column ops.def has a guess.
 */
#include "ir/costs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SSE2, AVX2, AVX512, NEON, SETS };

static const short measured[OP_COUNT][DTYPE_COUNT][SETS] = {
#define COST(op, dtype, ...) [OP_##op][DT_##dtype] = {__VA_ARGS__},
#include "cost.def"
};

static int set = SETS;          /* this processor's, or SETS: there is no column for it */

/* DLC_COSTS selects another column than the processor's, so that the decisions of the passes can be
 * the same everywhere.  Without it, DLC_ISA may select a narrower one. */
static void
find_set(void)
{
    static const char *const names[] = {"sse2", "avx2", "avx512", "neon"};
    const char *name = getenv("DLC_COSTS"), *isa = getenv("DLC_ISA");
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    set = !avx2 ? SSE2 : __builtin_cpu_supports("avx512f") ? AVX512 : AVX2;
#elif defined(__aarch64__)
    set = NEON;
#endif
    for (int k = 0; k < SETS; k++) {
        set = isa && set < NEON && k < set && strcmp(isa, names[k]) == 0 ? k : set;
    }
    for (int k = 0; name && k < SETS; k++) {
        set = strcmp(name, names[k]) == 0 ? k : set;
    }
}

int
cost_op(Op op, Dtype dtype)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_set);
    int cost = dtype < DTYPE_COUNT && set < SETS ? measured[op][dtype][set] : 0;
    return cost ? cost : op_info[op].cost;
}

Dtype
cost_dtype(const Let *let)
{
    Dtype dtype = DTYPE_COUNT;
    for (int k = let->nargs; k > 0; k--) { /* the last operand: of `where` the first is its mask */
        if (dtype == DTYPE_COUNT && !value_is_const(let->args[k - 1])) {
            dtype = dtype_info[let->args[k - 1]->type->dtype].compute;
        }
    }
    return dtype;
}

int
cost_let(const Let *let)
{
    return op_info[let->op].kind == KIND_MAP ? cost_op(let->op, cost_dtype(let))
                                             : op_info[let->op].cost;
}
