/* The verifier: the language as a list of rules.  Every rule has a text under tests/ir/invalid
 * that breaks it.  "Provably" is by dim_lt and dim_le: for all values that the declared ranges
 * allow.
 *
 *   V01  A name is a word, neither inf nor nan, and binds one thing in the function: a value, a
 *        size or a loop index.  Only loops outside each other may share the name of their index.
 *   V02  A name is used after the let that binds it, in that let's block or in a body within it.
 *   V03  Sizes and loop indices in types, strides and attributes are declared and in scope.
 *   V04  An op stands where its stage has it.  graph: outside kernels, which there are not.
 *        kernels and loops: outside kernels stand kernels, views, sizes, cats, calls, loops and
 *        branches alone, inside none of kernels, calls, branches and, but for V47, loops; inside a
 *        kernel of the loops stage are loops over scalars: MAP, const, size, for, reduce, if, else,
 *        bind, load, store, update, buffer.
 *   V05  An op has its number of operands and results.  A kernel's body returns a value for each
 *        result, in the loops stage none.
 *   V06  An op has the attributes of its schema, with values that mean something: wrap is a row
 *        of check.def, effect, shares and laid are 0 or 1, a target is not empty, a loop may carry
 *        its marks (marks.def), a step is not 0.
 *   V07  The operands have types, and axes, that the op takes.
 *   V08  The type of a binder is the one that follows from the operands.
 *   V09  The operand of const and the fill of pad are constants; the source of a load, the target
 *        of a store, the operand of bind, and what a function, a kernel or a reduction returns,
 *        are names.
 *   V10  A slice and an as_strided stay, provably, within their operand.
 *   V11  Only call and loop bind sizes, and bind, which binds one.
 *   V12  A result into a parameter or a view of one names a parameter of the same dtype, into also
 *        of the same type and no other result's; a view of a result names an earlier one, which
 *        is no such view itself and goes into no parameter.  A view of a parameter or a result is
 *        that, or views of it or of what it is a view of, with strides, unless it has no elements.
 *   V13  for returns and binds nothing.  reduce returns one scalar; its op is a reduction; it
 *        binds what that makes of the scalar's dtype.
 *   V14  In loops all values are scalars, but buffers.
 *   V15  A load reads an operand of the kernel, a buffer or one of the kernel's results; a store
 *        or update writes a buffer or one of the kernel's results, with a value of its dtype.
 *   V16  A load, a store and an update have an index for each axis, each provably within the axis,
 *        unless a loop around it has no iterations.
 *   V17  Every result of a kernel is the target of a store, or over another value: of one store at
 *        least whichever branches are chosen.
 *   V18  parallel marks only loops that stand in the kernel's own block or, with no loop, store,
 *        update or buffer beside them, in the body of a loop so marked, and none with an update in
 *        its own block, with an index in its extent or that leaves something for other iterations
 *        (V42).
 *   V19  tile marks only a for without vector whose body has one loop, a for marked vector without
 *        loops inside and as long in each iteration, and no store or buffer beside it, and leaves
 *        nothing for other iterations.
 *   V20  recurrences is 8, and marks only a for without vector whose body has one loop, a for as
 *        long in each iteration, without loops inside and without marks but width and distribute.
 *        Each buffer in its body has one element, of a dtype that is computed in.  A constant is
 *        stored to it, once, before the loop inside.  That loads it once, for one operation of a
 *        scan, as the first operand, and stores what that makes, once.  Beside the loop nothing
 *        else is stored, and nothing loaded that the loop stores.  The loop has no other buffers
 *        but those of the kernel's own block, and loads nothing else that it stores.  scan stands
 *        beside it where the loop loads one element besides, stores one, and has that operation and
 *        casts alone.
 *   V21  A result over another value is a kernel's or, after the graph stage, a loop's or
 *        branch's, the only one over that, and has its type and strides.  The other value is a
 *        parameter or such a result; nothing reads it later, and no call whose results may share
 *        its memory takes it.  In the kernel its elements end where they were, and a scatter
 *        stores none before it is read; in loops each is read before it is stored.  A loop or
 *        branch takes it once, and each body leaves the result in the memory of the parameter for
 *        it.
 *   V22  fused marks alone, and only a sum whose body returns a product of two numbers of a dtype
 *        that is computed in, in no vector loop and in no reduction.
 *   V23  pack marks alone, and only a for whose body is one for without marks, or two of them, one
 *        in the other.  The body inside is a load, perhaps its cast, and the store of that to an
 *        element [.., outermost index + .., innermost index] of a buffer whose last axis is a row
 *        of a panel, of as many columns as sums are in 128 bytes.  Panels of u8 and i8 hold the
 *        bytes themselves, others what sums are computed in.
 *   V24  micro marks alone, and only a for of at most 14 iterations.  Its body is one for without
 *        marks, over columns, or one over panels with that one alone inside.  Its
 *        body is a sum marked fused, perhaps a load and the addition of the sum to it, and the
 *        store.  Load and store are at the same element of a buffer of two axes, whose rows are
 *        whole panels: [row + .., panel * width + column].  The first factor is a load or its cast,
 *        in which columns and panels do not occur, the second one in which the row does not: of an
 *        element [.., sum + .., column] of panels of the first one's dtype (V23), or of anything of
 *        that dtype if there is no loop over panels.  In that case both may be elements that go
 *        along the columns evenly.
 *   V25  phase marks only an if in the kernel's own block, or in an if or else there, with an else.
 *        Each of the two has one for, or again such an if and its else.  All these loops are copies
 *        of one: the same operations in the same order, on the same values, constants and memory,
 *        and those marked parallel have the same extent and are marked vector, tile and recurrences
 *        alike.
 *   V26  A buffer has as many places as elements: its strides, where it has any, are those of its
 *        axes in some order, each the product of the sizes before it.
 *   V27  onehot marks only a sum marked lanes whose body loads and computes, and returns where(i ==
 *        at, v, 0): i is its own index, at is made outside of it, and the zero is positive.
 *   V28  A layout is promised where its maker can keep it.  Strides of what a kernel or a cat makes
 *        put, provably, no two elements in one place, whatever sizes it has elements for, unless
 *        all elements are one number.  A view outside of kernels has the strides that its operand
 *        gives it: there are such, and if it promises any, it promises these.  Inside of kernels,
 *        where a value has no memory, only a buffer promises strides.
 *   V29  given marks a parameter alone, which the call frees: no result goes into it, is a view of
 *        it or takes its memory.
 *   V30  A loop has one body and a branch two: functions of the same stage that keep these rules,
 *        whose parameters are the operands (of a loop first the number of the step, and not the
 *        bool), all dense, and whose results are fresh and dense: as many as the let has, of a
 *        loop with while=1 the bool before them.  A value in the memory of a parameter is, in the
 *        end, the next value of what a loop carries there, or a result of a branch.  The results of
 *        the let promise no strides.
 *        Operands are names.  A loop has a number of steps, or while=1, or both; with while=1 it
 *        reads no rows, and binds one size, which its body has not, if it returns rows.
 *   V31  A carried value has one type: as operand, as parameter and as result of the body.  A
 *        tensor of rows has an axis of `steps` in front of the parameter's, or of the size that the
 *        loop binds.  What says whether a
 *        loop goes on is one bool, the number of the step one i64.
 *   V32  What a branch asks is one bool, and both bodies take and return the same types.
 *   V33  nontemporal marks only a store to a result or a buffer of the kernel, over no parameter,
 *        of elements of 4 or 8 bytes that are adjacent along the `for` in whose body it stands, and
 *        that body has no other access to it.  In a for marked grid, the elements of a row follow
 *        those of the row before.  footprint stands beside nontemporal.  streams marks only a for
 *        marked vector whose body computes, binds, loads and stores, nontemporally too.
 *   V34  prefetch and prefetch_rows mark only an access to something that is not private to a loop,
 *        and not both one access.  Elements of an access marked prefetch are 1 to 4 elements from
 *        each other along its loop, or along the loop marked vector around that.
 *        prefetch_rows marks one in a loop with a loop around it.  beyond stands beside one of
 *        them, and so does prefetch_call, in a reduce marked lanes.  alone stands there too, or
 *        beside streams, and in a for marked jam.
 *   V35  jam of a for is 2, and marks only one without vector, tile and recurrences whose body has
 *        two loops or more, computes, loads, stores and has buffers, and leaves nothing for other
 *        iterations (V42).  jam_elements and jam_row stand beside it.  joint marks a reduce in it
 *        that is marked lanes, not onehot, loads and computes, has an extent without indices, and
 *        an op that returns no index.  Or jam marks a for marked recurrences, is at most that
 *        number, and stands alone: the body of the loop, and the loop in it, compute, load and
 *        store.
 *   V36  flat is a multiple of 16, at most 1024, and marks only a for without vector, tile and
 *        recurrences whose body has one loop, and computes, binds and loads.  That loop is a for
 *        marked vector of a known number of iterations, at most flat_row, whose body computes,
 *        loads and stores.  Its stores go on without a gap from one iteration of the outer loop to
 *        the next.  It leaves nothing for other iterations.  The outer loop is not parallel in a
 *        parallel loop.
 *   V37  width is a multiple of 16, at most 4096, and marks only a for marked vector, or one in a
 *        loop marked recurrences.  So many elements of what a reduction in it returns have at most
 *        4096 bytes.
 *   V38  grid is a multiple of 16, at most 1024, and marks only a for without vector, tile and
 *        recurrences whose body has loops, computes, binds, loads, stores and has buffers, and
 *        leaves nothing for other iterations.  These loops are marked vector or lanes and not
 *        parallel, and their bodies compute, bind, load and store: of buffers of a loop only
 *        element index of one of that body, which has an element for each iteration.  They may have
 *        more than one, and have at most grid_row iterations, which is at most grid.  Where
 *        grid_called stands, a reduce marked primitive, of a product or a load of f32, or a sum of
 *        a load or of a square of a difference of bf16 or f64, has at most so many and 1024
 *        instead.
 *        A for may have more if there is neither a bind nor a buffer beside it.  A reduce returns
 *        what its body makes: it is a sum computed in f32 or f64, or an amax or amin in f32.
 *   V39  jam of a reduce is at most 16, and marks only one in a for marked vector whose body
 *        computes and loads, and whose op returns no index.  strip is a multiple of 16 and stands
 *        beside it, or on a for marked vector without loops inside that has a load marked prefetch.
 *        simdlen, which divides it, stands beside that.
 *   V40  transpose marks only a load in a for of width at most 128 in one marked tile.  Its
 *        elements are adjacent along the latter and evenly spaced along the former, at places that
 *        none of their binds gives, and neither stores to its tensor.
 *   V41  parts is at most 8 and marks only a reduce marked lanes whose body computes and loads; if
 *        the op returns an index, it is 2, and the body one load of adjacent elements, which it
 *        returns.  places stands beside it on such a one of f32, of fewer than 2**31 elements.
 *        near marks only a loop of the kernel's own block, in which no tensor is both loaded and
 *        stored, or updated.  rolled marks only a for marked vector without loops inside.
 *        prefetch_tile or prefetch_pack marks only a for marked micro, prefetch_tile also a store
 *        that follows such a one.
 *   V42  vector marks only a for that no loop marked vector or lanes is around, without tile and
 *        recurrences, that leaves nothing for its other iterations.  No loop in it, however deep,
 *        has its index in the extent, or is marked vector, tile, recurrences, lanes, pack or micro.
 *        A loop leaves nothing for other iterations if these provably load or update other
 *        elements, of what is from outside of it, than an iteration stores or updates, however
 *        deep.  Updates alone may be of the same one, in a loop without loops inside.
 *   V43  distribute is at most 1024, and marks only a for without loops inside whose body computes,
 *        loads and stores, and which is marked vector, without streams and not in a loop marked
 *        tile, or is the loop in one marked recurrences.  No access in it is marked prefetch.
 *        stage marks only operations of such a loop, and is at most twice the number of its lets.
 *        None is in an earlier stage than its operands, and one is not in the first.  In
 *        recurrences what continues the iteration before is in even stages and later than its
 *        operands, all else in odd ones; across marks only the former, and distribute is 128, as
 *        routines for one stage have arrays of one size.  Each stage makes loads again, and all
 *        stores are in the last: what uses a load there first has no store before it that may
 *        overwrite the element.
 *   V44  fill marks only a reduce marked lanes, without onehot and in no loop marked vector, whose
 *        body computes, loads and stores: each tensor once, at another element in each iteration,
 *        and none that it loads.  hidden stands beside it.  masked marks only a load of such a
 *        reduce, of elements of at most 8 bytes that are adjacent along it.
 *   V45  uniform marks only an operation, a load, a size or a bind at any depth in a loop marked
 *        vector that has loops inside.  No index in it is that of the vector loop, and what it uses
 *        is a constant, made outside of that loop, or marked uniform too and, with no loop in
 *        between, in the same block.  The loop does not write to the memory of what is loaded.
 *        Or it marks a load in a vector loop in a for marked grid that goes by an even step through
 *        elements of a tensor that the grid does not write to, at no index of the rows, nor one
 *        bound in them, nor, if that is marked parallel, of any loop around.
 *   V46  An if stands in a kernel's own block, in that of another choice, or in a loop whose
 *        iterations run one by one, as those of all loops around it: its marks are parallel, split,
 *        reorder, steps, those of a plain nest and flags of the C compiler.  An else stands right
 *        behind an if.  The condition compares sizes and indices of the loops around: it has no
 *        index of a bind.
 *        Their bodies return nothing and, in a loop, declare no buffer but one marked registers.
 *   V47  A loop stands in a kernel of the kernels stage alone, and the kernel returns its results
 *        in their order.  It has a number of steps and no bool, its results are over nothing, and
 *        its body has kernels and sizes alone, which promise no strides.
 *   V48  steps stands alone, on a for that stands in the kernel's own block or in that of a loop so
 *        marked.
 *   V49  merged marks only a size or an operation in a loop that one operation of the same block
 *        uses, with nothing in between that writes, binds or has a body, or that the reduce around
 *        returns right behind it; nothing else uses it.
 *   V50  merged marks only a load to whose memory nothing in its block stores before what it has
 *        read is used for the last time, nor a loop that uses it, and a store in a loop of what an
 *        operation of its block computes in the dtype of its tensor.  Between the two nothing
 *        accesses that memory
 *        but stores to a result of the kernel or to other elements.  Such a store is as early as
 *        the operation.
 *   V51  widened marks only a load of bf16 in a reduce marked lanes, along which its elements are
 *        adjacent, or one of i8 or u8 in a for marked vector of 32 iterations, along which they
 *        are.  What its index says is not bound in that loop.
 *   V52  primitive marks only a reduce without onehot that is marked lanes or stands in a for
 *        marked vector, perhaps in other loops there, whose op returns no index, and whose
 *        body loads, binds and computes; or a load or store of elements of four bytes that goes by
 *        2, 3 or 4 elements along a loop around it.
 *   V53  array marks, of so many elements: in a for of that width marked vector with loops inside,
 *        all buffers, results of reductions, and values and indices that are used where a loop
 *        stands in between, or none of them; all operations of a loop marked distribute of that
 *        many whose values a later stage uses, and of recurrences those that continue the iteration
 *        before; in the vector loop of one marked flat, of the elements of a block, all loads of
 *        what does not go through the rows without a gap, and sizes that differ; of what is used
 *        there of the rows' own lets all, of flat_row more; 9216 of a load marked transpose; 1040
 *        of a reduce marked lanes whose op returns an index; and a
 *        nontemporal store in a for, of the width of one in a loop marked tile, of all elements of
 *        a block of the loop marked flat around it, of 1024 in one marked strip, else of 16.
 *   V54  registers marks only a dense buffer in a for without vector, without array, of a known
 *        number of elements, at least 1 and at most those of a row of a panel.
 *   V55  split and reorder mark only a for without other marks, which has at most 32 loops around.
 *        reorder marks one whose body is a for alone that is not marked reorder, has no marks but
 *        split, and has the same extent in each iteration.  No two accesses of the same memory, of
 *        which one writes, may be in iterations that change their order with the two loops.
 *   V56  pipelined marks only a loop that has none in its body, however deep.
 *   V57  batch, rows and columns mark the loops of a plain nest: each a for with one of them,
 *        alone in the one around it, those marked batch outside, one marked rows and in it one
 *        marked columns inside.  That one begins no other loop but a sum marked fused, and it alone
 *        stores.  The factors are loads or their casts: the first one does not go along the columns
 *        inside, the second not along the rows inside; or both go along these columns.  They are
 *        all that the sum is of.  In the loops over rows and columns nothing is bound that they are
 *        read at.  No loop's extent uses what is bound there, or the index of another of them, but
 *        the sum's, which does not use the two inside.  Of memory that is stored to, nothing is
 *        read but the element itself, beside the store.  Instead of the sum there may be places of
 *        it: a buffer of one element that is -0.0 first, then loops and conditions, one in the
 *        other, whose innermost body adds a sum to it, then one load of it.  A condition compares
 *        the row inside with what depends neither on it nor on the columns inside.  Or the
 *        innermost body has a sum, one load of the buffer, elements and loads of other memory, and
 *        the store of what is computed of these to the buffer, which is a constant first; then
 *        there are no conditions, and all sums have as many terms.
 *   V58  terms marks only a reduce without fused and onehot, whose op returns no index, and in
 *        whose body no loops, choices and binds stand.
 *   V59  Only a loop that is a kernel binds the number of its step, as a size 0..inf of its body.
 *        No type has it. */
