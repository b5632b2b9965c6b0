/* build/test-threads [SECONDS [THREADS [SEED]]]: threads that compile, call, change sizes, release
 * and forget at once.
 *
 * The plans are shared: a thread calls what another has compiled, while its kernels go from
 * libtcc's code to gcc's, while the cache is filled and emptied and the pools are given back.
 * Every result is looked at.  `make tsan` runs it under ThreadSanitizer for a minute,
 * tests/threads/test_threads.py as it is. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "fusion/fusion.h"

enum { PLANS = 8, MOST_THREADS = 64, FACTORS = 24, WIDE = 40, RESULTS = 3, MOST_TEAM = 6 };

/* A plan of y = x * factor + 1, the sums of its rows, and what the product of y and w is less than
 * the greatest of its rows: one of dlc's own, in blocks of rows.  Whoever holds it has a
 * reference. */
typedef struct {
    atomic_int refs;
    Plan *plan;
    int factor;
} Shared;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Shared *shared[PLANS];
static atomic_int wrong, done[4];
static double end;

static const char *const text =
    "dlc 1 graph\n\n"
    "fn f[B in 1..inf, N in 1..inf](x: f32[B, N], w: f32[N, 40])"
    " -> (f32[B, N], f32[B], f32[B, 40]) {\n"
    "  let y: f32[B, N] = mul x, %d.0\n"
    "  let z: f32[B, N] = add y, 1.0\n"
    "  let s: f32[B] = sum z axes=[1]\n"
    "  let p: f32[B, 40] = contract z, w over=\"bn,nm->bm\"\n"
    "  let m: f32[B] = amax p axes=[1]\n"
    "  let t: f32[B, 40] = expand m to=[0]\n"
    "  let d: f32[B, 40] = sub t, p\n"
    "  ret z, s, d\n"
    "}\n";

static void
note_wrong(const char *what)
{
    fprintf(stderr, "wrong: %s\n", what);
    atomic_fetch_add(&wrong, 1);
}

/* ---- the host of a plan: tensors are blocks of malloc ---- */

static int
host_alloc(void *arg, Dtype dtype, PlanTensor *out)
{
    size_t bytes = (size_t)dtype_info[dtype].bytes;
    (void)arg;
    for (int ax = 0; ax < out->rank; ax++) {
        bytes *= (size_t)out->sizes[ax];
    }
    out->object = out->data = malloc(bytes + 1);
    return out->data ? 0 : -1;
}

static int
host_view(void *arg, const PlanObject *base, Dtype dtype, int64_t offset, PlanTensor *out)
{
    (void)arg, (void)base, (void)dtype, (void)offset, (void)out;
    return -1;
}

static void host_retain(void *arg, void *object) { (void)arg, (void)object; }
static void host_lock(void *arg) { (void)arg; }

static void
host_release(void *arg, void *object)
{
    (void)arg;
    free(object);
}

static void
host_fault(void *arg, int fault, const char *node, const char *source)
{
    (void)arg, (void)fault, (void)node, (void)source;
    note_wrong("a fault");
}

static const PlanHost host = {
    .alloc = host_alloc,
    .view = host_view,
    .retain = host_retain,
    .release = host_release,
    .fault = host_fault,
    .leave = host_lock,
    .enter = host_lock,
};

/* ---- an OpenMP runtime whose starts and ends of threads ThreadSanitizer sees; their number
 * changes meanwhile ---- */

#define EXPORT __attribute__((visibility("default")))
EXPORT void GOMP_parallel(void (*body)(void *arg), void *arg, unsigned threads, unsigned flags);
EXPORT int omp_get_max_threads(void);
EXPORT int omp_in_parallel(void);
EXPORT int omp_get_thread_num(void);
EXPORT int omp_get_num_threads(void);

typedef struct { void (*body)(void *arg); void *arg; int number, of; } Member;

static atomic_int most_threads = 4, launches;
static _Thread_local int number, team = 1;

int omp_get_max_threads(void) { return most_threads; }
int omp_in_parallel(void) { return team > 1; }
int omp_get_thread_num(void) { return number; }
int omp_get_num_threads(void) { return team; }

