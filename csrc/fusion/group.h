/* What the files of the fuse pass share, see fuse.c for how they fit together. */
#ifndef DLC_GROUP_H
#define DLC_GROUP_H

#include "fusion.h"
#include "ir/costs.h"

/* One operand of a node, seen through views: the value that is computed or given, and where its
 * axes run. */
typedef struct Read {
    int from, to;               /* nodes; from is -1 when root is a parameter */
    const Value *root;          /* what is read */
    const Value *at; /* root, or the last view of it whose axes are not root's; or NULL */
    bool direct; /* the operand is root itself, not a view of it */
    bool plain; /* at is root: root axis k runs along axis[k] of the reader's domain */
    bool memory; /* read from memory: at indices that are data, or in flat order */
    bool order; /* no data: the reader comes later */
    bool copied; /* the reader's kernel computes root again, see recompute.c */
    signed char axis[MAX_RANK]; /* of at; -1: its axis has extent 1 */
    int64_t numel; /* how often root is computed if it is computed here, estimated */
    int next, next_same; /* the next read of the same root, and of the same at; -1 */
} Read;

/* A let that computes, one that makes a view real, or a call.  Groups are sets of nodes with a
 * representative (union-find); the group's own fields are valid there. */
typedef struct Node {
    const Let *let;
    const Value *value; /* of calls the first result, which nobody fuses */
    bool call, reduces, joins; /* a call; a RED; a cat or pad */
    bool stored; /* a call or the caller needs the value in memory */
    bool kept; /* the value is a result of its kernel, see recompute.c */
    bool hidden; /* reached through index maps: not aligned with the domain */
    int rank; /* of the node's domain: the shape of the result, for a RED that of the operand */
    const Dim *dims;
    int axis0; /* number of its first axis among all nodes' axes */
    signed char out[MAX_RANK]; /* result axis k is domain axis out[k] */
    int reads, nreads; /* its reads are consecutive */
    int users; /* the first read of its value, -1 */
    int64_t numel, bytes; /* of the domain; of the result; estimated */
    double times; /* how often an element is computed */
    /* group */
    int parent, next, tail, members, order;
    int domain, red, scan; /* a member with the group's domain; one that reduces, a scan, or -1 */
    int made; /* the last product or call that a member needs or is, -1, see waits.c */
    bool has_call;
    int pieces; /* that its cats and pads cut loops into; 0: it has none */
    /* contractions; pointwise operations and reductions of their rows join them, see rows.c */
    int contracts;
    bool other; /* has a node that is none of these */
    bool closed; /* has a scatter: only makers of its operands join it, if it is the only user */
} Node;

typedef struct Groups {
    Cx *cx;
    Fn *fn;
    Node *nodes;
    int n;
    Read *reads;
    int nreads;
    int *axes; /* union-find over the axes of all nodes' domains */
    int naxes;
    int *node_of; /* by Value.id: the node that computes it, -1 */
    int *cost; /* by Value.id: of making it from nothing, -1 where it is not */
    const Dim **promise; /* by Value.id: the strides a result wants it stored in; NULL: any */
    int *param_users; /* by position: the first read, -1 */
    int *stack, *ahead, *behind, *seen; /* of convex.c */
    int stamp;
} Groups;

/* ---- rebuild.c: the frame of a pass ---- */

/* A function with the header of `old` and nothing in it; *map leads from its parameters, by id in
 * the old function, to the new ones, and has room for all values. */
Fn *rebuild_open(const Fn *old, Stage stage, Value ***map);
/* Sets the results: those of `old`, mapped. */
Fn *rebuild_close(const Fn *old, Fn *fn, Value *const *map);

/* The strides of a view at the top level: copies those of `let`, the old view, to the new one. */
void rebuild_strides(const Let *let, Value *const *map);

/* ---- panels.c: operands as the microkernels read them ---- */

/* The axes of an operand that becomes panels: the axis of columns, which run along a row of a
 * panel, the summed axes, in their order, and the batch axes, which have panels for each of their
 * elements. nsums 0: it does not become panels. */
typedef struct {
    int columns, nsums, sums[MAX_RANK], nbatch, batch[MAX_RANK];
    int width; /* columns of a panel */
} PanelAxes;

/* Those of operand j: its columns are the last letter of the result, and all letters that are
 * summed are its own. */
PanelAxes panel_axes(Cx *cx, const Let *let, int j);
const Type *panels_type(Cx *cx, const Type *t, const PanelAxes *axes);
/* v as panels: element (n, k) is at [.., n // width, k, n % width], and missing elements of the
 * last panel are zero. */
Value *panels_make(Build *b, Value *v, const PanelAxes *axes);
/* The value that panels are of, as a view of them; t: its type. */
Value *panels_read(Build *b, Value *panels, const Type *t, const PanelAxes *axes);

/* ---- cost.c: what the passes believe about time ---- */

/* How many of them a let computes: a reduction each element that it reads, a contraction each
 * product. */
int64_t cost_terms(Cx *cx, const Let *let);
double cost_traffic(double bytes); /* of moving bytes, in the same units */

/* ---- memory.c: what has to be in memory ---- */

/* made: the views and constants that must be tensors; wanted: the values that calls and the caller
 * need in memory; both by Value.id, zeroed on entry. */
void memory_scan(const Groups *g, bool *made, bool *wanted);
/* Fills in the promises of the groups; before memory_scan. */
void memory_promises(Groups *g);
/* By Value.id, once there are kernels: does a let at the top level read it (a view, a call, a cat),
 * or is it returned?  Kernels read values in their bodies. */
