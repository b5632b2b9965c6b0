/* Ranges of torch.profiler for kernels and calls, with their operands, while a profiler runs. */
#include "capture/capture.h"
#include "torch_abi.h"

enum { MOST_INPUTS = 8 };

bool
range_wanted(void)
{
    return torch_abi.has_callbacks && torch_abi.has_callbacks() &&
           torch_abi.aoti_record_function_start && torch_abi.aoti_record_function_end;
}

/* The operands' values; those that torch does not give are left out. */
static int
take_inputs(int n, void *const *objects, C10IValueHandle *inputs)
{
    int taken = 0;
    bool known = torch_abi.aoti_torch_tensor_to_ivalue &&
                 torch_abi.aoti_torch_delete_c10_value_object;
    for (int k = 0; k < n && known && taken < MOST_INPUTS; k++) {
        if (!objects[k] || !pytensor_check((PyObject *)objects[k])) {
            continue;           /* a number, an array of NumPy's, an undefined tensor */
        }
        TorchTensor handle = torch_abi_handle((PyObject *)objects[k]);
        taken += torch_abi.aoti_torch_tensor_to_ivalue(handle, &inputs[taken]) == 0;
    }
    return taken;
}

void *
range_begin(const char *name, int n, void *const *objects)
{
    C10IValueHandle inputs[MOST_INPUTS] = {NULL};
    AtenRecordFunctionHandle range = NULL;
    int taken = take_inputs(n, objects, inputs);
    if (torch_abi.aoti_record_function_start(name, NULL, inputs, (uint64_t)taken, &range) != 0) {
        range = NULL;           /* the kernel runs without */
    }
    for (int k = 0; k < taken; k++) {
        torch_abi.aoti_torch_delete_c10_value_object(inputs[k]);
    }
    return range;
}

void
range_end(void *range)
{
    torch_abi.aoti_record_function_end(range);
}
