/* The disk cache from Python: dlc._C.cache_list, cache_refusal, cache_clear, cache_trim, and
 * entries of Python's own: cache_get, cache_put; and cache_digest. */

#include "capture/capture.h"

#include <sys/stat.h>

/* Opens the folder `option` (None: the default one); 1: open, 0: there is none, -1: an
 * exception. */
static int
open_folder(const char *option, char *path, size_t cap, Cache *cache)
{
    log_configure();
    if (!cache_path(option, path, cap) || !cache_open(cache, path)) {
        return 0;
    }
    return 1;
}

static void
add_entry(void *arg, const CacheEntry *entry)
{
    PyObject *list = arg;
    PyObject *row = Py_BuildValue("(sLdO)", entry->key, (long long)entry->bytes, entry->used,
                                  entry->sound ? Py_True : Py_False);
    if (!row || PyList_Append(list, row) < 0) {
        PyErr_Clear(); /* reported as missing below: the caller compares the counts */
    }
    Py_XDECREF(row);
}

static PyObject *
list_entries(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *option = NULL;
    int check = 0;
    char path[4096];
    Cache cache;
    if (!PyArg_ParseTuple(args, "|zp", &option, &check)) {
        return NULL;
    }
    if (!open_folder(option, path, sizeof path, &cache)) {
        Py_RETURN_NONE;
    }
    PyObject *entries = PyList_New(0);
    int n = entries ? cache_list(&cache, check, add_entry, entries) : 0;
    cache_close(&cache);
    if (entries && PyList_GET_SIZE(entries) < n) {
        Py_DECREF(entries);
        return PyErr_NoMemory();
    }
    return Py_BuildValue("(sNL)", path, entries, (long long)cache_bound());
}

static PyObject *
say_why(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *option = NULL;
    char path[4096], why[512];
    Cache cache;
    if (!PyArg_ParseTuple(args, "|z", &option)) {
        return NULL;
    }
    if (!cache_path(option, path, sizeof path)) {
        return PyUnicode_FromString("none is named, and there is no home");
    }
    if (!cache_try(&cache, path, why, sizeof why)) {
        return PyUnicode_DecodeFSDefault(why);
    }
    cache_close(&cache);
    Py_RETURN_NONE;
}

static PyObject *
clear_entries(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *option = NULL;
    char path[4096];
    Cache cache;
    if (!PyArg_ParseTuple(args, "|z", &option)) {
        return NULL;
    }
    if (!open_folder(option, path, sizeof path, &cache)) {
        return PyLong_FromLong(0);
    }
    int n = cache_clear(&cache);
    cache_close(&cache);
    return PyLong_FromLong(n);
}

static PyObject *
trim_entries(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *option = NULL;
    long long bytes;
    char path[4096];
    Cache cache;
    if (!PyArg_ParseTuple(args, "L|z", &bytes, &option)) {
        return NULL;
    }
    if (!open_folder(option, path, sizeof path, &cache)) {
        return PyLong_FromLong(0);
    }
    int n = cache_trim(&cache, bytes);
    cache_close(&cache);
    return PyLong_FromLong(n);
}

/* A SHA-256 as text; false: an exception. */
static bool
read_key(const char *text, Key *key)
{
    size_t size = strspn(text, "0123456789abcdef");
    if (size != sizeof key->hex - 1 || text[size]) {
        PyErr_SetString(PyExc_ValueError, "a key is a SHA-256 in hexadecimal digits");
        return false;
    }
    memcpy(key->hex, text, sizeof key->hex);
    return true;
}

static PyObject *
get_entry(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *text, *option = NULL;
    char path[4096];
    Cache cache;
    Key key;
    if (!PyArg_ParseTuple(args, "s|z", &text, &option) || !read_key(text, &key)) {
        return NULL;
    }
    if (!open_folder(option, path, sizeof path, &cache)) {
        Py_RETURN_NONE;
    }
    size_t size = 0;
    char *data = cache_read(&cache, key.hex, &size);
    cache_close(&cache);
    PyObject *result = data ? PyBytes_FromStringAndSize(data, (Py_ssize_t)size)
                            : Py_NewRef(Py_None);
    free(data);
    return result;
}

static PyObject *
put_entry(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *text, *data, *option = NULL;
    Py_ssize_t size;
    char path[4096];
    Cache cache;
    Key key;
    if (!PyArg_ParseTuple(args, "sy#|z", &text, &data, &size, &option) || !read_key(text, &key)) {
        return NULL;
    }
    if (!open_folder(option, path, sizeof path, &cache)) {
        Py_RETURN_FALSE;
    }
    bool stored = cache_store(&cache, &key, 1, data, (size_t)size, cache_bound());
    cache_close(&cache);
    return PyBool_FromLong(stored);
}

static PyObject *
digest(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *option = NULL;
    char path[4096];
    long long dev, ino, size, written, changed;
    Py_buffer data;
    Cache cache;
    Key key;
    if (!PyArg_ParseTuple(args, "y*(LLLLL)|z", &data, &dev, &ino, &size, &written, &changed,
                          &option)) {
        return NULL;
    }
    bool open = open_folder(option, path, sizeof path, &cache);
    if (open) {
        struct stat st = {.st_dev = (dev_t)dev, .st_ino = (ino_t)ino, .st_size = (off_t)size};
        st.st_mtim = (struct timespec){written / 1000000000, written % 1000000000};
        st.st_ctim = (struct timespec){changed / 1000000000, changed % 1000000000};
        Py_BEGIN_ALLOW_THREADS cache_digest(&cache, &st, data.buf, (size_t)data.len, &key);
        cache_close(&cache);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    return open ? PyUnicode_FromString(key.hex) : Py_NewRef(Py_None);
}

static PyMethodDef cache_methods[] = {
    {"cache_list", list_entries, METH_VARARGS,
     PyDoc_STR(
         "cache_list(folder=None, check=False) -> (path, [(key, bytes, last use, sound)], bound),\n"
         "or None without a usable folder.  Sizes in bytes, times in seconds since 1970.")},
    {"cache_refusal", say_why, METH_VARARGS,
     PyDoc_STR("cache_refusal(folder=None) -> str or None: why the folder is not used.")},
    {"cache_clear", clear_entries, METH_VARARGS,
     PyDoc_STR("cache_clear(folder=None) -> int: entries removed.")},
    {"cache_trim", trim_entries, METH_VARARGS,
     PyDoc_STR(
         "cache_trim(bytes, folder=None) -> int: entries removed, the least recently used first.")},
    {"cache_get", get_entry, METH_VARARGS,
     PyDoc_STR("cache_get(key, folder=None) -> bytes, or None: what cache_put stored.")},
    {"cache_put", put_entry, METH_VARARGS,
     PyDoc_STR("cache_put(key, data, folder=None) -> bool: stores an entry, private and sealed.\n"
               "key: a SHA-256 of all that the data depends on.")},
    {"cache_digest", digest, METH_VARARGS,
     PyDoc_STR(
         "cache_digest(data, facts, folder=None)\n"
         "-> str, or None without a usable folder: the SHA-256 of a file that has these bytes.\n"
         "facts: what os.fstat says of it: (st_dev, st_ino, st_size, st_mtime_ns, st_ctime_ns).\n"
         "It is not read again if it was not written to.")},
    {NULL},
};

int
cache_register(PyObject *module)
{
    return PyModule_AddFunctions(module, cache_methods);
}
