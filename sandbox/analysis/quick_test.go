package analysis_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestAStatementThatIsNotSearchedHoldsNoDeniedConstruct(t *testing.T) {
	t.Parallel()
	library, err := exec.Command("python3", "-c", "import os,typing,inspect,subprocess;print(os.__file__,typing.__file__,inspect.__file__,subprocess.__file__)").Output()
	if err != nil {
		t.Fatal(err)
	}
	own, err := filepath.Glob("python/*.py")
	if err != nil {
		t.Fatal(err)
	}
	arguments := append([]string{"-B", "testdata/quick_check.py", "python"}, own...)
	out, err := exec.Command("python3", append(arguments, strings.Fields(string(library))...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