bool *memory_read_outside(const Fn *fn);
bool memory_has_views(const Fn *fn, int result); /* are other results views of it? */

/* ---- nodes.c: what there is to group ---- */

Groups *groups_new(Fn *fn);
/* Operand axis k of the view runs along result axis to[k]; false when they do not run along each
 * other. */
bool view_axes(Cx *cx, const Let *let, signed char *to);

/* ---- convex.c: groups, their order, and which may become one ---- */

int group_find(Groups *g, int node);
int axis_find(Groups *g, int axis);
/* Joins a and b into one group, unless the group would need a group that needs it. */
bool group_join(Groups *g, int a, int b);
/* Is a value of this node used by another group, or by the outside? */
bool node_leaves(Groups *g, int node);

/* ---- align.c: which axes of two groups run along each other ---- */

/* Axes of a domain that run along axes of another. */
typedef struct {
    int n, a[MAX_RANK], b[MAX_RANK];
} Match;

/* The axes of a group's domain except those of extent 1, and the reduced ones among them. rows is
 * an estimate, most is the largest possible number of elements. */
typedef struct {
    int n, axis[MAX_RANK], nreduced, reduced[MAX_RANK];
    int64_t rows, most;
} Domain;

typedef enum { LEVEL_NONE, LEVEL_FULL, LEVEL_CONSUMER_ROW, LEVEL_PRODUCER_ROW } Level;

int node_axis(Groups *g, const Node *node, int ax); /* -1: of extent 1 */
Domain group_domain(Groups *g, int group);
bool match_add(Match *m, int a, int b); /* false when it contradicts */
/* Adds the axis matches that all reads by c from p give; false if these do not align. */
bool match_reads(Groups *g, int p, int c, Match *m);
Level match_domains(Groups *g, int p, int c, const Domain *dp, const Domain *dc, Match *m);
bool reduce_other_axes(const Domain *p, const Domain *c, const Match *m); /* not the same axes */

/* ---- rows.c: whole rows of contractions ---- */

/* Do the reductions of the two groups, joined, go along the columns of their contraction? */
bool rows_reduced(Groups *g, int p, int c, const Match *m);
/* Moves the producers of the rows of a contraction's operand, if nothing else needs them, into the
 * contraction's group. */
void rows_join(Groups *g);

/* ---- pads.c: products that store into what is padded ---- */

void pads_join(Groups *g);

/* ---- waits.c: what stays alive until a kernel can run ---- */

/* Fills in Node.made. */
void waits_scan(Groups *g);
/* Would the kernel of a and b keep much more alive than theirs, because one waits for the other's
 * products? */
bool waits_long(Groups *g, int a, int b);
/* Would the values that the leaves read wait for the readers of the node, if these computed the
 * node from them? */
bool waits_to_copy(Groups *g, int node, const Read *const *leaves, int n);

/* ---- recompute.c: copies of cheap producers ---- */

void recompute(Groups *g);
/* Has each contraction whose columns are computed of codes compute them itself, if nothing else
 * needs them.  Before groups are joined. */
void recompute_columns(Groups *g);

/* What the columns of a contraction are computed from, if these are codes: values with fewer bytes
 * than the columns, from which these are computed element by element. */
typedef struct {
    Cx *cx;
    int64_t numel; /* of the columns */
    int n, ncodes;
    bool good, computes;
    const Value *inner[COST_DECODED]; /* what is computed; the columns, or a view of them, first */
    const Value *codes[COST_DECODED]; /* what that is computed from */
    double bytes, cost; /* of the codes; of computing an element */
    const bool *stops; /* by Value.id, or NULL: these are codes, though they are computed */
} Codes;

/* Why the columns of operand j of a contraction are not computed in its kernel, whatever they are
 * computed of; NULL: they may be. */
const char *columns_refused(Cx *cx, const Let *let, int j);
/* False: operand j has not the columns, they are not computed of codes, or of several letters, or
 * that is not worth it. */
bool columns_of_codes(Cx *cx, const Let *let, int j, const bool *stops, Codes *codes);

/* ---- digits/whole.c: ranges of whole numbers ---- */

typedef struct {
    int64_t least, most;
} Whole;

extern const Whole WHOLE_NONE;

/* The range of integers, as their operations say; that of their dtype, if no more is known. */
Whole whole_range(const Value *v);
/* That of floats which are computed of integers, if they are whole and are so exactly. */
Whole whole_floats(const Value *v);
bool whole_within(Whole a, Whole b);

/* ---- frozen/columns.c ---- */

/* Where the columns of a product run in a value: along an axis, or a part of one, in which so many
 * elements of each column are adjacent. */
typedef struct {
    enum { COLUMNS_UNKNOWN, COLUMNS_ALONG, COLUMNS_VARY } are; /* vary: with the way to the value */
    int axis;
    int64_t n, inner; /* n 0: they are the whole axis, of any size; inner: 1, too */
} Columns;

/* Notes by Value.id where they run, for v and what it is computed of up to the codes.  v: what is
 * computed of the codes; axis: its axis of columns, -1: it has none. */
void codes_columns(const Codes *codes, const Value *v, int axis, Columns *of);
/* The type of codes with an axis for the columns alone; *axis: that one.  NULL: it has too many. */
const Type *columns_own_axis(Cx *cx, const Type *t, const Columns *columns, int *axis);

/* ---- outline.c: groups to kernels ---- */

Fn *outline(Groups *g);

#endif
