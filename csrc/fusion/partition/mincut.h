/* Maximum flow and minimum cut.  The nodes are 0 .. n-1; FLOW_SOURCE and FLOW_SINK are two of
 * them. */
#ifndef DLC_MINCUT_H
#define DLC_MINCUT_H

#include "ir/ir.h"

enum { FLOW_SOURCE, FLOW_SINK, FLOW_FIRST };
#define FLOW_INF (INT64_C(1) << 61)             /* an edge of this capacity is in no cut */

typedef struct Flow Flow;

Flow *flow_new(Cx *cx, int n);                  /* in the arena */
/* Capacities below 0 are 0, larger ones than FLOW_INF are it. */
void flow_edge(Flow *f, int from, int to, int64_t capacity);
/* The value of a maximum flow, which is that of a minimum cut.  FLOW_INF or more: every cut has an
 * edge that is in no cut (or the finite ones add up to as much).  Edges may be added afterwards, to
 * run on. */
int64_t flow_run(Flow *f);
/* Of the minimum cuts after flow_run the one nearest to the sink: the nodes on the sink's side, by
 * node. An edge is cut when it leads from outside to inside. */
void flow_cut(Flow *f, bool *sink_side);

#endif
