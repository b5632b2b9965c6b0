/* The option weights: see weights.c. */
#ifndef DLC_WEIGHTS_H
#define DLC_WEIGHTS_H

#include "capture/capture.h"

typedef struct {
    Captured *captured; /* a profile adds outputs */
    PyObject *wanted; /* a list of rows: see compile() */
    PyObject *rows; /* a list, to which a row for each weight is appended */
    const CompileOptions *options;
    PassOptions *passes;
} WeightsJob;

/* The function with weights replaced by their codes; fn: in canonical form.  NULL: an exception. */
Fn *weights_apply(Fn *fn, const bool *frozen, const WeightsJob *job);

#endif
