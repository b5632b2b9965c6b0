/* Processes that share a cache folder: a unit is compiled once, and who is killed harms nobody
 * else. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codegen/jit/cc_job.h"
#include "jit_test.h"

enum { WORKERS = 4, WANTED = 3 };       /* processes; how many of them want the same unit */

static const CcOptions now_here = {.wait = true};

/* What the processes of a test tell each other. */
typedef struct {
    atomic_int tickets, done, failures, compiles;
} Board;

static Board *
make_board(void)
{
    Board *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                        0);
    CHECK(board != MAP_FAILED);
    return board;
}

/* In own_folder: temporary files of who is killed stay behind. */
static void
use_folders(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/tmp", own_folder);
    CHECK(mkdir(path, 0700) == 0 && setenv("TMPDIR", path, 1) == 0);
    snprintf(path, sizeof path, "%s/cache", own_folder);
    CHECK(setenv("DLC_CACHE_DIR", path, 1) == 0);
}

/* Compiles the unit with `add`; false when its code is not there or is wrong. */
static bool
compile_right(int add)
{
    char error[256], *text = double_text(add);
    Code *code = double_code();
    bool ok = jit_cc_submit(code, text, &now_here, error, sizeof error);
    ok = ok && code_tier(code, 0) == TIER_CC && run_double(code) == 42 + add;
    free(text);
    code_unref(code);
    return ok;
}

/* ---- once ---- */

void
test_shared_once(void)
{
    Board *board = make_board();
    use_folders();
    for (int k = 0; k < WORKERS; k++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            board->failures += !compile_right(7);
            board->compiles += (int)count_get(COUNT_GCC_COMPILES);
            _exit(0);
        }
    }
    while (wait(NULL) > 0)
        ;
    CHECK(board->failures == 0 && board->compiles == 1);
}

/* ---- locks ---- */

static void
open_cache(Cache *cache)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/cache", own_folder);
    CHECK(cache_open(cache, path));
}

/* A process that has the lock and never lets go; with a child of its own, whose number it tells. */
static pid_t
start_owner(const Key *key, int *tell)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        Cache cache;
        CacheLock held;
        open_cache(&cache);
        CHECK(cache_lock(&cache, key, &(ChildLimits){.seconds = 1}, &held));
        pid_t child = fork();
        if (child != 0) {
            CHECK(write(ends[1], &child, sizeof child) == sizeof child);
        }
        for (;;) {
            pause();
        }
    }
    *tell = ends[0];
    return pid;
}

void
test_shared_lock(void)
{
    Cache cache;
    CacheLock lock;
    Key key = {"0123"};
    pid_t child;
    int tell, status;
    open_cache(&cache);
    pid_t owner = start_owner(&key, &tell);
    CHECK(read(tell, &child, sizeof child) == sizeof child);
    CHECK(!cache_lock(&cache, &key, &(ChildLimits){.seconds = 0.05}, &lock));
    atomic_bool stop = true;
    CHECK(!cache_lock(&cache, &key, &(ChildLimits){.seconds = 1000, .stop = &stop}, &lock));
    CHECK(kill(owner, SIGKILL) == 0 && waitpid(owner, &status, 0) == owner);
    CHECK(cache_lock(&cache, &key, &(ChildLimits){.seconds = 1000}, &lock));
    CacheLock other;            /* not of this process either */
    CHECK(!cache_lock(&cache, &key, &(ChildLimits){.seconds = 0}, &other));
    CHECK(kill(child, SIGKILL) == 0);
    cache_unlock(&cache, &lock);
    CHECK(cache_lock(&cache, &key, &(ChildLimits){.seconds = 0}, &lock));
    cache_unlock(&cache, &lock);
    cache_close(&cache);
    CHECK(count_files(cache.path) == 0);
}

/* ---- kills ---- */

/* Takes tickets; WANTED neighbours of them are the same unit. */
static void
work(Board *board, int tickets)
{
    for (int k; (k = board->tickets++) < tickets;) {
        board->failures += !compile_right(k / WANTED);
        board->done++;
    }
    _exit(0);
}

static pid_t
start_worker(Board *board, int tickets)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        work(board, tickets);
    }
    return pid;
}

static void
count_damaged(void *arg, const CacheEntry *entry)
{
    *(int *)arg += !entry->sound;
}

/* Kills a worker at a random moment and starts another, until all tickets are taken.  Compilers of
 * the killed end by themselves: as children of this process, so that it sees their end. */
void
test_shared_kills(void)
{
    const char *asked = getenv("DLC_TEST_COMPILES");
    int tickets = WANTED * (asked ? atoi(asked) : 24), kills = 0, damaged = 0;
    Board *board = make_board();
    pid_t workers[WORKERS];
    Cache cache;
    use_folders();
    CHECK(tickets > 0 && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    srand((unsigned)getpid());
    for (int k = 0; k < WORKERS; k++) {
        workers[k] = start_worker(board, tickets);
    }
    while (board->tickets < tickets) {
        int k = rand() % WORKERS;
        usleep((useconds_t)(rand() % 60000));
        CHECK(kill(workers[k], SIGKILL) == 0);
        CHECK(waitpid(workers[k], NULL, 0) == workers[k]);
        workers[k] = start_worker(board, tickets);
        kills++;
    }
    while (wait(NULL) > 0)
        ;
    CHECK(board->failures == 0 && kills > 0 && board->done > 0);
    open_cache(&cache);
    CHECK(cache_list(&cache, true, count_damaged, &damaged) > 0 && damaged == 0);
    cache_close(&cache);
    for (int k = 0; k < tickets / WANTED; k++) { /* all of them, also those whose makers are gone */
        CHECK(compile_right(k));
    }
}
