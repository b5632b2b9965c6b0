/* Random schedules: marks that the verifier accepts, whatever the sizes and thresholds are. */
#ifndef DLC_SCHEDULES_H
#define DLC_SCHEDULES_H

#include "codegen/phase.h"

/* From now on units have random schedules, drawn from the seed; 0: those of the rewrites.  Their
 * loops go to the file <path>.<target>.dlc, one unit after the other; NULL: to none. */
void schedules_use(uint64_t seed, const char *path);

/* Draws those of the loops that a target has a copy of. */
void schedules_draw(Loops *loops);

#endif
