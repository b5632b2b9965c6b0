/* Strips: SIMD routines over short contiguous arrays, the instruction set of the libtcc tier.
 *
 * They are compiled into the extension once for each instruction set and found by name (strip_find
 * in processor.h); generated code declares the ones it calls.  T is the C type of a dtype: uint8_t
 * (bool, 0 or 1), int32_t, int64_t, float, double;
 * uint64_t and dlc_c128 of prelude.h for complex numbers.  Arrays need no alignment; n may be 0.
 *
 * Where out and an operand have elements of one size they may be the same array; other overlap is
 * not allowed.  A strip gives each element the bits that the expression of ir/ops.def gives,
 * whatever its position, n, and the other elements.
 *
 * strips.def has their names and parameters.  `scalars`: where bit k is set, operand k is one
 * element that stands for all.
 */
#ifndef DLC_STRIPS_H
#define DLC_STRIPS_H

typedef void (*StripFn)(void);

typedef struct StripRow {
    const char *name;
    StripFn fn;
} StripRow;

/* The strips of one instruction set, in no order, ended by a row without a name. */
#define ISA(name, vector, fuses) extern const StripRow strip_rows_##name[];
#include "isa.def"

#endif
