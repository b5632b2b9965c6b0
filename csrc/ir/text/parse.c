/* The parser: text to functions, the exact inverse of print.c.
 *
 * Grammar.  {x} is any number of x, [x] none or one, 'x' the characters x.  A list(x) is x {',' x}
 * or nothing.  Blanks and line ends separate tokens and mean nothing else; # begins a comment that
 * ends with its line.
 *
 *   program   'dlc' '1' stage 'fn' name [sizes] '(' list(binder) ')' '->' '(' list(result) ')'
 *             block
 *   stage     'graph' | 'kernels' | 'loops'
 *   sizes     '[' list(size) ']'
 *   size      name ['in' end '..' end] ['%' integer]       the divisor; without `in`: 0..inf
 *   end       integer | 'inf' | '-' 'inf'
 *   binder    name ':' type [strides] ['over' name] ['given']
 *                                        over: of a let; given: of a parameter
 *   result    type [strides] ['into' name | 'view' 'of' name | 'view' 'of' 'result' integer]
 *   type      dtype [dims]                                  f32 and f32[] are the same scalar type
 *   strides   'strides' '=' dims                            in elements; without: dense row-major
 *   block     '{' {let} ['ret' list(operand)] '}'
 *   let       ['let' [sizes] list(binder) '='] right [place]
 *   right     'for' name 'in' dim {mark} block
 *           | 'for' name 'in' dim {',' name 'in' dim} ':' element ['+'] '=' element ['*' element]
 *             {mark}                           loops in one line: a copy, or a sum of products
 *           | 'reduce' op name 'in' dim {mark} block
 *           | 'if' dim '<=' dim block ['else' block]
 *           | 'load' operand dims {mark}
 *           | 'store' operand dims '=' operand {mark}
 *           | op list(operand) {key '=' value} {mark} [block | body ['else' body]]
 *                                        the block of a kernel, the body of loop, both of branch
 *   element   name dims
 *   mark      word ['=' integer]                            a row of marks.def
 *   body      '(' list(binder) ')' block
 *   value     dim | dims | axes | string | integer | name   as the op's row of ops.def says
 *   operand   name | number
 *   number    ['-'] (integer | float | 'inf') | 'nan'       a float has a '.' or an exponent
 *   dims      '[' list(dim) ']'
 *   axes      '[' list(integer) ']'
 *   dim       product {('+' | '-') product}
 *   product   factor {('*' | '//' | '%') factor}
 *   factor    integer | name | '-' factor | '(' dim ')' | ('max' | 'min') '(' dim ',' dim ')'
 *            | 'scale' '(' dim ',' float ')'
 *   place     '@' (name | string) [string]                  the FX node, the user's source line
 *   string    '"' characters '"'                            escapes: \" \\ \n \t \xHH
 *
 * After the first key of an op, keys whose value is 0, "" or [] may be left out.  inf and nan are
 * no names.
 *
 * A name may be used before the let that binds it: that is for the verifier to judge, as everything
 * is that a well-formed tree of lets can get wrong.  A name that nothing binds is an error here. */
#include "parse.h"

#include <string.h>

static Dim
declare_size(Parser *p, const Size *s)
{
    Dim d = dim_size(p->cx, s->name);
    dim_declare(p->cx, d, s->range, s->divisor);
    return d;
}

/* ---- attributes ---- */

/* Fills let->attrs with the keys and kinds of the op's schema, "key:kind key:kind". */
static void
open_attrs(Parser *p, Let *let)
{
    static const char *const kinds[] = {"",    "int",  "dim",     "axes", "dims",
                                        "str", "name", "letters", "marks"};
    for (const char *s = op_info[let->op].attrs; *s; s += *s == ' ') {
        size_t key = strcspn(s, ":"), kind = strcspn(s + key + 1, " ");
        let->attrs = cx_grow(p->cx, let->attrs, let->nattrs, sizeof(Attr));
        Attr *a = &let->attrs[let->nattrs++];
        *a = (Attr){.key = cx_intern(p->cx, s, key),
                    .s = "",
                    .axes = cx_alloc(p->cx, sizeof(int)),
                    .dims = cx_alloc(p->cx, sizeof(Dim))};
        for (int k = ATTR_INT; k <= ATTR_MARKS; k++) {
            if (strlen(kinds[k]) == kind && memcmp(kinds[k], s + key + 1, kind) == 0) {
                a->kind = (AttrKind)k;
            }
        }
        s += key + 1 + kind;
    }
}

