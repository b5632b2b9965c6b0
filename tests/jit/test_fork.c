/* A child of fork finds every lock free, whatever the other threads of its parent were doing. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codegen/lock.h"
#include "codegen/plan/plan.h"
#include "jit_test.h"

enum { FORKS = 300 };

static atomic_bool over;
static void (*use)(void);
static Code *code;
static SpinLock spin;
static volatile int begun, ended; /* guarded by it, as often one as the other */

static void *
use_always(void *unused)
{
    while (!over) {
        use();
    }
    return unused;
}

/* Forks while another thread uses what the children use. */
static void
fork_beside(void (*what)(void))
{
    pthread_t other;
    use = what;
    CHECK(pthread_create(&other, NULL, use_always, NULL) == 0);
    for (int k = 0; k < FORKS; k++) {
        int status;
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            alarm(60);          /* it would wait for ever */
            use();
            _exit(0);
        }
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
    over = true;
    CHECK(pthread_join(other, NULL) == 0);
}

/* What a call takes its workspace with, and a compile in the background swaps entries with. */
static void
use_table(void)
{
    void *memory = workspace_take(64);
    CHECK(memory);
    workspace_give(memory);
    code_set(code, 0, code_entry(code, 0), TIER_CC);
}

void
test_fork_finds_locks_free(void)
{
    code = tcc_double(0);
    fork_beside(use_table);
    code_unref(code);
}

static void
use_spin(void)
{
    if (spin_take(&spin)) {
        ended = begun;          /* its holder is the parent's, in the middle of this */
    }
    CHECK(begun == ended);
    begun++;
    ended++;
    spin_give(&spin);
}

void
test_fork_takes_spin_locks(void)
{
    code = tcc_double(0);       /* it takes locks of the table */
    fork_beside(use_spin);
    code_unref(code);
}
