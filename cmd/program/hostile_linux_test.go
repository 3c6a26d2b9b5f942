package program

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func evilForm() object {
	return object{"message": evil, "requestedSchema": object{"type": "object", "required": []string{evil}, "properties": object{
		evil: object{"type": "string", "title": evil, "description": evil, "default": evil},
		"b":  object{"type": "string", "title": evil, "oneOf": []object{{"const": evil, "title": evil}, {"const": "x", "title": "x"}}},
		"c":  object{"type": "array", "title": evil, "items": object{"type": "string", "enum": []string{evil, "y"}}},
	}}}
}

// evilTask is a task, as a result of its own and of tasks/get.
func evilTask(status string, asks object) object {
	return object{"resultType": "task", "taskId": "t", "status": status, "statusMessage": evil, "ttlMs": 1, "inputRequests": asks,
		"error": object{"code": -1, "message": evil}}
}

// Whatever a server says, a terminal shows it and does nothing else with it.
func TestServersCannotControlTheTerminal(t *testing.T) {
	t.Parallel()
	suspended := object{"state": "suspended", "sagaToken": evil, "steps": []object{{"type": "elicitation", "stepId": evil, "params": evilForm()}}}
	link := object{"state": "suspended", "sagaToken": "t", "steps": []object{{"type": "elicitation", "stepId": "l", "params": object{
		"mode": "url", "message": evil, "url": "https://example.com/?x=%1b%5d52"}}}}
	sample := object{"state": "suspended", "sagaToken": "t", "steps": []object{{"type": "sampling", "stepId": "s", "params": object{
		"maxTokens": 1, "systemPrompt": evil, "messages": []object{{"role": "user", "content": object{"type": "text", "text": evil}}}}}}}
	done := object{"content": []object{
		{"type": "text", "text": evil}, {"type": "image", "mimeType": evil, "data": "AA=="}, {"type": "resource_link", "name": evil, "uri": evil}}}
	one := func(method string, result object) map[string]any { return map[string]any{method: result} }
	for name, c := range map[string]struct {
		results map[string]any
		args    string
		// shown is what tells that all was shown.
		shown string
	}{
		"form":               {one("tools/callSaga", suspended), "call x", "Send this answer?"},
		"form of lines":      {one("tools/callSaga", suspended), "call x", "between 1 and 4"},
		"link":               {one("tools/callSaga", link), "call x", "Visit example.com?"},
		"sampling":           {one("tools/callSaga", sample), "call x", "(at most 1 tokens)"},
		"error":              {nil, "call x", "code -32602"},
		"result":             {one("tools/callSaga", done), "call x", "[evil: evil]"},
		"result as JSON":     {one("tools/callSaga", done), "call x --output json", `"resource_link"`},
		"tools":              {one("tools/list", object{"tools": []object{{"name": evil, "description": evil, "inputSchema": object{"properties": object{evil: object{}}}}}}), "tools", "[evil=]"},
		"prompts":            {one("prompts/list", object{"prompts": []object{{"name": evil, "description": evil, "arguments": []object{{"name": evil}}}}}), "prompts", "[evil=]"},
		"resources":          {map[string]any{"resources/list": object{"resources": []object{{"uri": evil, "name": evil, "mimeType": evil}}}, "resources/templates/list": object{"resourceTemplates": []object{}}}, "resources", "evil"},
		"prompt":             {one("prompts/get", object{"messages": []object{{"role": evil, "content": object{"type": "text", "text": evil}}}}), "get x", "evil"},
		"resource":           {one("resources/read", object{"contents": []object{{"uri": evil, "text": evil}, {"uri": evil, "text": evil}}}), "read x:y", "part 2"},
		"odd kind of steps":  {one("tools/callSaga", object{"state": "suspended", "sagaToken": "t", "steps": []object{{"type": evil, "stepId": ""}}}), "call x", "without an id"},
		"odd type of result": {one("prompts/get", object{"resultType": evil}), "get x", "does not know"},
		"odd versions":       {one("server/discover", object{"supportedVersions": []string{evil}}), "call x", "the server speaks MCP"},
		"task asks":          {one("tasks/get", evilTask("input_required", object{evil: object{"method": "elicitation/create", "params": evilForm()}})), "tasks watch t", "Answer with"},
		"task fails":         {one("tasks/get", evilTask("failed", nil)), "tasks watch t", "has failed"},
		"task works":         {one("tasks/get", evilTask("working", nil)), "tasks watch t", "working evil"},
		"task of odd state":  {one("tasks/get", evilTask(evil, nil)), "tasks result t", "does not know"},
		"progress of a call": {map[string]any{"tools/call": evilTask("working", nil), "tasks/get": evilTask("working", nil)}, "call x --protocol 2026-07-28", "working evil"},
		"detached":           {one("tools/call", evilTask("working", nil)), "call x --detach", "tasks cancel"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			if name != "form of lines" {
				h.env = append(h.env, "ACCESSIBLE=", "TERM=xterm")
			}
			cmd := h.command(append(strings.Fields(c.args), "--server", hostile(t, c.results))...)
			person := atTerminalWhole(t, cmd)
			person.when(c.shown, "")
			for _, bad := range []string{"\x1b]52", "\x07", "\u009d", "\u009c", "\x1b]0;t", "\u202e", "\x1b[2J\u202e"} {
				assert.NotContains(t, person.shown(), bad)
			}
			assert.NotContains(t, person.shown(), "ev\x1b") // where the screen would be cleared
		})
	}
}