static Attr *
find_attr(Let *let, const char *key)
{
    for (int k = 0; k < let->nattrs; k++) {
        if (strcmp(let->attrs[k].key, key) == 0) {
            return &let->attrs[k];
        }
    }
    return NULL;
}

/* A mistake is shown where it is, if the characters of the string are those that it stands for. */
static const Contraction *
parse_letters(Parser *p)
{
    const Token token = p->lex.token;
    const char *text = lex_string(&p->lex), *why, *at;
    const Contraction *letters = contraction_read(p->cx, text, &why, &at);
    if (!letters) {
        bool same = !memchr(token.at, '\\', token.length);
        lex_fail(&p->lex, token.at + (same ? 1 + (at - text) : 0), "%s", why);
    }
    return letters;
}

static void
parse_value(Parser *p, Attr *a)
{
    switch (a->kind) {
    case ATTR_INT:
        a->i = lex_int(&p->lex);
        break;
    case ATTR_DIM:
        a->d = parse_dim(p);
        break;
    case ATTR_AXES:
        a->axes = parse_axes(p, &a->n);
        break;
    case ATTR_DIMS:
        a->dims = parse_dims(p, &a->n);
        break;
    case ATTR_STR:
        a->s = lex_string(&p->lex);
        break;
    case ATTR_LETTERS:
        a->letters = parse_letters(p);
        break;
    case ATTR_NAME:
    case ATTR_MARKS:            /* of loops, which have a form of their own */
    case ATTR_NONE:
        a->s = lex_word(&p->lex, "a name");
        break;
    }
}

static _Noreturn void
fail_key(Parser *p, Let *let)
{
    Nearest near = nearest_to(&p->lex.token);
    for (int k = 0; k < let->nattrs; k++) {
        nearest_offer(&near, let->attrs[k].key);
    }
    const char *schema = op_info[let->op].attrs;
    lex_fail(&p->lex, p->lex.token.at, "'%s' has no attribute '%.*s'%s%s%s%s",
             op_info[let->op].name, (int)p->lex.token.length, p->lex.token.at,
             nearest_text(p->cx, &near), schema[0] ? " (it has " : "", schema,
             schema[0] ? ")" : "");
}

/* May the let carry marks? */
static bool
may_be_marked(const Parser *p, const Let *let)
{
    return marks_of(let->op) && p->fn->stage == STAGE_LOOPS;
}

static bool
is_at_mark(const Parser *p)
{
    const Token *word = &p->lex.token;
    return word->kind == TOKEN_WORD && mark_find(cx_intern(p->cx, word->at, word->length));
}

/* {key '=' value}, once each; the first key and those without a default must be there. */
static void
parse_attrs(Parser *p, Let *let)
{
    bool *seen = cx_alloc(p->cx, (size_t)let->nattrs + 1);
    while (lex_is_attr(&p->lex) && !(may_be_marked(p, let) && is_at_mark(p))) {
        Attr *a = find_attr(let, cx_intern(p->cx, p->lex.token.at, p->lex.token.length));
        if (!a) {
            fail_key(p, let);
        }
        if (seen[a - let->attrs]) {
            lex_fail(&p->lex, p->lex.token.at, "'%s' is given twice", a->key);
        }
        seen[a - let->attrs] = true;
        lex_next(&p->lex);
        lex_expect(&p->lex, "=");
        parse_value(p, a);
    }
    for (int k = 0; k < let->nattrs; k++) {
        AttrKind kind = let->attrs[k].kind;
        if (!seen[k] && (k == 0 || (kind != ATTR_INT && kind != ATTR_STR && kind != ATTR_DIMS))) {
            lex_fail_expected(&p->lex, cx_format(p->cx, "%s=, which '%s' needs", let->attrs[k].key,
                                                 op_info[let->op].name));
        }
    }
}

/* ---- lets ---- */

static void parse_block(Parser *p, Block *blk);

void
parse_index(Parser *p, const char *name, Dim dim)
{
    fn_take_name(p->fn, name);
    p->indices = cx_grow(p->cx, p->indices, p->nindices, sizeof *p->indices);
    p->indices[p->nindices++] = (Index){name, dim};
}

