package transit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/cmd/program"
	"github.com/mcpsaga/mcpsaga/kms/vault"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// asProgram has the tests be a program of tools.
const asProgram = "LUNCH_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		hello := saga.Flow[struct{}, string]{
			Info: saga.Info{Name: "hello", Description: "Says hello."},
			Run:  func(*saga.Run, struct{}) (string, error) { return "Hello.", nil },
		}
		options := server.Options{Name: "lunch", Tools: []saga.Definition{hello}}
		program.Main(program.Options{Server: options, KMS: vault.KMS(nil)})
	}
	os.Exit(m.Run())
}

// lunch is a program whose keyset the engine encrypts.
func lunch(t *testing.T, e *engine, dir string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Dir = dir
	cmd.Env = []string{asProgram + "=1", "HOME=" + dir, "VAULT_ADDR=" + e.server.URL, "VAULT_TOKEN=" + token, "VAULT_MAX_RETRIES=0",
		"LUNCH_KEYSET=keyset.json", "LUNCH_KEYSET_KMS=hcvault://" + strings.TrimPrefix(e.server.URL, "http://") + "/transit/keys/lunch"}
	return cmd
}

func ids(t *testing.T, cmd *exec.Cmd) []string {
	t.Helper()
	out, err := cmd.Output()
	require.NoError(t, err)
	return regexp.MustCompile(`(?m)^[0-9a-f]{8}\b`).FindAllString(string(out), -1)
}

// A program of its own makes, serves and rotates a keyset that Vault encrypts, and goes on serving while Vault is away.
func TestProgramWhoseKeysetVaultEncrypts(t *testing.T) {
	e, dir := newEngine(t), t.TempDir()
	old := ids(t, lunch(t, e, dir, "keys", "new"))
	require.Len(t, old, 1)
	require.Equal(t, "vault:v1", version(t, filepath.Join(dir, "keyset.json")))
	address, served := serve(t, lunch(t, e, dir, "serve", "--addr", "127.0.0.1:0"))
	asked := e.asked.Load()
	require.Equal(t, old, ready(t, address))

	fresh := ids(t, lunch(t, e, dir, "keys", "add"))[1]
	require.NoError(t, lunch(t, e, dir, "keys", "promote", fresh).Run())
	require.NoError(t, lunch(t, e, dir, "keys", "disable", old[0]).Run())
	require.Eventually(t, func() bool {
		now := ready(t, address)
		return len(now) == 1 && now[0] == fresh
	}, 30*time.Second, 100*time.Millisecond)
	// Three commands ask twice; the server once for each keyset that it has seen.
	assert.LessOrEqual(t, e.asked.Load()-asked, int32(3*2+3))

	asked = e.asked.Load()
	e.server.Close()
	require.NoError(t, served.Signal(syscall.SIGHUP))
	time.Sleep(6 * time.Second) // one look at the file
	require.Equal(t, []string{fresh}, ready(t, address))
	require.Equal(t, asked, e.asked.Load())
	begun := time.Now()
	said, err := lunch(t, e, dir, "serve", "--addr", "127.0.0.1:0").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "the KMS does not decrypt the keyset: it cannot be reached")
	t.Logf("a server without its KMS gave up after %v, saying: %s", time.Since(begun).Round(time.Millisecond), said)
	require.NotContains(t, string(said), token)
}

func serve(t *testing.T, cmd *exec.Cmd) (address string, process *os.Process) {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(stderr)
	var all bytes.Buffer
	for lines.Scan() {
		all.WriteString(lines.Text() + "\n")
		if found := regexp.MustCompile(`url=(http://[^/ ]+)`).FindStringSubmatch(lines.Text()); found != nil {
			go func() {
				for lines.Scan() {
				}
			}()
			return found[1], cmd.Process
		}
	}
	require.Fail(t, "the server did not start", all.String())
	return "", nil
}

// ready returns the keys that a server opens tokens with.
func ready(t *testing.T, address string) (keys []string) {
	t.Helper()
	response, err := http.Get(address + "/readyz")
	require.NoError(t, err)
	defer response.Body.Close()
	var now struct{ Keys []struct{ ID string } }
	require.NoError(t, json.NewDecoder(response.Body).Decode(&now))
	for _, k := range now.Keys {
		keys = append(keys, k.ID)
	}
	return keys
}
