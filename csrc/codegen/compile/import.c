/* Programs of units compiled elsewhere: checked, then made into entries of the cache.
 *
 * A program is the text that an object has as dlc_program: kernels, and what they read as
 * parameters.  It may come from anybody, and what is stored under a kernel's key must be that
 * kernel's code.  So the text is verified, where its lets come from is forgotten, and names that
 * mean something else in C are refused.  Machine code is taken only from a source that the caller
 * trusts. */
#include <ctype.h>
#include <dlfcn.h>
#include <string.h>

#include "codegen/jit/cc_job.h"
#include "kernels.h"

/* ---- checking ---- */

/* Is it the name of a macro of the prelude?  Those that a compiler has made begin with `_`; the
 * emitters call such names otherwise. */
static bool
is_macro(const char *name)
{
    size_t length = strlen(name);
    for (const char *p = dlc_prelude_text; (p = strstr(p, "#define "));) {
        p += strlen("#define ");
        if (strncmp(p, name, length) == 0 && !isalnum((unsigned char)p[length]) &&
            p[length] != '_') {
            return true;
        }
    }
    return strncmp(name, "DLC_", 4) == 0;
}

static void
check_name(Cx *cx, const char *name)
{
    if (!text_is_word(name) || is_macro(name)) {
        fail(cx, DIAG_NAME_IN_C, name);
    }
}

static void
check_block(Cx *cx, Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        Let *let = blk->lets[k];
        let->loc = (Loc){0};
        for (int j = 0; j < let->nres; j++) {
            check_name(cx, let->res[j]->name);
        }
        if (let->body) {
            check_block(cx, let->body);
        }
    }
}

Fn *
program_check(Cx *cx, const char *text)
{
    Fn *fn = parse_fn(cx, text, "program");
    verify_fn(fn);
    if (fn->stage != STAGE_KERNELS || fn->body->n == 0) {
        fail(cx, DIAG_NOT_KERNELS, fn->body->n == 0 ? "no lets" : "another stage");
    }
    for (int k = 0; k < fn->body->n; k++) {
        if (fn->body->lets[k]->op != OP_kernel) {
            fail(cx, DIAG_NOT_KERNELS, op_info[fn->body->lets[k]->op].name);
        }
    }
    for (int k = 0; k < fn->nsizes; k++) {
        check_name(cx, dim_name(cx, fn->sizes[k]));
    }
    for (int k = 0; k < fn->nparams; k++) {
        check_name(cx, fn->params[k]->name);
    }
    check_block(cx, fn->body);
    return fn;
}

/* ---- importing ---- */

typedef struct {
    Kernels *ks;
    CcTarget *target;
    Cache cache;
    Key *disk;                  /* of each use */
} Import;

static void
release(void *arg)
{
    Import *im = arg;
    cc_target_unref(im->target);
    cache_close(&im->cache);
}

/* Has the cache an object for every kernel? */
static bool
is_stored(Import *im)
{
    for (int k = 0; k < im->ks->nuses; k++) {
        char symbol[32];
        void *object = cache_load(&im->cache, im->disk[k].hex);
        kernel_shape_symbol(&im->ks->uses[k].key.key, symbol);
        bool there = object && dlsym(object, symbol);
        if (object) {
            dlclose(object);
        }
        if (!there) {
            return false;
        }
    }
    return true;
}

/* Stores the machine code that comes with the program, if this process would have asked for it. */
static bool
take_object(Import *im, const Program *program)
{
    for (int k = 0; program->object && k < im->ks->nuses; k++) {
        if (strcmp(im->disk[k].hex, program->key) == 0) {
            bool ok = object_is_whole(program->object, program->size) &&
                      cache_store(&im->cache, im->disk, im->ks->nuses, program->object,
                                  program->size, cache_bound()) &&
                      is_stored(im);
            if (ok) {
                cc_target_note(im->target, &im->cache);
            }
            return ok;
        }
    }
    return false;
}

static void
begin(Import *im, Cx *cx, const Program *program, const CcOptions *cc)
{
    im->cache.fd = -1;
    cx_cleanup(cx, release, im);
    im->ks = kernels_of(program_check(cx, program->text));
    if (!(im->target = cc_target_new(cc))) {
        fail(cx, DIAG_MEMORY, sizeof *im->target);
    }
    if (program->object) {
        cc_target_assume(im->target, program->common, program->compiler);
    }
    im->disk = cx_alloc(cx, (size_t)im->ks->nuses * sizeof *im->disk);
    for (int k = 0; k < im->ks->nuses; k++) {
        const Key *key = &im->ks->uses[k].key.key;
        cc_target_key(im->target, key->hex, sizeof key->hex, &im->disk[k]);
    }
}

ImportResult
program_import(Cx *cx, const Program *program, const CcOptions *cc)
{
    Import *im = cx_alloc(cx, sizeof *im);
    CompileOptions options = {.mode = MODE_CC, .cc = *cc, .passes = PASS_OPTIONS_NONE};
    begin(im, cx, program, cc);
    if (!*im->target->cache || !cache_open(&im->cache, im->target->cache)) {
        return IMPORT_FAILED;
    }
    if (is_stored(im)) {
        return IMPORT_PRESENT;
    }
    if (take_object(im, program)) {
        return IMPORT_TAKEN;
    }
    if (im->target->nwords == 0) {
        return IMPORT_FAILED;
    }
    kernels_compile(im->ks, &options);
    return is_stored(im) ? IMPORT_COMPILED : IMPORT_FAILED;
}