#include "verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- messages ---- */

enum { LETS_BEFORE = 5, LETS_AFTER = 4 };

/* The lets around the one at fault, of bodies only the head, with an arrow. */
static void
show_lets(const Let *let, Text *out)
{
    const Block *blk = let->parent;
    int at = 0;
    while (at < blk->n && blk->lets[at] != let) {
        at++;
    }
    int from = at > LETS_BEFORE ? at - LETS_BEFORE : 0;
    for (int k = from; k < blk->n && k <= at + LETS_AFTER; k++) {
        Text line = {.cx = out->cx};
        print_let(blk->lets[k], 0, &line);
        text_add(out, "\n%s", k == at ? "  > " : "    ");
        text_put(out, line.text, strcspn(line.text, "\n"));
    }
}

void
verify_broken(Verifier *v, int rule, const char *format, ...)
{
    char message[400];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    Text out = {.cx = v->cx};
    if (v->let) {
        cx_set_loc(v->cx, v->let->loc);
        show_lets(v->let, &out);
    }
    fail(v->cx, DIAG_VERIFY, rule, v->let ? op_info[v->let->op].name : "", v->let ? ": " : "",
         message, v->fn->name, out.text ? out.text : "");
}

/* ---- V04: places ---- */

static bool
stands_right(const Verifier *v, const Let *let)
{
    const OpInfo *info = &op_info[let->op];
    if (let->op == OP_loop && v->kernel && v->fn->stage == STAGE_KERNELS) {
        return true; /* alone, V47 */
    }
    if (v->fn->stage == STAGE_GRAPH) {
        return strchr(info->stages, 'G') != NULL;
    }
    if (!v->kernel) {
        return strchr(info->stages, 'T') != NULL;
    }
    return strchr(info->stages, v->fn->stage == STAGE_KERNELS ? 'K' : 'L') != NULL;
}

