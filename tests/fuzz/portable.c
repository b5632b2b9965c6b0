/* Plans whose kernels are compiled from the portable C instead of that for gcc and clang.
 *
 * The linker gives emission's and the C compiler's callers these functions (-Wl,--wrap): a plan
 * needs no way of its own to run what nobody runs but a test. */
#include "portable.h"
#include "schedules.h"

#include "../emit/portable.h"
#include "codegen/rewrites.h"

#define WRAPPED(name) __typeof__(name) __real_##name, __wrap_##name

static bool portable;

void
portable_use(bool use)
{
    portable = use;
}

/* The text for the C compiler becomes that of the portable target, of the target's own loops. */
WRAPPED(emit_unit);
void
__wrap_emit_unit(const Loops *loops, Unit *out)
{
    Loops all = *loops;
    PassOptions options = PASS_OPTIONS_NONE;
    loops_for(&all, portable ? 1u << TARGET_c : 0, &options);
    schedules_draw(&all);
    __real_emit_unit(&all, out);
    out->text[TARGET_cc] = portable ? out->text[TARGET_c] : out->text[TARGET_cc];
}

WRAPPED(jit_cc_submit);
bool
__wrap_jit_cc_submit(Code *code, const char *text, const CcOptions *options, char *error,
                     size_t cap)
{
    return portable ? portable_compile(code, text, error, cap)
                    : __real_jit_cc_submit(code, text, options, error, cap);
}
