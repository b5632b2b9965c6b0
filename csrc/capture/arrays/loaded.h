/* dlc._C.Loaded, and the way from a text and arrays to the function that runs: what the files here
 * share. */
#ifndef DLC_LOADED_H
#define DLC_LOADED_H

#include "array.h"

#include "capture/module.h"

typedef struct {
    Dtype dtype;
    int rank;
    char *name; /* PyMem; NULL: a prepared value */
} ParamInfo;

typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    Plan *plan;
    ParamInfo *params;
    Tensor *fixed; /* by parameter, as its array is in memory */
    PyObject **arrays; /* by parameter: the array that is fixed, owned; NULL: of the call */
    int *into; /* by result: the parameter that it goes into; -1: it is new */
    PyObject *sizes; /* tuple of names */
    int nparams, nfixed, nresults, nsizes;
} Loaded;

typedef struct {
    const char *text;
    PyObject *given; /* dict: the name of a parameter to its array */
    PyObject *release; /* called when a value has been computed of arrays; NULL: nobody is */
    PyObject *origin; /* called for a text of what the given arrays are; NULL: nobody knows */
    PassOptions passes;
    CompileOptions options;
    Loaded *self;
    bool runs; /* here, so that it may have no calls */
    bool raised; /* a Python exception is set */
    Wait wait;
    bool keeps; /* there is a cache folder: it is open, */
    Cache cache;
    Key common; /* see cc_target_origin */
    Key note; /* of the text, that it was verified after each pass, */
    bool verified; /* as it was in another process */
    bool computed; /* values were, of fixed arrays */
    const bool *frozen; /* by parameter of the text: is it fixed? */
    Preparation *made;
} Job;

/* ---- prepare.c ---- */

/* The function that runs, verified, of job->text: what depends on fixed arrays alone is computed,
 * and stands behind the parameters of the text.  NULL: an exception.  Sets frozen and made, and
 * fills in job->self but for what makes a call of it. */
Fn *loaded_read(Cx *cx, Job *job);
PlanParam param_of(const Tensor *t, PyObject *array);
int prepare_register(PyObject *module);

/* ---- verified.c ---- */

void verified_open(Cx *cx, Job *job); /* fills in the job's folder */
PassOptions verified_passes(const Job *job); /* of the passes of graphs */
void verified_done(const Job *job); /* after all rewrites */

/* ---- values.c ---- */

/* Makes the values of job->made the arrays of the parameters from `first` on.  false: an
 * exception. */
bool values_make(Cx *cx, Job *job, int first);

/* ---- loaded.c ---- */

/* Runs the body with a context; false: an exception, and the job's object may be half full. */
bool loaded_try(Job *job, void (*body)(Cx *cx, void *arg));
void loaded_clear(Loaded *self); /* frees what it holds */

#endif
