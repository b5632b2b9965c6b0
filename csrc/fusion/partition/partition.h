/* What the files of the partition share, see partition.c. */
#ifndef DLC_PARTITION_H
#define DLC_PARTITION_H

#include "fusion/group.h"
#include "mincut.h"

typedef struct {
    Cx *cx;
    const Fn *fn;
    const CutRules *rules;
    int64_t price;              /* of a byte saved, in multiples of the usual one; */
    bool *dear;                 /* by Value.id: 2 to the DOUBLINGS instead; NULL: none */
    bool *late;                 /* by Value.id: depends on tangents */
    bool *forward, *backward;   /* ...: the forward's results need it, the backward's do */
    bool *stored;               /* ...: a call of the backward takes it */
    bool *once;                 /* ...: not again: the fuel does not do, or it is kept */
    int *node;                  /* ...: of the network, the first of two */
    int nnodes;
    const Value **values;       /* those that the backward needs, in order */
    int nvalues;
    int *first_need, *next_need;        /* by user's id; by position in rules->needs; -1 */
    const Value **inputs, **stack;      /* room for the inputs of one value; for all values */
    int most;                   /* inputs of a value */
} Cutter;

enum { DOUBLINGS = 11 }; /* of the price, until memory is worth all that can be computed again */

/* ---- partition.c ---- */

/* The base of v, through any number of views; v itself if it is none. */
const Value *root_of(const Value *v);
/* Does the let read or make values that depend on tangents? */
bool is_late(const Cutter *c, const Let *let);
/* Is the value computed from nothing, as a constant or an iota is? */
bool is_given(const Value *v);
/* Returns the cost of saving v for the backward; FLOW_INF: it cannot be saved. */
int64_t save_cost(const Cutter *c, const Value *v);

int64_t value_bytes(const Cutter *c, const Value *v);
/* May the backward make v's call again, if one makes it? */
bool may_recompute(const Cutter *c, const Value *v);
int64_t recompute_cost(const Cutter *c, const Value *v);
/* The cheapest cut in which the values of `again`, by id, are computed again. */
Cut *cut_at(Cutter *c, const bool *again);

/* ---- partition_budget.c ---- */

/* As cut_at, but within a budget of memory, which CutRules describes. */
Cut *cut_within(Cutter *c, const bool *again, double budget);
/* The cost of the values that both the backward and the forward compute. */
int64_t cost_of(const Cutter *c, const Cut *cut);

/* ---- partition_segments.c ---- */

Cut *cut_in_segments(Cutter *c, const bool *again, double share);

#endif
