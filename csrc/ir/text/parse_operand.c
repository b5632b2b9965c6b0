/* The parser's operands: names of values, which may be used before they are bound, and numbers. */
#include "parse.h"

#include <math.h>
#include <string.h>

typedef struct {
    const char *name;
    Value *value; /* of the binder read last; before the first one, of the first use */
    bool bound;
    const char *at; /* the first use or the binder */
} Name;

static bool
same_name(const void *entry, const void *key)
{
    return ((const Name *)entry)->name == key;
}

static Name *
find_name(Parser *p, const char *name, const char *at)
{
    uint64_t hash = hash_mix((uintptr_t)name, 0);
    Name *found = table_find(&p->names, hash, same_name, name);
    if (!found) {
        found = cx_alloc(p->cx, sizeof *found);
        *found = (Name){.name = name, .at = at};
        table_add(p->cx, &p->names, hash, found);
    }
    return found;
}

static Value *
new_value(Parser *p)
{
    Value *v = cx_alloc(p->cx, sizeof *v);
    v->id = p->fn->nvalues++;
    return v;
}

void
parse_bind_to(Parser *p, const Binder *b, Value *v)
{
    Name *n = find_name(p, b->name, b->at);
    n->value = v;
    n->bound = true;
}

Value *
parse_bind(Parser *p, const Binder *b, Let *let, int result)
{
    Name *n = find_name(p, b->name, b->at);
    if (n->bound || !n->value) {
        n->value = new_value(p);
    }
    n->bound = true;
    fn_take_name(p->fn, b->name);
    n->value->name = b->name;
    n->value->type = b->type;
    n->value->strides = b->strides;
    n->value->over = b->over;
    n->value->def = let;
    n->value->result = result;
    return n->value;
}

Value *
parse_made(Parser *p, Let *let, const char *stem, Dtype dtype)
{
    Value *v = new_value(p);
    v->name = cx_intern(p->cx, stem, strlen(stem));
    v->type = type_scalar(p->cx, dtype);
    v->def = let;
    let->res = cx_copy(p->cx, &v, sizeof(Value *));
    let->nres = 1;
    p->made = cx_grow(p->cx, p->made, p->nmade, sizeof(Value *));
    p->made[p->nmade++] = v;
    return v;
}

void
parse_check_names(Parser *p)
{
    for (int k = 0; k < p->nmade; k++) {
        const char *stem = p->made[k]->name;
        p->made[k]->name = fn_take_name(p->fn, stem) ? stem : fn_fresh_name(p->fn, stem);
    }
    p->nmade = 0;
    const Name *unbound = NULL;
    for (size_t k = 0; k < p->names.room; k++) {
        const Name *n = p->names.slots[k].entry;
        if (n && !n->bound && (!unbound || n->at < unbound->at)) {
            unbound = n;
        }
    }
    if (!unbound) {
        return;
    }
    Nearest near = nearest_to(&(Token){.at = unbound->name, .length = strlen(unbound->name)});
    for (size_t k = 0; k < p->names.room; k++) {
        const Name *n = p->names.slots[k].entry;
        if (n && n->bound) {
            nearest_offer(&near, n->name);
        }
    }
    lex_fail(&p->lex, unbound->at, "nothing binds '%s'%s", unbound->name,
             nearest_text(p->cx, &near));
}

static Value *
parse_number(Parser *p)
{
    Lexer start = p->lex;
    bool minus = lex_take(&p->lex, "-");
    Value *v = cx_alloc(p->cx, sizeof *v);
    if (p->lex.token.kind == TOKEN_FLOAT) {
        v->literal.f = minus ? -p->lex.token.f : p->lex.token.f;
        lex_next(&p->lex);
    } else if (lex_take(&p->lex, "inf")) {
        v->literal.f = minus ? -INFINITY : INFINITY;
    } else if (!minus && lex_take(&p->lex, "nan")) {
        v->literal.f = NAN;
    } else {
        p->lex = start;
        v->literal.is_int = true;
        v->literal.i = lex_int(&p->lex);
    }
    return v;
}

Value *
parse_operand(Parser *p)
{
    const Token *t = &p->lex.token;
    bool number = t->kind == TOKEN_INT || t->kind == TOKEN_FLOAT || lex_is(&p->lex, "-") ||
                  lex_is(&p->lex, "inf") || lex_is(&p->lex, "nan");
    if (number) {
        return parse_number(p);
    }
    const char *at = t->at;
    Name *n = find_name(p, lex_word(&p->lex, "an operand: a name or a number"), at);
    if (!n->value) {
        n->value = new_value(p);
        n->value->name = n->name;
    }
    return n->value;
}

Value **
parse_operands(Parser *p, int *n)
{
    Value **operands = NULL;
    *n = 0;
    do {
        operands = cx_grow(p->cx, operands, *n, sizeof(Value *));
        operands[(*n)++] = parse_operand(p);
    } while (lex_take(&p->lex, ","));
    return operands;
}
