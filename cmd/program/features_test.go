package program

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

type none = struct{}

type topic struct {
	Topic string `json:"topic"`
	Style string `json:"style,omitempty"`
}

type noteID struct {
	ID string `json:"id"`
}

type tone struct {
	Tone string `json:"tone"`
}

var askTone = &steps.Form[tone]{ID: "tone", Message: "How shall it sound?"}

func writePrompt(t *saga.Turn[topic, none]) (saga.Next, error) {
	form, err := askTone.Answer(t)
	if err != nil {
		return nil, err
	}
	return t.Messages(
		content.Message{Role: content.User, Content: content.Textf("Write about %s in a %s tone.", t.Args.Topic, form.Tone)},
		content.Message{Role: content.Assistant, Content: content.Text{Text: "Gladly."}})
}

func readNote(t *saga.Turn[noteID, none]) (saga.Next, error) {
	uri := "notes://" + t.Args.ID
	binary := content.ResourceContents{URI: uri, MIMEType: "image/png", Blob: []byte{0, 1, 2}}
	switch t.Args.ID {
	case "secret", "picture":
		form, err := askTone.Answer(t)
		if err != nil {
			return nil, err
		}
		if t.Args.ID == "picture" {
			return t.Contents(binary)
		}
		return t.Contents(content.ResourceContents{URI: uri, Text: "a " + form.Tone + " secret"})
	case "binary":
		return t.Contents(binary)
	case "several":
		return t.Contents(
			content.ResourceContents{URI: "notes://x/../../a.txt", Text: "one"}, content.ResourceContents{URI: "notes://y/a.txt", Text: "two"},
			content.ResourceContents{URI: "notes://.hidden", Blob: []byte{3}}, content.ResourceContents{URI: "notes://..", Text: "four"})
	}
	return t.Contents(content.ResourceContents{URI: uri, Text: "note " + t.Args.ID})
}

// features is a server with a prompt and resources, some of which ask.
func features(t *testing.T) string {
	t.Helper()
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s, err := server.New(server.Options{Keys: keys, Logger: slog.New(slog.DiscardHandler), Tools: []saga.Definition{
		saga.Prompt[topic, none]{
			Machine: saga.Machine[topic, none]{
				Info:  saga.Info{Name: "write", Description: "Writes a text.", Asks: []steps.Question{askTone}},
				Start: func(t *saga.Turn[topic, none]) (saga.Next, error) { return t.Ask("toned", askTone) },
				Steps: saga.Steps[topic, none]{"toned": writePrompt},
			},
		},
		saga.Resource[noteID, none]{
			Machine: saga.Machine[noteID, none]{
				Info: saga.Info{Name: "note", Description: "A note.", Asks: []steps.Question{askTone}},
				Start: func(t *saga.Turn[noteID, none]) (saga.Next, error) {
					if t.Args.ID == "secret" || t.Args.ID == "picture" {
						return t.Ask("toned", askTone)
					}
					return readNote(t)
				},
				Steps: saga.Steps[noteID, none]{"toned": readNote},
			},
			Template: "notes://{id}",
		},
		saga.Resource[none, none]{
			Machine: saga.Machine[none, none]{
				Info: saga.Info{Name: "motd"},
				Start: func(t *saga.Turn[none, none]) (saga.Next, error) {
					return t.Contents(content.ResourceContents{URI: "text://motd", Text: "Hello."})
				},
			},
			URI:      "text://motd",
			MIMEType: "text/plain",
		},
	}})
	require.NoError(t, err)
	h := httptest.NewServer(s.Handler())
	t.Cleanup(h.Close)
	return h.URL
}

