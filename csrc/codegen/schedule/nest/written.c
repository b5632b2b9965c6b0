/* Schedules as text: read, carried out and printed.
 *
 * What:     a line of a schedule names a loop or another let and the marks that it has:
 *             for i0 split=32 reorder      a loop, by its index; these two are carried out at once
 *             for i1_in vector width=64
 *             reduce r0 parts=4            a reduction, by its index
 *             let x0 prefetch=4096         a load, an operation or a bind, by what it binds
 *             store y#2 nontemporal=8      the second store to y; without a number, all of them
 *             target cc                    what follows is of the loops of this target
 *             kernel k1                    what follows is of this kernel of the program
 *           and # begins a comment.  What a schedule says of the loops that all targets share, or
 *           of those of a target, is all of it: these loops have no other marks.  Of what it does
 *           not speak, dlc decides.
 * Requires: loops that the rewrites of `schedule`, or those of the target, have made.
 * Ensures:  a verified function, or DIAG_SCHEDULE with the line and the rule.
 * How:      a line that splits or reorders is verified before and after it is carried out.  The
 *           marks of the other lines are verified when all are there, since some stand beside
 *           others only.  Loops that all targets share are accepted if each target's rewrites make
 *           verified loops of them.  If they are refused, the line is at fault behind which no part
 *           of the text is accepted.  What is printed for loops gives them the same marks again.
 * Why not   Python: the marks, the rewrites and the rules are here.
 * Example:  for i0 parallel
 *           for i1 vector
 *           target cc
 *           for i1 width=128
 */
#include <stdlib.h>
#include <string.h>

#include "codegen/loops/facts.h"
#include "codegen/loops/loops.h"
#include "codegen/rewrites.h"

enum { MOST_MARKS = MARK_COUNT, MOST_NUMBER = INT32_MAX, ALL_KERNELS = -1 };

typedef struct {
    const char *text; /* without its comment */
    int number; /* from 1, in the whole text */
    int kernel; /* of the program; ALL_KERNELS: of each that has the let */
} Line;

typedef struct {
    Line *of;
    int n;
} Lines;

/* What a line says. */
typedef struct {
    const char *what, *name;
    int64_t place; /* of a store, from 1; 0: all of them */
    const char *marks[MOST_MARKS];
    int64_t values[MOST_MARKS]; /* 0: none */
    int nmarks;
} Said;

/* ---- which marks ---- */

/* Of the loops that all targets share. */
static Marks
shared_marks(void)
{
    return MARK_parallel | MARK_vector | MARK_tile | MARK_recurrences | MARK_onehot;
}

static Marks
schedule_marks(void)
{
    enum { ORDER, SCHEDULE };
    Marks marks = 0;
#define MARK(name, of, on, value, made, read, what) marks |= (of) == SCHEDULE ? MARK_##name : 0;
#include "ir/marks.def"
    return marks;
}

/* Of targets.  The others say what lowering and `version` have made. */
static Marks
target_marks(void)
{
    return schedule_marks() & ~(shared_marks() | MARK_split | MARK_reorder | MARK_phase |
                                MARK_pack | MARK_micro | MARK_batch | MARK_rows | MARK_columns);
}

static Marks
marks_for(Target target)
{
    bool flags = target != TARGETS && target_info[target].compiler == COMPILER_CC;
    return target == TARGETS ? shared_marks()
                             : target_marks() & (flags ? ~(Marks)0 : ~tuning_marks());
}

/* ---- reading ---- */

_Noreturn static void
refuse(Cx *cx, const Line *line, const char *why)
{
    fail(cx, DIAG_SCHEDULE, line->number, line->text, why);
}

/* The next word from *at on; NULL: there is none. */
static const char *
next_word(Cx *cx, const char **at)
{
    *at += strspn(*at, " \t\r");
    size_t length = strcspn(*at, " \t\r");
    const char *word = length ? cx_intern(cx, *at, length) : NULL;
    *at += length;
    return word;
}