static Op
parse_op(Parser *p)
{
    Token word = p->lex.token;
    const char *name = lex_word(&p->lex, "an operation");
    Op op = op_find(name, word.length);
    if (op == OP_COUNT) {
        Nearest near = nearest_to(&word);
        for (int k = 0; k < OP_COUNT; k++) {
            nearest_offer(&near, op_info[k].name);
        }
        lex_fail(&p->lex, word.at, "'%s' is not an operation%s", name, nearest_text(p->cx, &near));
    }
    return op;
}

static void
parse_mark(Parser *p, Let *let)
{
    Token word = p->lex.token;
    const char *name = lex_word(&p->lex, "a mark");
    Marks mark = mark_find(name);
    if (!mark) {
        Nearest near = nearest_to(&word);
        for (int k = 0; k < MARK_COUNT; k++) {
            nearest_offer(&near, mark_info[k].name);
        }
        lex_fail(&p->lex, word.at, "'%s' is not a mark%s", name, nearest_text(p->cx, &near));
    }
    if (let_has(let, mark)) {
        lex_fail(&p->lex, word.at, "'%s' is given twice", name);
    }
    if (lex_take(&p->lex, "=")) {
        let_mark_with(p->cx, let, mark, lex_int(&p->lex));
    } else {
        let_mark(let, mark, true);
    }
}

/* The words after a loop's extent are its marks.  After another let, or loops in one line, the next
 * let may follow, so only words that are marks are. */
static void
parse_marks(Parser *p, Let *let)
{
    bool head = loop_is(let) && !let->body;
    while (p->lex.token.kind == TOKEN_WORD && (head || is_at_mark(p))) {
        parse_mark(p, let);
    }
}

/* for and reduce up to their body; the index is in scope from here to the end of the body. */
static void
parse_loop(Parser *p, Let *let)
{
    if (let->op == OP_reduce) {
        find_attr(let, "op")->s = op_info[parse_op(p)].name;
    }
    Attr *index = find_attr(let, "index"), *extent = find_attr(let, "extent");
    index->s = parse_name(p, "a loop index");
    lex_expect(&p->lex, "in");
    extent->d = parse_dim(p);
    index->d = dim_index(p->cx, index->s, extent->d);
    parse_index(p, index->s, index->d);
}

static void
parse_access(Parser *p, Let *let)
{
    Attr *at = find_attr(let, "at");
    if (let->op == OP_update) {
        find_attr(let, "op")->s = op_info[parse_op(p)].name;
    }
    let->args = cx_alloc(p->cx, 2 * sizeof(Value *));
    let->args[let->nargs++] = parse_operand(p);
    at->dims = parse_dims(p, &at->n);
    if (let_writes(let)) {
        lex_expect(&p->lex, "=");
        let->args[let->nargs++] = parse_operand(p);
    }
}

static void
parse_right(Parser *p, Let *let)
{
    let->op = parse_op(p);
    open_attrs(p, let);
    if (loop_is(let)) {
        parse_loop(p, let);
        if (let->op == OP_for && (lex_is(&p->lex, ",") || lex_is(&p->lex, ":"))) {
            parse_nest(p, let);
        }
    } else if (let->op == OP_if) {
        find_attr(let, "left")->d = parse_dim(p);
        lex_expect(&p->lex, "<=");
        find_attr(let, "right")->d = parse_dim(p);
    } else if (let_accesses(let)) {
        parse_access(p, let);
    } else if (let->op != OP_buffer) {
        if (op_info[let->op].arity != 0 && !lex_is_attr(&p->lex)) {
            let->args = parse_operands(p, &let->nargs);
        }
        parse_attrs(p, let);
    }
    if (may_be_marked(p, let) && is_at_mark(p)) {
        let_take_marks(p->cx, let);
    }
    if (find_attr(let, "marks")) {
        parse_marks(p, let);
    }
}

static Loc
parse_place(Parser *p)
{
    Loc loc = {NULL, NULL};
    if (lex_take(&p->lex, "@")) {
        bool string = p->lex.token.kind == TOKEN_STRING;
        loc.node = string ? lex_string(&p->lex) : lex_word(&p->lex, "the name of a node");
        loc.node = loc.node[0] ? loc.node : NULL;
        loc.source = p->lex.token.kind == TOKEN_STRING ? lex_string(&p->lex) : NULL;
    }
    return loc;
}

