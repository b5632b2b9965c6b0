/* Marks of loops, accesses and operations: the rows of marks.def, see marks.c.  In ir.h. */
#ifndef DLC_MARKS_H
#define DLC_MARKS_H

/* A set of marks: a bit for each, in the integer of an attribute. */
typedef int64_t Marks;
enum {
#define MARK(name, of, on, value, made, read, what) MARK_INDEX_##name,
#include "marks.def"
    MARK_COUNT
};
#define MARK(name, of, on, value, made, read, what) \
    static const Marks MARK_##name = (Marks)1 << MARK_INDEX_##name;
#include "marks.def"

static inline Marks
mark_at(int index)
{
    return (Marks)1 << index;
}

/* A row of marks.def as data. */
typedef struct {
    const char *name;
    bool has_value;
    unsigned on; /* bits of marks.c */
} MarkInfo;

extern const MarkInfo mark_info[MARK_COUNT];

Marks mark_find(const char *name); /* its bit, or 0 when there is none */
Marks marks_of(Op op); /* that a let of the op may carry */
/* Does the let, which may carry marks, have all of these? */
bool let_has(const Let *let, Marks marks); /* all of them */
/* The attribute of marks, of a let that does not have it before its first one. */
void let_take_marks(Cx *cx, Let *let);
void let_mark(Let *let, Marks marks, bool on); /* marks without a value */
/* Gives it a mark with a value, which is above 0. */
void let_mark_with(Cx *cx, Let *let, Marks mark, int64_t value);
int64_t let_mark_value(const Let *let, Marks mark); /* 0: it does not have the mark */

/* The attribute that holds them. */
Attr attr_marks(Cx *cx, Marks marks);
int64_t attr_mark_value(const Attr *marks, int index); /* 0: none */

/* ---- the lets of a nest ---- */

/* The let itself or the first one deeper for which `is` says true, in the order of the text; NULL:
 * there is none.  `any`: is there one?  Of a block it is any of its lets, or one deeper. */
typedef bool LetIs(const void *arg, const Let *let);
const Let *let_find(const Let *let, LetIs *is, const void *arg);
bool let_any(const Let *let, LetIs *is, const void *arg);
bool block_any(const Block *blk, LetIs *is, const void *arg);
const Let *let_find_marked(const Let *let, Marks mark);
bool let_is_inside(const Let *let, const Let *loop); /* itself or deeper; NULL is not */

/* ---- verify_values.c ---- */

/* Does nothing store to the memory of the load before what it has read is used for the last
 * time? */
bool load_is_unchanged(const Let *load);

/* ---- alias_loops.c: what marks of loops promise ---- */

/* May an iteration of the loop load what another one stores, in memory from outside of the loop? */
bool loop_carries(Cx *cx, const Let *loop);
/* The first value in v's memory: v, if it is written over no other. */
const Value *value_memory(const Value *v);
/* Does it store or update something in the memory of v? */
bool loop_writes(const Let *loop, const Value *v);
/* Does its own block store each tensor once alone, at another element in each iteration, and load
 * none of them? */
bool loop_stores_once(Cx *cx, const Let *loop);

#endif
