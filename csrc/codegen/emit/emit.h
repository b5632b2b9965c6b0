/* What the emitters share, see emit.c. */
#ifndef DLC_EMIT_H
#define DLC_EMIT_H

#include "codegen/loops/facts.h"
#include "codegen/loops/jam.h"
#include "codegen/loops/loops.h"
#include "codegen/loops/phase_use.h"
#include "codegen/loops/scan.h"

/* A size that the text of a phase needs, a value of n[]. */
typedef struct {
    Dim dim;
    bool declared; /* the phase's function begins with a variable for it */
    int place; /* in n[], when the statements of all targets are there; before, -1 */
} Size;

/* Names that C has for values, by Value.id, and for indices; they are made at their first use. */
typedef struct {
    const char **values;
    Map indices;
} Names;

/* The emission of one phase for one target: what all targets share.  All statements are made
 * first; sizes and names that they need are declared in front of them. */
typedef struct {
    Cx *cx;
    const Fn *fn;
    const Facts *facts;
    Phase *phase;
    const Let *loop; /* that it is */
    const TargetInfo *target;
    void *own;                  /* what the target itself needs: Cc, Tcc, .. */
    Text *out;                  /* statements of the phase */
    Text *helpers;              /* of the unit: functions and constants made once */
    Map *made;                  /* of the unit: which helpers are there */
    int indent;
    Names *names;               /* of what is put; the second of two copies has others */
    PhaseUse use;               /* its buffers, and lets outside of its loops */
    Size *sizes;
    int nsizes;
    Dim scratch;                /* bytes of private scratch so far */
    const Let *collapsed[MAX_LOOPS];/* the parallel loops, outermost first, and their counts */
    Dim counts[MAX_LOOPS];
    int ncollapsed;
} Emit;

/* ---- emit_text.c ---- */

