/* What a launch is given: sizes and memory, as the portable text of its kernel asks for them.
 *
 * A plan has the sizes that the other targets ask for.  Those of this text are read from the shape
 * of the kernel (compile/kernel_shape.c), which is in terms of the kernel's own symbols: equal
 * kernels have one text, and each use its own sizes.
 */
#include "export_text.h"

typedef struct {
    int phase;                  /* of the kernel */
    int ndims;
    const Dim *dims;
    Dim scratch;
} Asked;

static int
phase_of(const Plan *plan, const Launch *launch)
{
    int phase = 0;
    while (launch - phase > plan->launches && launch[-phase - 1].use == launch->use) {
        phase++;
    }
    return phase;
}

static void
skip_refs(ShapeReader *r)
{
    char kind;
    for (int64_t n = shape_int(r); n > 0; n--) {
        shape_ref(r, &kind);
    }
}

static Asked
asked(Export *x, const ExportPlan *p, const Launch *launch)
{
    const KernelKey *key = p->keys[launch->use];
    ShapeReader r = {x->cx, x->kernels[p->kernels[launch->use]].shape, key->sizes, key->nsizes};
    Asked a = {.phase = phase_of(p->plan, launch)};
    shape_int(&r);
    for (int64_t n = shape_int(&r); n > 0; n--) {
        shape_type(&r);
    }
    for (int k = 0; k <= a.phase; k++) {
        skip_refs(&r);
        a.ndims = (int)shape_int(&r);
        Dim *dims = cx_alloc(x->cx, ((size_t)a.ndims + 1) * sizeof *dims);
        for (int j = 0; j < a.ndims; j++) {
            dims[j] = shape_dim(&r);
        }
        a.dims = dims;
        shape_dim(&r); /* extent and work are those of the plan */
        shape_dim(&r);
        a.scratch = shape_dim(&r);
        shape_int(&r);
    }
    return a;
}

const char *
launch_function_c(Export *x, const ExportPlan *p, const Launch *launch)
{
    int kernel = p->kernels[launch->use];
    return x->unit.phases[x->kernels[kernel].first + phase_of(p->plan, launch)].name;
}

const char *
launch_sizes_c(Export *x, const ExportPlan *p, const Launch *launch)
{
    Asked a = asked(x, p, launch);
    Text text = {.cx = x->cx};
    text_add(&text, "(const int64_t[]){%s", a.ndims ? "" : "0");
    for (int k = 0; k < a.ndims; k++) {
        text_add(&text, "%s%s", k ? ", " : "", dim_text_c(x, a.dims[k], false));
    }
    text_add(&text, "}");
    return text.text;
}

const char *
launch_size_c(Export *x, const ExportPlan *p, const Launch *launch, int k)
{
    Asked a = asked(x, p, launch);
    return k < a.ndims ? dim_text_c(x, a.dims[k], true) : NULL;
}

const char *
launch_scratch_c(Export *x, const ExportPlan *p, const Launch *launch, bool checked)
{
    return dim_text_c(x, asked(x, p, launch).scratch, checked);
}
