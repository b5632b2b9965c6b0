/* Which change of a schedule to try first: what is predicted for the candidate, and what such
 * changes have gained on this machine.
 *
 * What:     expected is the mean of what the change has gained where it was measured, of kernels
 *           whose operands fit into the first or the second cache or into neither, and that part of
 *           the predicted gain which comes true on this machine.
 * How:      losses count as nothing gained in the mean, since what is slower is not kept.  A row of
 *           changes.def says what was known before, which counts like a few measurements.  The part
 *           is the slope of the line of least squares through zero, of all that was measured
 *           against what was predicted for it (predict.c).  Both are kept as text in a note of the
 *           cache folder.
 * Why not   predictions alone: what a C compiler makes of a loop is not in them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "predict.h"
#include "search.h"

enum { CLASSES = 3 };

static const double before = 3; /* measurements that a row counts for */

/* Before anything was measured: half of what is predicted comes true, as if a few candidates had
 * been predicted to be a tenth faster. */
static const double half = 0.5, weight_before = 3 * 0.1 * 0.1;

typedef struct {
    double n, gain; /* measurements; the sum of what they gained */
} Gained;

struct Model {
    Gained (*of)[CLASSES]; /* by change */
    double weight, true_weight; /* sums of predicted * predicted, of predicted * measured */
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
    for (int k = 0; k < change_count() + nest_count(); k++) {
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
    m->of = cx_alloc(cx, (size_t)(change_count() + nest_count()) * sizeof *m->of);
    for (const char *line = noted; line && *line; line = strchr(line, '\n')) {
        char name[64];
        int class;
        Gained read;
        line += *line == '\n';
        double weight, came;
        if (sscanf(line, "predictions %lf %lf", &weight, &came) == 2 && weight >= 0 &&
            weight < 1e9 && fabs(came) < 1e9) {
            m->weight = weight;
            m->true_weight = came;
        }
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
model_expects(const Model *m, int change, double bytes, double predicted)
{
    const Gained *g = &m->of[change][class_of(bytes)];
    double part = (half * weight_before + m->true_weight) / (weight_before + m->weight);
    return (before * change_gain(change) + g->gain) / (before + g->n) + fmax(part, 0) * predicted;
}

void
model_compares(Model *m, double predicted, double measured)
{
    m->weight += predicted * predicted;
    m->true_weight += predicted * measured;
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
    for (int k = 0; k < change_count() + nest_count(); k++) {
        for (int j = 0; j < CLASSES; j++) {
            if (m->of[k][j].n > 0) {
                text_add(&text, "%s %d %.0f %.6f\n", change_name(cx, k), j, m->of[k][j].n,
                         m->of[k][j].gain);
            }
        }
    }
    if (m->weight > 0) {
        text_add(&text, "predictions %.6f %.6f\n", m->weight, m->true_weight);
    }
    return text.text ? text.text : "";
}
