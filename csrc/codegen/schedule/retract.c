/* Results that cannot be where a parameter is get memory of their own.
 *
 * What:     a kernel's result bound `over` a parameter loses it, if its loops would read an element
 *           of the parameter after they have stored it.
 * Requires: the kernels stage.
 * Ensures:  lowering makes the same loops of the program as before, and finds nothing to take back.
 * How:      the kernels are lowered and scheduled, and the loops asked (in_place_wrong_loops, which
 *           is rule V21 of the loops stage).  What the loops are depends on the fuel, so lowering
 *           spends it as it will again; the change itself is no choice and costs none.
 *           A compile runs it for a unit whose loops have lost a parameter, and for no other:
 *           pipeline.c.
 * Why not   decide it in fusion: whether loops read late depends on blocks, tiles and joined
 *           phases. Before keys are looked up: a process that finds its kernels would lower them
 *           all.
 * Example:  `let y: f32[N, N] over x = kernel { .. }` of a transposition in two phases becomes
 *           `let y: f32[N, N] = kernel { .. }`.
 */
#include "codegen/rewrites.h"

static bool
takes_memory(const Fn *fn)
{
    bool takes = false;
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        for (int j = 0; j < let->nres; j++) {
            takes |= let->res[j]->over != NULL;
        }
    }
    return takes;
}

/* Retracts results of a kernel, given its form in the loops stage. */
static void
retract(Cx *cx, Let *kernel, const Let *loops)
{
    for (int k = 0; k < kernel->nres; k++) {
        const Value *v = loops->res[k];
        if (kernel->res[k]->over && (!v->over || in_place_wrong_loops(cx, v))) {
            kernel->res[k]->over = NULL;
        }
    }
}

Fn *
rewrite_retract(Fn *fn)
{
    if (takes_memory(fn)) {
        const Fn *loops = rewrites_apply(fn);
        for (int k = 0; k < fn->body->n; k++) {
            if (fn->body->lets[k]->op == OP_kernel) {
                retract(fn->cx, fn->body->lets[k], loops->body->lets[k]);
            }
        }
    }
    return fn;
}
