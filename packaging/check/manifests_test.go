package check

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// schema is that of server.json, as the registry's module has it, with nothing allowed that it does not name.
func schema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "github.com/modelcontextprotocol/registry@v1.8.8").Output()
	require.NoError(t, err)
	var module struct{ Dir string }
	require.NoError(t, json.Unmarshal(out, &module))
	text, err := os.ReadFile(filepath.Join(module.Dir, "internal/validators/schemas/2025-12-11.json"))
	require.NoError(t, err)
	var document map[string]any
	require.NoError(t, json.Unmarshal(text, &document))
	definitions := document["definitions"].(map[string]any)
	for _, name := range []string{"ServerDetail", "Package", "Repository", "StdioTransport"} {
		definitions[name].(map[string]any)["additionalProperties"] = false
	}
	text, err = json.Marshal(document)
	require.NoError(t, err)
	var s jsonschema.Schema
	require.NoError(t, json.Unmarshal(text, &s))
	resolved, err := s.Resolve(nil)
	require.NoError(t, err)
	return resolved
}

// described validates a server.json, with something replaced.
func described(t *testing.T, s *jsonschema.Resolved, path string, change ...string) error {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var document any
	require.NoError(t, json.Unmarshal([]byte(strings.NewReplacer(change...).Replace(string(text))), &document))
	return s.Validate(document)
}

func TestServerJSON(t *testing.T) {
	s := schema(t)
	require.NoError(t, described(t, s, "../server.json"))
	for right, wrong := range map[string]string{`"title"`: `"titel"`, `"source"`: `"sources"`, `"packages": []`: `"packages": [{"registryType": "mcpb", "identifer": "x", "transport": {"type": "stdio"}}]`, "io.github.mcpsaga/saga": "saga"} {
		assert.Error(t, described(t, s, "../server.json", right, wrong), wrong)
	}
}

// The tool of those who specify bundles takes the manifest, and finds what is misspelt.
func TestBundleManifest(t *testing.T) {
	npm := need(t, "npm")
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../node")))
	output(t, npm, "ci", "--ignore-scripts", "--prefix", dir)
	text, err := os.ReadFile("../mcpb.json")
	require.NoError(t, err)
	validate := func(change ...string) (string, error) {
		path := filepath.Join(t.TempDir(), "manifest.json")
		require.NoError(t, os.WriteFile(path, []byte(strings.NewReplacer(change...).Replace(string(text))), 0o600))
		said, err := exec.CommandContext(t.Context(), dir+"/node_modules/.bin/mcpb", "validate", path).CombinedOutput()
		return string(said), err
	}
	out, err := validate()
	require.NoError(t, err, out)
	for right, wrong := range map[string]string{`"entry_point"`: `"entrypoint"`, `"binary"`: `"go"`, `"win32"`: `"windows"`, `"user_config"`: `"userconfig"`} {
		out, err := validate(right, wrong)
		assert.Error(t, err, "%s: %s", wrong, out)
	}
}