/* The number behind a sign, of a word that may have it; 0: it has none. */
static int64_t
take_number(Cx *cx, const Line *line, const char **word, char sign)
{
    const char *at = strchr(*word, sign);
    if (!at) {
        return 0;
    }
    char *end;
    long long number = strtoll(at + 1, &end, 10);
    if (*end || end == at + 1 || number < 1 || number > MOST_NUMBER) {
        refuse(cx, line,
               cx_format(cx, "behind %c stands a number from 1 to %d", sign, MOST_NUMBER));
    }
    *word = cx_intern(cx, *word, (size_t)(at - *word));
    return number;
}

static Said
read_line(Cx *cx, const Line *line)
{
    const char *at = line->text, *word;
    Said said = {.what = next_word(cx, &at), .name = next_word(cx, &at)};
    if (!said.name) {
        refuse(cx, line, "it names no let: `for i0 parallel` is a line");
    }
    said.place = take_number(cx, line, &said.name, '#');
    while ((word = next_word(cx, &at))) {
        if (said.nmarks == MOST_MARKS) {
            refuse(cx, line, "it has too many marks");
        }
        said.values[said.nmarks] = take_number(cx, line, &word, '=');
        for (int k = 0; k < said.nmarks; k++) {
            if (strcmp(said.marks[k], word) == 0) {
                refuse(cx, line, cx_format(cx, "it has '%s' twice", word));
            }
        }
        said.marks[said.nmarks++] = word;
    }
    return said;
}

/* The line that begins at *at, without its comment and the space around.  Goes on to the next. */
static const char *
next_line(Cx *cx, const char **at)
{
    const char *begin = *at + strspn(*at, " \t\r"), *end = begin;
    while (*end && *end != '\n' && !(*end == '#' && (end == begin || strchr(" \t", end[-1])))) {
        end++;
    }
    *at += strcspn(*at, "\n");
    *at += **at == '\n';
    while (end > begin && strchr(" \t\r", end[-1])) {
        end--;
    }
    return cx_intern(cx, begin, (size_t)(end - begin));
}

/* Is the first word of the line this one?  *name: the second, or NULL. */
static bool
begins_with(Cx *cx, const char *text, const char *what, const char **name)
{
    const char *word = next_word(cx, &text);
    *name = next_word(cx, &text);
    return word && strcmp(word, what) == 0;
}

/* The number of the kernel that the line names; -1: it names none. */
static int
kernel_of(Cx *cx, const Line *line)
{
    const char *name;
    if (!begins_with(cx, line->text, "kernel", &name)) {
        return -1;
    }
    char *end = NULL;
    long number = name && *name == 'k' ? strtol(name + 1, &end, 10) : -1;
    if (!end || end == name + 1 || *end || number < 0 || number > MOST_NUMBER) {
        refuse(cx, line, "`kernel k0` is the first kernel of the program");
    }
    return (int)number;
}

_Noreturn static void
refuse_kernel(Cx *cx, const Line *line, int kernels)
{
    refuse(cx, line, cx_format(cx, "the program has %d kernels", kernels));
}

static bool
names_kernels(Cx *cx, const char *text)
{
    bool any = false;
    for (int number = 1; *text; number++) {
        Line line = {next_line(cx, &text), number, ALL_KERNELS};
        any |= kernel_of(cx, &line) >= 0;
    }
    return any;
}

static const Let *
kernel_at(const Fn *fn, int kernel)
{
    for (int k = 0; k < fn->body->n; k++) {
        if (fn->body->lets[k]->op == OP_kernel && kernel-- == 0) {
            return fn->body->lets[k];
        }
    }
    return NULL;
}

static int
kernel_count(const Fn *fn)
{
    int n = 0;
    while (kernel_at(fn, n)) {
        n++;
    }
    return n;
}

