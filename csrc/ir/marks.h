/* Marks of loops, accesses and operations: the rows of marks.def, see marks.c.  In ir.h. */
#ifndef DLC_MARKS_H
#define DLC_MARKS_H

/* A set of marks is a set of bits. */
enum {
#define MARK(name, of, on, value, made, read, what) MARK_INDEX_##name,
#include "marks.def"
    MARK_COUNT
};
enum {
#define MARK(name, of, on, value, made, read, what) MARK_##name = 1 << MARK_INDEX_##name,
#include "marks.def"
};

/* A row of marks.def as data. */
typedef struct {
    const char *name;
    bool has_value;
    unsigned on; /* bits of marks.c */
} MarkInfo;

extern const MarkInfo mark_info[MARK_COUNT];

unsigned mark_find(const char *name); /* its bit, or 0 when there is none */
unsigned marks_of(Op op); /* that a let of the op may carry */
/* Of a let that may carry marks. */
bool let_has(const Let *let, unsigned marks); /* all of them */
/* The attribute of marks, of a let that does not have it before its first one. */
void let_take_marks(Cx *cx, Let *let);
void let_mark(Let *let, unsigned marks, bool on); /* marks without a value */
/* Gives it a mark with a value, which is above 0. */
void let_mark_with(Cx *cx, Let *let, unsigned mark, int64_t value);
int64_t let_mark_value(const Let *let, unsigned mark); /* 0: it does not have the mark */

/* The attribute that holds them. */
Attr attr_marks(Cx *cx, unsigned marks);
int64_t attr_mark_value(const Attr *marks, int index); /* 0: none */

#endif