static void *
run_member(void *arg)
{
    const Member *m = arg;
    number = m->number;
    team = m->of;
    m->body(m->arg);
    number = 0;
    team = 1;
    return NULL;
}

void
GOMP_parallel(void (*body)(void *arg), void *arg, unsigned threads, unsigned flags)
{
    pthread_t running[MOST_TEAM];
    Member members[MOST_TEAM] = {{0}};
    (void)flags;
    for (unsigned k = 0; k < threads; k++) {
        members[k] = (Member){body, arg, (int)k, (int)threads};
        if (k && pthread_create(&running[k], NULL, run_member, &members[k]) != 0) {
            abort();
        }
    }
    run_member(&members[0]);
    for (unsigned k = 1; k < threads; k++) {
        pthread_join(running[k], NULL);
    }
    atomic_fetch_add(&launches, 1);
}

/* ---- what a thread does ---- */

typedef struct {
    int factor;
    int mode;
    Plan *plan;
} Compile;

static void
compile_body(Cx *cx, void *arg)
{
    Compile *c = arg;
    Fn *graph = parse_fn(cx, cx_format(cx, text, c->factor), "threads");
    CompileOptions options = {.mode = c->mode, .passes = PASS_OPTIONS_NONE};
    verify_fn(graph);
    c->plan = plan_build(pipeline_run(graph, &options.passes), &options);
}

static void
drop(Shared *s)
{
    if (s && atomic_fetch_sub(&s->refs, 1) == 1) {
        plan_free(s->plan);
        free(s);
    }
}

/* Puts it where others find it; NULL: there is nothing any more. */
static void
publish(int place, Shared *new)
{
    pthread_mutex_lock(&lock);
    Shared *old = shared[place];
    shared[place] = new;
    pthread_mutex_unlock(&lock);
    drop(old);
}

static Shared *
take(int place)
{
    pthread_mutex_lock(&lock);
    Shared *s = shared[place];
    if (s) {
        atomic_fetch_add(&s->refs, 1);
    }
    pthread_mutex_unlock(&lock);
    return s;
}

static void
compile(unsigned *seed)
{
    Compile c = {.factor = 1 + rand_r(seed) % FACTORS,
                 .mode = rand_r(seed) % 4 ? MODE_TCC : MODE_AUTO};
    Cx *cx = cx_new();
    if (!cx || !cx_try(cx, compile_body, &c)) {
        note_wrong(cx ? cx_diag(cx)->message : "no context");
    } else {
        Shared *s = malloc(sizeof *s);
        *s = (Shared){.refs = 1, .plan = c.plan, .factor = c.factor};
        publish(rand_r(seed) % PLANS, s);
        atomic_fetch_add(&done[0], 1);
    }
    cx_free(cx);
}

static float
weight(int64_t j, int k)
{
    return (float)((j + k) % 3);
}

/* What is whole and less than 2 ** 24 is exact in any order. */
static bool
is_product(const float *y, int64_t columns, const float *d)
{
    float row[WIDE] = {0}, most = 0;
    for (int k = 0; k < WIDE; k++) {
        for (int64_t j = 0; j < columns; j++) {
            row[k] += y[j] * weight(j, k);
        }
        most = row[k] > most ? row[k] : most;
    }
    for (int k = 0; k < WIDE; k++) {
        if (d[k] != most - row[k]) {
            return false;
        }
    }
    return true;
}

static void
check(const Shared *s, int64_t rows, int64_t columns, const PlanTensor *out)
{
    const float *y = out[0].data, *sums = out[1].data, *products = out[2].data;
    for (int64_t i = 0; i < rows; i++) {
        double sum = 0;
        for (int64_t j = 0; j < columns; j++) {
            sum += y[i * columns + j];
            if (y[i * columns + j] != (float)((i + j) % 5 * s->factor + 1)) {
                note_wrong("an element");
                return;
            }
        }
        if (sums[i] != (float)sum) {
            note_wrong("a sum");
            return;
        }
        if (!is_product(&y[i * columns], columns, &products[i * WIDE])) {
            note_wrong("a product");
            return;
        }
    }
}

