package build_test

import (
	"testing"

	"github.com/verigraph/verigraph/internal/patience"
)

func TestMain(m *testing.M) { patience.Main(m) }
