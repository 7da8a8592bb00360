"""Compiles the pass for the interpreter that runs this: compile.py SOURCES OUT.

SOURCES is the folder of the pass. A module with types beside it (NAME.pxd) becomes NAME.so in OUT; the others
hold data only. OUT/sources says what was compiled and for which interpreter, so that a program with other sources
leaves it alone. Without a C compiler or Python.h nothing is written: the pass then runs from its sources.
"""

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from _imp import extension_suffixes
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# -O1: five sixths of the pass's time go into Python's own library (measured with perf), whatever the level is.
# Wrong types in the generated code, which compilers only warn of by default, are faults of the translation.
FLAGS = """-O1 -g0 -fPIC -shared -fwrapv -fno-strict-aliasing -Werror=int-to-pointer-cast -Werror=int-conversion
    -Werror=incompatible-pointer-types""".split()
DIRECTIVES = {"language_level": 3, "binding": False, "emit_code_comments": False, "nonecheck": True}


def missing(compiler):
    """What there is not of what compiling needs."""
    if shutil.which(compiler[0]) is None:
        return "C compiler (%s)" % compiler[0]
    header = os.path.join(sysconfig.get_path("include"), "Python.h")
    return None if os.path.exists(header) else "%s (Debian: python3-dev)" % header


def digest(sources):
    """Of the modules' names and texts; process.go makes the same of what it embeds."""
    out = hashlib.sha256()
    for path in sorted(sources.glob("*.py")):
        out.update(b"%s\0%d\0%s" % (path.stem.encode(), path.stat().st_size, path.read_bytes()))
    return out.hexdigest()


def translate(path, work):
    from Cython.Compiler.Main import CompilationOptions, compile_single
    options = CompilationOptions(output_file=str(work / (path.stem + ".c")), compiler_directives=DIRECTIVES, c_line_in_traceback=False)
    if compile_single(str(path), options, full_module_name=path.stem).num_errors:
        sys.exit("%s does not compile" % path)


def main(sources, out):
    compiler = shlex.split(os.environ.get("CC") or "cc")
    lacking = missing(compiler)
    if lacking:
        print("no %s: the provenance pass will run from its sources, which takes about twice as long" % lacking)
        return
    include = "-I" + sysconfig.get_path("include")
    with tempfile.TemporaryDirectory(dir=out.parent) as folder, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        work = Path(folder)
        built = work / "built"
        built.mkdir(mode=0o755)
        runs = []
        # The largest first, so that the compilers end together.
        for path in sorted(sources.glob("*.pxd"), key=lambda p: -p.with_suffix(".py").stat().st_size):
            translate(path.with_suffix(".py"), work)
            command = [*compiler, *FLAGS, include, "-o", str(built / (path.stem + ".so")), str(work / (path.stem + ".c"))]
            runs.append(pool.submit(subprocess.run, command, check=True))
        for run in runs:
            run.result()
        (built / "sources").write_text("%s %s\n" % (digest(sources), extension_suffixes()[0]))
        shutil.rmtree(out, ignore_errors=True)
        built.rename(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
