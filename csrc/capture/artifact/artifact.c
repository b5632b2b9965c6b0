/* A compiled graph as parts that can be written down and read again: see Note [Parts]. */
#include "artifact.h"

#include <string.h>

#include "capture/jit/callable.h"
#include "capture/module.h"

const char *const artifact_inputs[] = {
    [INPUT_TENSOR] = "tensor",
    [INPUT_SIZE] = "size",
    [INPUT_SCALAR] = "scalar",
    [INPUT_UNUSED] = "unused",
};
const char *const artifact_outputs[] = {
    [OUTPUT_TENSOR] = "tensor", [OUTPUT_INT] = "int",       [OUTPUT_BOOL] = "bool",
    [OUTPUT_FLOAT] = "float",   [OUTPUT_OBJECT] = "object", [OUTPUT_INPUT] = "input",
};

static PyObject *
input_row(const void *captured, int k)
{
    const InputSpec *input = &((const Captured *)captured)->inputs[k];
    return Py_BuildValue("(si)", artifact_inputs[input->kind], input->index);
}

static PyObject *
output_row(const void *captured, int k)
{
    const OutputSpec *output = &((const Captured *)captured)->outputs[k];
    PyObject *object = output->object ? output->object : Py_None;
    return Py_BuildValue("(siO)", artifact_outputs[output->kind], output->index, object);
}

static PyObject *
position(const void *site, int k)
{
    return PyLong_FromLong(((const CallSite *)site)->positions[k]);
}

static PyObject *
call_row(const void *captured, int k)
{
    const CallSite *site = &((const Captured *)captured)->sites[k];
    PyObject *positions = list_made(site->nresults, position, site);
    PyObject *kwargs = site->kwargs ? site->kwargs : Py_None;
    return positions ? Py_BuildValue("(OOOOzzN)", Py_None, site->target, site->args, kwargs,
                                     site->node, site->source, positions)
                     : NULL;
}

PyObject *
artifact_parts(const Captured *captured)
{
    PyObject *inputs = list_made(captured->ninputs, input_row, captured);
    PyObject *outputs = list_made(captured->noutputs, output_row, captured);
    PyObject *calls = list_made(captured->nsites, call_row, captured);
    PyObject *made = inputs && outputs && calls ? Py_BuildValue("{sOsOsO}", "inputs", inputs,
                                                                "outputs", outputs, "calls", calls)
                                                : NULL;
    Py_XDECREF(inputs);
    Py_XDECREF(outputs);
    Py_XDECREF(calls);
    return made;
}

/* ---- for Python ---- */

PyDoc_STRVAR(
    parts_doc,
    "parts(callable) -> dict: what compile() takes in place of a graph, but for the text, which is "
    "in\n"
    "callable.report.\n\n"
    "inputs: [(kind, index), ..], kind \"tensor\", \"size\", \"scalar\" or \"unused\".\n"
    "outputs: [(kind, index, object), ..], kind \"tensor\", \"int\", \"bool\", \"float\", "
    "\"object\" or \"input\".\n"
    "calls: [(name, target, args, kwargs or None, node, source, positions), ..] with Slot objects "
    "for\n"
    "operands and sizes; name: None.");

static PyObject *
parts(PyObject *module, PyObject *callable)
{
    if (!PyObject_TypeCheck(callable, module_state(module)->callable_type)) {
        return PyErr_Format(PyExc_TypeError, "parts() takes a Callable");
    }
    return artifact_parts(&((Callable *)callable)->captured);
}

static PyObject *
slot(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *kind;
    int index;
    if (!PyArg_ParseTuple(args, "si", &kind, &index)) {
        return NULL;
    }
    if (strlen(kind) != 1 || !strchr("abdf", *kind) || index < 0) {
        return PyErr_Format(PyExc_ValueError, "a slot of kind '%s', number %d", kind, index);
    }
    return slot_new(kind[0], index);
}

static PyObject *
slot_of(PyObject *Py_UNUSED(module), PyObject *object)
{
    char kind[2] = "";
    int index;
    if (!slot_check(object, kind, &index)) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("(si)", kind, index);
}

static PyMethodDef methods[] = {
    {"parts", parts, METH_O, parts_doc},
    {"slot", slot, METH_VARARGS,
     PyDoc_STR("slot(kind, index) -> Slot: kind \"a\" an operand, \"f\" one as a float, \"d\" a "
               "size, \"b\" one that is 0 or 1 as a bool.")},
    {"slot_of", slot_of, METH_O,
     PyDoc_STR("slot_of(object) -> (kind, index), or None: not a Slot.")},
    {NULL},
};

int
artifact_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}

/* Note [Parts]
 *
 * All that a callable is made of, besides machine code, is a program in the language, which
 * prints and parses exactly, and a few lists: which input is which parameter, what each output
 * is, and for each call of an eager operator its target and the template of its arguments.  A
 * program that is read back is compiled as one that was walked, so that what is in a file is
 * never machine code, and no Python code either: Python looks the operators up by name.
 *
 * What is read is checked before it is compiled.  The verifier proves the program: views stay
 * inside of their operands, results are written once.  artifact_read.c holds the lists against
 * it: every parameter is given once, by an input of its sort; outputs name results of their
 * sort; the slots of a template are among the operands and sizes of each let that calls it. */
