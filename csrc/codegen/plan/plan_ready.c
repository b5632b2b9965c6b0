/* Launches of the body of a loop that are computed once for all its steps.
 *
 * What:     the sizes of a body are those of the loop, so what a step launches is the same each
 *           time.  Addresses alone differ: carried values change between two places, and rows lie
 *           one behind the other.
 * Requires: a body without calls, in a run that nobody watches: a call may give other tensors and
 *           sizes at each step.  A step has run: the workspace is there.
 * Ensures:  a step sets the addresses that differ, and runs.
 * How:      the loop sets the parameters of the body for three steps: one for each place, and the
 *           one after.  What they have in common, and by how much they differ, holds for all.  The
 *           branches and loops in the body stay open.  What an inner loop notes of its own steps
 *           are addresses, too, and differ with the step of the outer one: they are noted as those
 *           of the kernels are.
 * Why not   for bodies in the body with large workspaces: they would all be alive at a time.
 * Example:  for `c = c * x[i]` the first address is one of two, the second grows by a row.
 */
#include <stdlib.h>
#include <string.h>

#include "plan_flow_run.h"

/* Bytes of workspace that a body in the body may have. */
enum { MOST_OPEN = 1 << 16 };

/* By which step an address is noted: the first step of an inner loop, which reads the operands; one
 * that writes the first place of what the loop carries; the second place. */
typedef enum { FROM_OPERANDS, TO_FIRST, TO_SECOND, PLACES } Place;

/* An address that differs from step to step. */
typedef struct {
    char **at;
    char *place[PLACES]; /* at the step from which rows are counted */
    int64_t row; /* bytes from a step to the next */
} Moved;

/* Those of a loop: in each note the same ones in the same order. */
typedef struct {
    Moved *moved;
    int n, room, k; /* k: the next one to note */
    Place place;
    bool next; /* the step is the one after that of TO_FIRST */
    bool failed; /* no memory */
} Notes;

typedef struct Act Act;

/* What a step of a body does, in order. */
typedef struct {
    Act *acts;
    int n;
} Track;

typedef struct {
    ParallelJob job;
    const Launch *launch;
    int index;
    void **buffers;
    bool slow; /* worth leaving the interpreter's lock */
} ReadyLaunch;

typedef struct {
    const Step *step;
    PlanTensor to, from;
    int bytes; /* of an element */
    bool slow;
} ReadyCopy;

/* Memory that has to be in another place, where it is not there already. */
typedef struct {
    char *to, *from;
    int64_t bytes;
} Settled;

typedef struct {
    const Flow *flow;
    char *when; /* the bool */
    Inner ways[2];
    Track tracks[2];
    Settled *kept[2]; /* by result */
} ReadyBranch;

typedef struct {
    char *operand, *places[2];
    int64_t bytes;
} Carried;

typedef struct {
    LoopRun loop;
    char *go; /* the bool, if there is one */
    Track track;
    Notes notes;
    Carried *carried;
} ReadyLoop;

struct Act {
    StepKind kind;
    union {
        ReadyLaunch launch;
        ReadyCopy copy;
        ReadyBranch *branch;
        ReadyLoop *loop;
    };
    bool loops;
};

struct Ready {
    Track track;
    Notes notes;
    int64_t from; /* the step that was noted first */
};

/* ---- what there is to run ---- */

static bool track_make(Run *run, Track *track);

static bool
runs(const Run *run, int launch)
{
    return run->inst->values[run->plan->launches[launch].extent] != 0;
}

/* Nothing that may differ from step to step, and nobody watches. */
static bool
is_plain(const Run *run)
{
    const Plan *plan = run->plan;
    bool plain = !plan->checks && !run->watched && !run->traced && !run->tuning;
    for (int k = 0; k < plan->nsteps && plain; k++) {
        const Step *step = &plan->steps[k];
        plain = step->kind == STEP_LAUNCH || step->kind == STEP_COPY ||
                (step->kind == STEP_FLOW && !plan->flows[step->flow].nbinds);
    }
    return plain && run->inst->nown == 0 && run->inst->nlenders == 0;
}