static void
check_place(Verifier *v, const Let *let)
{
    if (!stands_right(v, let)) {
        verify_broken(v, 4, "this does not stand %s a kernel in the %s stage",
                      v->kernel ? "inside" : "outside", stage_name(v->fn->stage));
    }
}

/* ---- V05, V06: the form of a let ---- */

static void
check_count(Verifier *v, const Let *let)
{
    const OpInfo *info = &op_info[let->op];
    if (info->arity >= 0 && let->nargs != info->arity) {
        verify_broken(v, 5, "the op has %d operands, not %d", info->arity, let->nargs);
    }
    static const char *const counts[] = {"results", "no result", "one result"};
    bool body = info->flags & OPF_BODY, empty = body && let->nres == 0;
    if (info->results < 0 ? empty : let->nres != info->results) {
        verify_broken(v, 5, "the op has %s, not %d", counts[info->results + 1], let->nres);
    }
    if (body != (let->body != NULL)) {
        verify_broken(v, 5, body ? "the op has a body" : "the op has no body");
    }
    int nrets = v->fn->stage == STAGE_LOOPS ? 0 : let->nres;
    if (let->op == OP_kernel && let->body->nrets != nrets) {
        verify_broken(v, 5, "the body returns %d values, not %d", nrets, let->body->nrets);
    }
}