/* The lines for the target.  Those before the first kernel that is named are of the first one. */
static Lines
lines_of(const Fn *fn, const char *text, Target target)
{
    Cx *cx = fn->cx;
    Lines lines = {0};
    Target in = TARGETS;
    int kernel = names_kernels(cx, text) ? 0 : ALL_KERNELS;
    for (int number = 1; *text; number++) {
        Line line = {next_line(cx, &text), number, kernel};
        const char *name;
        int named = kernel_of(cx, &line);
        if (named >= 0 && !kernel_at(fn, named)) {
            refuse_kernel(cx, &line, kernel_count(fn));
        }
        if (begins_with(cx, line.text, "target", &name)) {
            in = name ? target_find(name) : TARGETS;
            if (in == TARGETS) {
                refuse(cx, &line, "there is no such target: `dlc-opt --list` has them");
            }
        } else if (named >= 0) {
            in = TARGETS;
            kernel = named;
        } else if (*line.text && in == target) {
            lines.of = cx_grow(cx, lines.of, lines.n, sizeof *lines.of);
            lines.of[lines.n++] = line;
        }
    }
    return lines;
}

const char *
written_part(Cx *cx, const char *text, int kernel, int kernels)
{
    Text part = {.cx = cx};
    bool any = false;
    int in = 0;
    for (int number = 1; *text; number++) {
        Line line = {next_line(cx, &text), number, ALL_KERNELS};
        int named = kernel_of(cx, &line);
        if (named >= kernels) {
            refuse_kernel(cx, &line, kernels);
        }
        in = named < 0 ? in : named;
        bool here = in == kernel;
        any |= here && named < 0 && *line.text;
        /* lines keep their numbers; in its unit the kernel is the first */
        text_add(&part, "%s\n", !here ? "" : named < 0 ? line.text : "kernel k0");
    }
    return any ? part.text : NULL;
}

/* ---- finding lets ---- */

typedef struct {
    Cx *cx;
    const Said *said;
    const Let *kernel; /* that they are in; NULL: any */
    Let **found;
    int n, seen;
} Search;

static bool
is_in(const Let *let, const Let *kernel)
{
    const Block *blk = let->parent;
    while (kernel && blk && blk->owner && blk->owner != kernel) {
        blk = blk->owner->parent;
    }
    return !kernel || (blk && blk->owner == kernel);
}

/* Of what it binds: a value, or the index that a bind has read.  NULL: it binds neither. */
static const char *
name_of(const Cx *cx, const Let *let)
{
    return let->nres == 1 ? let->res[0]->name : let->nsizes ? dim_name(cx, let->sizes[0]) : NULL;
}

static bool
is_named(const Cx *cx, const Said *said, const Let *let)
{
    if (loop_is(let)) {
        bool kind = strcmp(said->what, op_info[let->op].name) == 0;
        return kind && strcmp(dim_name(cx, loop_index(let)), said->name) == 0;
    }
    if (strcmp(said->what, "store") == 0) {
        return let_writes(let) && strcmp(let->args[0]->name, said->name) == 0;
    }
    return strcmp(said->what, "let") == 0 && !let->body && name_of(cx, let) &&
           strcmp(name_of(cx, let), said->name) == 0;
}

static void
search_let(void *arg, Let *let)
{
    Search *s = arg;
    if (is_in(let, s->kernel) && is_named(s->cx, s->said, let) &&
        (s->said->place == 0 || ++s->seen == s->said->place)) {
        s->found = cx_grow(s->cx, s->found, s->n, sizeof *s->found);
        s->found[s->n++] = let;
    }
}

typedef struct {
    const Cx *cx;
    const Let *kernel;
    Text names;
} Known;

static void
add_index(void *arg, Let *let)
{
    Known *known = arg;
    if (loop_is(let) && is_in(let, known->kernel)) {
        text_add(&known->names, "%s%s", known->names.length ? ", " : "",
                 dim_name(known->cx, loop_index(let)));
    }
}

