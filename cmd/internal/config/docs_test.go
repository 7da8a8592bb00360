package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/cmd/internal/config"
)

// YAML that the documents show is a configuration that loads.
func TestConfigurationOfThePolicyDocumentIsParsedStrictly(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../../docs/policy.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(doc), "```yaml\n")
	require.True(t, ok)
	text, _, ok := strings.Cut(rest, "```")
	require.True(t, ok)
	path := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	c, err := config.Load(path)
	require.NoError(t, err)
	c.Resolve()
	require.NoError(t, c.Policy.Endpoints.Validate())
	require.NoError(t, c.Rollout.Validate())
	require.Equal(t, []string{"10.0.0.0/8"}, c.Policy.Endpoints.Allow)
}
