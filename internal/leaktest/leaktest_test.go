package leaktest

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// leaves has the test binary be a run that leaves a goroutine behind for so long.
const leaves = "MCPSAGA_LEAKTEST_LEAVES"

type noTests struct{}

func (noTests) Run() int { return 0 }

func TestMain(m *testing.M) {
	if d, err := time.ParseDuration(os.Getenv(leaves)); err == nil {
		go time.Sleep(d)
		if d < patience {
			Main(noTests{})
		}
		goleak.VerifyTestMain(settling{TestingM: noTests{}, patience: time.Second}) // nobody waits for longer here
	}
	Main(m)
}

// A goroutine that ends late is none that is left behind; one that does not end is.
func TestGoroutinesMayEndLate(t *testing.T) {
	t.Parallel()
	for d, left := range map[string]bool{"1500ms": false, "1h": true} {
		t.Run(d, func(t *testing.T) {
			t.Parallel()
			self, err := os.Executable()
			require.NoError(t, err)
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), leaves+"="+d)
			said, err := cmd.CombinedOutput()
			assert.Equal(t, left, err != nil, "%v: %s", err, said)
			if left {
				assert.Contains(t, string(said), "found unexpected goroutines")
			}
		})
	}
}
