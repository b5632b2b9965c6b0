/* A module's tree, shared by jit_module.c, which compares it, and jit_tree.c, which makes it. */
#ifndef DLC_JIT_MODULE_H
#define DLC_JIT_MODULE_H

#include "jit.h"

#if PY_VERSION_HEX < 0x030C0000
#define DICT_TAGS 1
#else
#define DICT_TAGS 0             /* a dict no longer says by one number that it is unchanged */
#endif

/* The first words of a TensorImpl, its methods and counts, are not compared. */
enum { COUNTED = 16 };

typedef enum {
    GUARD_DICT,
    GUARD_NAMES,
    GUARD_LIST,
    GUARD_SET,
    GUARD_OBJECT,
    GUARD_CELL,
    GUARD_FUNCTION
} GuardKind;

typedef struct {
    /* owned; key is NULL where there is none; value: where there must be none */
    PyObject *key, *value;
} Entry;

/* An object that can change, with the contents that it had. */
typedef struct {
    GuardKind kind;
    PyObject *object;           /* owned */
    Entry *entries;             /* PyMem */
    Py_ssize_t n;
} Record;

/* A word in memory that says that a record holds while it has the value that it had. */
typedef struct {
    const uint64_t *place;
    uint64_t was;
    int record;
} Word;

typedef struct {
    PyObject *object;           /* owned */
    uint32_t signature;
    bool empty;                 /* no elements, no memory */
    char *implementation, fields[MOST_FIELDS - COUNTED];
} Held;

struct Tree {
    PyObject_HEAD Record *records;            /* PyMem */
    Word *words;                /* of the records that have such; PyMem */
    int *always;                /* the other records; PyMem */
    Held *held;                 /* PyMem */
    PlanTensor *tensors;        /* by held; PyMem */
    int nrecords, nwords, nalways, nheld;
    bool tags;
};

/* ---- jit_module.c ---- */

/* The first part that is not as it was: of the records, then of the tensors; -1: all are. */
int tree_changed(Tree *tree);
/* Reads the tensor anew, as an argument is read. */
bool held_read(const Held *held, Taken *taken);
void held_keep(Held *held);

#endif
