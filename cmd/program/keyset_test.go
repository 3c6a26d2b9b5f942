package program

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/mcpsaga/mcpsaga/codec"
)

// askedKMS has the program be one of its own, which can ask a KMS, and names the file that gets a line each time.
const askedKMS = "SAGA_TEST_ASKED_KMS"

// kmsInFiles is a KMS whose keys are keysets in files, and which is away while they are.
func kmsInFiles(asked string) func(context.Context, string) (tink.AEAD, error) {
	return func(_ context.Context, uri string) (tink.AEAD, error) {
		f, err := os.OpenFile(asked, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if _, err := f.WriteString(uri + "\n"); err != nil {
			return nil, err
		}
		return codec.LoadKeyset(strings.TrimPrefix(uri, "files://"))
	}
}

// newKMSHome is a user's machine with a KMS, which is in master.json. asked counts how often it was asked.
func newKMSHome(t *testing.T) (h *home, asked func() int) {
	h = newHome(t)
	path := filepath.Join(h.dir, "asked")
	h.ok("keys", "new", "--keyset", "master.json")
	h.env = append(h.env, askedKMS+"="+path, lookEvery+"=20ms", "SAGA_KEYSET=k.json", "SAGA_KEYSET_KMS=files://master.json")
	return h, func() int {
		lines, err := os.ReadFile(path)
		require.NoError(t, err)
		return strings.Count(string(lines), "files://master.json\n")
	}
}

// All commands work on a keyset that a KMS encrypts, and a server takes what they change.
func TestKeysetOfAKMS(t *testing.T) {
	t.Parallel()
	h, _ := newKMSHome(t)
	old := keyIDs(h.ok("keys", "new"))[0]
	address, _ := h.serve()
	fresh := keyIDs(h.ok("keys", "add"))[1]
	h.ok("keys", "promote", fresh)
	h.ok("keys", "disable", old)
	require.Eventually(t, func() bool { return askReplica(t, http.DefaultClient, address).is(fresh) }, time.Minute, 20*time.Millisecond)
	h.ok("keys", "enable", old)
	h.ok("keys", "disable", old)
	h.ok("keys", "destroy", old, "--yes")
	assert.Equal(t, []string{fresh}, keyIDs(h.ok("keys", "list")))
	text, err := os.ReadFile(filepath.Join(h.dir, "k.json"))
	require.NoError(t, err)
	assert.Contains(t, string(text), "encryptedKeyset")
	_, stderr, code := h.run("keys", "list", "--keyset", "k.json", "--keyset-kms", "files://other.json")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "other.json: no such file")
	assert.NotContains(t, stderr, "create it with", "it is the key that is missing, not the keyset")
}

// The keys of a keyset in clear text go on in one that a KMS encrypts.
func TestKeysetIsEncrypted(t *testing.T) {
	t.Parallel()
	h, _ := newKMSHome(t)
	keys := keyIDs(h.ok("keys", "list", "--keyset", "master.json", "--keyset-kms", ""))
	assert.Equal(t, keys, keyIDs(h.ok("keys", "encrypt", "--keyset", "master.json", "--to", "k.json")))
	assert.Equal(t, keys, keyIDs(h.ok("keys", "list")))
	text, err := os.ReadFile(filepath.Join(h.dir, "k.json"))
	require.NoError(t, err)
	assert.Contains(t, string(text), "encryptedKeyset")
	for line, want := range map[string]string{
		"encrypt --keyset master.json --to k.json":             "file exists",
		"encrypt --keyset k.json --to other.json":              "is encrypted by a KMS",
		"encrypt --keyset master.json --to no/k.json":          "no such file",
		"encrypt --keyset master.json":                         "--to",
		"encrypt --keyset master.json --to x --keyset-kms=":    "--keyset-kms",
		"add --keyset master.json --keyset-kms files://k.json": "is in clear text",
	} {
		_, stderr, code := h.run(append([]string{"keys"}, strings.Fields(line)...)...)
		assert.NotZero(t, code, line)
		assert.Contains(t, stderr, want, line)
		assert.NotContains(t, stderr, "create it with", line)
	}
	require.NoFileExists(t, filepath.Join(h.dir, "other.json"))
}

// is reports whether the one key that opens is this one.
func (r readiness) is(id string) bool { return len(r.Keys) == 1 && r.Keys[0].ID == id }

