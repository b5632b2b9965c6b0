/* The rewrites of rewrites.def, and the ways through them. */
#ifndef DLC_CODEGEN_REWRITES_H
#define DLC_CODEGEN_REWRITES_H

#include "phase.h"

/* ---- pipeline.c: the rewrites of rewrites.def, one file or part of a file each ---- */

#define REWRITE(name, in, out, what) Fn *rewrite_##name(Fn *fn);
#include "rewrites.def"

const PassInfo *rewrite_table(int *count);
/* NULL when there is none; "program", "schedule" and "nests" are those before kernels are told
 * apart, those of the loops stage, and those that make other loops of these, each in order. */
const PassInfo *rewrite_find(const char *name);
/* Kernels to loops that are ready for the emitters.  text: a written schedule, or NULL. */
Fn *rewrites_apply(Fn *kernels); /* the same inside a pass, without the written one */
Fn *loops_make(const Fn *kernels, const char *text, PassOptions *options);
/* Adds the loops of the targets that are wanted (bits 1 << target) and not there yet: the target's
 * rewrites change a copy of the shared loops. */
void loops_for(Loops *loops, unsigned wanted, PassOptions *options);
/* Fails if the rewrites of a target that dlc compiles make loops of these that break a rule. */
void targets_digest(const Fn *loops);

/* ---- schedule_tuning.c: flags of the C compiler, which are marks ---- */

const char *tuning_flag(int k); /* of the row of tuning.def; a constant */
unsigned tuning_flags(const Fn *loops); /* whose marks the loops have: a bit 1 << row each */
Marks tuning_marks(void); /* all of them */
bool tuning_matters(Marks mark); /* false: a flag that cannot matter on this processor */

/* ---- nest/written.c: schedules as text ---- */

/* What the text says of one of so many kernels, on lines of the same numbers; NULL: nothing.  Fails
 * with DIAG_SCHEDULE if it names another kernel. */
const char *written_part(Cx *cx, const char *text, int kernel, int kernels);
/* The loops with all that the text says of those of the target, or, TARGETS, of those that all
 * targets share; the same loops if it says nothing of them.  They must be as the rewrites of dlc
 * leave them.  Fails with DIAG_SCHEDULE: a line, and the rule that it breaks. */
const Fn *written_apply(const Fn *loops, const char *text, Target target);
/* The lines that give the loops the marks that they have. */
void written_print(const Fn *loops, Target target, Text *out);

/* An if or an else of the block, which it is not in yet, with an empty body.  See version.c. */
Let *choice_new(Fn *fn, Block *parent, Op op, int nattrs, const Attr *attrs);

#endif
