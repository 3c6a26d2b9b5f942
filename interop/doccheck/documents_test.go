package doccheck

import (
	"context"
	"go/doc"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/buildtest"
	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/internal/porttest"
	"github.com/mcpsaga/mcpsaga/server"
)

// documents lists the files for people, relative to the root.
func documents(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		require.NoError(t, err)
		require.NotEmpty(t, found)
		for _, name := range found {
			rel, err := filepath.Rel(root, name)
			require.NoError(t, err)
			list = append(list, filepath.ToSlash(rel))
		}
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

// The documentation of package saga begins with the first example, to the letter.
func TestToolInTheDocumentationOfSaga(t *testing.T) {
	_, rest, ok := strings.Cut(read(t, "saga/example_first_test.go"), "\n)\n\n")
	require.True(t, ok)
	tool, _, ok := strings.Cut(rest, "\n\n// A tool that asks one question.")
	require.True(t, ok)
	assert.Contains(t, strings.NewReplacer("//\t", "", "//\n", "\n").Replace(read(t, "saga/doc.go")), "\n"+tool+"\n")
}

// The first page has the program of examples/lunch, whole and short, and the README its
// tool.
func TestProgramOnTheFirstPage(t *testing.T) {
	_, program, ok := strings.Cut(read(t, "examples/lunch/main.go"), "\npackage main\n")
	require.True(t, ok)
	program = "package main\n" + program
	assert.Equal(t, program, blocks(read(t, "docs/start.md"), "go")[0]+"\n")

	_, code, ok := strings.Cut(program, "\n)\n\n")
	require.True(t, ok)
	tool, _, ok := strings.Cut(code, "\n\nfunc main() {")
	require.True(t, ok)
	assert.Equal(t, tool, blocks(read(t, "README.md"), "go")[0])

	lines := 0
	for line := range strings.Lines(program) {
		if strings.TrimSpace(line) != "" {
			lines++
		}
	}
	assert.Less(t, lines, 30, "lines of the program without empty lines")
}

// serveSomewhere runs a program that serves at an address until the test ends, and returns that when it does.
func serveSomewhere(t *testing.T, program string) string {
	t.Helper()
	address := porttest.Reserve(t)
	ctx, stop := context.WithCancel(t.Context())
	served := exec.CommandContext(ctx, program, "serve", "--addr", address)
	served.Env = append(os.Environ(), "XDG_CONFIG_HOME="+t.TempDir())
	require.NoError(t, served.Start())
	t.Cleanup(func() { stop(); _ = served.Wait() })
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", address)
		return err == nil && c.Close() == nil
	}, 2*time.Minute, 10*time.Millisecond, "the program does not come up")
	return address
}

// The walkthrough with curl does what it says, with the first page's program.
func TestWalkthroughOnTheFirstPage(t *testing.T) {
	for _, program := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			longtests.Missing(t, longtests.Debian, program+" is not installed")
		}
	}
	page := read(t, "docs/start.md")
	var script string
	for _, b := range blocks(page, "bash") {
		if strings.Contains(b, "tools/callSaga") {
			script = b
		}
	}
	const address = "URL=http://127.0.0.1:8080/mcp"
	require.Contains(t, script, address)

	program := filepath.Join(t.TempDir(), "lunch")
	require.NoError(t, buildtest.Program(program, root+"/examples/lunch"))
	at := serveSomewhere(t, program)

	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail")
	cmd.Stdin = strings.NewReader(strings.Replace(script, address, "URL=http://"+at+server.Endpoint, 1))
	cmd.Env = append(os.Environ(), "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	last := ""
	for _, b := range blocks(page, "json") {
		if strings.Contains(b, `"jsonrpc"`) {
			last = b
		}
	}
	assert.True(t, strings.HasSuffix(string(out), "}\n"+last+"\n"), string(out))
}

// Links within the repository lead to a file, and to a heading in it.
func TestLinksInDocuments(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]*)(?:#([^)]*))?\)`)
	known := map[string][]string{} // anchors
	for _, name := range documents(t) {
		text := regexp.MustCompile("`[^`\n]*`").ReplaceAllString(withoutCode(read(t, name)), "code")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			to := name
			if m[1] != "" {
				to = path.Join(path.Dir(name), m[1])
			}
			if _, err := os.Stat(filepath.Join(root, to)); !assert.NoError(t, err, "%s links to %s", name, m[1]) {
				continue
			}
			if m[2] != "" {
				if known[to] == nil {
					known[to] = anchors(read(t, to))
				}
				assert.Contains(t, known[to], m[2], "%s links to %s#%s", name, m[1], m[2])
			}
		}
	}
}

