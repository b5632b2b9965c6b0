/* A child of fork finds every lock free, whatever the other threads of its parent were doing. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codegen/plan/plan.h"
#include "jit_test.h"

enum { FORKS = 300 };

static atomic_bool over;

/* What a call takes its workspace with, and a compile in the background swaps entries with. */
static void
use_locks(Code *code)
{
    void *memory = workspace_take(64);
    CHECK(memory);
    workspace_give(memory);
    code_set(code, 0, code_entry(code, 0), TIER_CC);
}

static void *
use_them_always(void *code)
{
    while (!over) {
        use_locks(code);
    }
    return NULL;
}

void
test_fork_finds_locks_free(void)
{
    Code *code = tcc_double(0);
    pthread_t other;
    CHECK(pthread_create(&other, NULL, use_them_always, code) == 0);
    for (int k = 0; k < FORKS; k++) {
        int status;
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            alarm(60);          /* it would wait for ever */
            use_locks(code);
            _exit(0);
        }
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
    over = true;
    CHECK(pthread_join(other, NULL) == 0);
    code_unref(code);
}