static bool
launch_make(const Run *run, int index, bool slow, ReadyLaunch *l)
{
    const Launch *launch = &run->plan->launches[index];
    *l = (ReadyLaunch){.launch = launch, .index = index, .slow = slow};
    l->buffers = calloc((size_t)launch->nbuffers + 1, sizeof *l->buffers);
    return l->buffers != NULL;
}

static void
copy_make(const Run *run, const Step *step, ReadyCopy *copy)
{
    int64_t elements = 1;
    *copy = (ReadyCopy){.step = step};
    run_shape(run, step->slot, &copy->to);
    run_shape(run, step->from, &copy->from);
    for (int ax = 0; ax < copy->to.rank; ax++) {
        elements *= copy->to.sizes[ax];
    }
    copy->bytes = dtype_info[run->plan->slots[step->slot].dtype].bytes;
    copy->slow = elements > DLC_UNLOCK_COPY;
}

/* The body in the run around it, with its workspace. */
static bool
body_make(Run *run, const Body *body, Inner *in, Track *track)
{
    if (inner_open(run, body, in) != FAULT_NONE || in->first->workspace > MOST_OPEN) {
        return false;
    }
    if (in->first->workspace) {
        in->run.work = workspace_take((size_t)in->first->workspace);
        in->run.room = in->first->workspace;
    }
    return (in->run.work || !in->first->workspace) && track_make(&in->run, track);
}

static bool
branch_make(Run *run, const Flow *flow, Act *act)
{
    ReadyBranch *branch = act->branch = calloc(1, sizeof *branch);
    bool made = branch != NULL;
    if (made) {
        branch->flow = flow;
    }
    for (int way = 0; way < 2 && made; way++) {
        branch->kept[way] = calloc((size_t)flow->nres + 1, sizeof *branch->kept[way]);
        made = body_make(run, &flow->bodies[way], &branch->ways[way], &branch->tracks[way]) &&
               branch->kept[way];
    }
    return made;
}

static bool
loop_make(Run *run, const Flow *flow, Act *act)
{
    ReadyLoop *l = act->loop = calloc(1, sizeof *l);
    if (!l) {
        return false;
    }
    l->loop = (LoopRun){.run = run, .flow = flow};
    l->carried = calloc((size_t)flow->carries + 1, sizeof *l->carried);
    return body_make(run, &flow->bodies[0], &l->loop.in, &l->track) && l->carried;
}

/* false: there is no memory, or a step is not the same each time; track_free frees it all the
 * same. */
static bool
track_make(Run *run, Track *track)
{
    const Plan *plan = run->plan;
    bool slow = false, made = is_plain(run);
    track->acts = made ? calloc((size_t)plan->nsteps + 1, sizeof *track->acts) : NULL;
    made = made && track->acts;
    for (int k = 0; k < plan->nsteps && made; k++) {
        const Step *step = &plan->steps[k];
        Act *act = &track->acts[track->n];
        act->kind = step->kind;
        if (step->kind == STEP_COPY) {
            copy_make(run, step, &act->copy);
        } else if (step->kind == STEP_FLOW) {
            const Flow *flow = &plan->flows[step->flow];
            act->loops = flow->loops;
            made = flow->loops ? loop_make(run, flow, act) : branch_make(run, flow, act);
        } else {
            slow |= run->inst->slow[step->launch];
            if (!runs(run, step->launch)) {
                continue;
            }
            made = launch_make(run, step->launch, slow, &act->launch);
            slow = false;
        }
        track->n++;
    }
    return made;
}

static void track_free(Run *run, Track *track);

static void
body_free(Run *run, Inner *in, Track *track)
{
    track_free(&in->run, track);
    if (in->run.plan) { /* it was opened */
        inner_close(run, in);
    }
}

