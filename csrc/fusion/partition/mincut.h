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
/* The value of a maximum flow, which is that of a minimum cut.  FLOW_INF or more: no cut has only
 * finite edges (or the finite ones add up to that).  Edges may be added afterwards, and the flow
 * continued. */
int64_t flow_run(Flow *f);
/* Of the minimum cuts after flow_run, the one nearest to the sink, as the nodes on the sink's side.
 * An edge is cut if it leads from outside to inside. */
void flow_cut(Flow *f, bool *sink_side);

#endif
