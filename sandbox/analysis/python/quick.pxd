# Types for the compiled pass; quick.py is the source.
cdef class Quick:
    cdef public bint clean
    cdef public set late
    cdef public dict calls

    cpdef bint passes(self, object s, Py_ssize_t calls)

cpdef list lines_of(str text, str part)
cdef bint _plain(object s)
cdef bint _bindable(object target)
