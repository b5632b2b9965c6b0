/* A joint graph of AOTAutograd on its way to a forward and a backward, shared by joint*.c. */
#ifndef DLC_JOINT_H
#define DLC_JOINT_H

#include "capture/walk/walk.h"

typedef struct {
    Walk walk;                  /* first: a walk of a joint graph is one of these */
    Captured captured;
    int nforward;               /* outputs of the forward */
    PyObject *written; /* positions of placeholders that the forward changes: a set; borrowed */
    PyObject *bind; /* the function that completes the list of saved sizes, see partition_doc;
                     * borrowed */
    PyObject *outputs; /* a tuple */
    int *first, *inputs; /* node k reads nodes inputs[first[k]] .. inputs[first[k + 1] - 1] */
    bool *late; /* by node: depends on tangents */
    bool *effect; /* by node: is not left out */
    int *node_of; /* by Value.id: the node that represents the value, -1 */
    int stamp, *input_at, *read_at; /* by Value.id: the last search that met it */
    const Value **stack; /* of that search */
    CutRules rules;
    const Cut *cut;
    PyObject *result; /* new */
} Joint;

/* The node's tensor, NULL when it has none that is a name. */
const Value *joint_value(const Joint *j, int k);
/* The node that represents node k: it has the same value with the same strides; k itself if there
 * is no other. */
int joint_same(const Joint *j, int k);

/* The node of several results that node k takes one from; -1: it does no such thing. */
int joint_parent(const Joint *j, int k);

/* Adds to `reads`, by input of node k, those whose elements matter for v, a result of the node. */
void joint_reads(Joint *j, int k, const Value *v, bool *reads);

/* ---- joint_split.c ---- */

/* From the cut: the nodes of each half, and the values passed on, into j->result. */
void joint_halves(Joint *j);

#endif
