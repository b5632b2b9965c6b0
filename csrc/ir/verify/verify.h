/* What the files of the verifier share. */
#ifndef DLC_VERIFY_H
#define DLC_VERIFY_H

#include "ir/cx.h"

typedef struct {
    const Fn *fn;
    Cx *cx;
    const Value **scope;        /* by Value.id: the value while it may be used */
    Dim *sizes;                 /* size symbols and loop indices in scope, the innermost last */
    int nsizes;
    Table names;
    const Let *let;             /* the one looked at; NULL: the signature */
    const Let *kernel;          /* the one whose body is looked at, or NULL */
    bool *stored;               /* by Value.id: some let stores to it, whatever is chosen */
    bool *branch;               /* the kernel's results that the last choice stored */
} Verifier;

/* ---- verify.c ---- */

/* Fails: rule `rule` is broken at v->let. */
_Noreturn void verify_broken(Verifier *v, int rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void verify_block(Verifier *v, const Block *blk);

/* ---- verify_program.c: V12, V21, V28 and V29 ---- */

/* Of a function whose lets have been checked. */
void verify_program(Verifier *v);

/* ---- verify_scope.c: V01 to V03 ---- */

/* A name comes into scope: of a size, of a loop index, of a value. */
void verify_size(Verifier *v, Dim size);
void verify_index(Verifier *v, Dim index);
void verify_bind(Verifier *v, const Value *value);
void verify_dims(Verifier *v, int n, const Dim *dims);  /* the names in them are in scope */
void verify_uses(Verifier *v, int n, Value *const *values); /* they are bound here, or constants */

/* ---- verify_loops.c: V13 and on, V46 ---- */

/* A let inside a kernel of the loops stage, its operands, attributes and types checked; and its
 * body. */
void verify_loop_let(Verifier *v, const Let *let);
void verify_loops_kernel(Verifier *v, const Let *kernel);

/* ---- verify_marks.c: V33 to V38 ---- */

/* Is the element of the access so many further on in memory in the loop's next iteration? */
bool steps_by(Cx *cx, const Let *access, const Let *loop, Dim elements);
/* Does the access of the loop `inner` go through contiguous elements of it, and of the rows, which
 * are the iterations of the loop around it? */
bool has_no_gap(Cx *cx, const Let *access, const Let *inner, const Let *loop);
void verify_access_marks(Verifier *v, const Let *access);
void verify_loop_marks(Verifier *v, const Let *loop); /* when its body has been checked */

/* ---- verify_columns.c: V39 to V41 ---- */

void verify_column_marks(Verifier *v, const Let *loop); /* the same */
void verify_transpose(Verifier *v, const Let *load); /* marked so */
/* ---- verify_distribute.c: V43 to V45 ---- */

void verify_distribute(Verifier *v, const Let *loop); /* marked so, its body has been checked */
void verify_stage(Verifier *v, const Let *let);
void verify_fill(Verifier *v, const Let *reduce); /* marked so, its body has been checked */
void verify_masked(Verifier *v, const Let *load);
void verify_uniform(Verifier *v, const Let *let);

/* ---- verify_values.c: V49 to V52 and V54 ---- */

/* Does the access have no index that is bound in the loop's own body? */
bool is_unbound(Cx *cx, const Let *access, const Let *loop);

void verify_merged_access(Verifier *v, const Let *access);
void verify_merged(Verifier *v, const Let *let);
void verify_terms(Verifier *v, const Let *loop);
void verify_registers(Verifier *v, const Let *buffer);
void verify_widened(Verifier *v, const Let *load);
void verify_primitive(Verifier *v, const Let *reduce);
void verify_primitive_access(Verifier *v, const Let *access);

/* ---- verify_arrays.c: V53 and V56 ---- */

void verify_array(Verifier *v, const Let *let);
void verify_arrays(Verifier *v, const Let *loop); /* when its body has been checked */
void verify_pipelined(Verifier *v, const Let *loop); /* the same */

/* ---- verify_nest.c: V55 ---- */

void verify_nest(Verifier *v, const Let *loop);

/* ---- verify_flow.c: V30 to V32, V47 ---- */

/* Of a kernel of the kernels stage, whose body has been checked. */
void verify_loop_in_kernel(Verifier *v, const Let *kernel);

void verify_flow_form(Verifier *v, const Let *let); /* before its type is asked for */
void verify_flow_types(Verifier *v, const Let *let);

/* ---- verify_product.c: V22 to V24, V57 ---- */

/* Of a loop marked so, whose body has been checked. */
void verify_fused(Verifier *v, const Let *let);
void verify_pack(Verifier *v, const Let *let);
void verify_micro(Verifier *v, const Let *let);
void verify_plain_nest(Verifier *v, const Let *let);

#endif
