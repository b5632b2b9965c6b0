/* Which change of a schedule to try first: what changes have gained on this machine.
 *
 * What:     for each change, and for kernels whose operands fit into the first or the second cache
 *           or into neither, the mean of what it gained where it was measured.  Losses count as
 *           nothing gained, since what is slower is not kept.
 * How:      a row of changes.def says what was known before, which counts like a few measurements.
 *           The measurements are kept as text in a note of the cache folder.
 * Why not   a model of the machine: predict.c predicts how fast memory and operations let a kernel
 *           be, whatever its schedule is. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "predict.h"
#include "search.h"

enum { CLASSES = 3 };

static const double before = 3; /* measurements that a row counts for */

typedef struct {
    double n, gain; /* measurements; the sum of what they gained */
} Gained;

struct Model {
    Gained (*of)[CLASSES]; /* by change */
};

static int
class_of(double bytes)
{
    double first = SPEED_FIRST * SPEED_STEP, second = first * SPEED_STEP * SPEED_STEP;
    return (bytes > first) + (bytes > second);
}

/* Of the change with the name; NULL: there is none, or no such class. */
static Gained *
find(Cx *cx, Model *m, const char *name, int class)
{
    for (int k = 0; k < change_count(); k++) {
        if (class >= 0 && class < CLASSES && strcmp(change_name(cx, k), name) == 0) {
            return &m->of[k][class];
        }
    }
    return NULL;
}

Model *
model_new(Cx *cx, const char *noted)
{
    Model *m = cx_alloc(cx, sizeof *m);
    m->of = cx_alloc(cx, (size_t)change_count() * sizeof *m->of);
    for (const char *line = noted; line && *line; line = strchr(line, '\n')) {
        char name[64];
        int class;
        Gained read;
        line += *line == '\n';
        if (sscanf(line, "%63s %d %lf %lf", name, &class, &read.n, &read.gain) == 4) {
            Gained *gained = find(cx, m, name, class);
            if (gained && read.n >= 0 && read.n < 1e9 && fabs(read.gain) < 1e9) {
                *gained = read;
            }
        }
    }
    return m;
}

double
model_expects(const Model *m, int change, double bytes)
{
    const Gained *g = &m->of[change][class_of(bytes)];
    return (before * change_gain(change) + g->gain) / (before + g->n);
}

void
model_learns(Model *m, int change, double bytes, double gain)
{
    Gained *g = &m->of[change][class_of(bytes)];
    g->n++;
    g->gain += fmax(gain, 0);
}

const char *
model_text(Cx *cx, const Model *m)
{
    Text text = {.cx = cx};
    for (int k = 0; k < change_count(); k++) {
        for (int j = 0; j < CLASSES; j++) {
            if (m->of[k][j].n > 0) {
                text_add(&text, "%s %d %.0f %.6f\n", change_name(cx, k), j, m->of[k][j].n,
                         m->of[k][j].gain);
            }
        }
    }
    return text.text ? text.text : "";
}
