/* Compiles a unit in portable C, as anybody would: strictly, and with no extension. */
#define _GNU_SOURCE
#include "portable.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/jit/files.h"

extern char **environ;

/* A number for the text, for the name of its object. */
static unsigned long long
number_of(const char *text)
{
    unsigned long long number = 14695981039346656037ull;
    for (const char *c = text; *c; c++) {
        number = (number ^ (unsigned char)*c) * 1099511628211ull;
    }
    return number;
}

static bool
write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    return file && fputs(text, file) >= 0 && fclose(file) == 0;
}

/* What the promised bits need, and nothing else that changes them.  DLC_CC compiles for an emulated
 * processor. */
static bool
run_compiler(const char *source, const char *object, char *error, size_t cap)
{
    const char *own = getenv("DLC_CC"), *cc = own ? own : "cc";
    const char *const argv[] = {
        "/usr/bin/env", cc, "-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wvla",
        "-Wno-overlength-strings", "-O1", "-ffp-contract=off", "-fwrapv", "-fPIC", "-shared",
        "-o", object, source, "-lm", NULL,
    };
    ChildLimits limits = {.seconds = 300};
    return child_run((char *const *)argv, environ, &limits, error, cap);
}

static void
unload(void *handle, size_t size)
{
    (void)size;
    dlclose(handle);
}

static bool
load(Code *code, const char *object, char *error, size_t cap)
{
    void *handle = dlopen(object, RTLD_NOW | RTLD_LOCAL);
    if (!handle || !code_own(code, unload, handle, 0)) {
        snprintf(error, cap, "%s", handle ? "no memory" : dlerror());
        return false;
    }
    for (int k = 0; k < code_count(code); k++) {
        void *at = dlsym(handle, code_name(code, k));
        KernelFn fn;
        memcpy(&fn, &at, sizeof fn);
        code_set(code, k, fn, TIER_CC);
    }
    return true;
}

bool
portable_compile(Code *code, const char *text, char *error, size_t cap)
{
    static int made;
    const char *cache = getenv("DLC_CACHE_DIR"), *folder = cache ? cache : "/tmp";
    char source[600], object[600], final[600];
    snprintf(final, sizeof final, "%s/portable_%016llx.so", folder, number_of(text));
    if (cache && access(final, R_OK) == 0) {
        return load(code, final, error, cap);
    }
    snprintf(source, sizeof source, "%s/portable_%d_%d.c", folder, (int)getpid(), made);
    snprintf(object, sizeof object, "%s/portable_%d_%d.so", folder, (int)getpid(), made++);
    bool done = false;
    if (!write_text(source, text)) {
        snprintf(error, cap, "%s cannot be written", source);
    } else if (run_compiler(source, object, error, cap)) {
        done = load(code, object, error, cap);
    }
    remove(source);
    if (!done || !cache || rename(object, final) != 0) {
        remove(object);
    }
    return done;
}
