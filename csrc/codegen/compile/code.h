/* Machine code that a faster tier replaces. */
#ifndef DLC_CODEGEN_CODE_H
#define DLC_CODEGEN_CODE_H

#include "codegen/phase.h"

/* ---- code.c: the machine code of one compiled graph ---- */

/* `count` entries by name, each an atomic pointer that a faster tier replaces while calls go on.
 * Reference counted: the callable holds one reference, a background compile another. */
typedef struct Code Code;

enum CodeTier { TIER_NONE, TIER_TCC, TIER_CC, TIER_TUNED };

Code *code_new(const char *const *names, int count); /* NULL without memory */
Code *code_ref(Code *code);
void code_unref(Code *code);
bool code_is_alone(const Code *code); /* the reference is the last */
KernelFn code_entry(const Code *code, int k); /* the best now, or NULL */
enum CodeTier code_tier(const Code *code, int k);
KernelFn code_entry_of(const Code *code, int k, enum CodeTier *tier); /* and the tier that it is */
int code_count(const Code *code);

/* Code with loops of its own in the place of an entry: it computes the same by another number of
 * iterations.  Who set it keeps it while the code lives. */
typedef struct {
    KernelFn fn;
    int64_t extent, grain; /* as those of a ParallelJob */
} CodeVariant;

const CodeVariant *code_variant(const Code *code, int k); /* NULL: the entry itself runs */
void code_set_variant(Code *code, int k, const CodeVariant *variant);

const char *code_name(const Code *code, int k);

/* For the compilers.  code_set does nothing to an entry of the same or a faster tier, and counts a
 * swap when it replaces one; code_own keeps what entries point into until the last reference goes
 * (false without memory: nothing is taken). */
void code_set(Code *code, int k, KernelFn fn, enum CodeTier tier);
bool code_own(Code *code, void (*release)(void *memory, size_t size), void *memory, size_t size);

#endif
