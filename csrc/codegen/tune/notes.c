/* What tuning knows, as notes in the cache folder.
 *
 * What:     for each kernel the fastest schedule that was found, as text that can be read and
 *           edited; for the machine what the model has learnt, and its speeds.
 * How:      the name of a kernel's note is made of the kernel, the processor, the compiler, the
 *           number of threads and the classes of the sizes.  A note begins with a comment, which
 *           says what the schedule gains.  If the search did not end, a second comment says so, and
 *           has hashes of the code that was measured, so that another search goes on.  The
 *           schedule follows; none: the usual one is the fastest.
 * Why not   the candidates themselves: a hash says as much, and a search makes hundreds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/processor.h"
#include "tuning.h"

/* ---- names ---- */

/* The class of a size.  CallSizes of one class differ by a factor below 1.5. */
static int
size_class(int64_t n)
{
    int log = 0;
    for (; n >= 2; n /= 2) {
        log += 2;
        if (n == 3) {
            return log + 1;
        }
    }
    return log;
}

int64_t
tuning_size(const Tuning *t, const char *name)
{
    for (int k = 0; k < t->plan->nsizes; k++) {
        if (strcmp(t->plan->size_names[k], name) == 0) {
            return t->inst->sizes[k];
        }
    }
    return 0;
}

void
notes_name(Tuning *t, const KernelUse *use, Tuned *tuned)
{
    Sha256 s;
    Key disk;
    int threads = parallel_threads();
    cc_target_key(t->target, use->key.key.hex, sizeof use->key.key.hex, &disk);
    sha256_begin(&s);
    sha256_add(&s, "tuned", sizeof "tuned");
    sha256_add(&s, disk.hex, sizeof disk.hex);
    sha256_add(&s, &threads, sizeof threads);
    for (int k = 0; k < use->key.nsizes; k++) {
        int class = size_class(tuning_size(t, dim_name(t->cx, use->key.sizes[k])));
        sha256_add(&s, &class, sizeof class);
    }
    key_end(&s, &tuned->note);
}

/* The name of what is of the machine, with the compiler. */
static Key
name_of(const Tuning *t, const char *what)
{
    Key name;
    cc_target_key(t->target, what, strlen(what), &name);
    return name;
}

static Key
name_of_model(const Tuning *t)
{
    return name_of(t, "what changes of schedules gain");
}

static Key
name_of_speeds(const Tuning *t)
{
    return name_of(t, cx_format(t->cx, "speeds of %d threads", parallel_threads()));
}

/* ---- reading and writing ---- */

static bool
open_cache(const Tuning *t, Cache *cache)
{
    return *cc_target_cache(t->target) && cache_open(cache, cc_target_cache(t->target));
}

static void
write_note(const Tuning *t, const Key *name, const char *text)
{
    Cache cache;
    if (open_cache(t, &cache)) {
        cache_write_note(&cache, name->hex, text);
        cache_close(&cache);
    }
}

/* The note, or NULL. */
static const char *
read_note(Tuning *t, const Cache *cache, const Key *name)
{
    char *text = cache_read_note(cache, name->hex);
    const char *copy = text ? cx_format(t->cx, "%s", text) : NULL;
    free(text);
    return copy;
}

/* ---- what was found for a kernel ---- */

static const char not_ended[] = "# not ended:";

static Seen
seen_as(const char *code)
{
    Sha256 s;
    Key key;
    Seen seen;
    sha256_begin(&s);
    sha256_add(&s, code, strlen(code));
    key_end(&s, &key);
    snprintf(seen.hash, sizeof seen.hash, "%.*s", SEEN_SIZE, key.hex);
    return seen;
}

bool
found_saw(const Found *found, const char *code)
{
    Seen seen = seen_as(code);
    int k = 0;
    while (k < found->nseen && strcmp(found->seen[k].hash, seen.hash) != 0) {
        k++;
    }
    return k < found->nseen;
}

static void
add_seen(Cx *cx, Found *found, Seen seen)
{
    found->seen = cx_grow(cx, found->seen, found->nseen, sizeof *found->seen);
    found->seen[found->nseen++] = seen;
}

void
found_see(Cx *cx, Found *found, const char *code)
{
    add_seen(cx, found, seen_as(code));
}

