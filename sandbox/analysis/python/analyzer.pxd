# Types for the compiled pass; analyzer.py is the source.
cimport cython

from calls cimport Calls
from quick cimport Quick
from state cimport Coder, plain
from values cimport V, new_value

@cython.final
cdef class Pass(Calls):
    pass

@cython.final
cdef class Cell:
    cdef public str source
    cdef public list lines
    cdef public Pass machine
    cdef public Coder coder
    cdef public Quick quick
    cdef public object scan

    cdef dict statement(self, object s)

    @cython.locals(v=V, old=V)
    cdef describe(self, dict out)

    @cython.locals(v=V, flow=dict)
    cdef flows(self, dict env, list writes, object maybe, object mutated, dict out)

    cdef tuple changed(self, V v)

    @cython.locals(v=V)
    cdef list mutated(self, dict env, set must)

    cdef files(self, object mask, dict out)
    cdef raised(self, object s, dict out)

    @cython.locals(v=V)
    cdef definitions(self, dict env, object mutated, dict out)

    cdef list names(self, object mask)
    cdef dict call(self, list entry)
    cdef dict argument(self, str name, object node, V v, bint whole)
    cdef str text(self, object node)

cdef bint binds_early(object s)
cdef V clean(V v)
cdef put(dict out, str key, object names)
