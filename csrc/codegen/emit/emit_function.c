/* The function of a phase around its statements: comment, head, pointers, sizes. */
#include "emit.h"

void
put_pointers(Emit *e, Text *unit)
{
    const Phase *ph = e->phase;
    for (int k = 0; k < ph->nbuffers; k++) {
        const Value *v = ph->buffers[k];
        text_add(unit, "    %s%s *%s = p[%d];\n", is_written_in(v, ph->kernel) ? "" : "const ",
                 storage_c(v->type->dtype), name_c(e, v), k);
    }
    if (!dim_is(e->cx, e->scratch, 0)) {
        text_add(unit, "    char *scratch = p[%d];\n", ph->nbuffers);
    }
}

void
put_size(Emit *e, int k, Text *unit, const void *arg)
{
    (void)arg;
    Text dim = {.cx = e->cx};
    bool name = dim_is_name(e->cx, e->sizes[k].dim);
    dim_text(e->cx, e->sizes[k].dim, &dim);
    text_add(unit, "    const int64_t %s = n[%d];%s%s%s\n", size_name(e, k), e->sizes[k].place,
             name ? "" : " /* ", name ? "" : dim.text, name ? "" : " */");
}

void
put_sizes(Emit *e, Text *unit, void (*put_one)(Emit *e, int k, Text *unit, const void *arg),
          const void *arg)
{
    for (int place = 0; place < e->phase->ndims; place++) {
        for (int k = 0; k < e->nsizes; k++) {
            bool given = e->sizes[k].dim == e->phase->given;
            if (e->sizes[k].place == place && e->sizes[k].declared && !given) {
                put_one(e, k, unit, arg);
            }
        }
    }
}

/* Lists where the phase's lets come from: FX nodes and lines of the user's program. */
typedef struct {
    Cx *cx;
    Text *unit;
    const char *source, *node;
} Sources;

static void
put_sources(Sources *s, const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        Loc loc = blk->lets[k]->loc;
        if (loc.source && loc.source != s->source) {
            Text line = {.cx = s->cx};
            text_add(&line, "%s", loc.source);
            for (char *c = line.text; *c; c++) {
                bool ends = (*c == '*' && c[1] == '/') || (*c == '/' && c[1] == '*');
                *c = ends || *c == '\n' ? ' ' : *c;
            }
            text_add(s->unit, "\n * %s", line.text);
        }
        if (loc.node && loc.node != s->node) {
            bool after_source = loc.source && loc.source != s->source;
            const char *join = after_source ? ": " : s->node ? ", " : "\n * from ";
            text_add(s->unit, "%s%s", join, loc.node);
        }
        s->source = loc.source ? loc.source : s->source;
        s->node = loc.node ? loc.node : s->node;
        if (blk->lets[k]->body) {
            put_sources(s, blk->lets[k]->body);
        }
    }
}

void
put_header(const Emit *e, const Let *loop, Text *unit)
{
    const Phase *ph = e->phase;
    text_add(unit, "\n/* %s, phase of", ph->name);
    for (int k = 0; k < ph->kernel->nres; k++) {
        text_add(unit, "%s %s", k ? "," : "", ph->kernel->res[k]->name);
    }
    for (int k = 0; k < ph->nbuffers; k++) {
        text_add(unit, "\n * p[%d] %s: ", k, ph->buffers[k]->name);
        type_text(e->cx, ph->buffers[k]->type, unit);
    }
    Sources s = {.cx = e->cx, .unit = unit};
    put_sources(&s, loop->body);
    text_add(unit, " */\n");
}

void
put_phase_head(Emit *e, Text *unit, const char *kind)
{
    const char *name = e->phase->name,
               *takes = "void *const *p, const int64_t *n, int64_t lo, int64_t hi";
    if (e->phase->is_part) {
        const char *given = e->phase->given == DIM_NONE ? ""
                                                        : cx_format(e->cx, ", const int64_t %s",
                                                                    index_c(e, e->phase->given));
        text_add(unit, "%s int\n%s(%s%s)\n{\n", kind, name, takes, given);
    } else {
        const char *declared = kind ? cx_format(e->cx, "int %s(%s);\n\n", name, takes) : "";
        text_add(unit, "%sint\n%s(%s)\n{\n", declared, name, takes);
    }
}

void
put_body(const Text *body, Text *unit)
{
    text_add(unit, "    int fault = 0;\n");
    text_put(unit, body->text, body->length);
    text_add(unit, "    (void)p, (void)n;\n    return fault;\n}\n");
}
