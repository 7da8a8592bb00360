"""The kinds of abstract values, and what bounds them."""

DYNAMIC, UNTRACKED = 1, 2
# What stands before a pattern among the names of files; no file's name has it.
PATTERN = "\0"

# Kinds. "any" is the top; only "s" (immutable scalars), modules and builtins have no roots.
ANY, SCALAR, FRAME, PANDAS, LOC, ARRAY = "any", "s", "df", "pd", "loc", "np"
LIST, SCALARS, DICT, SET, TUPLE, GEN = "list", "ls", "dict", "set", "tuple", "gen"
LIB, BUILTIN, PRIMITIVE, FUNCTION, CLASS, INSTANCE = "lib", "bi", "prim", "fn", "cls", "inst"
OBJECT, FILE, PATH, SEPARATE, SUPER = "obj", "file", "path", "sep", "super"

LIBRARY = frozenset((LIB, BUILTIN, PRIMITIVE))
ROOTLESS = frozenset((SCALAR, LIB, BUILTIN, PRIMITIVE))
SERIES, INDEX, GROUP, GROUPED_SERIES = "se", "ix", "gb", "gs"
# PANDAS is any of the others; a scalar that a reduction gives may hide behind it.
PANDAS_KINDS = frozenset((FRAME, PANDAS, SERIES, INDEX, GROUP, GROUPED_SERIES))
TABULAR = PANDAS_KINDS | {ARRAY}
# Objects that take in what is put into them, and change nothing else by that.
SELF_CONTAINED = TABULAR | {LIST, SCALARS, DICT, SET, TUPLE, LOC, ANY}

# What V.lib says of a value that is no library: an estimator told to work on its arguments, a figure
# that pyplot may still draw on, a type of named tuples, a dict that reading fills, and an object of a library that nothing is
# known about, whose methods may do more than their names say.
IN_PLACE, FIGURE, NAMED_TUPLE, FOREIGN, DEFAULTS = "?in place", "?figure", "?named tuple", "?foreign", "?defaults"

# Where more would be kept, the value becomes unknown instead.
MAX_CONSTANTS, MAX_CODE, MAX_ELEMENTS = 24, 12, 64
