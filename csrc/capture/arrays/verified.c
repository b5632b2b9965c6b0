/* The cache folder of a program that is loaded, and whether it was verified before.
 *
 * What:     a program of a file is verified after each pass.  Passes do the same each time, so a
 *           program that was compiled once without a fault is verified once, behind the last one:
 *           that is a third of the time of a later load.  A note in the folder says so of the
 *           program's text.
 * Ensures:  nothing is compiled that was not verified. */
#include "loaded.h"

#include <string.h>

static void
close_folder(void *cache)
{
    cache_close(cache);
}

void
verified_open(Cx *cx, Job *job)
{
    static const char kind[] = "dlc verified 1";
    enum { CAP = 4096 };
    char *folder = cx_alloc(cx, CAP);
    Key compiler;
    Sha256 s;
    if (!job->options.keeps || job->passes.fuel >= 0 ||
        !cache_path(job->options.cc.cache, folder, CAP)) {
        return;
    }
    CcTarget *target = cc_target_new(&job->options.cc);
    if (target) {
        cc_target_origin(target, &job->common, &compiler);
        job->keeps = cache_open(&job->cache, folder);
    }
    cc_target_unref(target);
    if (!job->keeps) {
        return;
    }
    cx_cleanup(cx, close_folder, &job->cache);
    sha256_begin(&s);
    sha256_add(&s, kind, sizeof kind);
    sha256_add(&s, job->common.hex, sizeof job->common.hex);
    sha256_add(&s, job->text, strlen(job->text));
    key_end(&s, &job->note);
    job->verified = cache_seen(&job->cache, &job->note);
}

PassOptions
verified_passes(const Job *job)
{
    PassOptions passes = job->passes;
    passes.verify = !job->verified;
    return passes;
}

void
verified_done(const Job *job)
{
    if (job->keeps && !job->verified) {
        cache_see(&job->cache, &job->note);
    }
}
