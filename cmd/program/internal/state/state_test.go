package state

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
)

func TestSaveAndLoad(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	path, err := NewPath(time.Now())
	require.NoError(t, err)
	saved := &Call{URL: "http://x/mcp", Position: client.Position{Version: 1, Dialect: "saga", Tool: "t", Token: "tok"}}
	for range 2 {
		require.NoError(t, saved.Save(path))
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, left, 1)
	loaded, err := Load(path)
	require.NoError(t, err)
	assert.Equal(t, saved, loaded)

	require.NoError(t, os.Chmod(path, 0o666))
	_, err = Load(path)
	require.ErrorContains(t, err, "chmod 600")
}

// What earlier versions of the program have saved is taken up.
func TestLoadVersion1(t *testing.T) {
	data, err := os.ReadFile("testdata/version-1.json")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "x.json")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	call, err := Load(path)
	require.NoError(t, err)
	assert.Equal(t, "http://127.0.0.1:8080/mcp", call.URL)
	p := call.Position
	assert.Equal(t, "complex_tool", p.Subject())
	assert.JSONEq(t, `{"initial_arg":"value"}`, string(p.Arguments))
	assert.Equal(t, "1ARz4J5P7RsLquH7WPj66Vw1", p.Token)
	require.Len(t, p.Pending(), 1)
	assert.Equal(t, "step-sampling-B", p.Pending()[0].StepID)
	require.Len(t, p.Answers, 2)
	assert.JSONEq(t, `{"action":"accept","content":{"target":"production"}}`, string(p.Answers[0].Result))
	assert.Equal(t, &client.Error{Code: -32601, Message: "this client does not support roots"}, p.Answers[1].Error)

	require.NoError(t, call.Save(path))
	again, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.JSONEq(t, string(data), string(again), "nothing of it is lost")
}

func TestLoadRefusesOtherFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.json")
	for _, text := range []string{"", "[]", "{}", `{"position":{}}`} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := Load(path)
		require.ErrorContains(t, err, "not a saved call")
	}
	_, err := Load(path + "x")
	require.ErrorIs(t, err, ErrMissing)
}

func TestList(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	none, err := List(time.Now())
	require.NoError(t, err)
	assert.Empty(t, none, "there is no directory yet")

	dir, err := Dir()
	require.NoError(t, err)
	now := time.Now()
	add := func(name, text string, age time.Duration) {
		path := filepath.Join(dir, name)
		if text == "" {
			call := &Call{URL: "http://x/mcp", Position: client.Position{Version: 1, Dialect: "saga", Tool: name, Token: "tok"}}
			require.NoError(t, call.Save(path))
		} else {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		}
		require.NoError(t, os.Chtimes(path, now.Add(-age), now.Add(-age)))
	}
	add("new.json", "", time.Minute)
	add("older.json", "", Keep-time.Minute)
	add("oldest.json", "", Keep+time.Minute)
	add("broken.json", "{", 2*time.Minute)
	add(".saga-1.json", "x", 2*Keep)      // of a save that was killed
	add(".saga-2.json", "x", time.Minute) // of one that is under way
	add("notes.txt", "x", 2*Keep)         // not ours
	require.NoError(t, os.Mkdir(filepath.Join(dir, "dir.json"), 0o700))

	var names []string
	calls, err := List(now)
	require.NoError(t, err)
	for _, c := range calls {
		names = append(names, c.Name)
		assert.Equal(t, c.Name == "broken", c.Err != nil)
		assert.Equal(t, c.Name == "broken", c.Call == nil)
	}
	assert.Equal(t, []string{"older", "broken", "new"}, names)

	left := map[string]bool{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		left[e.Name()] = true
	}
	assert.Equal(t, map[string]bool{"new.json": true, "older.json": true, "broken.json": true, ".saga-2.json": true, "notes.txt": true, "dir.json": true}, left)
}

func TestPath(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Chdir(t.TempDir())
	dir, err := Dir()
	require.NoError(t, err)
	call := &Call{Position: client.Position{Version: 1, Tool: "t"}}
	require.NoError(t, call.Save(filepath.Join(dir, "a.json")))
	assert.Equal(t, filepath.Join(dir, "a.json"), Path("a"))
	assert.Equal(t, filepath.Join(dir, "a.json"), Path("a.json"))
	assert.Equal(t, "a", Given(filepath.Join(dir, "a.json")))
	assert.Equal(t, "./x.json", Given("./x.json"))
	require.NoError(t, os.WriteFile("a", nil, 0o600))
	assert.Equal(t, filepath.Join(dir, "a.json"), Given(filepath.Join(dir, "a.json")), "another file has that name here")
	require.NoError(t, os.Remove("a"))
	assert.Equal(t, "b.json", Path("b.json"), "as given, for the message that it is missing")
	assert.Equal(t, "./a.json", Path("./a.json"))
	require.NoError(t, call.Save("a.json"))
	assert.Equal(t, "a.json", Path("a.json"), "what is here comes first")
	assert.Equal(t, filepath.Join(dir, "..", "..", "x.json"), Path(filepath.Join(dir, "..", "..", "x.json")))
}
