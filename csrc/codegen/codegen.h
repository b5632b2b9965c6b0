/* Code generation: kernels to loops, loops to C, C to machine code, and the plan that runs a call.
 *
 * The folder reads the IR (ir/ir.h) and nothing of fusion or of Python.  Two lifetimes meet here:
 * all that lower.c, schedule.c and emit_*.c make lives in the compile's arena; Code and Plan own
 * their memory and outlive it. */
#ifndef DLC_CODEGEN_H
#define DLC_CODEGEN_H

#include "compile/compile.h"
#include "export/export.h"
#include "jit/jit.h"
#include "phase.h"
#include "plan/parallel.h"
#include "plan/plan_api.h"
#include "process.h"
#include "processor.h"
#include "rewrites.h"
#include "tune/predict.h"
#include "tune/search.h"

#endif
