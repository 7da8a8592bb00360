package rollout

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCodeIsUnfencedOnceThenDedentedThenStripped(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ in, want string }{
		"plain":                 {"\nx = 1\n", "x = 1"},
		"on the tag's own line": {"x = 1", "x = 1"},
		"fence":                 {"\n```python\nprint(1)\n```\n", "print(1)"},
		"short fence":           {"```py\nprint(1)\n```", "print(1)"},
		"bare fence":            {"```\nprint(1)\n```", "print(1)"},
		"stray closing fence":   {"\nprint(1)\n```\n", "print(1)"},
		"language on line one":  {"Python\nprint(1)\n", "print(1)"},
		"carriage returns":      {"\r\nx = 1\r\ny = 2\r\n", "x = 1\ny = 2"},
		"backticks in a string": {"s = '```'\nprint(s)", "s = '```'\nprint(s)"},
		"all lines indented":    {"\n    x = 1\n    for i in range(2):\n        x += i\n", "x = 1\nfor i in range(2):\n    x += i"},
		"first line after the tag, rest indented":  {"x = 1\n    for i in range(2):\n        x += i\n", "x = 1\nfor i in range(2):\n    x += i"},
		"first line indented after the tag":        {"    x = 1\n    y = 2\n", "x = 1\ny = 2"},
		"tabs":                                     {"\n\tx = 1\n\tif x:\n\t\ty = 2\n", "x = 1\nif x:\n\ty = 2"},
		"a block is no common indentation":         {"for i in range(2):\n    x = i\n", "for i in range(2):\n    x = i"},
		"an open bracket is no common indentation": {"x = f(\n    1,\n    2)\n", "x = f(\n    1,\n    2)"},
		"blank lines between keep their place":     {"\n  a = 1\n\n  b = 2\n", "a = 1\n\nb = 2"},
		"fence inside an indented block":           {"  ```python\n  x = 1\n  ```\n", "x = 1"},
		"empty":                                    {"\n\n", ""},
		"an expression named like the language":    {"python\n", "python"},
	}
	for name, c := range cases {
		require.Equal(t, c.want, clean(c.in), name)
	}
}