// withoutCode drops fenced code, in which brackets mean something else.
func withoutCode(text string) string {
	return regexp.MustCompile("(?s)(?:^|\n)```.*?\n```").ReplaceAllString(text, "")
}

// anchors are the names by which GitHub lets one link to headings.
func anchors(text string) []string {
	var list []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(withoutCode(text), -1) {
		words := strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")
		list = append(list, regexp.MustCompile(`[^\pL\pN_-]`).ReplaceAllString(words, ""))
	}
	return list
}

// A document that says "this test shows it" names a test there is, and no other of that name, wherever it
// names it and however; and an example that shows something is one that runs.
func TestTestsNamedInDocumentsExist(t *testing.T) {
	_, dirs := goFiles(t, true)
	exists, runs := make(map[string][]string), make(map[string]bool)
	for dir, files := range dirs {
		for _, f := range files {
			for _, d := range f.Decls {
				if fn := funcName(d); fn != "" {
					exists[fn] = append(exists[fn], dir)
				}
			}
			for _, e := range doc.Examples(f) {
				runs["Example"+e.Name] = e.Output != "" || e.EmptyOutput
			}
		}
	}
	named := regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark|Example)[A-Z_]\w*`)
	found := 0
	for _, name := range documents(t) {
		for _, test := range named.FindAllString(read(t, name), -1) {
			found++
			assert.Len(t, exists[test], 1, "%s: there is no %s, or more than one", name, test)
			if strings.HasPrefix(test, "Example") {
				assert.True(t, runs[test], "%s: %s does not run, as it says nothing of its output", name, test)
			}
		}
	}
	assert.Greater(t, found, 200)
}

// A command that runs tests or benchmarks by name finds some.
func TestCommandsInDocumentsRunSomething(t *testing.T) {
	_, dirs := goFiles(t, true)
	var names []string
	for _, files := range dirs {
		for _, f := range files {
			for _, d := range f.Decls {
				names = append(names, funcName(d))
			}
		}
	}
	flag := regexp.MustCompile(`-(run|bench|fuzz) '?([A-Z]\w+)`)
	kinds := map[string]string{"run": "Test", "bench": "Benchmark", "fuzz": "Fuzz"}
	found := 0
	for _, document := range documents(t) {
		for _, m := range flag.FindAllStringSubmatch(read(t, document), -1) {
			found++
			assert.True(t, slices.ContainsFunc(names, func(name string) bool {
				return strings.HasPrefix(name, kinds[m[1]]) && strings.Contains(name, m[2])
			}), "%s: %s runs nothing", document, m[0])
		}
	}
	assert.NotZero(t, found)
}

// The list of threats names each once, with a test: a merge may leave a threat twice.
func TestThreatsAreNamedOnce(t *testing.T) {
	_, list, found := strings.Cut(read(t, "docs/security.md"), "## Threats and tests\n")
	require.True(t, found)
	list, _, _ = strings.Cut(list, "\n## ")
	seen := make(map[string]bool)
	for _, item := range strings.Split(list, "\n- ")[1:] {
		threat, rest, _ := strings.Cut(item, ": ")
		assert.False(t, seen[threat], "there are two items of %q", threat)
		seen[threat] = true
		assert.Regexp(t, "`(Test|Fuzz|Example)", rest, "no test is named for %q", threat)
	}
	assert.Greater(t, len(seen), 40)
}

// Every direct dependency has its reason in docs/dependencies.md.
func TestDependenciesAreExplained(t *testing.T) {
	document := read(t, "docs/dependencies.md")
	requirement := regexp.MustCompile(`(?m)^(?:require)?\s+([\w.-]+\.[\w./-]+) v\S+$`)
	for _, use := range regexp.MustCompile(`(?m)^\t\./?(\S*)$`).FindAllStringSubmatch(read(t, "go.work"), -1) {
		file := path.Join(use[1], "go.mod")
		direct := requirement.FindAllStringSubmatch(read(t, file), -1)
		require.NotEmpty(t, direct, file)
		for _, m := range direct {
			if m[1] != module && !strings.HasPrefix(m[1], module+"/") {
				assert.Contains(t, document, m[1], "docs/dependencies.md does not explain what %s requires", file)
			}
		}
	}
}
