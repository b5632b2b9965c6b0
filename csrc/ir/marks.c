/* Marks of loops, accesses and operations: the table as data, and the marks of a let. */
#include "cx.h"

#include <string.h>

enum {
    FOR = 1,
    REDUCE = 2,
    LOAD = 4,
    STORE = 8,
    BUFFER = 16,
    MAP = 32,
    BIND = 64,
    SIZE = 128,
    CHOICE = 256
};
enum { BARE, NUMBER };

const MarkInfo mark_info[MARK_COUNT] = {
#define MARK(name, of, on, value, made, read, what) {#name, (value) == NUMBER, on},
#include "marks.def"
};

_Static_assert(MARK_COUNT <= 63, "marks.def: a set of marks is an int64_t");

static int
index_of(Marks mark)
{
    return __builtin_ctzll((uint64_t)mark);
}

Marks
mark_find(const char *name)
{
    int k = 0;
    while (k < MARK_COUNT && strcmp(mark_info[k].name, name) != 0) {
        k++;
    }
    return k < MARK_COUNT ? mark_at(k) : 0;
}

/* A constant where `on` is one: each let of a text is asked about more than once. */
static inline __attribute__((always_inline)) Marks
marks_on(unsigned on)
{
    Marks marks = 0;
#define MARK(name, of, where, value, made, read, what) marks |= (where) & on ? MARK_##name : 0;
#include "marks.def"
    return marks;
}

Marks
marks_of(Op op)
{
    switch (op) {
    case OP_for:
        return marks_on(FOR);
    case OP_reduce:
        return marks_on(REDUCE);
    case OP_load:
        return marks_on(LOAD);
    case OP_store:
        return marks_on(STORE);
    case OP_buffer:
        return marks_on(BUFFER);
    case OP_bind:
        return marks_on(BIND);
    case OP_size:
        return marks_on(SIZE);
    case OP_if:
        return marks_on(CHOICE);
    default:
        return op_info[op].kind == KIND_MAP ? marks_on(MAP) : 0;
    }
}

Attr
attr_marks(Cx *cx, Marks marks)
{
    return (Attr){.key = cx_intern(cx, "marks", 5), .kind = ATTR_MARKS, .i = (int64_t)marks};
}

int64_t
attr_mark_value(const Attr *marks, int index)
{
    return marks->i >> index & 1 && marks->values ? marks->values[index] : 0;
}

/* NULL: it has none. */
static Attr *
marks_in(const Let *let)
{
    for (int k = 0; k < let->nattrs; k++) {
        if (let->attrs[k].kind == ATTR_MARKS) {
            return &let->attrs[k];
        }
    }
    return NULL;
}

bool
let_has(const Let *let, Marks marks)
{
    const Attr *have = marks_in(let);
    return have && ((Marks)have->i & marks) == marks;
}

void
let_take_marks(Cx *cx, Let *let)
{
    if (!marks_in(let)) {
        Attr *attrs = cx_alloc(cx, (size_t)(let->nattrs + 1) * sizeof *attrs);
        for (int k = 0; k < let->nattrs; k++) {
            attrs[k] = let->attrs[k];
        }
        attrs[let->nattrs++] = attr_marks(cx, 0);
        let->attrs = attrs;
    }
}

void
let_mark(Let *let, Marks marks, bool on)
{
    Attr *have = marks_in(let);
    have->i = on ? have->i | marks : have->i & ~marks;
}

void
let_mark_with(Cx *cx, Let *let, Marks mark, int64_t value)
{
    let_take_marks(cx, let);
    Attr *have = marks_in(let);
    int64_t *values = cx_alloc(cx, MARK_COUNT * sizeof *values); /* other lets may share the old */
    for (int k = 0; k < MARK_COUNT; k++) {
        values[k] = attr_mark_value(have, k);
    }
    values[index_of(mark)] = value;
    have->i |= (int64_t)mark;
    have->values = values;
}

int64_t
let_mark_value(const Let *let, Marks mark)
{
    const Attr *have = marks_in(let);
    return have ? attr_mark_value(have, index_of(mark)) : 0;
}

/* ---- the lets of a nest ---- */

static const Let *
block_find(const Block *blk, LetIs *is, const void *arg)
{
    const Let *found = NULL;
    for (int k = 0; k < blk->n && !found; k++) {
        found = let_find(blk->lets[k], is, arg);
    }
    return found;
}

const Let *
let_find(const Let *let, LetIs *is, const void *arg)
{
    return is(arg, let) ? let : let->body ? block_find(let->body, is, arg) : NULL;
}

bool
let_any(const Let *let, LetIs *is, const void *arg)
{
    return let_find(let, is, arg) != NULL;
}

bool
block_any(const Block *blk, LetIs *is, const void *arg)
{
    return block_find(blk, is, arg) != NULL;
}

static bool
has_mark(const void *mark, const Let *let)
{
    return let_has(let, *(const Marks *)mark);
}

const Let *
let_find_marked(const Let *let, Marks mark)
{
    return let_find(let, has_mark, &mark);
}

bool
let_is_inside(const Let *let, const Let *loop)
{
    while (let && let != loop) {
        let = let->parent->owner;
    }
    return let == loop;
}
