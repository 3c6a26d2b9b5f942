package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"

	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/steps"
)

// digest pins the wording of a step. Most are asked as they are declared, and the
// digests of those are known.
func (t *Program) digest(s *steps.Step) [4]byte {
	if known := t.declared[ident.Base(s.ID)]; known != nil && bytes.Equal(known.params, s.Params) {
		return known.digest
	}
	return digest(s.Params)
}

// isDeclared reports whether a step is of the question that the tool declares under
// its id, as far as that can be seen: another question may have the same id.
func (t *Program) isDeclared(s *steps.Step) bool {
	known := t.declared[ident.Base(s.ID)]
	if known == nil {
		return s.Varied // only With could supply what is missing
	}
	return known.kind == s.Kind && (s.Varied || bytes.Equal(known.params, s.Params))
}

// wording is a question as it is declared.
type wording struct {
	kind   steps.Kind
	params json.RawMessage
	digest [4]byte
}

// wordingOf returns nil for a question that cannot be asked as it is declared.
func wordingOf(q steps.Question) *wording {
	s, err := q.Step()
	if err != nil {
		return nil
	}
	return &wording{s.Kind, bytes.Clone(s.Params), digest(s.Params)}
}

func digest(params json.RawMessage) [4]byte {
	sum := sha256.Sum256(params)
	return [4]byte(sum[:4])
}