static void
act_free(Run *run, Act *act)
{
    if (act->kind == STEP_LAUNCH) {
        free(act->launch.buffers);
    } else if (act->kind == STEP_FLOW && act->loops && act->loop) {
        body_free(run, &act->loop->loop.in, &act->loop->track);
        free(act->loop->notes.moved);
        free(act->loop->carried);
        free(act->loop);
    } else if (act->kind == STEP_FLOW && !act->loops && act->branch) {
        for (int way = 0; way < 2; way++) {
            body_free(run, &act->branch->ways[way], &act->branch->tracks[way]);
            free(act->branch->kept[way]);
        }
        free(act->branch);
    }
}

static void
track_free(Run *run, Track *track)
{
    for (int k = 0; k < track->n; k++) {
        act_free(run, &track->acts[k]);
    }
    free(track->acts);
}

/* ---- the addresses ---- */

static void
note(Notes *notes, void *at, void *data)
{
    if (notes->k == notes->room) {
        int room = notes->room ? 2 * notes->room : 16;
        Moved *more = realloc(notes->moved, (size_t)room * sizeof *more);
        notes->failed |= !more;
        if (!more) {
            return;
        }
        notes->moved = more;
        notes->room = room;
    }
    if (notes->k == notes->n) {
        notes->moved[notes->n++] = (Moved){.at = at};
    }
    Moved *m = &notes->moved[notes->k++];
    if (notes->next) {
        m->row = data == m->place[TO_FIRST] ? 0 : (char *)data - m->place[TO_FIRST];
    } else {
        m->place[notes->place] = data;
    }
}

static void track_note(const Run *run, Track *track, Notes *notes);

/* Of buffers, only what is in parameters moves: workspace and sizes are those of the body. */
static void
note_slot(const Run *run, int slot, Notes *notes, void *at, void *data)
{
    const Plan *plan = run->plan;
    if (plan->slots[plan->slots[slot].root].kind == SLOT_PARAM) {
        note(notes, at, data);
    }
}

static void
note_launch(const Run *run, ReadyLaunch *l, Notes *notes)
{
    run_job(run, l->index, l->buffers, &l->job);
    for (int k = 0; k < l->launch->nbuffers; k++) {
        note_slot(run, l->launch->buffers[k], notes, &l->buffers[k], l->buffers[k]);
    }
}

static void
note_copy(const Run *run, ReadyCopy *copy, Notes *notes)
{
    copy->to.data = run_data(run, copy->step->slot);
    copy->from.data = run_data(run, copy->step->from);
    note_slot(run, copy->step->slot, notes, &copy->to.data, copy->to.data);
    note_slot(run, copy->step->from, notes, &copy->from.data, copy->from.data);
}

/* What a body keeps in the memory of a parameter is moved to the place of the result before. */
static void
note_moves(ReadyBranch *branch, int way, Notes *notes)
{
    const Body *body = &branch->flow->bodies[way];
    Inner *in = &branch->ways[way];
    for (int k = 0; k < branch->flow->nres; k++) {
        Settled *kept = &branch->kept[way][k];
        if (body->kept[k] >= 0) {
            PlanObject *param = &in->run.tensors[body->kept[k]];
            PlanObject *place = &in->run.tensors[body->nparams + k];
            kept->bytes = slot_bytes(&body->plan->slots[body->kept[k]], in->first->values);
            note(notes, &kept->from, param->data);
            note(notes, &kept->to, place->data);
            *param = *place;
        }
    }
}

static void
note_branch(const Run *run, ReadyBranch *branch, Notes *notes)
{
    int when = branch->flow->args[0];
    branch->when = run_data(run, when);
    note(notes, &branch->when, branch->when);
    for (int way = 0; way < 2; way++) {
        branch_begin(run, branch->flow, &branch->ways[way]);
        note_moves(branch, way, notes);
        track_note(&branch->ways[way].run, &branch->tracks[way], notes);
    }
}

