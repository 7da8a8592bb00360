# Types for the compiled pass; interp.py is the source.
from machine cimport Machine
from values cimport Cls, Fn, Frame, Inst, V, join, merge_code, mix, unmangled

cdef class Statements(Machine):
    cdef run(self, list body)
    cdef assign(self, object t, V v)
    cdef unpack(self, object t, V v)
