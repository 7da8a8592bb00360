package sandbox

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/trajectory"
)

const printsTheTime = `import time, datetime, os
import pandas as pd
print(time.time(), time.time_ns(), time.ctime(), time.strftime('%H:%M:%S'), time.localtime().tm_year)
print(datetime.datetime.now(), datetime.datetime.now(datetime.timezone.utc), datetime.date.today(), datetime.datetime.utcnow())
print(pd.Timestamp.now(), pd.Timestamp.today(), pd.Timestamp.now('UTC'), pd.to_datetime('today'))
t = time.perf_counter()
time.sleep(0.01)
print(datetime.datetime.today(), time.perf_counter() - t, type(datetime.datetime.now()) is datetime.datetime)
import asyncio
asyncio.run(asyncio.sleep(0.01))`

func TestAFixedClockStandsStillButForSleeping(t *testing.T) {
	t.Parallel()
	at := time.Date(2020, 2, 29, 12, 30, 1, 500_000_000, time.UTC)
	var first string
	for range 2 {
		sess, err := box(t).Start(t.Context(), Spec{Clock: at})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, sess.Close()) })
		res := run(t, sess, printsTheTime)
		require.Equal(t, trajectory.CellOK, res.Status, res.Traceback)
		if first == "" {
			first = res.Output
		}
		require.Equal(t, first, res.Output)
	}
	require.Equal(t, "1582979401.5 1582979401500000000 Sat Feb 29 12:30:01 2020 12:30:01 2020\n"+
		"2020-02-29 12:30:01.500000 2020-02-29 12:30:01.500000+00:00 2020-02-29 2020-02-29 12:30:01.500000\n"+
		"2020-02-29 12:30:01.500000 2020-02-29 12:30:01.500000 2020-02-29 12:30:01.500000+00:00 2020-02-29 12:30:01.500000\n"+
		"2020-02-29 12:30:01.510000 0.01 True\n", first)
	res := run(t, start(t, box(t), nil), "import datetime; datetime.datetime.now().year > 2020")
	require.Equal(t, "True\n", res.Output)
}

func TestTheHashSeedIsTheConfigurations(t *testing.T) {
	t.Parallel()
	code := "import os; print(hash('a'), list(set('alpha beta gamma delta epsilon'.split())), os.environ['PYTHONHASHSEED'])"
	one := run(t, start(t, box(t), nil), code).Output
	other := own(t, func(c *Config) { c.HashSeed = 7 })
	two := run(t, start(t, other, nil), code).Output
	require.NotEqual(t, one, two)
	require.Contains(t, two, " 7\n")
	require.Equal(t, two, run(t, start(t, other, nil), code).Output)
	// An interpreter of its own that is given the same seed is the oracle.
	cmd := exec.CommandContext(t.Context(), python, "-c", code)
	cmd.Env = []string{"PYTHONHASHSEED=7"}
	plain, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, string(plain), two)
}

func TestUnseededGeneratorsRepeatToo(t *testing.T) {
	t.Parallel()
	code := "import numpy as np\nfrom numpy.random import default_rng\nprint(np.random.default_rng().random(2), default_rng().random(), default_rng(3).random())"
	first := run(t, start(t, box(t), nil), code).Output
	require.Equal(t, first, run(t, start(t, box(t), nil), code).Output)
	require.Contains(t, first, "0.08564916714362436")
	twice := run(t, start(t, box(t), nil), "import numpy as np; np.random.default_rng().random() == np.random.default_rng().random()")
	require.Equal(t, "False\n", twice.Output)
}

func TestDisplayWidthsAreSetOnPurpose(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	res := run(t, sess, "import pandas as pd, numpy as np\ndf = pd.DataFrame({f'column_{i}': range(100) for i in range(12)})\ndf")
	require.Contains(t, res.Output, "column_11")
	require.NotContains(t, res.Output, "...  column")
	require.Equal(t, "120\n", run(t, sess, "max(len(l) for l in repr(np.arange(100_000, 100_400)).splitlines()) <= 120 and pd.get_option('display.width')").Output)
}

func TestAWarningIsShownOnceAndNamesNoHostPath(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	res := run(t, sess, "import warnings\ndef f(): warnings.warn('take care')\nf(); f()\nwarnings.warn('take care')")
	require.Equal(t, "<cell 1>:2: UserWarning: take care\n", res.Output)
	require.Empty(t, run(t, sess, "warnings.warn('take care')\nf()").Output)
	res = run(t, sess, "import pandas as pd, numpy as np\npd.to_datetime(['1 Feb 2020', '2020-13-01'], errors='coerce')\nnp.array([1.0]) / 0\nwarnings.warn_explicit('deep', UserWarning, np.__file__, 1)")
	require.Contains(t, res.Output, "numpy/__init__.py:1: UserWarning: deep")
	require.NotContains(t, res.Output, "site-packages")
}
