package tasks

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/fields"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/steps"
)

// kept is a part of a record, which is encoded and decoded by itself.
type kept struct {
	value  any
	encode func() []byte
	decode func([]byte) (any, error)
}

func decoded[T any](decode func([]byte) (T, error)) func([]byte) (any, error) {
	return func(b []byte) (any, error) { return decode(b) }
}

// frozen are such parts as earlier programs have written them, by the names that they have in testdata:
// with something in each field, and with as little as there can be.
func frozen(t *testing.T) map[string]kept {
	at := time.UnixMicro(1_777_777_777_777_777).UTC()
	all := make(map[string]kept)
	for name, r := range map[string]request{
		"request": {
			method: "tools/call", client: steps.Features{Forms: true, Roots: true}, arguments: json.RawMessage(`{"a":1}`),
			trace: turns.Trace{1, 2, 3, 25: 26}, adopted: []byte("turn"), after: 7,
		},
		"request.least": {},
	} {
		all[name] = kept{r, r.encode, decoded(decodeRequest)}
	}
	saga := [16]byte{1, 15: 16}
	position := &engine.Position{ID: saga, Turn: 3, Tool: "tool", Revision: 4, Deadline: at}
	require.NoError(t, position.Restore(position.Encode())) // some of it is empty then, and not nil
	all["position"] = kept{position, func() []byte { return encodePosition(position, true) }, func(b []byte) (any, error) { return decodePosition(b, saga) }}
	step := steps.Step{ID: "name", Kind: steps.Sampling, Params: json.RawMessage(`{"p":1}`), Needs: steps.Features{Sampling: true}}
	for name, list := range map[string][]steps.Step{"questions": {step, {ID: "b"}}, "questions.least": nil} {
		all[name] = kept{list, func() []byte { return encodeQuestions(list) }, decoded(decodeQuestions)}
	}
	answers := []steps.Answer{
		{StepID: "a", Result: json.RawMessage(`{"r":1}`)},
		{StepID: "b", Error: &steps.ClientError{Code: -32601, Message: "no", Data: json.RawMessage(`{"d":1}`)}},
		{StepID: "c", Error: &steps.ClientError{}},
		{StepID: "d"},
	}
	for name, list := range map[string][]steps.Answer{"answers": answers, "answers.least": nil} {
		all[name] = kept{list, func() []byte { return encodeAnswers(list) }, decoded(decodeAnswers)}
	}
	progress := engine.Progress{Done: 1.5, Total: -3, Message: "half"}
	for name, p := range map[string]engine.Progress{"progress": progress, "progress.least": {}} {
		all[name] = kept{&p, func() []byte { return encodeProgress(&p) }, decoded(decodeProgress)}
	}
	lacks := engine.UnsupportedError{Tool: "tool", StepID: "step", Needs: steps.Features{Links: true}}
	log := func(level slog.Level) *engine.Log {
		return &engine.Log{Level: level, Logger: "tool", Data: json.RawMessage(`"said"`)}
	}
	for name, e := range map[string]Event{
		"event": {
			N: 5, At: at, Kind: 3, Progress: &progress, Log: log(-4), Content: content.Blocks{content.Textf("text")}, Question: &step,
		},
		"event.least": {N: 5},
		"event.log":   {N: 5, Log: &engine.Log{}},
		"event.empty": {N: 5, Content: content.Blocks{}, Progress: &engine.Progress{}},
	} {
		all[name] = kept{e, func() []byte {
			b, err := e.encode()
			require.NoError(t, err)
			return b
		}, func(b []byte) (any, error) { return decodeEvent(5, b) }}
	}
	for name, f := range map[string]struct {
		failure
		says string
	}{
		"failure":       {failure{text: "text", saga: "01ff"}, "text"},
		"failure.late":  {failure{saga: "01ff", late: true}, "the turn took too long: context deadline exceeded"},
		"failure.lacks": {failure{lacks: &lacks}, lacks.Error()},
		"failure.ended": {failure{ended: turns.EncodeFailure(&engine.ToolError{Text: "gone"})}, "gone"},
		"failure.least": {failure{}, "the tool failed; its operator can find the reason in the log under the saga "},
	} {
		all[name] = kept{f.says, f.encode, func(b []byte) (any, error) { return decodeFailure(b).Error(), nil }}
	}
	for name, m := range map[string]mark{
		"mark":           {why: &FailedError{"text"}, response: []byte("response"), position: []byte("position"), behind: true},
		"mark.cancelled": {why: errCancelled}, "mark.over": {why: errOver}, "mark.another": {why: errUndone}, "mark.least": {},
	} {
		all[name] = kept{m, m.encode, decoded(decodeMark)}
	}
	return all
}

// What earlier programs have written into records of tasks is read, and this one writes the same.
func TestFrozenParts(t *testing.T) {
	file, err := os.Open("testdata/parts.txt")
	require.NoError(t, err)
	defer file.Close()
	left := frozen(t)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, text, found := strings.Cut(lines.Text(), " ")
		part, known := left[name]
		require.True(t, found && known, name)
		delete(left, name)
		written, err := hex.DecodeString(text)
		require.NoError(t, err)
		value, err := part.decode(written)
		require.NoError(t, err, name)
		assert.Equal(t, part.value, value, name)
		assert.Equal(t, text, hex.EncodeToString(part.encode()), name)
	}
	assert.Empty(t, left)
}

// What is cut off in the middle of a field is not taken for less.
func TestPartsThatAreCutOff(t *testing.T) {
	for name, part := range frozen(t) {
		b := part.encode()
		if len(b) == 0 || b[len(b)-1] == 0 {
			continue // nothing is cut off, or a field that is only there
		}
		value, err := part.decode(b[:len(b)-1])
		if text, failure := value.(string); failure {
			assert.Equal(t, fields.ErrTruncated.Error(), text, name)
		} else {
			assert.ErrorIs(t, err, fields.ErrTruncated, name)
		}
	}
}