static void
check_attr(Verifier *v, const Attr *a)
{
    const char *key = a->key;
    bool yes = strcmp(key, "effect") == 0 || strcmp(key, "shares") == 0 || strcmp(key, "laid") == 0;
    if (yes && a->i != 0 && a->i != 1) {
        verify_broken(v, 6, "%s must be 0 or 1", key);
    }
    if (strcmp(key, "wrap") == 0 && (a->i < INDEX_FROM_START || a->i >= INDEX_KINDS)) {
        verify_broken(v, 6, "wrap must be 0 to %d", INDEX_KINDS - 1);
    }
    if (strcmp(key, "target") == 0 && a->s[0] == '\0') {
        verify_broken(v, 6, "the target is empty");
    }
    for (int k = 0; a->kind == ATTR_MARKS && k < MARK_COUNT; k++) {
        if (a->i & ~marks_of(v->let->op) & mark_at(k)) {
            verify_broken(v, 6, "'%s' is not a mark of '%s'", mark_info[k].name,
                          op_info[v->let->op].name);
        }
        if (attr_mark_value(a, k) > INT32_MAX) {
            verify_broken(v, 6, "the value of '%s' is too large", mark_info[k].name);
        }
        if (a->i >> k & 1 && (attr_mark_value(a, k) > 0) != mark_info[k].has_value) {
            verify_broken(v, 6, "'%s' %s", mark_info[k].name,
                          mark_info[k].has_value ? "needs a value above 0" : "has no value");
        }
    }
    if (strcmp(key, "step") == 0 && dim_is(v->cx, a->d, 0)) {
        verify_broken(v, 6, "the step is 0");
    }
    verify_dims(v, a->kind == ATTR_DIM, &a->d);
    verify_dims(v, a->kind == ATTR_DIMS ? a->n : 0, a->dims);
}

