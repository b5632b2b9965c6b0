/* Properties of this processor: vector primitives by name, its instruction set, its peak rate. */
#ifndef DLC_CODEGEN_PROCESSOR_H
#define DLC_CODEGEN_PROCESSOR_H

#include "ir/ir.h"

/* ---- strips.c, strips_*.c: SIMD routines compiled into the extension, see strips.h ---- */

/* The routine `name` (such as "strip_exp_f32") for this processor, or NULL. */
void *strip_find(const char *name);
/* A row of strips/isa.def, which explains the columns. */
typedef struct {
    const char *name;
    int vector;
    bool fuses;
} IsaInfo;

typedef enum {
#define ISA(name, vector, fuses) ISA_##name,
#include "strips/isa.def"
    ISAS
} Isa;

extern const IsaInfo isa_info[ISAS];
Isa processor_isa(void); /* the instruction set chosen */
/* What the C compiler has to be told if DLC_ISA chose a narrower set than the processor's, or
 * NULL. */
const char *strip_flag(void);
/* Has the processor instructions that multiply numbers of f16 or bf16 as they are?  No kernel here
 * uses them. */
bool processor_multiplies(Dtype dtype);

/* ---- micro_peak.c ---- */

/* Operations on f32 that all threads together do in a second, at most: a multiply-add is two.  It
 * takes some 5 ms. */
double micro_peak(void);
double micro_clock(void); /* cycles of the calling thread in a second; 2 ms */

#endif
