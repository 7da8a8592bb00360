package analysis_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestScopesAgreeWithPythonsOwnSymbolTable(t *testing.T) {
	t.Parallel()
	// The pass's sources and two big modules of the interpreter's library.
	library, err := exec.Command("python3", "-c", "import os,typing,argparse,dataclasses;print(typing.__file__,argparse.__file__,dataclasses.__file__)").Output()
	if err != nil {
		t.Fatal(err)
	}
	own, err := filepath.Glob("python/*.py")
	if err != nil {
		t.Fatal(err)
	}
	arguments := append([]string{"-B", "testdata/scope_check.py", "python"}, own...)
	out, err := exec.Command("python3", append(arguments, strings.Fields(string(library))...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