static void
call(unsigned *seed)
{
    Shared *s = take(rand_r(seed) % PLANS);
    int64_t rows = 1 + rand_r(seed) % 24, columns = 1 + rand_r(seed) % 700;
    float *x = malloc((size_t)(rows * columns) * sizeof *x),
          *w = malloc((size_t)(columns * WIDE) * sizeof *w);
    for (int64_t i = 0; i < rows * columns; i++) {
        x[i] = (float)((i / columns + i % columns) % 5);
    }
    for (int64_t k = 0; k < columns * WIDE; k++) {
        w[k] = weight(k / WIDE, (int)(k % WIDE));
    }
    const int64_t of_x[] = {rows, columns, columns, 1}, of_w[] = {columns, WIDE, WIDE, 1};
    PlanParam in[] = {{{x, x}, 2, of_x, of_x + 2}, {{w, w}, 2, of_w, of_w + 2}};
    PlanTensor out[RESULTS] = {{0}};
    if (s && plan_run(s->plan, &host, NULL, in, out) < 0) {
        note_wrong("a call failed");
    } else if (s) {
        check(s, rows, columns, out);
        for (int k = 0; k < RESULTS; k++) {
            host_release(NULL, out[k].object);
        }
        atomic_fetch_add(&done[1], 1);
    }
    free(x);
    free(w);
    drop(s);
}

/* What `dlc.release`, `dlc.wait`, `torch.set_num_threads` and `dlc.cache.clear` do. */
static void
tidy(unsigned *seed)
{
    Cache cache;
    switch (rand_r(seed) % 5) {
    case 0:
        workspace_release();
        break;
    case 1:
        jit_cc_wait(0.001 * (rand_r(seed) % 20));
        break;
    case 2:
        publish(rand_r(seed) % PLANS, NULL);
        break;
    case 3:
        most_threads = 1 + rand_r(seed) % MOST_TEAM;
        break;
    default:
        if (cache_open(&cache, getenv("DLC_CACHE_DIR"))) {
            cache_clear(&cache);
            cache_close(&cache);
        }
    }
    atomic_fetch_add(&done[2], 1);
}

static void *
work(void *arg)
{
    unsigned seed = *(unsigned *)arg;
    while (clock_seconds() < end && !atomic_load(&wrong)) {
        int what = rand_r(&seed) % 32;
        if (what == 0) {
            tidy(&seed);
        } else if (what < 4) {
            compile(&seed);
        } else {
            call(&seed);
        }
    }
    return NULL;
}

int
main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    int threads = argc > 2 ? atoi(argv[2]) : 16;
    unsigned seed = argc > 3 ? (unsigned)atoi(argv[3]) : (unsigned)getpid(), seeds[MOST_THREADS];
    char folder[64] = "/tmp/dlc-threads-XXXXXX", command[128];
    pthread_t running[MOST_THREADS];
    if (threads < 1 || threads > MOST_THREADS || !parallel_use(dlopen(NULL, RTLD_NOW)) ||
        !mkdtemp(folder)) {
        return 2;
    }
    setenv("DLC_CACHE_DIR", folder, 1);
    end = clock_seconds() + seconds;
    for (int k = 0; k < threads; k++) {
        seeds[k] = seed + 1000003u * (unsigned)k;
        if (pthread_create(&running[k], NULL, work, &seeds[k]) != 0) {
            return 2;
        }
    }
    for (int k = 0; k < threads; k++) {
        pthread_join(running[k], NULL);
    }
    for (int k = 0; k < PLANS; k++) {
        publish(k, NULL);
    }
    jit_cc_shutdown();
    snprintf(command, sizeof command, "/bin/rm -rf %s", folder);
    bool removed = system(command) == 0;
    printf("seed %u: %d compiles, %d calls, %d swaps, %d launches of threads, %d wrong\n", seed,
           done[0], done[1], (int)count_get(COUNT_SWAPS), launches, wrong);
    return wrong || !done[0] || !done[1] || !launches || !removed;
}
