/* The callable's own structures, shared by callable.c, host.c and compile.c. */
#ifndef DLC_CALLABLE_H
#define DLC_CALLABLE_H

#include "capture/capture.h"

/* The result of a compile: dlc._C.Callable.  Immutable after its creation, so that threads may call
 * it at the same time. */
typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    Plan *plan;
    Captured captured; /* fn is NULL: its arena is gone */
    Dtype *param_dtypes; /* by parameter of the function */
    PyObject *sizes; /* tuple of the names of the function's sizes */
    int nparams, nresults, nsizes;
    int *position; /* by parameter: the position of its argument */
    int *written, nwritten; /* parameters that results go into */
    PyObject *increment_version; /* of torch.autograd.graph, where there are such; else NULL */
    PyObject *fallback; /* the graph as torch runs it; called with the arguments unpacked */
    PyObject *report; /* a dict for dlc.explain, or NULL */
    Profile *profile; /* of the plan where there is a report, else NULL */
    PyObject *progress; /* the progress bar of tuning, or NULL */
    PyObject *dict; /* attributes that functools.wraps copies, so wrappers are boxed as well */
} Callable;

/* One call under way: the argument of the PlanHost functions. */
typedef struct {
    const Callable *callable;
    PyThreadState *state; /* while the lock is released */
    PyObject **given; /* the items of the caller's list, NULL: it gave no list */
    const PlanParam *in; /* as read from the arguments */
    const PlanTensor *results;
    bool grad; /* recording for autograd was on before, and is off while the plan runs */
    bool layout; /* the plan does not fit the arguments: run the fallback */
} HostCall;

/* ---- host.c ---- */

extern const PlanHost host_functions; /* arg is filled in for each call */
/* the function `tuning` of its host, for other hosts */
int host_tuning(void *arg, int done, int total, const char *line);

/* ---- host_product.c ---- */

/* Is it the overload of that name, such as aten.mm.default? */
bool is_overload(PyObject *target, const char *name);
/* Finds out whether the site is a product that product_run can do. */
void product_find(CallSite *site);
/* 1: the product is in *out, which has the expected sizes and strides; 0: it is left to torch's
 * dispatcher; -1: an exception. */
int product_run(HostCall *call, const CallSite *site, const PlanTensor *args, PlanTensor *out);

/* ---- prepared.c ---- */

/* Puts the prepared values after the parameters, each with a reference that prepared_give takes;
 * computes those that are missing or out of date. 1: the layout of a parameter is not the one that
 * was compiled; -1: an exception. */
int prepared_take(const Callable *callable, PlanParam *in);
void prepared_give(int n, PlanParam *values);

/* ---- callable_profile.c ---- */

extern PyMethodDef callable_profile_methods[];

/* ---- callable.c ---- */

/* A write to a tensor is counted, for autograd.  Where AOTAutograd calls, it does that.  -1 with an
 * exception. */
int callable_count_writes(const Callable *self, const PlanParam *in);
/* The number in a result that is a tensor; NULL: an exception.  A result that only the caller reads
 * is as the operator returned it, and has not been checked. */
const void *number_at(const PlanTensor *result, Dtype dtype);
/* new; steals the plan and the references of captured. */
PyObject *callable_new(PyTypeObject *type, Plan *plan, Captured *captured, PyObject *fallback,
                       PyObject *report, PyObject *progress);

#endif
