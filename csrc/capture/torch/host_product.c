/* Products of matrices by libtorch's C functions, which are the kernels that torch's dispatcher
 * would call.
 *
 * An operator called from C by its Python name reads its arguments, goes through the dispatcher
 * with its keys for autograd, and makes views on the way: half a microsecond.  The kernel itself is
 * the same, and so are the bits.
 *
 * If something observes the dispatcher (a mode, a profiler), the call goes through it. */

#include <string.h>

#include "capture/jit/callable.h"
#include "torch_abi.h"

enum { LONG_PRODUCT = 1 << 20 }; /* multiplications that release the interpreter's lock */

static bool
nobody_listens(void)
{
    return torch_abi.has_callbacks && torch_abi.function_modes && torch_abi.dispatch_modes &&
           !torch_abi.has_callbacks() && torch_abi.function_modes() == 0 &&
           torch_abi.dispatch_modes() == 0;
}

/* ---- which calls are products ---- */

/* Are the arguments the first n operands, in order? */
static bool
takes_operands(const CallSite *site, int n)
{
    bool all = PyTuple_CheckExact(site->args) && PyTuple_GET_SIZE(site->args) == n &&
               site->nresults == 1 && (!site->kwargs || PyDict_Size(site->kwargs) == 0);
    for (int k = 0; all && k < n; k++) {
        char kind;
        int index;
        all = slot_check(PyTuple_GET_ITEM(site->args, k), &kind, &index) && kind == 'a' &&
              index == k;
    }
    return all && site->positions[0] < 0;
}

/* Is the target the attribute of a module of Python's? */
static bool
is_function(PyObject *target, const char *module, const char *name)
{
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
    PyObject *found = PyDict_GetItemString(modules, module);
    PyObject *function = found ? PyObject_GetAttrString(found, name) : NULL;
    bool same = function == target;
    Py_XDECREF(function);
    PyErr_Clear();
    return same;
}

bool
is_overload(PyObject *target, const char *name)
{
    PyObject *text = strcmp(Py_TYPE(target)->tp_name, "OpOverload") == 0 ? PyObject_Str(target)
                                                                         : NULL;
    bool same = text && PyUnicode_CompareWithASCIIString(text, name) == 0;
    Py_XDECREF(text);
    PyErr_Clear();
    return same;
}

void
product_find(CallSite *site)
{
    if (!torch_abi.aoti_torch_cpu_mm_out || !torch_abi.aoti_torch_cpu_addmm_out) {
        return; /* the dispatcher's */
    }
    if (takes_operands(site, 2) && is_overload(site->target, "aten.mm.default")) {
        site->product = PRODUCT_MM;
    } else if (takes_operands(site, 3) && is_overload(site->target, "aten.addmm.default")) {
        site->product = PRODUCT_ADDMM;
    } else if (takes_operands(site, 3) && is_function(site->target, "torch._C._nn", "linear")) {
        site->product = PRODUCT_LINEAR;
    }
}

/* ---- a call ---- */

static bool
row_major(const PlanTensor *t)
{
    int64_t stride = 1;
    for (int ax = t->rank - 1; ax >= 0; ax--) {
        if (t->sizes[ax] > 1 && t->strides[ax] != stride) {
            return false;
        }
        stride *= t->sizes[ax];
    }
    return true;
}

/* new: a handle of the tensor as a matrix of its last axis and all others */
static TorchTensor
flat(const PlanTensor *t)
{
    int64_t sizes[2] = {1, t->sizes[t->rank - 1]}, strides[2] = {sizes[1], 1};
    TorchTensor made;
    for (int ax = 0; ax < t->rank - 1; ax++) {
        sizes[0] *= t->sizes[ax];
    }
    return torch_abi.aoti_torch__reinterpret_tensor(torch_abi_handle(t->object), 2, sizes, strides,
                                                    0, &made)
               ? NULL
               : made;
}

/* Returns a new tensor: the transposed view of a matrix. */
static TorchTensor
transpose(const PlanTensor *t)
{
    const int64_t sizes[2] = {t->sizes[1], t->sizes[0]},
                  strides[2] = {t->strides[1], t->strides[0]};
    TorchTensor made;
    return torch_abi.aoti_torch__reinterpret_tensor(torch_abi_handle(t->object), 2, sizes, strides,
                                                    0, &made)
               ? NULL
               : made;
}