/* The keys and kinds are those of the schema, in its order.  In loops some lets may have marks
 * too. */
static void
check_attrs(Verifier *v, const Let *let)
{
    static const char *const kinds[] = {"",    "int",  "dim",     "axes", "dims",
                                        "str", "name", "letters", "marks"};
    const char *schema = op_info[let->op].attrs;
    Text have = {.cx = v->cx};
    bool loops = v->fn->stage == STAGE_LOOPS && !strstr(schema, "marks");
    for (int k = 0; k < let->nattrs; k++) {
        if (!(loops && let->attrs[k].kind == ATTR_MARKS && marks_of(let->op))) {
            text_add(&have, "%s%s:%s", k ? " " : "", let->attrs[k].key, kinds[let->attrs[k].kind]);
        }
    }
    if (strcmp(have.length ? have.text : "", schema) != 0) {
        verify_broken(v, 6, "the attributes are '%s', not '%s'", have.length ? have.text : "",
                      schema);
    }
    for (int k = 0; k < let->nattrs; k++) {
        check_attr(v, &let->attrs[k]);
    }
}

/* ---- V07, V08, V09: operands and types ---- */

static void
check_constants(Verifier *v, const Let *let)
{
    for (int k = 0; k < let->nargs; k++) {
        char reads = op_reads(let->op, k);
        bool constant = value_is_const(let->args[k]);
        if (reads == 'c' && !constant) {
            verify_broken(v, 9, "operand %d must be a constant", k);
        }
        if (reads == 'n' && constant) {
            verify_broken(v, 9, "operand %d must be a name", k);
        }
    }
    for (int k = 0; let->body && k < let->body->nrets; k++) {
        if (value_is_const(let->body->rets[k])) {
            verify_broken(v, 9, "the body returns a constant");
        }
    }
}

