# Types for the compiled pass; values.py is the source.
cimport cython

@cython.final
@cython.freelist(64)
cdef class V:
    cdef public str kind
    cdef public object own, holds, reads, ctl, files, flags
    cdef public tuple code
    cdef public frozenset const, items
    cdef public tuple elems
    cdef public str lib

cdef class Frame
cdef class Cls
cdef class Inst

@cython.final
cdef class Fn:
    cdef public object node, source
    cdef public Frame closure
    cdef public dict defaults
    cdef public V extra
    cdef public bint pending
    cdef public tuple decorators
    cdef public Cls cls
    cdef public Fn original

@cython.final
cdef class Cls:
    cdef public str name
    cdef public dict attrs
    cdef public tuple bases
    cdef public bint open
    cdef public Inst inst
    cdef public object node, root

@cython.final
cdef class Inst:
    cdef public Cls cls

@cython.final
cdef class Bound:
    cdef public Fn fn
    cdef public V me

@cython.final
cdef class Frame:
    cdef public str kind
    cdef public dict env, seen, params
    cdef public set must
    cdef public Frame parent
    cdef public frozenset globals, nonlocals, locals
    cdef public bint inner, changed, recursive
    cdef public V ret, yields
    cdef public object root
    cdef public list breaks, conts
    cdef public Fn fn

@cython.locals(v=V)
cpdef V new_value(str kind, object own, object holds, tuple code, object reads, object ctl, object files, object flags,
                  frozenset const, frozenset items, tuple elems, str lib)
cpdef str unmangled(str name)

@cython.locals(v=V)
cpdef V mix(object values, str kind=*, object own=*, object holds=*, tuple code=*)

cpdef tuple merge_code(tuple a, tuple b)
cpdef str join_kind(str a, str b)
cpdef frozenset join_constants(frozenset a, frozenset b)

@cython.locals(ea=tuple, eb=tuple, elems=tuple)
cpdef V join(V a, V b)

cpdef V join_all(object values)
