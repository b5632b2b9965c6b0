/* Inside of the prediction: a program at sizes, and the cycles of its phases. */
#ifndef DLC_PREDICTOR_H
#define DLC_PREDICTOR_H

#include "codegen/loops/facts.h"
#include "predict.h"

typedef struct {
    Cx *cx;
    int n;
    const FixedSize *sizes;
    const Speeds *speeds;
} Predictor;

/* ---- cycles.c ---- */

double predicted_value(const Predictor *p, Dim d);
double predicted_iterations(const Predictor *p, const Let *loop);

typedef struct {
    double cycles, operations; /* of operations: those of microkernels */
} Work;

/* Of all iterations of a phase. */
Work predicted_work(const Predictor *p, const Facts *facts, const Let *phase);
/* Do its iterations run as vectors?  A C compiler makes them of the innermost loop, too. */
bool runs_as_vectors(const Let *loop);

#endif
