/* Reuse of the memory of large results.
 *
 * A large tensor's memory comes from the system page by page, each cleared when it is first
 * written; that takes as long as a kernel that is bound by memory.  So the storages of large
 * results are kept: `kept` holds a tensor of bytes over each, and a result is another tensor over
 * the same storage.  When ours is the only reference to a storage, nothing else can see it, and the
 * next result of exactly as many bytes may use it.
 *
 * Why not a deleter: a storage over memory of our own could not be resized, which eager's can.
 * These storages are torch's own for their whole life: resized, shared between processes, saved or
 * freed by any thread, they behave as all others.  A storage whose memory has changed is dropped
 * when the next one is needed.
 *
 * The interpreter lock guards all of this file. */

#include <stdatomic.h>

#include "capture/module.h"
#include "torch_abi.h"

enum {
    KEPT = 64,                  /* storages, at most */
    WORDS = 16,                 /* of a TensorImpl, where its storage is searched for */
    SCALAR_U8 = 0,              /* torch.uint8 */
};

/* The beginning of a StorageImpl: a reference count is in the low half of its second word. */
typedef struct {
    void *methods;
    _Atomic uint64_t references;
} Storage;

typedef struct {
    TorchTensor bytes;          /* owned: the whole storage, as uint8 */
    const Storage *storage;
    void *data;
    int64_t size;
    uint64_t used;              /* when, in takes */
    bool spare;                 /* its memory is freed if another size is needed */
} Kept;

static Kept kept[KEPT];
static int nmaterialised;
static int64_t kept_size;
static uint64_t takes;
/* the word of a TensorImpl that is its StorageImpl; 0: unknown, nothing is kept */
static int storage_at;

static const Storage *
storage_of(TorchTensor tensor)
{
    return ((const Storage **)*(void **)tensor)[storage_at];
}

const void *
storage_address(PyObject *tensor)
{
    return storage_at ? storage_of(torch_abi_handle(tensor)) : NULL;
}

static uint32_t
references(const Storage *storage)
{
    return (uint32_t)atomic_load_explicit(&storage->references, memory_order_acquire);
}

static TorchTensor
new_bytes(int64_t size)
{
    const int64_t one = 1;
    TorchTensor made;
    return torch_abi.aoti_torch_empty_strided(1, &size, &one, SCALAR_U8, 0, -1, &made) ? NULL
                                                                                       : made;
}

static int32_t
over(TorchTensor bytes, int32_t dtype, const PlanTensor *t, TorchTensor *made)
{
    return torch_abi.aoti_torch__alloc_from_pool(bytes, 0, dtype, t->rank, t->sizes, t->strides,
                                                 made);
}

/* Does the count change as expected when a second tensor is made and freed? */
static bool
counts(TorchTensor bytes)
{
    PlanTensor whole = {.rank = 1, .sizes = {1}, .strides = {1}};
    TorchTensor second;
    const Storage *storage = storage_of(bytes);
    uint32_t before = references(storage);
    if (over(bytes, SCALAR_U8, &whole, &second)) {
        return false;
    }
    uint32_t both = references(storage);
    bool same = storage_of(second) == storage;
    torch_abi.aoti_torch_delete_tensor_object(second);
    return same && before == 1 && both == 2 && references(storage) == 1;
}

/* The word of the sample's TensorImpl that holds the address of its storage, or 0. */
static int
find_storage(PyObject *sample)
{
    PyObject *object = PyObject_CallMethod(sample, "untyped_storage", NULL);
    PyObject *cdata = object ? PyObject_GetAttrString(object, "_cdata") : NULL;
    void *wanted = cdata ? PyLong_AsVoidPtr(cdata) : NULL,
         **words = *(void **)torch_abi_handle(sample);
    int at = 1;
    Py_XDECREF(cdata);
    Py_XDECREF(object);
    PyErr_Clear();
    while (at < WORDS && words[at] != wanted) {
        at++;
    }
    return wanted && at < WORDS ? at : 0;
}

void
storage_init(PyObject *sample)
{
    if (!torch_abi.aoti_torch__alloc_from_pool || storage_at) {
        return;
    }
    storage_at = find_storage(sample);
    TorchTensor bytes = storage_at ? new_bytes(1) : NULL;
    if (!bytes || !counts(bytes)) {
        storage_at = 0;
        torch_abi_lacks("the place of a tensor's storage",
                        "the memory of large results is not used again");
    }
    if (bytes) {
        torch_abi.aoti_torch_delete_tensor_object(bytes);
    }
}

static void
drop(int k)
{
    torch_abi.aoti_torch_delete_tensor_object(kept[k].bytes);
    kept_size -= kept[k].size;
    kept[k] = kept[--nmaterialised];
}

void
storage_release(void)
{
    while (nmaterialised > 0) {
        drop(nmaterialised - 1);
    }
}

void
storage_forget(PyObject *tensor)
{
    const void *storage = storage_address(tensor);
    for (int k = nmaterialised - 1; k >= 0; k--) {
        if (kept[k].storage == storage) {
            drop(k);
        }
    }
}