/* Notes the addresses of a step that writes these places. */
static void
note_step(LoopRun *loop, Track *track, Notes *notes, Place place, bool next)
{
    notes->k = 0;
    notes->place = place;
    notes->next = next;
    loop_set_places(loop, place == FROM_OPERANDS ? loop_is_second(loop, 0) : place == TO_SECOND);
    if (place != FROM_OPERANDS) {
        loop_set_carried(loop, place != TO_SECOND);
    }
    track_note(&loop->in.run, track, notes);
}

/* Those of a first step and of those that write the one place, the other, and the first again. */
static void
note_steps(LoopRun *loop, Track *track, Notes *notes, bool begins)
{
    static const Place order[] = {FROM_OPERANDS, TO_FIRST, TO_SECOND, TO_FIRST};
    int64_t at = loop->at;
    for (int k = begins ? 0 : 1; k < 4; k++) {
        loop->at = at + (k == 3);
        loop_give_step(loop); /* of a body without calls: this makes no tensors */
        note_step(loop, track, notes, order[k], k == 3);
    }
    loop->at = at;
}

/* Of a loop in the body, as this step of the body finds it: where its values are, and what differs
 * in its own steps. */
static void
note_loop(const Run *run, ReadyLoop *l, Notes *notes)
{
    LoopRun *loop = &l->loop;
    const Flow *flow = loop->flow;
    loop->at = 0;
    loop_begin(loop);
    if (flow->whiles) {
        l->go = run_data(run, flow->args[0]);
        note(notes, &l->go, l->go);
    }
    for (int k = 0; k < flow->carries; k++) {
        Carried *c = &l->carried[k];
        *c = (Carried){
            .operand = loop->params[1 + k].data,
            .places = {run_data(run, flow->res[k]), run_data(run, flow->other[k])},
            .bytes = loop_carried_bytes(loop, k),
        };
        note(notes, &c->operand, c->operand);
        note(notes, &c->places[0], c->places[0]);
        note(notes, &c->places[1], c->places[1]);
        if (flow->other[k] == flow->res[k]) {
            loop->params[1 + k].data = c->places[0];
        }
    }
    note_steps(loop, &l->track, &l->notes, true);
    notes->failed |= l->notes.failed;
    for (int k = 0; k < l->notes.n; k++) {
        for (int place = 0; place < PLACES; place++) {
            char **at = &l->notes.moved[k].place[place];
            note(notes, at, *at);
        }
    }
}

static void
track_note(const Run *run, Track *track, Notes *notes)
{
    for (int k = 0; k < track->n && !notes->failed; k++) {
        Act *act = &track->acts[k];
        if (act->kind == STEP_LAUNCH) {
            note_launch(run, &act->launch, notes);
        } else if (act->kind == STEP_COPY) {
            note_copy(run, &act->copy, notes);
        } else if (act->loops) {
            note_loop(run, act->loop, notes);
        } else {
            note_branch(run, act->branch, notes);
        }
    }
}

/* Those that do not differ are set once. */
static void
drop_same(Notes *notes)
{
    int n = 0;
    for (int k = 0; k < notes->n; k++) {
        Moved *m = &notes->moved[k];
        if (m->row || m->place[TO_FIRST] != m->place[TO_SECOND]) {
            notes->moved[n++] = *m;
        } else {
            *m->at = m->place[TO_FIRST];
        }
    }
    notes->n = n;
}

Ready *
ready_make(LoopRun *loop)
{
    Ready *ready = calloc(1, sizeof *ready);
    if (!ready) {
        return NULL;
    }
    ready->from = loop->at;
    bool made = track_make(&loop->in.run, &ready->track);
    if (made) {
        note_steps(loop, &ready->track, &ready->notes, false);
        drop_same(&ready->notes);
    }
    if (!made || ready->notes.failed) {
        ready_free(ready, loop);
        return NULL;
    }
    return ready;
}

