/* A program as plain C, for those who ask for it: a folder of files as texts. */
#ifndef DLC_CODEGEN_EXPORT_H
#define DLC_CODEGEN_EXPORT_H

#include "codegen/compile/compile.h"

/* What the C is for: a program, with a check; a browser, with a module and a page; a small device,
 * see export_device.c; a tool that makes a circuit, see export_hls.c. */
typedef enum { EXPORT_C, EXPORT_WASM, EXPORT_DEVICE, EXPORT_HLS } ExportTarget;

typedef struct ExportOptions {
    const char *name;           /* of the files, and the beginning of what they declare */
    const char *const *outputs; /* names of results; taken, if no input or size has them */
    const bool *weights;        /* by parameter: it is bound, and no argument of each call */
    /* By parameter: the elements of a weight in the order of its axes, how many bytes these are,
     * and its name in a file, as JSON has it.  NULL: the elements are not known, and a weight has
     * the parameter's name. */
    const void *const *data;
    const int64_t *bytes;
    const char *const *stored;
    /* by size symbol of the function: of the example, or SIZE_UNKNOWN */
    const int64_t *sizes;
    ExportTarget target;
    int pieces; /* into so many a kernel is cut for threads, at most */
} ExportOptions;

typedef struct {
    const char *name;
    const char *bytes;
    size_t length;
} ExportFile;

/* The files of a function of the kernels stage; *count: how many there are.  One without bytes is
 * the file of the weights, which the caller writes.  A call of a library, and a loop whose number
 * of steps is a size of a result, fail. */
const ExportFile *export_c(Fn *kernels, const ExportOptions *options, int *count);

#endif