/* All lets of loops in one line have its place. */
static void
set_places(Block *blk, Loc loc)
{
    for (int k = 0; k < blk->n; k++) {
        blk->lets[k]->loc = loc;
        if (blk->lets[k]->body) {
            set_places(blk->lets[k]->body, loc);
        }
    }
}

static void
set_sizes(Parser *p, Let *let, const Size *sizes, int n)
{
    let->nsizes = n;
    let->sizes = cx_alloc(p->cx, (size_t)n * sizeof(Dim));
    for (int k = 0; k < n; k++) {
        if (let->op == OP_bind) {
            let->sizes[k] = dim_index(p->cx, sizes[k].name, find_attr(let, "extent")->d);
            parse_index(p, sizes[k].name, let->sizes[k]);
        } else {
            let->sizes[k] = declare_size(p, &sizes[k]);
        }
    }
}

static Binder *
parse_binders(Parser *p, int *n)
{
    Binder *binders = NULL;
    for (*n = 0; parse_another(p, *n, "="); ++*n) {
        binders = cx_grow(p->cx, binders, *n, sizeof *binders);
        binders[*n] = parse_binder(p);
        if (lex_take(&p->lex, "over")) {
            binders[*n].over = parse_operand(p);
        }
    }
    return binders;
}

/* The body of a kernel, a loop, an if or an else.  Dims are simplified by the conditions around. */
static void
parse_own_block(Parser *p, Let *let)
{
    const Block *around = p->block;
    let->body = cx_alloc(p->cx, sizeof *let->body);
    let->body->owner = let;
    if (!let_is_choice(let)) {
        parse_block(p, let->body);
        return;
    }
    if (let->op == OP_else && !(around->n && around->lets[around->n - 1]->op == OP_if)) {
        lex_fail(&p->lex, p->lex.token.at, "else stands right behind the block of an if");
    }
    let_enter(p->cx, let);
    parse_block(p, let->body);
    dim_forget(p->cx);
}

static void parse_params(Parser *p);

/* A body that is a function: it has names of its own. */
static Fn *
parse_body(Parser *p)
{
    Parser outer = *p;
    Fn *fn = fn_new(p->cx, p->fn->name, p->fn->stage);
    p->fn = fn;
    p->names = (Table){0};
    p->indices = NULL;
    p->nindices = p->nmade = 0;
    p->made = NULL;
    for (int k = 0; k < p->nnumbers; k++) {
        parse_index(p, outer.indices[k].name, outer.indices[k].dim);
    }
    parse_params(p);
    parse_block(p, fn->body);
    parse_check_names(p);
    fn_results(fn, fn->body->nrets, fn->body->rets, NULL);
    fn_free_sizes(fn);
    outer.lex = p->lex;
    *p = outer;
    return fn;
}

static void
parse_bodies(Parser *p, Let *let)
{
    Fn *bodies[2];
    int n = 0;
    bodies[n++] = parse_body(p);
    if (let->op == OP_branch) {
        lex_expect(&p->lex, "else");
        bodies[n++] = parse_body(p);
    }
    let_bodies(p->cx, let, n, bodies);
}

static Let *
parse_let(Parser *p)
{
    Let *let = cx_alloc(p->cx, sizeof *let);
    let->parent = p->block;
    int nsizes = 0, nbinders = 0, outer = p->nindices;
    Size *sizes = NULL;
    Binder *binders = NULL;
    if (lex_take(&p->lex, "let")) {
        sizes = parse_sizes(p, &nsizes);
        for (int k = 0; k < nsizes && !lex_is(&p->lex, "="); k++) {
            declare_size(p, &sizes[k]); /* the binders' types may name it */
        }
        binders = parse_binders(p, &nbinders);
    }
    parse_right(p, let);
    set_sizes(p, let, sizes, nsizes);
    let->nres = nbinders;
    let->res = cx_alloc(p->cx, (size_t)nbinders * sizeof(Value *));
    for (int k = 0; k < nbinders; k++) {
        let->res[k] = parse_bind(p, &binders[k], let, k);
    }
    bool line = let->body != NULL;
    if (op_info[let->op].flags & OPF_BODY) {
        if (!line) {
            parse_own_block(p, let);
        }
        p->nindices = outer;
    }
    if (let_is_flow(let)) {
        parse_bodies(p, let);
    }
    let->loc = parse_place(p);
    if (line) {
        set_places(let->body, let->loc);
    }
    return let;
}