/* The lets that the line names: of stores there may be several, of all else one. */
static Search
find_lets(Fn *fn, const Line *line, const Said *said)
{
    Cx *cx = fn->cx;
    const Let *kernel = line->kernel == ALL_KERNELS ? NULL : kernel_at(fn, line->kernel);
    Search s = {.cx = cx, .said = said, .kernel = kernel};
    bool loop = strcmp(said->what, "for") == 0 || strcmp(said->what, "reduce") == 0,
         store = strcmp(said->what, "store") == 0;
    if (!loop && !store && strcmp(said->what, "let") != 0) {
        refuse(cx, line, "a line begins with for, reduce, let, store, target or kernel");
    }
    fn_each_let(fn, search_let, &s);
    if (s.n == 0) {
        Known known = {cx, kernel, {.cx = cx}};
        fn_each_let(fn, add_index, &known);
        refuse(cx, line,
               cx_format(cx, "there is no '%s %s' here; the loops are %s", said->what, said->name,
                         known.names.length ? known.names.text : "none"));
    }
    if (s.n > 1 && !store) {
        refuse(cx, line, "there are several of this name");
    }
    return s;
}

/* ---- marks ---- */

/* The mark, if a schedule may set it here. */
static Marks
mark_of(Cx *cx, const Line *line, const char *name, int64_t value, Target target)
{
    Marks mark = mark_find(name), nests = MARK_split | MARK_reorder;
    const char *why = NULL;
    if (!mark) {
        why = cx_format(cx, "'%s' is no mark: docs/ir.md has them", name);
    } else if (!(mark & schedule_marks())) {
        why = cx_format(cx, "'%s' is part of the program, not of a schedule", name);
    } else if (mark & (shared_marks() | nests) && target != TARGETS) {
        why = cx_format(cx, "'%s' is of all targets: it stands before `target %s`", name,
                        target_info[target].name);
    } else if (mark & target_marks() && target == TARGETS) {
        why = cx_format(cx, "'%s' is of one target: it stands behind a line such as `target cc`",
                        name);
    } else if (!(mark & (shared_marks() | nests | target_marks()))) {
        why = cx_format(cx, "a schedule does not set '%s'", name);
    } else if (target != TARGETS && !(mark & marks_for(target))) {
        why = cx_format(cx, "'%s' is a flag of a C compiler", name);
    } else {
        bool has = mark_info[__builtin_ctzll((uint64_t)mark)].has_value;
        why = has == (value > 0) ? NULL
              : has              ? cx_format(cx, "'%s' needs a value: %s=8", name, name)
                                 : cx_format(cx, "'%s' has no value", name);
    }
    if (why) {
        refuse(cx, line, why);
    }
    return mark;
}

static void
verify_body(Cx *cx, void *fn)
{
    (void)cx;
    verify_fn(fn);
}

static void
digest_body(Cx *cx, void *fn)
{
    (void)cx;
    targets_digest(fn);
}

static const char *
said_wrong(Cx *cx)
{
    if (cx_diag(cx)->code == DIAG_MEMORY) {
        fail_again(cx);
    }
    return cx_format(cx, "%s", cx_diag(cx)->message);
}

/* NULL: the function is verified, and so is what each target makes of loops that all share; else
 * which rule it breaks. */
static const char *
wrong_with(Fn *fn, Target target)
{
    Cx *cx = fn->cx;
    if (cx_try(cx, verify_body, fn) && (target != TARGETS || cx_try(cx, digest_body, fn))) {
        return NULL;
    }
    return said_wrong(cx);
}

static void
verify_line(Fn *fn, const Line *line)
{
    const char *why = cx_try(fn->cx, verify_body, fn) ? NULL : said_wrong(fn->cx);
    if (why) {
        refuse(fn->cx, line, why);
    }
}

/* Sets the marks of a line.  Those of one that splits or reorders are carried out. */
static void
apply_line(Fn *fn, const Line *line, Target target)
{
    Cx *cx = fn->cx;
    Said said = read_line(cx, line);
    Search s = find_lets(fn, line, &said);
    bool nests = false;
    for (int k = 0; k < said.nmarks; k++) {
        Marks mark = mark_of(cx, line, said.marks[k], said.values[k], target);
        nests |= (mark & (MARK_split | MARK_reorder)) != 0;
        for (int j = 0; j < s.n; j++) {
            let_take_marks(cx, s.found[j]);
            if (said.values[k]) {
                let_mark_with(cx, s.found[j], mark, said.values[k]);
            } else {
                let_mark(s.found[j], mark, true);
            }
        }
    }
    if (nests) { /* marks of later lines may be missing that a target needs */
        verify_line(fn, line);
        rewrite_reorder(rewrite_split(fn));
        verify_line(fn, line);
    }
}

