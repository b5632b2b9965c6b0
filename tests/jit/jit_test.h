/* The harness of the machine-code tests: one process a test, see main.c. */
#ifndef JIT_TEST_H
#define JIT_TEST_H

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "codegen/jit/files.h"

#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))

_Noreturn void check_failed(const char *file, int line, const char *condition);

/* Folders of this test, removed at its end: where the compiler's temporary files must not stay, and
 * where the test puts what it likes. */
extern char tmp_folder[], own_folder[];

/* Doubles lo .. hi-1 of p[0] into p[1], plus `add`. */
char *double_text(int add);
/* A Code with the one entry of double_text. */
Code *double_code(void);
/* What the entry computes from 21. */
int run_double(const Code *code);
/* Compiles with libtcc, which must work. */
Code *tcc_double(int add);
/* A program of a shell script, to be named by DLC_CC. */
void write_script(const char *name, const char *body);
int count_files(const char *folder);
double now(void);

#define TESTS(TEST) \
    TEST(tcc_runs) TEST(tcc_strips) TEST(tcc_errors) TEST(tcc_runtime) TEST(tcc_pages) \
    TEST(tcc_threads) TEST(tcc_no_memory) \
    TEST(cc_swaps) TEST(cc_words) TEST(cc_error) TEST(cc_missing) TEST(cc_none) TEST(cc_sleeps) \
    TEST(cc_garbage) TEST(cc_truncated) TEST(cc_killed) TEST(cc_empty) TEST(cc_floods) \
    TEST(cc_shutdown) TEST(cc_fork) TEST(cc_lacks) TEST(cc_sigchld) TEST(cc_swap_in_flight) \
    TEST(cc_unwanted) TEST(cc_sweep) \
    TEST(cache_hit) TEST(cache_damaged) TEST(cache_foreign) TEST(cache_writable) \
    TEST(cache_entry_writable) TEST(cache_unusable) TEST(cache_off) TEST(cache_bound) \
    TEST(cache_key) TEST(cache_processor) TEST(cache_threads) TEST(cache_defaults) \
    TEST(cache_leftovers) TEST(cache_renamed) TEST(sha256) \
    TEST(mapped) TEST(mapped_damaged) TEST(mapped_unfinished) TEST(digest) \
    TEST(swap_cache) TEST(swap_parents) TEST(swap_names) TEST(swap_compile) \
    TEST(swap_special_entries) TEST(swap_special_objects) TEST(swap_refused) \
    TEST(parallel_serial) TEST(parallel_covers) TEST(parallel_scratch) TEST(parallel_fault) \
    TEST(parallel_nested) TEST(parallel_raised) TEST(parallel_shares) TEST(parallel_many) \
    TEST(shared_once) TEST(shared_lock) TEST(shared_kills) TEST(fork_finds_locks_free) \
    TEST(fork_takes_spin_locks)
#define TEST(name) void test_##name(void);
TESTS(TEST)
#undef TEST

#endif