func TestGetAndRead(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env = append(h.env, "SAGA_SERVER="+features(t))
	warm := h.file("warm.json", `{"tone":{"tone":"warm"}}`)
	decline := h.file("decline.json", `{"tone":"decline"}`)

	assert.Equal(t, "write  topic= [style=]  Writes a text.\n", h.ok("prompts"))
	resources := h.ok("resources")
	assert.Contains(t, resources, "text://motd   text/plain")
	assert.Contains(t, resources, "notes://{id}")
	assert.Contains(t, resources, "A note.")
	var all struct{ Resources, ResourceTemplates []any }
	require.NoError(t, json.Unmarshal([]byte(h.ok("resources", "--output", "json")), &all))
	assert.Len(t, all.Resources, 1)
	assert.Len(t, all.ResourceTemplates, 1)

	for name, c := range map[string]struct {
		args, stdout, stderr string
		code                 int
	}{
		"a prompt that asks":         {args: "get write topic=tea --answers " + warm, stdout: "user:\nWrite about tea in a warm tone.\n\nassistant:\nGladly.\n"},
		"as JSON":                    {args: "get write topic=tea --output json --answers " + warm, stdout: `"role": "assistant"`},
		"declined":                   {args: "get write topic=tea --answers " + decline, code: exitDeclined, stderr: `"tone" was declined`},
		"nobody to ask":              {args: "get write topic=tea", code: exitNeedsAnswer, stderr: "saga get --resume"},
		"an argument missing":        {args: "get write", code: exitServer, stderr: "topic"},
		"no argument":                {args: "get write tea", code: exitUsage, stderr: "name=value"},
		"an argument twice":          {args: "get write topic=a topic=b", code: exitUsage, stderr: "one text"},
		"no prompt":                  {args: "get", code: exitUsage, stderr: "saga prompts lists them"},
		"no such prompt":             {args: "get nothing", code: exitServer, stderr: "saga prompts lists what the server has"},
		"a resource":                 {args: "read text://motd", stdout: "Hello.\n"},
		"a template":                 {args: "read notes://7", stdout: "note 7\n"},
		"a resource that asks":       {args: "read notes://secret --answers " + warm, stdout: "a warm secret\n"},
		"no resource":                {args: "read", code: exitUsage, stderr: "saga resources lists them"},
		"no such resource":           {args: "read nowhere://x", code: exitServer, stderr: "saga resources lists what the server has"},
		"several":                    {args: "read notes://several", code: exitUsage, stderr: "--to DIR"},
		"two":                        {args: "read text://motd text://motd", code: exitUsage, stderr: "one URI"},
		"into what cannot be":        {args: "read text://motd --to no/such/file", code: exitUsage, stderr: "--to"},
		"not text, but no terminal":  {args: "read notes://binary", stdout: "\x00\x01\x02"},
		"output of no kind":          {args: "read text://motd --output xml", code: exitUsage, stderr: "--output"},
		"resume and something":       {args: "read text://motd --resume x", code: exitUsage, stderr: "alone"},
		"resume what is not there":   {args: "read --resume x", code: exitUsage, stderr: "there is no saved call x"},
		"lists take no arguments":    {args: "prompts x", code: exitUsage, stderr: "no arguments"},
		"a header that is not sound": {args: "get write topic=t --header x", code: exitUsage, stderr: "--header"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := h.run(strings.Fields(c.args)...)
			assert.Equal(t, c.code, code, stderr)
			assert.Contains(t, stdout, c.stdout)
			assert.Contains(t, stderr, c.stderr)
		})
	}
}

// Names of files are made of what the server says, and lead nowhere else.
func TestReadIntoADirectory(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	dir := filepath.Join(h.dir, "in", "to")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("mine"), 0o600))
	h.ok("read", "notes://several", "--server", features(t), "--to", dir)
	got, numbers := map[string]string{}, regexp.MustCompile("-[0-9]{2,}")
	require.NoError(t, filepath.WalkDir(filepath.Dir(dir), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			got[numbers.ReplaceAllString(d.Name(), "-N")] += string(data) + "."
			assert.Equal(t, dir, filepath.Dir(path))
		}
		return err
	}))
	assert.Contains(t, []string{"one.two.", "two.one."}, got["a-N.txt"])
	delete(got, "a-N.txt")
	assert.Equal(t, map[string]string{"a.txt": "mine.", "hidden": "\x03.", "part-4": "four."}, got)
}

func TestFileNames(t *testing.T) {
	long := strings.Repeat("b", maxName-1)
	for uri, want := range map[string]string{
		"notes://a/b.txt": "b.txt", "x:../../etc/passwd": "passwd", "x:/.bashrc": "bashrc", "x:/": "part-3", "x:///.../": "part-3",
		"x:/a." + long: long, "x:/a-" + long: long, "x:/" + long + "cd": long[1:] + "cd",
	} {
		assert.Equal(t, want, (&file{name: uri}).fileName(3), uri)
	}
}

func TestVersion(t *testing.T) {
	out, _, code := inProcess(t, "version")
	assert.Zero(t, code)
	for _, want := range append(server.Revisions(), "saga  ", "built with", "go1.", "format "+tokens.Format) {
		assert.Contains(t, out, want)
	}
	assert.Equal(t, "2026-07-28", server.Revisions()[0])
	assert.Contains(t, server.Revisions(), "2024-11-05")
}

func TestServeSaysWhatToDoAboutThePort(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	h := newHome(t)
	for addr, want := range map[string]string{
		taken.Addr().String(): "in use", "127.0.0.1": "missing port in address", "nowhere.invalid:1": "--addr", "127.0.0.1:99999": "--addr",
	} {
		_, stderr, code := h.run("serve", "--addr", addr)
		assert.Equal(t, exitFailed, code, addr)
		assert.Contains(t, stderr, want)
		assert.Contains(t, stderr, "--addr")
	}
}

// A completion script completes commands, with what the program itself says.
func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "pwsh"} {
		out, _, code := inProcess(t, "completion", shell)
		assert.Zero(t, code)
		assert.Contains(t, out, "--generate-shell-completion")
	}
	h := newHome(t)
	assert.Contains(t, h.ok("--generate-shell-completion"), "resources")
	assert.Contains(t, h.ok("calls", "--generate-shell-completion"), "rm")
}