/* Marks that are taken away, in a kernel of which the schedule speaks. */
typedef struct {
    Marks marks;
    const Let *kernel; /* NULL: all kernels are */
} Taken;

static void
take_marks(void *arg, Let *let)
{
    const Taken *taken = arg;
    for (int k = 0; k < let->nattrs; k++) {
        if (let->attrs[k].kind == ATTR_MARKS && is_in(let, taken->kernel)) {
            let_mark(let, taken->marks, false);
        }
    }
}

/* The first n lines carried out on a copy of the loops. */
static Fn *
apply_lines(const Fn *loops, const Lines *lines, int n, Target target)
{
    Fn *fn = fn_clone(loops);
    Taken taken = {marks_for(target), NULL};
    for (int k = 0; k < lines->n; k++) {
        int kernel = lines->of[k].kernel;
        if (k == 0 || kernel != lines->of[k - 1].kernel) {
            taken.kernel = kernel == ALL_KERNELS ? NULL : kernel_at(fn, kernel);
            fn_each_let(fn, take_marks, &taken);
        }
    }
    for (int k = 0; k < n; k++) {
        apply_line(fn, &lines->of[k], target);
    }
    facts_forget(fn);
    return fn;
}

const Fn *
written_apply(const Fn *loops, const char *text, Target target)
{
    Cx *cx = loops->cx;
    Lines lines = lines_of(loops, text, target);
    if (lines.n == 0) {
        return loops;
    }
    Fn *fn = apply_lines(loops, &lines, lines.n, target);
    const char *why = wrong_with(fn, target), *still = why;
    int n = lines.n;
    while (still && n > 0) {
        why = still;
        still = wrong_with(apply_lines(loops, &lines, --n, target), target);
    }
    if (why) {
        refuse(cx, &lines.of[n], why);
    }
    return fn;
}

/* ---- printing ---- */

typedef struct {
    Text *out;
    const Fn *fn;
    Marks marks;
    const Let *store; /* whose place is counted */
    int place, stores;
} Print;

static void
count_store(void *arg, Let *let)
{
    Print *p = arg;
    if (let_writes(let) && let->args[0] == p->store->args[0]) {
        p->stores++;
        p->place = let == p->store ? p->stores : p->place;
    }
}

static void
print_name(Print *p, const Let *let)
{
    Cx *cx = p->fn->cx;
    if (loop_is(let)) {
        text_add(p->out, "%s %s", op_info[let->op].name, dim_name(cx, loop_index(let)));
    } else if (let_writes(let)) {
        p->store = let;
        p->place = p->stores = 0;
        fn_each_let((Fn *)p->fn, count_store, p); /* which changes nothing */
        text_add(p->out, "store %s", let->args[0]->name);
        if (p->stores > 1) {
            text_add(p->out, "#%d", p->place);
        }
    } else {
        text_add(p->out, "let %s", name_of(cx, let));
    }
}

static void
print_marks(void *arg, Let *let)
{
    Print *p = arg;
    bool named = false;
    for (int k = 0; k < MARK_COUNT && marks_of(let->op); k++) {
        if (p->marks & mark_at(k) && let_has(let, mark_at(k))) {
            if (!named) {
                print_name(p, let);
                named = true;
            }
            text_add(p->out, " %s", mark_info[k].name);
            if (mark_info[k].has_value) {
                text_add(p->out, "=%lld", (long long)let_mark_value(let, mark_at(k)));
            }
        }
    }
    if (named) {
        text_add(p->out, "\n");
    }
}

void
written_print(const Fn *loops, Target target, Text *out)
{
    Print p = {out, loops, marks_for(target), NULL, 0, 0};
    if (target != TARGETS) {
        text_add(out, "target %s\n", target_info[target].name);
    }
    fn_each_let((Fn *)loops, print_marks, &p); /* which changes nothing */
}