/* out = c + a b, or a b without a c */
static bool
multiply(HostCall *call, int64_t work, TorchTensor out, TorchTensor c, TorchTensor a, TorchTensor b)
{
    if (work >= LONG_PRODUCT) {
        interpreter_leave(&call->state);
    }
    int32_t status = c ? torch_abi.aoti_torch_cpu_addmm_out(out, c, a, b, 1.0, 1.0)
                       : torch_abi.aoti_torch_cpu_mm_out(out, a, b);
    if (work >= LONG_PRODUCT) {
        interpreter_enter(&call->state);
    }
    return status == 0;
}

/* torch.nn.functional.linear of two axes, or of three that are dense, is a product of matrices. */
static bool
linear(HostCall *call, int64_t work, const PlanTensor *args, PlanTensor *out)
{
    bool three = args[0].rank == 3;
    TorchTensor a = three ? flat(&args[0]) : torch_abi_handle(args[0].object);
    TorchTensor to = three ? flat(out) : torch_abi_handle(out->object), b = transpose(&args[1]);
    bool done = a && to && b && multiply(call, work, to, torch_abi_handle(args[2].object), a, b);
    if (three && a) {
        torch_abi.aoti_torch_delete_tensor_object(a);
    }
    if (three && to) {
        torch_abi.aoti_torch_delete_tensor_object(to);
    }
    if (b) {
        torch_abi.aoti_torch_delete_tensor_object(b);
    }
    return done;
}

static const PlanTensor *
left_of(const CallSite *site, const PlanTensor *args)
{
    return site->product == PRODUCT_ADDMM ? &args[1] : &args[0];
}

static const PlanTensor *
bias_of(const CallSite *site, const PlanTensor *args)
{
    return site->product == PRODUCT_MM      ? NULL
           : site->product == PRODUCT_ADDMM ? &args[0]
                                            : &args[2];
}

/* Do the sizes fit the operator, and is nothing empty?  If not, the operator itself reports the
 * error. */
static bool
fits(const CallSite *site, const PlanTensor *args, const PlanTensor *out)
{
    const PlanTensor *a = left_of(site, args), *b = a + 1, *c = bias_of(site, args);
    bool is_linear = site->product == PRODUCT_LINEAR,
         three = is_linear && a->rank == 3 && row_major(a);
    int rank = three ? 3 : 2;
    bool good = a->rank == rank && b->rank == 2 && out->rank == rank && row_major(out) &&
                (!c || c->rank == 1);
    for (int ax = 0; good && ax < rank; ax++) {
        good = a->sizes[ax] > 0 && out->sizes[ax] > 0;
    }
    return good && a->sizes[rank - 1] == b->sizes[is_linear ? 1 : 0];
}

/* Can the operands be read from memory? A lazily negated or conjugated one cannot. */
static bool
readable(const CallSite *site, const PlanTensor *args)
{
    bool all = site->dtypes[0] == DT_f32 || site->dtypes[0] == DT_f64;
    for (int k = 0; all && k < (site->product == PRODUCT_MM ? 2 : 3); k++) {
        all = args[k].object && !pytensor_is_lazy(args[k].object);
    }
    return all;
}

static bool
run_product(HostCall *call, const CallSite *site, const PlanTensor *args, PlanTensor *out)
{
    const PlanTensor *a = left_of(site, args), *b = a + 1, *c = bias_of(site, args);
    int64_t work = b->sizes[0] * b->sizes[1];
    for (int ax = 0; ax < a->rank - 1; ax++) {
        work *= a->sizes[ax];
    }
    return site->product == PRODUCT_LINEAR
               ? linear(call, work, args, out)
               : multiply(call, work, torch_abi_handle(out->object),
                          c ? torch_abi_handle(c->object) : NULL, torch_abi_handle(a->object),
                          torch_abi_handle(b->object));
}

int
product_run(HostCall *call, const CallSite *site, const PlanTensor *args, PlanTensor *out)
{
    PlanTensor made = *out;
    if (made.rank < 0) { /* whatever torch gives, which is this */
        made.rank = left_of(site, args)->rank;
    }
    if (!readable(site, args) || !fits(site, args, &made) || !nobody_listens()) {
        return 0;
    }
    if (pytensor_empty(site->dtypes[0], &made) < 0) {
        return -1;
    }
    if (!run_product(call, site, args, &made)) { /* the dispatcher says why */
        Py_DECREF((PyObject *)made.object);
        return 0;
    }
    *out = made;
    return 1;
}
