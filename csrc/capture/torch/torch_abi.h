/* libtorch's C functions, found in the libraries that torch has loaded: nothing of torch is needed
 * to build dlc, and one build serves many versions of it. */
#ifndef DLC_TORCH_ABI_H
#define DLC_TORCH_ABI_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void *TorchTensor;      /* an at::Tensor * */
typedef void *C10IValueHandle, *IValueMapHandle, *AtenRecordFunctionHandle;

/* The functions of libtorch that dlc calls; torch_abi_init fills the table once. */
extern struct TorchAbi {
    ptrdiff_t offset;           /* of the at::Tensor in a Python tensor */
    /* new: the Python tensor of a handle, which stays the caller's. */
    PyObject *(*wrap)(TorchTensor);
#define NEED(result, name, arguments) result(*name) arguments;
#define MAY(result, name, arguments, without) result(*name) arguments;
#define CPP(result, name, arguments, symbol, without) result(*name) arguments;
#include "torch_abi.def"
} torch_abi;

/* sample: any torch.Tensor; hidden: a tuple of names of functions to do without, as if this torch
 * lacked them.  -1 with ImportError when this torch is not one that dlc can read. */
int torch_abi_init(PyObject *sample, PyObject *hidden);
/* Notes what this torch lacks, and what is done without it; both texts stay the caller's. */
void torch_abi_lacks(const char *what, const char *without);
/* new: [(what, without), ..] of what this torch lacks, in the order in which it was missed */
PyObject *torch_abi_lacking(void);
/* Why the last call of a member failed in this thread. */
const char *torch_abi_error(void);

/* borrowed: the handle inside a Python tensor, never to be deleted. */
static inline TorchTensor
torch_abi_handle(PyObject *tensor)
{
    return (char *)tensor + torch_abi.offset;
}

#endif