void
found_say(Cx *cx, Found *found)
{
    const char *more = found->ended ? "" : ", not ended";
    found->words = found->schedule ? cx_format(cx, "%.1f us -> %.1f us, candidate %d of %d%s",
                                               1e6 * found->usual, 1e6 * found->usual * found->part,
                                               found->at, found->tried, more)
                                   : cx_format(cx, "the usual schedule, the best of %d%s",
                                               found->tried + 1, more);
}

/* The numbers in the words, as far as they are those of a search. */
static void
read_words(Found *found)
{
    double usual, fastest;
    int at, tried;
    if (sscanf(found->words, "%lf us -> %lf us, candidate %d of %d", &usual, &fastest, &at,
               &tried) == 4 &&
        usual > 0 && fastest > 0 && at > 0 && tried >= at) {
        found->usual = 1e-6 * usual;
        found->part = fastest / usual;
        found->at = at;
        found->tried = tried;
    } else if (sscanf(found->words, "the usual schedule, the best of %d", &tried) == 1 &&
               tried > 0) {
        found->tried = tried - 1;
    }
}

/* The line at *at, without its end; goes on to the next.  NULL: it does not begin so. */
static const char *
comment(Cx *cx, const char **at, const char *begins)
{
    const char *end = strchr(*at, '\n');
    if (!end || strncmp(*at, begins, strlen(begins)) != 0) {
        return NULL;
    }
    const char *line = *at + strlen(begins);
    *at = end + 1;
    return cx_format(cx, "%.*s", (int)(end - line), line);
}

static void
read_found(Cx *cx, const char *note, Found *found)
{
    const char *at = note, *seen;
    *found = (Found){.part = 1};
    if (!(found->words = comment(cx, &at, "# "))) {
        return;
    }
    found->ended = true;
    read_words(found);
    if ((seen = comment(cx, &at, not_ended))) {
        found->ended = false;
        int length;
        Seen one;
        for (; sscanf(seen, " %16[0-9a-f]%n", one.hash, &length) == 1; seen += length) {
            add_seen(cx, found, one);
        }
    }
    found->schedule = *at ? at : NULL;
}

void
notes_write_found(Tuning *t, const Tuned *tuned)
{
    const Found *found = &tuned->found;
    Text text = {.cx = t->cx};
    text_add(&text, "# %s\n", found->words);
    if (!found->ended) {
        text_add(&text, "%s", not_ended);
        for (int k = 0; k < found->nseen; k++) {
            text_add(&text, " %s", found->seen[k].hash);
        }
        text_add(&text, "\n");
    }
    text_add(&text, "%s", found->schedule ? found->schedule : "");
    write_note(t, &tuned->note, text.text);
}

/* ---- what is known of the machine ---- */

static bool
read_speeds(const char *note, Speeds *out)
{
    double *numbers = &out->clock;
    bool good = note != NULL;
    for (int k = 0; k < SPEEDS && good; k++) {
        int length;
        good = sscanf(note, "%lf%n", &numbers[k], &length) == 1 && numbers[k] >= 0 &&
               numbers[k] < 1e18 && (k == 1 || numbers[k] > 0);
        note += good ? length : 0;
    }
    return good;
}

/* A product is taken to be as fast as its instructions. */
void
notes_speeds(Tuning *t)
{
    Cache cache;
    Speeds *out = &t->speeds;
    Key name = name_of_speeds(t);
    const char *note = NULL;
    if (out->threads) {
        return;
    }
    if (open_cache(t, &cache)) {
        note = read_note(t, &cache, &name);
        cache_close(&cache);
    }
    if (!read_speeds(note, out) && speeds_measure(out)) {
        Text text = {.cx = t->cx};
        for (int k = 0; k < SPEEDS; k++) {
            text_add(&text, "%.6g\n", (&out->clock)[k]);
        }
        write_note(t, &name, text.text);
    }
    out->threads = parallel_threads();
    out->product = out->clock * isa_info[processor_isa()].vector;
}

void
notes_read(Tuning *t)
{
    Cache cache;
    Key name = name_of_model(t);
    const char *learnt = NULL;
    bool open = open_cache(t, &cache);
    for (int k = 0; k < t->nkernels; k++) {
        const char *note = open ? read_note(t, &cache, &t->kernels[k].note) : NULL;
        read_found(t->cx, note ? note : "", &t->kernels[k].found);
    }
    if (open) {
        learnt = read_note(t, &cache, &name);
        cache_close(&cache);
    }
    t->model = model_new(t->cx, learnt);
}

void
notes_write_model(Tuning *t)
{
    Key name = name_of_model(t);
    write_note(t, &name, model_text(t->cx, t->model));
}
