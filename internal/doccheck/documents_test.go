package doccheck

import (
	"bytes"
	"go/doc"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// documents lists the files for people, relative to the root.
func documents(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	list := []string{"README.md"}
	for _, name := range found {
		list = append(list, "docs/"+filepath.Base(name))
	}
	return list
}

// blocks returns a document's fenced code of a language.
func blocks(text, language string) []string {
	var list []string
	for _, m := range regexp.MustCompile("(?s)(?:^|\n)```"+language+"\n(.*?)\n```").FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	return list
}

// plain drops indentation and empty lines, which depend on the surroundings.
func plain(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// What the documents show of Go is compiled somewhere.
func TestGoCodeInDocumentsIsCompiled(t *testing.T) {
	var sources []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") {
			b, err := os.ReadFile(path)
			sources = append(sources, "\n"+plain(string(b)))
			return err
		}
		return err
	})
	require.NoError(t, err)
	for _, name := range documents(t) {
		for _, code := range blocks(read(t, name), "go") {
			ok := slices.ContainsFunc(sources, func(s string) bool { return strings.Contains(s, "\n"+plain(code)) })
			assert.True(t, ok, "%s: no Go file has this code:\n%s", name, code)
		}
	}
}

// The tool in the README and in the documentation of package saga is the first
// example, to the letter, and short.
func TestToolInReadme(t *testing.T) {
	code := blocks(read(t, "README.md"), "go")[0]
	source := read(t, "saga/example_first_test.go")
	_, rest, ok := strings.Cut(source, "\n)\n\n")
	require.True(t, ok)
	tool, _, ok := strings.Cut(rest, "\n\n// A tool that asks one question.")
	require.True(t, ok)
	assert.Equal(t, tool, code)
	assert.Contains(t, strings.NewReplacer("//\t", "", "//\n", "\n").Replace(read(t, "saga/doc.go")), "\n"+code+"\n")
	program := regexp.MustCompile(`(?m)^// .*\nvar Lunch`).ReplaceAllString(read(t, "examples/lunch/main.go"), "var Lunch")
	assert.Contains(t, program, "\n"+code+"\n\n"+blocks(read(t, "README.md"), "go")[1]+"\n", "the whole program")
	assert.Less(t, strings.Count(code, "\n")+1, 30, "lines")
}

// The walkthrough with curl does what it says.
func TestWalkthroughInReadme(t *testing.T) {
	for _, program := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("it needs %s", program)
		}
	}
	readme := read(t, "README.md")
	var script string
	for _, b := range blocks(readme, "bash") {
		if strings.Contains(b, "tools/callSaga") {
			script = b
		}
	}
	const address = "URL=http://127.0.0.1:8080/mcp"
	require.Contains(t, script, address)

	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s, err := server.New(server.Options{Tools: []saga.Definition{complextool.Tool}, Keys: keys})
	require.NoError(t, err)
	hs := httptest.NewServer(s.Handler())
	defer hs.Close()

	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail")
	cmd.Stdin = strings.NewReader(strings.Replace(script, address, "URL="+hs.URL+server.Endpoint, 1))
	cmd.Env = append(os.Environ(), "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
	var out bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = io.Writer(&out)
	require.NoError(t, cmd.Run(), out.String())
	assert.True(t, strings.HasSuffix(out.String(), "}\n"+blocks(readme, "json")[0]+"\n"), out.String())
}

// Links within the repository lead somewhere.
func TestLinksInDocuments(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]+)(?:#[^)]*)?\)`)
	for _, name := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, name), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			_, err := os.Stat(filepath.Join(root, filepath.Dir(name), m[1]))
			assert.NoError(t, err, "%s links to %s", name, m[1])
		}
	}
}

// A document that says "this test shows it" names a test there is, wherever it names it
// and however; and an example that shows something is one that runs.
func TestTestsNamedInDocumentsExist(t *testing.T) {
	_, dirs := goFiles(t, true)
	exists, runs := make(map[string]bool), make(map[string]bool)
	for _, files := range dirs {
		for _, f := range files {
			for _, d := range f.Decls {
				if fn := funcName(d); fn != "" {
					exists[fn] = true
				}
			}
			for _, e := range doc.Examples(f) {
				runs["Example"+e.Name] = e.Output != "" || e.EmptyOutput
			}
		}
	}
	named := regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark|Example)[A-Z_]\w*`)
	all, err := filepath.Glob(filepath.Join(root, "*", "*", "README.md"))
	require.NoError(t, err)
	list := documents(t)
	for _, name := range all {
		list = append(list, strings.TrimPrefix(name, root+"/"))
	}
	found := 0
	for _, name := range list {
		for _, test := range named.FindAllString(read(t, name), -1) {
			found++
			assert.True(t, exists[test], "%s: there is no %s", name, test)
			if strings.HasPrefix(test, "Example") {
				assert.True(t, runs[test], "%s: %s does not run, as it says nothing of its output", name, test)
			}
		}
	}
	assert.Greater(t, found, 200)
}

// Each test that the table of threats names is there once: two rows of one threat, or a
// row twice, are left of a merge.
func TestThreatsAreNamedOnce(t *testing.T) {
	_, table, found := strings.Cut(read(t, "docs/security.md"), "## Threats and tests\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	seen := make(map[string]bool)
	for line := range strings.Lines(table) {
		threat, rest, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !ok || !strings.HasPrefix(line, "| ") || threat == "threat" {
			continue
		}
		assert.False(t, seen[threat], "there are two rows of %q", threat)
		seen[threat] = true
		assert.Regexp(t, "`(Test|Fuzz|Example)", rest, "no test is named for %q", threat)
	}
	assert.Greater(t, len(seen), 40)
}

// Every direct dependency has its reason in docs/dependencies.md.
func TestDependenciesAreExplained(t *testing.T) {
	document := read(t, "docs/dependencies.md")
	requirement := regexp.MustCompile(`(?m)^(?:require)?\s+([\w.-]+\.[\w./-]+) v\S+$`)
	direct := requirement.FindAllStringSubmatch(read(t, "go.mod"), -1)
	require.NotEmpty(t, direct)
	for _, m := range direct {
		assert.Contains(t, document, m[1], "docs/dependencies.md does not explain it")
	}
}