/* Puts one line, with the indentation. */
void put(Emit *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Puts a line that ends in {, and indents what follows. */
void put_open(Emit *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
void put_scope(Emit *e); /* a bare { */
void put_close(Emit *e);
/* True for the first call with `key` in a unit: the caller then puts the helper. */
bool new_helper(Emit *e, const char *key);
/* The size's place among those of the phase, as this target counts them; new ones are added. */
int size_at(Emit *e, Dim size);
const char *size_name(Emit *e, int k); /* of the variable that it has */
/* The dim as a C expression, in parentheses if it is composite. */
const char *dim_c(Emit *e, Dim d);
const char *offset_c(Emit *e, Dim offset); /* the same, never in parentheses */
Dim access_offset(const Emit *e, const Let *access); /* of a load or store, in elements */
const char *name_c(Emit *e, const Value *v);
const char *index_c(Emit *e, Dim index);
const char *type_c(Dtype dtype); /* the C type for computing in it */
const char *storage_c(Dtype dtype);
/* The suffix of routines that compute in the dtype: bool, i32, i64, f32 or f64. */
const char *compute_name(Dtype dtype);
/* The MAP let that combines an update's element, operand 0, with its value, operand 1. */
const Let *update_map(Emit *e, const Let *update);
const char *literal_c(Cx *cx, Dtype dtype, Literal literal);
/* What a MAP let's result goes through: "round_f16", "wrap_u8" and the like, or NULL. */
const char *rounding(const Let *let);

/* ---- emit_loop.c ---- */

void open_choice(Emit *e, const Let *choice); /* of an if or an else in a loop */
void close_choice(Emit *e);

/* How the access goes on with the loop: see facts_step, facts_contiguous. */
const Step *step_along(const Emit *e, const Let *access, const Let *loop);
bool is_contiguous(const Emit *e, const Let *access, const Let *loop);
/* The let of the block that computes the value; NULL: none does, or it is a constant. */
Let *computed_in(const Block *block, const Value *v);

/* ---- emit_phase.c ---- */

/* Is the loop the vector loop in one marked tile? */
bool is_tiled(const Let *loop);
/* What is so of the phase for all targets; fills its buffers, extent and work. */
Emit phase_interface(Target target, const Fn *fn, const Let *loop, Phase *phase);

/* ---- emit_parallel.c ---- */

const char *scratch_room(Emit *e, Dim bytes); /* the offset of so many bytes of scratch */
/* The buffer's offset in the scratch, as C. */
const char *private_buffer(Emit *e, const Value *v, int lanes);
/* Opens the loops over lo..hi and declares the indices of the collapsed loops; returns how many to
 * close.  A vector loop among them is left to its own let, with these bounds. */
int open_parallel(Emit *e);
Nest nest_of(const Emit *e); /* its parallel loops */
int collapsed_at(const Emit *e, const Let *loop); /* its place among the collapsed loops, or -1 */
/* Those of the collapsed loops, of iteration `at`; copy: a word in names that are made. */
void put_indices(Emit *e, const char *at, const char *copy);
void vector_bounds(Emit *e, const Let *loop, const char **from, const char **to);

/* ---- emit_function.c ---- */

/* The parts of a phase's function, in their order; the first is a comment that says what it is. */
void put_header(const Emit *e, const Let *loop, Text *unit);
/* kind: how C declares the function of one of several loops; NULL: nothing declares others */
void put_phase_head(Emit *e, Text *unit, const char *kind);
void put_pointers(Emit *e, Text *unit);
/* Calls `put` for each size that has a variable, in the order of n[]. */
void put_sizes(Emit *e, Text *unit, void (*put_one)(Emit *e, int k, Text *unit, const void *arg),
               const void *arg);
void put_size(Emit *e, int k, Text *unit, const void *arg);
void put_body(const Text *body, Text *unit); /* its statements, and its end */

/* ---- emit_panel.c ---- */

/* Opens a loop over `step` iterations of `rows` at a time, or takes those of the parallel loop:
 * from <index>_from to <index>_to; how many to close. */
int open_rows(Emit *e, const Let *rows, int step);
/* Puts a loop marked tile.  `transpose` names the routine for elements of so many bytes.  `row`
 * puts the body of one iteration, in which the vector loop runs from <index>_from to <index>_to. */
void put_rows(Emit *e, const Let *rows, const char *(*transpose)(void *arg, int bytes),
              void (*row)(void *arg, const Block *body), void *arg);
/* The array with the load's transposed elements, or NULL; the index of an element in it. */
const char *panel_of(Emit *e, const Let *load);
const char *panel_index(Emit *e, const Let *load);

/* ---- emit_product.c ---- */

/* Puts a loop marked pack or micro as a call.  False: it is none. */
bool put_product(Emit *e, const Let *loop);
/* How a target writes the parts of a sum of products: the loop over terms, a let, and `sum` with
 * the product added by one fused multiply-add. */
typedef struct {
    void (*open)(Emit *e, const Let *loop);
    void (*let)(Emit *e, const Let *let);
    const char *(*add)(Emit *e, const Let *product, Dtype dtype, const char *sum);
} ChainWriter;
/* Puts a sum marked fused, as the C constant of its name. */
void put_chains(Emit *e, const Let *reduce, const ChainWriter *writer);
/* Puts a call that adds k products of adjacent elements of x and y, arrays of the dtype, to *sum,
 * which has a row of a panel; `first`: C that is true where there is no sum yet. */
void put_dot(Emit *e, Dtype dtype, const char *sum, const char *x, const char *y, const char *k,
             const char *first);

/* ---- emit_prefetch.c ---- */

/* The offset of the load's row in the loop: see facts_row. */
Dim row_offset(const Emit *e, const Let *load, const Let *loop);
/* The C condition that the tensor of a load with a mark `beyond` has so many bytes, to add after
 * another one; "" if it is known or there is no mark. */
const char *and_beyond(Emit *e, const Let *access);

/* ---- emit_nontemporal.c ---- */

/* The bytes of an element if the access goes along contiguous elements of a tensor; else 0. */
int contiguous_bytes(Emit *e, const Let *loop, const Let *let);
/* Lets a routine store without the caches if the store is marked and its tensor large: a C value,
 * of which it prints the condition. */
const char *use_nontemporal_c(Emit *e, const Let *store);
/* The condition that the access's tensor has so many bytes, to add after another one; "" if it is
 * known. */
const char *and_bytes(Emit *e, const Let *access, int64_t bytes);
/* What to add to a C condition: that a store is non-temporal.  "" if it is known. */
const char *and_nontemporal(Emit *e, const Let *store);

/* ---- the emitters: rows of targets.def ---- */

/* emit_<target>_phase puts the statements of a phase; when all targets have, emit_<target>_function
 * puts the function, of which they are the body. */
#define TARGET(name, ...) \
    void emit_##name##_phase(Emit *e, const Let *loop); \
    void emit_##name##_function(Emit *e, const Let *loop, const Text *body, Text *unit); \
    extern const char emit_##name##_head[];
#include "codegen/targets.def"

/* ---- emit_lines.c ---- */

void emit_lines(Cx *cx, const Let *loop, Text *text);

#endif