void
ready_free(Ready *ready, LoopRun *loop)
{
    track_free(&loop->in.run, &ready->track);
    free(ready->notes.moved);
    free(ready);
}

/* ---- a step ---- */

static int track_run(const Track *track, Run *run, Watch *watch);

static void
move(const Notes *notes, Place place, int64_t rows)
{
    for (int k = 0; k < notes->n; k++) {
        const Moved *m = &notes->moved[k];
        *m->at = m->place[place] + rows * m->row;
    }
}

static void
settle(char *to, const char *from, int64_t bytes)
{
    if (bytes && to != from) {
        memcpy(to, from, (size_t)bytes);
    }
}

static int
run_copy(const ReadyCopy *copy, Run *run)
{
    if (copy->slow) {
        run_leave(run);
    }
    copy_strided(copy->bytes, copy->to.rank, copy->to.sizes, copy->to.data, copy->to.strides,
                 copy->from.data, copy->from.strides);
    return 0;
}

static int
run_way(const ReadyBranch *branch, Run *run, Watch *watch)
{
    int way = *branch->when ? 0 : 1;
    for (int k = 0; k < branch->flow->nres; k++) {
        const Settled *kept = &branch->kept[way][k];
        settle(kept->to, kept->from, kept->bytes);
    }
    flow_hold(run, branch->ways[way].work);
    return track_run(&branch->tracks[way], run, watch);
}

/* As loop_steps and settle of plan_flow_run.c, with addresses alone. */
static int
run_inner_loop(ReadyLoop *l, Run *run, Watch *watch)
{
    LoopRun *loop = &l->loop;
    const Flow *flow = loop->flow;
    int64_t bound = loop_bound(loop);
    int status = 0;
    for (int k = 0; k < flow->carries; k++) {
        Carried *c = &l->carried[k];
        if (c->places[0] == c->places[1]) {
            settle(c->places[0], c->operand, c->bytes);
        }
    }
    loop->second = false;
    loop->go = flow->whiles ? *(const uint8_t *)l->go : 1;
    for (loop->at = 0; status == 0 && loop->go && loop->at < bound; loop->at++) {
        loop->second = loop_is_second(loop, loop->at);
        move(&l->notes,
             loop->at == 0  ? FROM_OPERANDS
             : loop->second ? TO_SECOND
                            : TO_FIRST,
             loop->at);
        flow_hold(run, loop->in.work);
        status = track_run(&l->track, run, watch);
        status = status == 0 ? flow_watch(watch, run, loop->in.work) : status;
    }
    for (int k = 0; k < flow->carries && status == 0; k++) {
        const Carried *c = &l->carried[k];
        if (c->places[0] != c->places[1]) {
            settle(c->places[0], loop->at ? c->places[loop->second] : c->operand, c->bytes);
        }
    }
    return status;
}

static int
track_run(const Track *track, Run *run, Watch *watch)
{
    int status = 0;
    for (int k = 0; k < track->n && status == 0; k++) {
        const Act *act = &track->acts[k];
        if (act->kind == STEP_LAUNCH) {
            if (act->launch.slow) {
                run_leave(run);
            }
            status = run_launch(run, act->launch.launch, &act->launch.job);
        } else if (act->kind == STEP_COPY) {
            status = run_copy(&act->copy, run);
        } else if (act->loops) {
            status = run_inner_loop(act->loop, run, watch);
        } else {
            status = run_way(act->branch, run, watch);
        }
    }
    return status;
}

int
ready_step(const Ready *ready, LoopRun *loop, bool second)
{
    flow_hold(loop->run, loop->in.work);
    move(&ready->notes, second ? TO_SECOND : TO_FIRST, loop->at - ready->from);
    return track_run(&ready->track, loop->run, &loop->watch);
}
