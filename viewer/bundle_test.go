package viewer

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The bundle is committed so that a build needs no Node; build.mjs writes what it was made from.
func TestTheCommittedBundleIsThatOfItsSource(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("web/src/*")
	require.NoError(t, err)
	h := sha256.New()
	for _, file := range append([]string{"web/build.mjs", "web/package-lock.json"}, files...) {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		h.Write([]byte(strings.TrimPrefix(file, "web/") + "\x00"))
		h.Write(data)
		h.Write([]byte{0})
	}
	want, err := os.ReadFile("dist/SOURCES.sha256")
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(want)), hex.EncodeToString(h.Sum(nil)), "run make viewer")
}

func TestThePageAsksForNothingElsewhereAndMakesNoMarkupOfText(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"dist/index.html", "dist/app.js", "dist/app.css"} {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		text := string(data)
		for _, name := range []string{"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml", "http://www.w3.org/1998/Math/MathML"} {
			text = strings.ReplaceAll(text, name, "") // names of XML dialects, which nothing fetches
		}
		for _, bad := range []string{"http://", "https://", "eval(", "new Function", "document.write", "insertAdjacentHTML"} {
			require.NotContains(t, text, bad, file)
		}
	}
	sources, err := filepath.Glob("web/src/*.ts*")
	require.NoError(t, err)
	for _, file := range sources {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, bad := range []string{"innerHTML", "dangerouslySetInnerHTML", "outerHTML", "srcdoc"} {
			require.NotContains(t, string(data), bad, file)
		}
	}
}