// A server asks the KMS when the file has changed only. While the KMS is away it keeps its keys, and says that they
// may be stale; it cannot start then.
func TestServerWhoseKMSIsAway(t *testing.T) {
	t.Parallel()
	h, asked := newKMSHome(t)
	h.ok("keys", "new")
	address, server := h.serve()
	before := asked()
	time.Sleep(300 * time.Millisecond) //sagavet:ignore some fifteen looks at the file
	require.Equal(t, before, asked(), "the file has not changed")
	master := filepath.Join(h.dir, "master.json")
	require.NoError(t, os.Rename(master, master+".away"))
	require.NoError(t, server.Process.Signal(syscall.SIGHUP))
	time.Sleep(100 * time.Millisecond) //sagavet:ignore some five looks at the file
	require.True(t, askReplica(t, http.DefaultClient, address).StaleSince.IsZero(), "what it has is what the file has")
	_, stderr, code := h.run("serve", "--addr", "127.0.0.1:0")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "the KMS does not decrypt the keyset")

	require.NoError(t, os.Rename(master+".away", master))
	path := filepath.Join(h.dir, "k.json")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	next := h.file("next.json", string(text))
	fresh := keyIDs(h.ok("keys", "add", "--keyset", next))[1]
	require.NoError(t, os.Rename(master, master+".away"))
	require.NoError(t, os.Rename(next, path))
	require.Eventually(t, func() bool { return !askReplica(t, http.DefaultClient, address).StaleSince.IsZero() }, time.Minute, 20*time.Millisecond)
	require.Len(t, readyKeys(t, address), 1)
	require.NoError(t, os.Rename(master+".away", master))
	require.Eventually(t, func() bool {
		ready := askReplica(t, http.DefaultClient, address)
		return len(ready.Keys) == 2 && ready.Keys[1].ID == fresh && ready.StaleSince.IsZero()
	}, time.Minute, 20*time.Millisecond)
}

// A keyset can be in the environment, in clear text or encrypted. It is used, not changed, and not shown.
func TestKeysetInTheEnvironment(t *testing.T) {
	t.Parallel()
	h, _ := newKMSHome(t)
	for name, kms := range map[string]string{"encrypted": "files://master.json", "clear": ""} {
		t.Run(name, func(t *testing.T) {
			file := name + ".json"
			with := *h
			with.t = t
			with.env = append(with.env[:len(with.env):len(with.env)], "SAGA_KEYSET_KMS="+kms)
			id := keyIDs(with.ok("keys", "new", "--keyset", file))[0]
			text, err := os.ReadFile(filepath.Join(h.dir, file))
			require.NoError(t, err)
			with.env = append(with.env, "SAGA_KEYSET=env:KEYS", "KEYS="+string(text))
			assert.Equal(t, []string{id}, keyIDs(with.ok("keys", "list")))
			address, server := with.serve()
			require.NoError(t, server.Process.Signal(syscall.SIGHUP), "which must not end it")
			for _, command := range []string{"new", "add", "promote " + id} {
				_, stderr, code := with.run(append([]string{"keys"}, strings.Fields(command)...)...)
				assert.Equal(t, exitUsage, code, command)
				assert.Contains(t, stderr, "set the variable KEYS", command)
			}
			shown := with.ok("serve", "--print-config")
			assert.Contains(t, shown, "keyset: env:KEYS  # environment, SAGA_KEYSET\n")
			assert.NotContains(t, shown, `"primaryKeyId`)
			require.True(t, askReplica(t, http.DefaultClient, address).is(id))
		})
	}
	h.env = append(h.env, "SAGA_KEYSET_KMS=")
	_, stderr, code := h.run("serve", "--keyset", "env:NOTHING")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "no keyset in the environment variable NOTHING")
	_, stderr, code = h.run("serve", "--keyset", "env:")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, stderr, "needs the name")
	h.env = append(h.env, "KEYS=hush")
	_, stderr, code = h.run("serve", "--keyset", "env:KEYS")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "(in the environment variable KEYS)")
	assert.NotContains(t, stderr, "hush")
}

// The processes that tools start must not get the keys.
func TestKeysetLeavesTheEnvironment(t *testing.T) {
	t.Setenv("KEYS", "no keyset")
	_, err := keysetSource{variable: "KEYS"}.Load()
	require.ErrorContains(t, err, "not a keyset")
	_, there := os.LookupEnv("KEYS")
	require.False(t, there)
}