static void
check_types(Verifier *v, const Let *let)
{
    for (int k = 0; k < let->nres; k++) {
        const char *why = "";
        const Type *want = let_type(v->cx, let, k, &why);
        if (!want) {
            verify_broken(v, 7, "%s", why);
        }
        if (want != let->res[k]->type) {
            Text text = {.cx = v->cx};
            type_text(v->cx, want, &text);
            verify_broken(v, 8, "'%s' must be %s", let->res[k]->name, text.text);
        }
    }
}

/* ---- V10: views stay inside ---- */

static void
check_slice(Verifier *v, const Let *let)
{
    Cx *cx = v->cx;
    int64_t axis = let_int(let, "axis");
    Dim zero = dim_int(cx, 0), one = dim_int(cx, 1), start = let_dim(let, "start");
    Dim step = let_dim(let, "step"), size = let->args[0]->type->dims[axis];
    Dim steps = dim_sub(cx, let->res[0]->type->dims[axis], one);
    Dim last = dim_add(cx, start, dim_mul(cx, steps, step));
    bool up = dim_le(cx, zero, step) && dim_le(cx, zero, start) && dim_lt(cx, last, size);
    bool down = dim_le(cx, step, zero) && dim_lt(cx, start, size) && dim_le(cx, zero, last);
    if (!up && !down) {
        verify_broken(v, 10, "this is not known to stay within axis %lld of '%s'", (long long)axis,
                      let->args[0]->name);
    }
}

