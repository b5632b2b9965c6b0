/* The context of one compile: memory, interned names, failure. */
#include "cx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <time.h>

struct Chunk {
    Chunk *older;
    size_t used, room;
    _Alignas(max_align_t) char bytes[];
};

struct Cleanup {
    Cleanup *older;
    void (*run)(void *arg);
    void *arg;
};

struct Try {
    Try *outer;
    jmp_buf env;
};

/* The first chunks are small.  A program that takes as much as ALL_SMALL gets huge pages after
 * that: a fault for each of their 512 small pages would take longer than to write to them. */
enum { CHUNK_BYTES = 1 << 16, HUGE_BYTES = 1 << 21, ALL_SMALL = 1 << 20 };

Cx *
cx_new(void)
{
    Cx *cx = calloc(1, sizeof *cx);
    if (cx) {
        cx->diag = (Diag){.code = DIAG_NONE, .kind = DIAGKIND_INTERNAL, .message = cx->reserve};
    }
    return cx;
}

void
cx_free(Cx *cx)
{
    if (!cx) {
        return;
    }
    for (Cleanup *c = cx->cleanups; c; c = c->older) {
        c->run(c->arg);
    }
    for (Chunk *chunk = cx->chunk, *older; chunk; chunk = older) {
        older = chunk->older;
        free(chunk);
    }
    free(cx);
}

bool
cx_try(Cx *cx, void (*body)(Cx *cx, void *arg), void *arg)
{
    Try here = {.outer = cx->top};
    Loc loc = cx->loc;
    const Assumption *assumed = cx->dims.assumed;
    cx->top = &here;
    if (setjmp(here.env)) {
        cx->top = here.outer;
        cx->loc = loc;
        dim_forget_to(cx, assumed);
        dim_recover(cx);
        return false;
    }
    body(cx, arg);
    cx->top = here.outer;
    return true;
}

const Diag *
cx_diag(const Cx *cx)
{
    return &cx->diag;
}

/* ---- memory ---- */

static Chunk *
chunk_new(Cx *cx, size_t room, bool large)
{
    bool huge = cx->chunk_bytes >= ALL_SMALL && !large;
    size_t bytes = huge ? HUGE_BYTES : sizeof(Chunk) + room;
    Chunk *chunk = huge ? aligned_alloc(HUGE_BYTES, bytes) : malloc(bytes);
    if (huge && chunk) {
        madvise(chunk, bytes, MADV_HUGEPAGE); /* else its pages are small */
    }
    if (chunk) {
        *chunk = (Chunk){.room = bytes - sizeof *chunk};
        cx->chunk_bytes += bytes;
    }
    return chunk;
}

/* Memory of any content; NULL: there is none. */
static void *
try_take(Cx *cx, size_t bytes)
{
    const size_t align = _Alignof(max_align_t);
    if (bytes > SIZE_MAX / 2) {
        return NULL;
    }
    bytes = (bytes + align - 1) / align * align;
    Chunk *chunk = cx->chunk;
    if (!chunk || chunk->room - chunk->used < bytes) {
        /* A large block gets a chunk of its own, behind the one in use. */
        bool large = bytes > CHUNK_BYTES / 4;
        Chunk *fresh = chunk_new(cx, large ? bytes : CHUNK_BYTES, large);
        if (!fresh) {
            return NULL;
        }
        Chunk **at = large && chunk ? &chunk->older : &cx->chunk;
        fresh->older = *at;
        *at = fresh;
        chunk = fresh;
    }
    void *p = chunk->bytes + chunk->used;
    chunk->used += bytes;
    return p;
}

static void *
take(Cx *cx, size_t bytes)
{
    void *p = try_take(cx, bytes);
    if (!p) {
        fail(cx, DIAG_MEMORY, bytes);
    }
    return p;
}

void *
cx_alloc(Cx *cx, size_t bytes)
{
    return memset(take(cx, bytes), 0, bytes);
}

void *
cx_copy(Cx *cx, const void *from, size_t bytes)
{
    void *p = take(cx, bytes);
    return bytes ? memcpy(p, from, bytes) : p;
}

void *
cx_grow(Cx *cx, void *array, int count, size_t size)
{
    if (count & (count - 1) || (count == 0 && array)) {
        return array; /* room is the power of two above count */
    }
    size_t filled = (size_t)count * size, added = count ? filled : size;
    char *p = take(cx, filled + added);
    memset(p + filled, 0, added);
    return count ? memcpy(p, array, filled) : p;
}