static void
parse_block(Parser *p, Block *blk)
{
    Block *outer = p->block;
    int nindices = p->nindices;
    p->block = blk;
    parse_deeper(p);
    lex_expect(&p->lex, "{");
    while (!lex_is(&p->lex, "}") && !lex_is(&p->lex, "ret")) {
        blk->lets = cx_grow(p->cx, blk->lets, blk->n, sizeof(Let *));
        Let *let = parse_let(p);
        blk->lets[blk->n++] = let;
    }
    if (lex_take(&p->lex, "ret")) {
        blk->rets = parse_operands(p, &blk->nrets);
    }
    lex_expect(&p->lex, "}");
    p->depth--;
    p->nindices = nindices;
    p->block = outer;
}

/* ---- functions ---- */

/* A result in the signature; its type is compared with the type that the body returns. */
typedef struct {
    Result result;
    const Type *type;
    const char *at;
} Promise;

static int
parse_param_name(Parser *p)
{
    const char *at = p->lex.token.at, *name = parse_name(p, "a parameter");
    for (int k = 0; k < p->fn->nparams; k++) {
        if (p->fn->params[k]->name == name) {
            return k;
        }
    }
    lex_fail(&p->lex, at, "'%s' is not a parameter", name);
}

static Promise
parse_result(Parser *p)
{
    Promise r = {.at = p->lex.token.at, .type = parse_type(p)};
    r.result.strides = parse_strides(p, r.type);
    if (lex_take(&p->lex, "into")) {
        r.result.kind = RESULT_INTO;
        r.result.of = parse_param_name(p);
    } else if (lex_take(&p->lex, "view")) {
        lex_expect(&p->lex, "of");
        Lexer start = p->lex;
        if (lex_take(&p->lex, "result") && p->lex.token.kind == TOKEN_INT) {
            r.result.kind = RESULT_VIEW_RESULT;
            const char *at = p->lex.token.at;
            int64_t of = lex_int(&p->lex);
            if (of != (int)of) {
                lex_fail(&p->lex, at, "there is no such result");
            }
            r.result.of = (int)of;
        } else {
            p->lex = start;
            r.result.kind = RESULT_VIEW_PARAM;
            r.result.of = parse_param_name(p);
        }
    }
    return r;
}

static void
parse_params(Parser *p)
{
    lex_expect(&p->lex, "(");
    for (int k = 0; parse_another(p, k, ")"); k++) {
        Binder b = parse_binder(p);
        Value *v = fn_param(p->fn, b.name, b.type, b.strides);
        parse_bind_to(p, &b, v);
        v->given = lex_take(&p->lex, "given");
    }
}

static void
set_results(Parser *p, const char *at, const Promise *promises, int n)
{
    Block *body = p->fn->body;
    if (body->nrets != n) {
        lex_fail(&p->lex, at, "the signature has %d results, the function returns %d", n,
                 body->nrets);
    }
    Result *results = cx_alloc(p->cx, (size_t)n * sizeof *results);
    for (int k = 0; k < n; k++) {
        const Type *t = body->rets[k]->type;
        if (t != promises[k].type) {
            Text is = {.cx = p->cx};
            text_add(&is, t ? "" : "a constant");
            if (t) {
                type_text(p->cx, t, &is);
            }
            lex_fail(&p->lex, promises[k].at, "result %d does not have this type: it is %s", k,
                     is.text);
        }
        results[k] = promises[k].result;
    }
    fn_results(p->fn, n, body->rets, results);
}

static Stage
parse_stage(Parser *p)
{
    if (!lex_take(&p->lex, "dlc")) {
        lex_fail_expected(&p->lex, "'dlc 1 graph', the first line of a program");
    }
    if (p->lex.token.kind != TOKEN_INT || p->lex.token.magnitude != 1) {
        lex_fail_expected(&p->lex, "1, the version of the language");
    }
    lex_next(&p->lex);
    for (int k = 0; k < 3; k++) {
        if (lex_take(&p->lex, stage_name((Stage)k))) {
            return (Stage)k;
        }
    }
    lex_fail_expected(&p->lex, "'graph', 'kernels' or 'loops'");
}

