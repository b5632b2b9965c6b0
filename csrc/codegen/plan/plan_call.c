/* Calls of the host in a run: their operands and results, and the sizes that they bind. */

#include <stdio.h>
#include <stdlib.h>

#include "plan_run.h"

enum { FEW_OPERANDS = 16 };

struct PlanBinder {
    Run *run;
    const Call *call;
};

static int
wrong_size(const Run *run, const char *what, const Bind *bind, int64_t value)
{
    char text[300];
    snprintf(text, sizeof text, "%s: the size %s is %lld, which the graph excludes", what,
             run->plan->size_names[bind->size], (long long)value);
    run->host->fault(run->host->arg, FAULT_SIZE, text, NULL);
    return -1;
}

/* Reports sizes that the graph allows, but from which it computes sizes that it does not allow. */
static int
wrong_sizes(const Run *run, const char *what, int nbinds, const Bind *binds)
{
    char text[400];
    int at = snprintf(text, sizeof text, "%s: with", what);
    for (int k = 0; k < nbinds && at < (int)sizeof text; k++) {
        const Bind *bind = &binds[k];
        at += snprintf(text + at, sizeof text - (size_t)at, "%s %s = %lld", k ? "," : "",
                       run->plan->size_names[bind->size], (long long)run->sizes[bind->size]);
    }
    if (at < (int)sizeof text) {
        snprintf(text + at, sizeof text - (size_t)at,
                 " a tensor has fewer than 0 elements along an axis, more than any memory has, or "
                 "two at one place that is written");
    }
    run->host->fault(run->host->arg, FAULT_SIZE, text, NULL);
    return -1;
}

int
run_bind(Run *run, const char *what, const Bind *bind, int64_t value)
{
    if (value < bind->range.lo || value > bind->range.hi ||
        (bind->divisor > 1 && value % bind->divisor)) {
        return wrong_size(run, what, bind, value);
    }
    run->sizes[bind->size] = value;
    return 0;
}

int
run_bound(Run *run, const char *what, int nbinds, const Bind *binds)
{
    Instance *inst = instance_get((Plan *)run->plan, run->sizes);
    if (!inst) {
        run->host->fault(run->host->arg, FAULT_MEMORY, NULL, NULL);
        return -1;
    }
    if (inst->too_many) {
        instance_unref(inst);
        return wrong_sizes(run, what, nbinds, binds);
    }
    instance_unref(run->inst);
    run->inst = inst;
    return 0;
}

int
plan_bind(PlanBinder *binder, int result, const PlanTensor *got)
{
    Run *run = binder->run;
    for (int k = 0; k < binder->call->nbinds; k++) {
        const Bind *bind = &binder->call->binds[k];
        if (bind->result != result) {
            continue;
        }
        if (bind->axis >= got->rank) {
            return wrong_size(run, binder->call->target, bind, -1);
        }
        int64_t by = got->sizes[bind->axis < 0 ? 0 : bind->axis] - bind->rest;
        int64_t value = bind->scale == -1 ? (int64_t)-(uint64_t)by : by / bind->scale;
        if (value * bind->scale != by) {
            return wrong_size(run, binder->call->target, bind, value);
        }
        if (run_bind(run, binder->call->target, bind, value) < 0) {
            return -1;
        }
    }
    return 0;
}

static void
want_results(const Run *run, const Call *call, PlanTensor *res)
{
    for (int k = 0; k < call->nres; k++) {
        res[k].object = res[k].data = NULL;
        res[k].sizes[0] = -1;           /* of rank 0 */
        run_shape(run, call->res[k], &res[k]);
        res[k].rank = run->plan->slots[call->res[k]].as_is ? -1 : res[k].rank;
    }
}

int
plan_bound(PlanBinder *binder, PlanTensor *results)
{
    Run *run = binder->run;
    const Call *call = binder->call;
    if (run_bound(run, call->target, call->nbinds, call->binds) < 0) {
        return -1;
    }
    want_results(run, binder->call, results);
    return 0;
}

static void
fill_argument(const Run *run, int slot, PlanTensor *out)
{
    run_tensor(run, slot, &run->tensors[slot], out);
    if (run->plan->slots[slot].as_is && !out->data) {
        out->rank = -1;
    }
}

static int
call_host(Run *run, const Call *call, PlanTensor *args, PlanTensor *res, int64_t *dims)
{
    PlanBinder binder = {run, call};
    for (int k = 0; k < call->nargs; k++) {
        fill_argument(run, call->args[k], &args[k]);
    }
    for (int k = 0; k < call->ndims; k++) {
        dims[k] = run->inst->values[call->dims[k]];
    }
    want_results(run, call, res);
    RunRange range = {0};
    if (run->watched || run->traced) {
        range = run_begin(run, call->name, call->nargs, call->args);
    }
    int status = run->host->call(run->host->arg, call->site, call->nargs, args, call->ndims, dims,
                                 call->nres, res, call->nbinds ? &binder : NULL);
    if (range.name) {
        run_end(run, &range);
    }
    for (int k = 0; k < call->nres && status == 0; k++) {
        run->tensors[call->res[k]] = run_object(&res[k]);
    }
    return status;
}

int
run_call(Run *run, const Call *call)
{
    size_t tensors = (size_t)(call->nargs + call->nres), dims = (size_t)call->ndims;
    PlanTensor few[FEW_OPERANDS];
    int64_t few_dims[FEW_OPERANDS];
    run_enter(run);
    if (tensors <= FEW_OPERANDS && dims <= FEW_OPERANDS) {
        return call_host(run, call, few, few + call->nargs, few_dims);
    }
    PlanTensor *many = malloc(tensors * sizeof *many + dims * sizeof(int64_t));
    if (!many) {
        run->host->fault(run->host->arg, FAULT_MEMORY, NULL, NULL);
        return -1;
    }
    int status = call_host(run, call, many, many + call->nargs, (int64_t *)(many + tensors));
    free(many);
    return status;
}