// A server that is run as a child process writes its log to the terminal.
func TestChildrenCannotControlTheTerminal(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	script := h.file("child.sh", "printf 'log: \\033]52;c;ZXZpbA==\\007evil\\n' >&2; cat >/dev/null\n")
	person := atTerminalWhole(t, h.command("tools", "--stdio", "sh "+script, "--timeout", "1s"))
	person.when("log: evil", "")
	assert.NotContains(t, person.shown(), "]52")
}

// 50 000 fields took 1.2 GB and minutes; a text of a megabyte pushed all else out of
// sight.
func TestHugeQuestions(t *testing.T) {
	t.Parallel()
	form := func(properties object, message string) map[string]any {
		return map[string]any{"tools/callSaga": object{"state": "suspended", "sagaToken": "t", "steps": []object{
			{"type": "elicitation", "stepId": "e", "params": object{"message": message, "requestedSchema": object{"type": "object", "properties": properties}}}}}}
	}
	fields := object{}
	for i := range 50_000 {
		fields[fmt.Sprintf("f%d", i)] = object{"type": "string"}
	}
	h := newHome(t)
	h.env = append(h.env, "ACCESSIBLE=", "TERM=xterm")
	began := time.Now()
	person := atTerminalWhole(t, h.command("call", "x", "--server", hostile(t, form(fields, "m"))))
	person.when("the server sends too much: more than", "")
	assert.Less(t, time.Since(began), 20*time.Second)

	long := strings.Repeat("word ", 40_000)
	cmd := h.command("call", "x", "--server", hostile(t, form(object{"a": object{"type": "string", "title": long[:9000], "description": long[:9000]}}, long)))
	person = atTerminalWhole(t, cmd)
	person.when("Send this answer?", "")
	assert.Contains(t, person.shown(), "more characters are not shown")
	assert.Less(t, len(person.shown()), 60_000)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	require.NoError(t, err)
	var peak int
	for line := range strings.Lines(string(status)) {
		_, _ = fmt.Sscanf(line, "VmHWM: %d kB", &peak)
	}
	assert.Less(t, peak>>10, 150, "MB")
}

// What was answered is not lost if the contents cannot be shown.
func TestBinaryAtATerminalIsNotLost(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	address := features(t)
	person := atTerminalWhole(t, h.command("read", "notes://picture", "--server", address, "--answers", h.file("a.json", `{"tone":{"tone":"x"}}`)))
	person.when("saga read --resume ", "")
	saved, err := filepath.Glob(filepath.Join(h.dir, "state", "saga", "calls", "*.json"))
	require.NoError(t, err)
	require.Len(t, saved, 1)
	name := strings.TrimSuffix(filepath.Base(saved[0]), ".json")
	h.ok("read", "--resume", name, "--to", h.dir)
	assert.FileExists(t, filepath.Join(h.dir, "picture"))
	assert.NoFileExists(t, saved[0])
}
