/* Which arguments share memory: a variant that writes to one takes no other that does. */
#include "jit.h"

enum { MAX_TERMS = 2 * MAX_RANK, MAX_LOOKS = 4096 };

/* One axis: bytes from an element to the next, and how many steps it has. */
typedef struct {
    int64_t stride, steps;
} Term;

typedef struct {
    int nterms, looks;
    Term terms[MAX_TERMS];      /* of falling strides */
    int64_t reach[MAX_TERMS + 1];   /* the most that the terms from here on can add */
} Terms;

static void
add_term(Terms *to, int64_t stride, int64_t steps)
{
    int k = to->nterms;
    if (steps < 1 || stride == 0) {
        return;
    }
    for (int at = 0; at < to->nterms; at++) {
        if (to->terms[at].stride == stride) {
            to->terms[at].steps += steps;
            return;
        }
    }
    for (; k > 0 && to->terms[k - 1].stride < stride; k--) {
        to->terms[k] = to->terms[k - 1];
    }
    to->terms[k] = (Term){stride, steps};
    to->nterms++;
}

static void
add_axes(Terms *to, const PlanTensor *from, int64_t bytes)
{
    for (int ax = 0; ax < from->rank; ax++) {
        add_term(to, from->strides[ax] * bytes, from->sizes[ax] - 1);
    }
}

static void
find_reach(Terms *in)
{
    in->reach[in->nterms] = 0;
    for (int k = in->nterms - 1; k >= 0; k--) {
        in->reach[k] = in->reach[k + 1] + in->terms[k].stride * in->terms[k].steps;
    }
}

static int64_t
floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Do the terms from k on have a sum from low to high?  After many looks: yes. */
static bool
has_sum(Terms *in, int k, int64_t low, int64_t high)
{
    if (high < 0 || low > in->reach[k]) {
        return false;
    }
    if ((low <= 0 && high >= 0) || ++in->looks > MAX_LOOKS) {
        return true;
    }
    if (k == in->nterms) {
        return false;
    }
    const Term *t = &in->terms[k];
    int64_t first = -floor_div(in->reach[k + 1] - low, t->stride),
            last = floor_div(high, t->stride);
    first = first < 0 ? 0 : first;
    last = last > t->steps ? t->steps : last;
    bool found = false;
    for (int64_t n = last; n >= first && !found; n--) {
        found = has_sum(in, k + 1, low - n * t->stride, high - n * t->stride);
    }
    return found;
}

static bool
is_empty(const PlanTensor *t)
{
    bool empty = false;
    for (int ax = 0; ax < t->rank; ax++) {
        empty |= t->sizes[ax] < 1;
    }
    return empty;
}

/* Every stride is at least 0.  The distance of an element of a from one of b is a sum of strides of
 * a, less one of strides of b.  Of b the steps that are left are counted, so that all terms add. */
bool
tensors_overlap(const PlanTensor *a, Dtype dtype_a, const PlanTensor *b, Dtype dtype_b)
{
    int64_t bytes_a = dtype_info[dtype_a].bytes, bytes_b = dtype_info[dtype_b].bytes;
    Terms terms = {0}, of_b = {0};
    if (is_empty(a) || is_empty(b)) {
        return false;
    }
    add_axes(&of_b, b, bytes_b);
    find_reach(&of_b);
    add_axes(&terms, a, bytes_a);
    add_axes(&terms, b, bytes_b);
    find_reach(&terms);
    int64_t distance = (int64_t)((intptr_t)b->data - (intptr_t)a->data) + of_b.reach[0];
    return has_sum(&terms, 0, distance - bytes_a + 1, distance + bytes_b - 1);
}

bool
tensor_overlaps_itself(const PlanTensor *t)
{
    int order[MAX_RANK], n = 0;
    for (int ax = 0; ax < t->rank; ax++) {
        int at = n;
        if (t->sizes[ax] == 1) {
            continue;
        }
        for (; at > 0 && t->strides[order[at - 1]] > t->strides[ax]; at--) {
            order[at] = order[at - 1];
        }
        order[at] = ax;
        n++;
    }
    int64_t reach = 0;
    bool overlaps = false;
    for (int k = 0; k < n; k++) {
        overlaps = overlaps || t->strides[order[k]] <= reach;
        reach += (t->sizes[order[k]] - 1) * t->strides[order[k]];
    }
    return overlaps && !is_empty(t);
}
