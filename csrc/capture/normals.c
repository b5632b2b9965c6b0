/* The normal numbers of NumPy's generators, with their bits, in less time.
 *
 * What:     _C.fill_normals fills an array as Generator.normal does, and leaves the generator where
 *           that leaves it.
 * How:      NumPy draws by the ziggurat: of a random word 8 bits choose a layer, one is the sign,
 *           and 52 are a part of the layer's width.  99 of 100 words are a number at once.  NumPy's
 *           function branches at the sign, which no processor predicts; here it is a bit like the
 *           others.  The library of NumPy's generators exports that function, so it is asked: for
 *           the width and the bound of each layer, by words that are made up, and for a number
 *           where a word is none at once, by that word and those that follow.
 * Ensures:  the function of the NumPy that is there decides everything.  Some thousand numbers are
 *           compared with its own before the first array; if one differs, nothing is filled.
 * Why not   the tables of NumPy's source: another version may have others.
 */
#include "module.h"

#include <dlfcn.h>
#include <string.h>

enum { LAYERS = 256, COMPARED = 20000 };

#define FRACTION ((UINT64_C(1) << 52) - 1)

/* bitgen_t of numpy/random/bitgen.h: a generator of random words. */
typedef struct {
    void *state;
    uint64_t (*next_uint64)(void *state);
    uint32_t (*next_uint32)(void *state);
    double (*next_double)(void *state);
    uint64_t (*next_raw)(void *state);
} Words;

typedef double (*StandardNormal)(Words *words);
typedef double (*Normal)(Words *words, double loc, double scale);

static struct {
    enum { UNKNOWN, GOOD, WRONG } state;
    StandardNormal of_numpy;
    double width[LAYERS];       /* of the part 1 */
    uint64_t bound[LAYERS];     /* smaller parts are a number at once */
} ziggurat;

/* ---- generators for NumPy's function ---- */

/* One word that is given, and behind it a number in any case. */
typedef struct {
    uint64_t word;
    int asked;
    bool half;
} Probe;

static uint64_t
probe_word(void *state)
{
    Probe *p = state;
    return p->asked++ ? 2 : p->word;
}

/* 0 takes the part of a layer that is no number at once; in the last layer, 0 and a half do. */
static double
probe_double(void *state)
{
    Probe *p = state;
    p->asked++;
    p->half = !p->half;
    return p->half ? 0.0 : 0.5;
}

/* A word that was taken, before those that follow it. */
typedef struct {
    const Words *of;
    uint64_t word;
    bool taken;
} Again;

static uint64_t
again_word(void *state)
{
    Again *a = state;
    uint64_t word = a->taken ? a->of->next_uint64(a->of->state) : a->word;
    a->taken = true;
    return word;
}

static double
again_double(void *state)
{
    const Again *a = state;
    return a->of->next_double(a->of->state);
}

static uint64_t
mixed_word(void *state)
{
    uint64_t z = *(uint64_t *)state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static double
mixed_double(void *state)
{
    return (double)(mixed_word(state) >> 11) * 0x1p-53;
}

/* ---- the numbers ---- */

static double
not_at_once(const Words *words, uint64_t word)
{
    Again again = {words, word, false};
    Words of = {&again, again_word, NULL, again_double, again_word};
    return ziggurat.of_numpy(&of);
}

static void
fill(const Words *words, double loc, double scale, double *to, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        uint64_t word = words->next_uint64(words->state), part = word >> 9 & FRACTION, bits;
        unsigned layer = word & (LAYERS - 1);
        double x = (double)(int64_t)part * ziggurat.width[layer];
        memcpy(&bits, &x, sizeof bits);
        bits |= (word & LAYERS) << 55;
        memcpy(&x, &bits, sizeof bits);
        x = part < ziggurat.bound[layer] ? x : not_at_once(words, word);
        to[k] = loc + scale * x;
    }
}

/* ---- what NumPy's function does ---- */

static double
probed(unsigned layer, uint64_t part, bool *at_once)
{
    Probe probe = {.word = part << 9 | layer};
    Words words = {&probe, probe_word, NULL, probe_double, probe_word};
    double x = ziggurat.of_numpy(&words);
    *at_once = probe.asked == 1;
    return x;
}

static void
learn(void)
{
    bool at_once;
    for (unsigned layer = 0; layer < LAYERS; layer++) {
        uint64_t lo = 0, hi = FRACTION + 1; /* the bound is in lo .. hi */
        while (lo < hi) {
            uint64_t middle = lo + (hi - lo) / 2;
            probed(layer, middle, &at_once);
            lo = at_once ? middle + 1 : lo;
            hi = at_once ? hi : middle;
        }
        ziggurat.bound[layer] = lo;
        ziggurat.width[layer] = probed(layer, 1, &at_once);
    }
}

static bool
are_same(Normal normal)
{
    uint64_t ours = 1, theirs = 1;
    Words our = {&ours, mixed_word, NULL, mixed_double, mixed_word},
          their = {&theirs, mixed_word, NULL, mixed_double, mixed_word};
    bool same = true;
    for (int k = 0; k < COMPARED && same; k++) {
        double of_ours, of_theirs, loc = k % 2 ? 0.3 : -0.0, scale = k % 2 ? 1.7 : 1.0;
        fill(&our, loc, scale, &of_ours, 1);
        of_theirs = k % 2 ? normal(&their, loc, scale) : ziggurat.of_numpy(&their);
        same = memcmp(&of_ours, &of_theirs, sizeof of_ours) == 0 && ours == theirs;
    }
    return same;
}

static bool
is_known(const char *library)
{
    if (ziggurat.state == UNKNOWN) {
        void *opened = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
        Normal normal = NULL;
        if (opened) {
            *(void **)&ziggurat.of_numpy = dlsym(opened, "random_standard_normal");
            *(void **)&normal = dlsym(opened, "random_normal");
        }
        bool good = ziggurat.of_numpy && normal;
        if (good) {
            learn();
            good = are_same(normal);
        }
        ziggurat.state = good ? GOOD : WRONG;
    }
    return ziggurat.state == GOOD;
}

static PyObject *
fill_normals(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *library;
    PyObject *capsule;
    Py_buffer to;
    double loc, scale;
    if (!PyArg_ParseTuple(args, "sOw*dd", &library, &capsule, &to, &loc, &scale)) {
        return NULL;
    }
    const Words *words = PyCapsule_GetPointer(capsule, "BitGenerator");
    bool known = words && is_known(library);
    if (known) {
        Py_BEGIN_ALLOW_THREADS fill(words, loc, scale, to.buf, to.len / (int64_t)sizeof(double));
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&to);
    return words ? PyBool_FromLong(known) : NULL;
}

static PyMethodDef methods[] = {
    {"fill_normals", fill_normals, METH_VARARGS,
     PyDoc_STR("fill_normals(library, capsule, to, loc, scale) -> bool: fills an array of float64 "
               "with the numbers of\n"
               "Generator.normal; library: numpy.random._generator's file; capsule: of the bit "
               "generator, whose lock is held.\n"
               "False: NumPy draws in another way than is known here, and nothing was drawn.")},
    {NULL, NULL, 0, NULL},
};

int
normals_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