void
cx_cleanup(Cx *cx, void (*run)(void *arg), void *arg)
{
    Cleanup *c = cx_alloc(cx, sizeof *c);
    *c = (Cleanup){.older = cx->cleanups, .run = run, .arg = arg};
    cx->cleanups = c;
}

/* ---- failure ---- */

void
cx_set_loc(Cx *cx, Loc loc)
{
    cx->loc = loc;
}

Loc
cx_loc(const Cx *cx)
{
    return cx->loc;
}

static const DiagKind diag_kind[DIAG_COUNT] = {
#define DIAG(code, kind, text) [DIAG_##code] = DIAGKIND_##kind,
#include "diag.def"
};

/* The message with the user's place after it, when there is one. */
static char *
describe(Cx *cx, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    const char *node = cx->loc.node ? cx->loc.node : "", *source = cx->loc.source;
    const char *at = source || node[0] ? "\n  at " : "", *comma = source && node[0] ? ", " : "";
    source = source ? source : "";
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    size_t place = strlen(at) + strlen(node) + strlen(comma) + strlen(source);
    size_t room = (length < 0 ? 0 : (size_t)length) + place + 1;
    char *message = try_take(cx, room);
    if (!message) {
        message = cx->reserve;
        room = sizeof cx->reserve;
    }
    int written = vsnprintf(message, room, format, args);
    if (written >= 0 && (size_t)written < room) {
        snprintf(message + written, room - (size_t)written, "%s%s%s%s", at, node, comma, source);
    }
    return message;
}

void
fail_as(Cx *cx, DiagCode code, const char *text, ...)
{
    va_list args;
    va_start(args, text);
    char *message = describe(cx, text, args);
    va_end(args);
    cx->diag = (Diag){.code = code, .kind = diag_kind[code], .message = message, .loc = cx->loc};
    fail_again(cx);
}

void
fail_again(Cx *cx)
{
    if (!cx->top) {
        __builtin_trap(); /* whoever fails must be inside cx_try: there is no way back */
    }
    longjmp(cx->top->env, 1);
}

/* ---- hash tables, interned names ---- */

uint64_t
hash_mix(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ (b + 0x9e3779b97f4a7c15u)) * 0xff51afd7ed558ccdu;
    return h ^ h >> 32;
}

uint64_t
hash_bytes(const void *bytes, size_t length)
{
    const unsigned char *p = bytes;
    uint64_t h = length;
    for (; length >= 8; length -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        h = hash_mix(h, word);
    }
    uint64_t word = 0;
    if (length) {
        memcpy(&word, p, length);
    }
    return hash_mix(h, word);
}

void *
table_find(const Table *table, uint64_t hash, bool (*equal)(const void *entry, const void *key),
           const void *key)
{
    if (table->room == 0) {
        return NULL;
    }
    size_t mask = table->room - 1;
    for (size_t k = hash & mask; table->slots[k].entry; k = (k + 1) & mask) {
        if (table->slots[k].hash == hash && equal(table->slots[k].entry, key)) {
            return table->slots[k].entry;
        }
    }
    return NULL;
}

static void
place(Slot *slots, size_t room, uint64_t hash, void *entry)
{
    size_t k = hash & (room - 1);
    while (slots[k].entry) {
        k = (k + 1) & (room - 1);
    }
    slots[k] = (Slot){hash, entry};
}

void
table_add(Cx *cx, Table *table, uint64_t hash, void *entry)
{
    if ((table->count + 1) * 2 > table->room) {
        size_t room = table->room ? table->room * 2 : 64;
        Slot *slots = cx_alloc(cx, room * sizeof *slots);
        for (size_t k = 0; k < table->room; k++) {
            if (table->slots[k].entry) {
                place(slots, room, table->slots[k].hash, table->slots[k].entry);
            }
        }
        table->slots = slots;
        table->room = room;
    }
    place(table->slots, table->room, hash, entry);
    table->count++;
}

typedef struct {
    const char *text;
    size_t length;
} NameKey;

static bool
same_name(const void *entry, const void *key)
{
    const NameKey *want = key;
    const char *have = entry;
    return strncmp(have, want->text, want->length) == 0 && have[want->length] == '\0';
}

