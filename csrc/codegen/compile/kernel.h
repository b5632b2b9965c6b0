/* Kernels without the graphs that they stand in: what plans share, see kernel.c. */
#ifndef DLC_KERNEL_H
#define DLC_KERNEL_H

#include <stdatomic.h>

#include "codegen/jit/jit.h"

/* ---- kernel_key.c ---- */

/* A kernel's own text, without names: equal keys are kernels that compute the same from buffers and
 * sizes in the same order. */
typedef struct {
    Key key;
    Dim *sizes; /* the size symbols it uses: k of its shape is sizes[k] here */
    int nsizes;
    Value **operands; /* the free names of its body, likewise */
    int noperands;
    int in_place; /* results that take the memory of parameters */
} KernelKey;

typedef struct KernelCoder KernelCoder;

KernelCoder *kernel_coder(const Fn *fn); /* of the kernels stage; in the arena */
void kernel_key(KernelCoder *coder, const Let *kernel, KernelKey *out);
int let_in_place(const Let *kernel); /* KernelKey.in_place of the kernel as it is now */

/* ---- kernel_shape.c: what a plan must know of a kernel's phases, as text ---- */

/* Words between blanks: the buffers' number, each one's dtype, rank and sizes; the phases' number,
 * for each how many buffers it takes and which (p, r, b: operand, result or buffer of the kernel,
 * and its position), how many dims and which, then extent, work and scratch, and whether its
 * iterations run in order.  A dim is in postfix order, with . behind it. */
const char *shape_write(Cx *cx, const KernelKey *key, const Let *kernel, const Unit *unit);

typedef struct {
    Cx *cx;
    const char *at;
    const Dim *sizes;
    int nsizes;
} ShapeReader;

int64_t shape_int(ShapeReader *r);
Dim shape_dim(ShapeReader *r);
const Type *shape_type(ShapeReader *r);
int shape_ref(ShapeReader *r, char *kind);
int shape_phases(const char *shape); /* their number; -1 when it is no shape */

/* ---- kernel.c ---- */

/* Compiled, or about to be: its phases are the entries first, first+1, .. of code. */
typedef struct Kernel Kernel;

struct Kernel {
    Kernel *next; /* in the table */
    atomic_int refs;
    Key id;
    char *shape;
    Code *code;
    int first, nphases;
    atomic_flag tuned; /* its schedules have been compared, or are being */
};

/* The kernel of this process with the id, with a new reference, or NULL. */
Kernel *kernel_find(const Key *id);
/* A new one with one reference, which later finds see; takes a reference to code.  NULL without
 * memory. */
Kernel *kernel_new(const Key *id, const char *shape, Code *code, int first);
Kernel *kernel_ref(Kernel *kernel);
void kernel_unref(Kernel *kernel);
/* The names of its symbols in machine code: of phase k, and of its shape. */
void kernel_symbol(const Key *key, int phase, char out[32]);
void kernel_shape_symbol(const Key *key, char out[32]);
/* The kernel from a loaded object that has it, or NULL: then the object is closed. */
Kernel *kernel_load(const Key *id, const Key *key, void *object);

#endif
