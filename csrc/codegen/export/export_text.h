/* What the files of export share, see export.c. */
#ifndef DLC_EXPORT_TEXT_H
#define DLC_EXPORT_TEXT_H

#include "codegen/compile/kernels.h"
#include "codegen/plan/plan.h"
#include "export.h"

/* A kernel as the target c has it; all uses with one key have one. */
typedef struct {
    Key key;
    const KernelKey *of;        /* of the use that it was lowered for */
    Lowered lowered;
    const char *shape;          /* of the emitted text; see compile/kernel.h */
    int first;                  /* of the unit's phases */
} ExportKernel;

/* A plan, of the function or of a body, and the functions of its sizes and steps. */
typedef struct {
    const Plan *plan;
    const Fn *fn;
    int *kernels;               /* by use: its place among those of the export */
    const KernelKey **keys;     /* by use */
    int number;
    const char **exprs;         /* by DimRef: see size_c */
    /* the places of values in the workspace, by slot, then by launch, then by step of a loop or
     * branch: the block, -1: none */
    int *block;
    int nblocks;
    const char **rooms; /* by block: bytes */
    const char **offsets; /* by block: from the beginning of the workspace */
    const char *workspace; /* bytes of all */
    bool computed; /* the steps read a place that is no number: see put_places */
    const int *output; /* by slot: 1 + the result that it is the memory of */
} ExportPlan;

typedef struct {
    Cx *cx;
    const ExportOptions *options;
    CompileOptions compile;
    ExportKernel *kernels;
    int nkernels;
    ExportPlan *plans; /* those of bodies first */
    int nplans;
    int buffers, rank; /* the most of a launch, and of a copy */
    Target target; /* that its kernels are written in */
    Unit unit;
    const char **sizes, **params, **outputs; /* names in C; outputs: NULL for a result that goes
                                              * into a parameter */
    ExportPlan *main; /* of the function */
    int64_t weight_bytes;
    bool in_text, in_file; /* where weights are, if there are any */
} Export;

/* ---- export_size.c: sizes as C ---- */

const char *size_c(Export *x, ExportPlan *p, DimRef ref); /* an expression, in parentheses or not */
const char *size_factor_c(Export *x, ExportPlan *p, DimRef ref); /* the same as a factor */
/* Another size of the function: of a kernel's own, whose symbols the plan knows.  checked: sets the
 * variable `over` where it has more than 64 bits. */
const char *dim_text_c(Export *x, Dim d, bool checked);
bool size_number(const char *text, int64_t *value); /* is the expression one? */
/* Of bytes; a program that has more than 64 bits of them fails. */
int64_t bytes_sum(Export *x, int64_t a, int64_t b);
int64_t bytes_product(Export *x, int64_t a, int64_t b);
const char *sizes_c(Export *x, ExportPlan *p, int n, const DimRef *refs); /* an array of them */
/* The parameters of functions of the plan's sizes, with a comma behind each; names alone if they
 * are arguments. */
const char *size_params(Export *x, const ExportPlan *p, bool types);
void put_unused(Export *x, const ExportPlan *p, Text *out); /* sizes that a function may not read */
void put_size_check(Export *x, ExportPlan *p, Text *out); /* the function `sizes_fit` */

const char *size_symbol_c(const Export *x, const char *name); /* the name in C of a size */

/* ---- export_launch.c: what a launch is given, as the text of its kernel asks for it ---- */

const char *launch_function_c(Export *x, const ExportPlan *p, const Launch *launch);
const char *launch_sizes_c(Export *x, const ExportPlan *p, const Launch *launch); /* n */
/* One of these, as dim_text_c has it if it is checked; NULL behind the last one. */
const char *launch_size_c(Export *x, const ExportPlan *p, const Launch *launch, int k);
const char *launch_scratch_c(Export *x, const ExportPlan *p, const Launch *launch,
                             bool checked); /* bytes */

/* ---- export_memory.c ---- */

void place_values(Export *x, ExportPlan *p); /* sets block, offsets, workspace */
void put_places(Export *x, ExportPlan *p, Text *out); /* the function that computes them, if needed
                                                       */
const char *block_c(Export *x, ExportPlan *p, int block); /* a pointer */

/* ---- export_steps.c ---- */

const char *slot_c(Export *x, ExportPlan *p, int slot); /* a pointer to its first element */
const char *slot_bytes_c(Export *x, ExportPlan *p, int slot);
void put_steps(Export *x, ExportPlan *p, Text *out); /* the function that runs the plan */

/* ---- export_flow.c ---- */

void put_flow(Export *x, ExportPlan *p, int step, Text *out);
ExportPlan *plan_of_body(const Export *x, const Body *body);

/* ---- export_header.c ---- */

void put_program_header(Export *x, Text *out);
void put_guide(Export *x, Text *out); /* README.md */
/* Lines with each size, parameter and result. */
void put_interface_table(Export *x, Text *out);
bool has_weights(const Export *x);
bool is_for(const Export *x, ExportTarget target);
bool is_alone(const Export *x); /* it has its weights and memory itself, and no threads */
void put_makefile(Export *x, Text *out);
/* The parameters of the function that runs the program; names alone if they are arguments. */
const char *run_params(Export *x, bool types);
bool param_is_written(const Export *x, int param);
/* What the names of a status begin with: in capitals, or, for a name that has some itself, one that
 * no other name gives. */
const char *upper_c(Cx *cx, const char *name);
const char *element_c(Dtype dtype); /* the type of what an array in C has */

/* ---- export_weights.c ---- */

bool is_weight(const Export *x, int param);
bool weight_is_known(const Export *x, int param); /* its elements are */
void check_weights(Export *x); /* sets in_text, in_file */
const char *weight_c(const Export *x, int param); /* a pointer to it, in the function m_run */
void put_weights(Export *x, Text *out); /* those in the text */
void put_weights_header(Export *x, Text *out);
void put_bind(Export *x, Text *out); /* the function that finds those in a file */

/* ---- export_device.c ---- */

void check_device(Export *x); /* fails for what a small device cannot have */
void put_device_header(Export *x, const char *big, Text *out); /* all behind the table */
void put_device_run(Export *x, Text *out);
void put_device_guide(Export *x, Text *out);

/* ---- export_hls.c ---- */

void check_hls(Export *x); /* fails for what a circuit cannot have */
void put_hls_header(Export *x, const char *big, Text *out); /* all behind the table */
void put_hls_run(Export *x, Text *out);
void put_hls_guide(Export *x, Text *out);
int64_t hls_elements(Export *x, int slot); /* of its array */
void put_hls_element(Export *x, Dtype dtype, uint64_t bits, Text *out); /* of a weight */

/* ---- export_runtime.c ---- */

/* Puts the parts of runtime.h that the text uses. */
void put_runtime(Export *x, const char *text, Text *out);

/* ---- export_wasm.c ---- */

void put_shapes(Export *x, Text *out); /* a function of the program */
void put_module(Export *x, Text *out); /* m.mjs */
void put_page(Export *x, Text *out); /* m.html */
void put_wasm_guide(Export *x, Text *out); /* README.md */

/* ---- export_example.c ---- */

void put_check(Export *x, Text *out); /* m_check.c */

#endif