static void
check_as_strided(Verifier *v, const Let *let)
{
    const Type *t = let->res[0]->type;
    if (!stride_is_inside(v->cx, type_numel(v->cx, let->args[0]->type), t->rank, t->dims,
                          let_attr(let, "strides")->dims, let_dim(let, "offset"))) {
        verify_broken(v, 10, "this is not known to stay within '%s'", let->args[0]->name);
    }
}

/* ---- lets and blocks ---- */

static void
check_sizes(Verifier *v, const Let *let)
{
    bool bind = let->op == OP_bind, binds = let->op == OP_call || let->op == OP_loop;
    if (bind ? let->nsizes != 1 : let->nsizes && !binds) {
        verify_broken(v, 11,
                      bind ? "bind binds one index, not %d" : "this op binds no sizes, not %d",
                      let->nsizes);
    }
    for (int k = 0; k < let->nsizes && !bind; k++) {
        verify_size(v, let->sizes[k]);
    }
}

static void
bind_results(Verifier *v, const Let *let)
{
    for (int k = 0; k < let->nres; k++) {
        const Value *over = let->res[k]->over;
        bool may = let->op == OP_kernel || (let_is_flow(let) && v->fn->stage != STAGE_GRAPH);
        if (over && (!may || value_is_const(over))) {
            verify_broken(v, 21,
                          "only what a kernel, loop or branch makes takes the memory of "
                          "another value");
        }
        verify_uses(v, over != NULL, (Value *const *)&over);
        verify_bind(v, let->res[k]);
    }
}

static void
check_kernel(Verifier *v, const Let *let)
{
    v->kernel = let;
    if (v->fn->stage == STAGE_LOOPS) {
        bind_results(v, let);   /* its stores name them */
        verify_loops_kernel(v, let);
    } else {
        verify_block(v, let->body);
        bind_results(v, let);
        v->let = let;
        verify_loop_in_kernel(v, let);
    }
    v->kernel = NULL;
    v->let = let;
    check_types(v, let);
}

static void
check_let(Verifier *v, const Let *let)
{
    v->let = let;
    check_place(v, let);
    check_count(v, let);
    check_attrs(v, let);
    verify_uses(v, let->nargs, let->args);
    check_constants(v, let);
    check_sizes(v, let);
    if (let->op == OP_kernel) {
        check_kernel(v, let);
        return;
    }
    if (let_is_flow(let)) {
        verify_flow_form(v, let);
    }
    check_types(v, let);
    if (let_is_flow(let)) {
        verify_flow_types(v, let);
    }
    if (let->op == OP_slice) {
        check_slice(v, let);
    } else if (let->op == OP_as_strided) {
        check_as_strided(v, let);
    }
    if (v->kernel && v->fn->stage == STAGE_LOOPS) {
        verify_loop_let(v, let);
    }
    bind_results(v, let);
}

static void
leave_scope(Verifier *v, const Let *let)
{
    for (int k = 0; k < let->nres; k++) {
        v->scope[let->res[k]->id] = NULL;
    }
}

void
verify_block(Verifier *v, const Block *blk)
{
    int nsizes = v->nsizes;
    for (int k = 0; k < blk->n; k++) {
        check_let(v, blk->lets[k]);
    }
    v->let = blk->owner;
    verify_uses(v, blk->nrets, blk->rets);
    for (int k = 0; k < blk->n && blk->owner; k++) {
        leave_scope(v, blk->lets[k]);
    }
    v->nsizes = blk->owner ? nsizes : v->nsizes;
}

void
verify_fn(const Fn *fn)
{
    Verifier v = {.fn = fn, .cx = fn->cx};
    v.scope = cx_alloc(fn->cx, (size_t)fn->nvalues * sizeof *v.scope);
    v.stored = cx_alloc(fn->cx, (size_t)fn->nvalues * sizeof *v.stored);
    for (int k = 0; k < fn->nsizes; k++) {
        verify_size(&v, fn->sizes[k]);
    }
    for (int k = 0; k < fn->nparams; k++) {
        verify_bind(&v, fn->params[k]);
    }
    verify_block(&v, fn->body);
    verify_program(&v);
}
