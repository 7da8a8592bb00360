# Types for the compiled pass; machine.py is the source.
cimport cython

from values cimport Bound, Cls, Fn, Frame, Inst, V, join, merge_code, mix, new_value

@cython.final
cdef class Heap:
    cdef public dict entries
    cdef public object version, owners

    cdef put(self, object owner, object reach, tuple code, V v)

cdef class Machine:
    cdef dict __dict__  # what is not listed here: it works, and is slower
    cdef public dict base, index, file_index, calls, changes, sites, fns, classes, frames, active
    cdef public list names, files, tries, unseen
    cdef public object used, OBJ, BUF
    cdef public Frame module, frame
    cdef public str source
    cdef public Py_ssize_t total, steps, limit, depth, weak, branch, guarded
    cdef public bint early, dynamic_writes
    cdef public set bound, hasty, written, untracked, taints, imported
    cdef public Heap heap
    cdef public object mutated, loaded, reads, ctl, file_bits, flags, pcr, pcc, pcf, pcg, site

    cdef V ev(self, object n)
    cdef object bit(self, str name)
    cdef object root(self, object site)
    cdef V owned(self, V v, object site)
    cdef object reach(self, V v)
    cdef object close(self, object mask)
    cdef V live(self, V v)
    cdef V load(self, str name)
    cdef V load_inner(self, Frame f, str name)
    cdef V before(self, str name)
    cdef keep(self, str name, V v)
    cdef V stamp(self, V v)
    cdef sink(self, V v)
    cdef control(self, V v)
    cdef bind(self, str name, V v, object site, bint walrus=*, bint imported=*)
    cdef bind_module(self, str name, V v, bint weak)
    cdef V earlier(self, str name)
    @cython.locals(v=V)
    cdef mutate_by(self, object mask, tuple values)
    cdef hold(self, object owner, object reach, tuple code, V v)
    cdef store(self, V target, V v, object mask=*)
    cdef tuple fork(self)
    cdef set(self, tuple state)
    cdef tuple take(self)

@cython.locals(o=V)
cpdef V mixed(V v, tuple others)