void
storage_spare(PyObject *tensor)
{
    const void *storage = storage_address(tensor);
    for (int k = 0; k < nmaterialised; k++) {
        kept[k].spare = kept[k].spare || kept[k].storage == storage;
    }
}

/* Is the storage still the memory that it was? */
static bool
intact(const Kept *k)
{
    void *data;
    int64_t size;
    return torch_abi.aoti_torch_get_data_ptr(k->bytes, &data) == 0 && data == k->data &&
           torch_abi.aoti_torch_get_storage_size(k->bytes, &size) == 0 && size == k->size;
}

static void
drop_changed(void)
{
    for (int k = nmaterialised - 1; k >= 0; k--) {
        if (!intact(&kept[k])) {
            drop(k);
        }
    }
}

/* A kept storage that nothing else uses, or -1; the latest used, which is most likely in a
 * cache. */
static int
find_idle(int64_t size)
{
    int found = -1;
    for (int k = 0; k < nmaterialised; k++) {
        if (kept[k].size == size && references(kept[k].storage) == 1 &&
            (found < 0 || kept[k].used > kept[found].used)) {
            found = k;
        }
    }
    return found;
}

/* Frees unused spare storages with at least this many bytes in all, those longest unused first. */
static void
drop_spare(int64_t size)
{
    int out = 0;
    while (size > 0 && out >= 0) {
        out = -1;
        for (int k = 0; k < nmaterialised; k++) {
            bool idle = kept[k].spare && references(kept[k].storage) == 1;
            out = idle && (out < 0 || kept[k].used < kept[out].used) ? k : out;
        }
        if (out >= 0) {
            size -= kept[out].size;
            drop(out);
        }
    }
}

/* Makes room for one storage more: those longest unused go, first of those that nobody has. */
static void
make_room(int64_t size, int64_t bound)
{
    while (nmaterialised > 0 && (nmaterialised == KEPT || kept_size + size > bound)) {
        int out = 0;
        for (int k = 1; k < nmaterialised; k++) {
            bool idle = references(kept[k].storage) == 1,
                 other = references(kept[out].storage) == 1;
            if (idle != other ? idle : kept[k].used < kept[out].used) {
                out = k;
            }
        }
        drop(out);
    }
}

/* Before anything is written: whoever writes a page first gets it from memory that is near. */
static void
want_huge(TorchTensor tensor, int64_t size)
{
    void *data;
    if (torch_abi.aoti_torch_get_data_ptr(tensor, &data) == 0) {
        memory_want_huge(data, (size_t)size);
    }
}

/* The bytes of a storage for a result of `size` bytes, borrowed; NULL when it is not to be kept. */
static TorchTensor
take(int64_t size)
{
    int64_t bound = memory_bound();
    if (!storage_at || size > bound) {
        return NULL;
    }
    drop_changed();
    int k = find_idle(size);
    if (k < 0) {
        drop_spare(size);
        make_room(size, bound);
        TorchTensor bytes = new_bytes(size);
        if (!bytes) {
            return NULL;
        }
        want_huge(bytes, size);
        k = nmaterialised++;
        kept[k] = (Kept){.bytes = bytes, .storage = storage_of(bytes), .size = size};
        torch_abi.aoti_torch_get_data_ptr(bytes, &kept[k].data);
        kept_size += size;
    }
    kept[k].used = ++takes;
    kept[k].spare = false;
    return kept[k].bytes;
}

/* Bytes from the first to one past the last element. */
static int64_t
extent(Dtype dtype, const PlanTensor *t)
{
    int64_t last = 0;
    for (int ax = 0; ax < t->rank; ax++) {
        if (t->sizes[ax] == 0) {
            return 0;
        }
        last += (t->sizes[ax] - 1) * t->strides[ax];
    }
    return (last + 1) * dtype_info[dtype].bytes;
}

int32_t
storage_unpooled(Dtype dtype, const PlanTensor *t, TorchTensor *made)
{
    int32_t scalar = dtype_info[dtype].torch;
    int32_t status = torch_abi.aoti_torch_empty_strided(t->rank, t->sizes, t->strides, scalar, 0,
                                                        -1, made);
    if (status != 0 && nmaterialised > 0) { /* kept memory may be the memory that is missing */
        storage_release();
        status = torch_abi.aoti_torch_empty_strided(t->rank, t->sizes, t->strides, scalar, 0, -1,
                                                    made);
    }
    int64_t size = extent(dtype, t);
    if (status == 0 && size >= DLC_POOLED) {
        want_huge(*made, size);
    }
    return status;
}

int32_t
storage_new(Dtype dtype, const PlanTensor *t, TorchTensor *made)
{
    int64_t size = extent(dtype, t);
    TorchTensor bytes = size >= DLC_POOLED ? take(size) : NULL;
    return bytes ? over(bytes, dtype_info[dtype].torch, t, made) : storage_unpooled(dtype, t, made);
}