const char *
cx_intern(Cx *cx, const char *text, size_t length)
{
    NameKey key = {text, length};
    uint64_t hash = hash_bytes(text, length);
    char *name = table_find(&cx->names, hash, same_name, &key);
    if (!name) {
        name = cx_alloc(cx, length + 1);
        memcpy(name, text, length);
        table_add(cx, &cx->names, hash, name);
    }
    return name;
}

/* ---- text ---- */

static void
reserve(Text *out, size_t more)
{
    size_t want = out->length + more + 1;
    if (want <= out->room) {
        return;
    }
    size_t room = want < 120 ? 240 : want * 2;
    char *text = take(out->cx, room);
    if (out->length) {
        memcpy(text, out->text, out->length);
    }
    out->text = text;
    out->room = room;
}

void
text_put(Text *out, const char *bytes, size_t length)
{
    reserve(out, length);
    if (length) {
        memcpy(out->text + out->length, bytes, length);
    }
    out->length += length;
    out->text[out->length] = '\0';
}

static void
put_number(Text *out, uint64_t n, bool negative)
{
    char digits[24], *at = digits + sizeof digits;
    do {
        *--at = (char)('0' + n % 10);
        n /= 10;
    } while (n);
    if (negative) {
        *--at = '-';
    }
    text_put(out, at, (size_t)(digits + sizeof digits - at));
}

/* Adds the argument for the % of a format, and moves *format after it; false: it is a conversion
 * that no text uses. */
static bool
put_conversion(Text *out, const char **format, va_list *args)
{
    const char *f = *format + 1;
    bool part = f[0] == '.' && f[1] == '*' && f[2] == 's', wide = f[0] == 'l' || f[0] == 'z';
    f += part ? 2 : wide ? 1 + (f[0] == 'l' && f[1] == 'l') : 0;
    if (*f == 'd') {
        int64_t n = wide ? va_arg(*args, int64_t) : va_arg(*args, int);
        put_number(out, n < 0 ? 0 - (uint64_t)n : (uint64_t)n, n < 0);
    } else if (*f == 'u') {
        put_number(out, wide ? va_arg(*args, uint64_t) : va_arg(*args, unsigned), false);
    } else if (*f == 's' && !wide) {
        int most = part ? va_arg(*args, int) : -1;
        const char *given = va_arg(*args, const char *), *s = given ? given : "(null)";
        text_put(out, s, most < 0 ? strlen(s) : strnlen(s, (size_t)most));
    } else if (*f == 'c' && !wide) {
        char c = (char)va_arg(*args, int);
        text_put(out, &c, 1);
    } else if (*f == '%' && !wide) {
        text_put(out, "%", 1);
    } else {
        return false;
    }
    *format = f + 1;
    return true;
}

static void
put_formatted(Text *out, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    reserve(out, 64);
    int n = vsnprintf(out->text + out->length, out->room - out->length, format, args);
    if (n > 0 && (size_t)n >= out->room - out->length) {
        reserve(out, (size_t)n);
        vsnprintf(out->text + out->length, out->room - out->length, format, again);
    }
    va_end(again);
    out->length += n > 0 ? (size_t)n : 0;
}

/* A quarter of the time of a compile went to printf, which has a slow way and takes it for all
 * formats once a library of the process has registered a conversion, as libquadmath does. */
void
text_vadd(Text *out, const char *format, va_list args)
{
    va_list left;
    va_copy(left, args);
    text_put(out, "", 0);
    while (*format) {
        const char *next = strchr(format, '%');
        size_t plain = next ? (size_t)(next - format) : strlen(format);
        text_put(out, format, plain);
        format += plain;
        if (next && !put_conversion(out, &format, &left)) {
            put_formatted(out, format, left);
            break;
        }
    }
    va_end(left);
}

void
text_add(Text *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    text_vadd(out, format, args);
    va_end(args);
}

bool
text_is_yes(const char *text)
{
    static const char *const no[] = {"", "0", "false", "no", "off"};
    bool yes = text != NULL;
    for (size_t k = 0; k < sizeof no / sizeof *no && yes; k++) {
        yes = strcasecmp(text, no[k]) != 0;
    }
    return yes;
}

char *
cx_format(Cx *cx, const char *format, ...)
{
    Text out = {.cx = cx};
    va_list args;
    va_start(args, format);
    text_vadd(&out, format, args);
    va_end(args);
    return out.text;
}

double
clock_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