/* Skips the types of results, which are read after the body, because calls in the body bind sizes
 * with their ranges. */
static void
skip_results(Parser *p)
{
    lex_expect(&p->lex, "(");
    for (int depth = 1; depth;) {
        if (lex_take(&p->lex, "(")) {
            depth++;
        } else if (lex_take(&p->lex, ")")) {
            depth--;
        } else if (p->lex.token.kind == TOKEN_END) {
            lex_fail_expected(&p->lex, "')'");
        } else {
            lex_next(&p->lex);
        }
    }
}

static void
parse_results(Parser *p)
{
    const char *at = p->lex.token.at;
    Promise *promises = NULL;
    int n = 0;
    lex_expect(&p->lex, "(");
    for (; parse_another(p, n, ")"); n++) {
        promises = cx_grow(p->cx, promises, n, sizeof *promises);
        promises[n] = parse_result(p);
    }
    parse_check_names(p);
    set_results(p, at, promises, n);
}

/* What a size may be, in words. */
static const char *
allowed(Parser *p, const Size *s)
{
    bool open = s->range.hi == DIM_INF;
    const char *most = open ? "or more" : cx_format(p->cx, "to %lld", (long long)s->range.hi);
    const char *of = s->divisor > 1 ? cx_format(p->cx, ", multiples of %lld", (long long)s->divisor)
                                    : "";
    return cx_format(p->cx, "%lld %s%s", (long long)s->range.lo, most, of);
}

/* The number that stands for the size, or NULL. */
static const FixedSize *
fixed_of(Parser *p, const Size *s, int n, const FixedSize *fixed)
{
    const FixedSize *of = NULL;
    for (int k = 0; k < n; k++) {
        of = strcmp(fixed[k].name, s->name) == 0 ? &fixed[k] : of;
    }
    if (of && (of->value < s->range.lo || of->value > s->range.hi ||
               (s->divisor > 1 && of->value % s->divisor != 0))) {
        fail(p->cx, DIAG_FIXED_SIZE, s->name, (long long)of->value, allowed(p, s));
    }
    return of;
}

/* Sizes that are numbers are looked up as indices are, so that nothing else knows of them. */
static void
parse_fn_sizes(Parser *p, int n, const FixedSize *fixed)
{
    int nsizes;
    Size *sizes = parse_sizes(p, &nsizes);
    for (int k = 0; k < nsizes; k++) {
        const FixedSize *of = fixed_of(p, &sizes[k], n, fixed);
        if (of) {
            parse_index(p, sizes[k].name, dim_int(p->cx, of->value));
            p->nnumbers++;
        } else {
            fn_size(p->fn, declare_size(p, &sizes[k]));
        }
    }
    for (int k = 0; k < n && p->nnumbers < n; k++) {
        bool known = false;
        for (int j = 0; j < nsizes; j++) {
            known |= strcmp(fixed[k].name, sizes[j].name) == 0;
        }
        if (!known) {
            fail(p->cx, DIAG_FIXED_SIZE, fixed[k].name, (long long)fixed[k].value,
                 "no size of that name");
        }
    }
}

Fn *
parse_fn(Cx *cx, const char *text, const char *file)
{
    return parse_fixed(cx, text, file, 0, NULL);
}

Fn *
parse_fixed(Cx *cx, const char *text, const char *file, int n, const FixedSize *fixed)
{
    Parser p = {.cx = cx};
    lex_open(&p.lex, cx, text, file);
    Stage stage = parse_stage(&p);
    lex_expect(&p.lex, "fn");
    p.fn = fn_new(cx, parse_name(&p, "the function's name"), stage);
    parse_fn_sizes(&p, n, fixed);
    parse_params(&p);
    lex_expect(&p.lex, "->");
    Lexer results = p.lex;
    skip_results(&p);
    parse_block(&p, p.fn->body);
    if (p.lex.token.kind != TOKEN_END) {
        lex_fail_expected(&p.lex, "the end of the text");
    }
    p.lex = results;
    parse_results(&p);
    return p.fn;
}
