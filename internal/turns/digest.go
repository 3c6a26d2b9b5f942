package turns

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/steps"
)

// DigestCall identifies what a first call asks for, whatever its spelling.
func DigestCall(q *Request) []byte {
	h := sha256.New()
	fmt.Fprintf(h, "mcpsaga call 1 %q %q ", q.Program.Target, q.Policy.Purpose)
	h.Write([]byte(canonical(OrEmpty(q.Arguments))))
	return h.Sum(nil)
}

// Digest identifies the answers to what a position waits for, whatever their spelling and order. Others
// do not matter: the engine makes sure that they make no difference.
func Digest(pos *engine.Position, answers []steps.Answer) []byte {
	var waits []string
	if pos != nil {
		waits = pos.PendingIDs()
	}
	type part struct{ id, text string }
	var parts []part
	for _, a := range answers {
		if !slices.Contains(waits, a.StepID) {
			continue
		}
		text := "result " + canonical(a.Result)
		if a.Error != nil {
			text = fmt.Sprintf("error %d %q %s", a.Error.Code, a.Error.Message, canonical(a.Error.Data))
		}
		parts = append(parts, part{a.StepID, text})
	}
	slices.SortFunc(parts, func(a, b part) int {
		if c := strings.Compare(a.id, b.id); c != 0 {
			return c
		}
		return strings.Compare(a.text, b.text)
	})
	h := sha256.New()
	h.Write([]byte("mcpsaga answers 1"))
	for _, p := range slices.Compact(parts) {
		for _, field := range [...]string{p.id, p.text} {
			h.Write(binary.AppendUvarint(nil, uint64(len(field))))
			h.Write([]byte(field))
		}
	}
	return h.Sum(nil)
}

// canonical returns JSON in one spelling, and what is no JSON as it is.
func canonical(raw []byte) string {
	if text, err := jsonview.Canonical(raw, jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err == nil {
		return string(text)
	}
	return string(raw)
}
