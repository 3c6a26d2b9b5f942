package content

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// Blocks is a list of content. Its zero value is an empty list and marshals to
// [], never to null: MCP requires the member that holds it.
type Blocks []Block

// Text returns the texts of all [Text] blocks, in order, joined by newlines.
// Other blocks are skipped.
func (b Blocks) Text() string {
	var texts []string
	for _, block := range b {
		if t, ok := value(block).(Text); ok {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// AppendJSON appends the list's JSON array to dst. On error it returns dst as it
// was and an *[Error].
func (b Blocks) AppendJSON(dst []byte) ([]byte, error) {
	out, err := appendBlocks(dst, b)
	if err != nil {
		return dst, err
	}
	return out, nil
}

// AppendSampling appends the list to dst as the content of a sampling message: a
// list of one block as the block alone, any other as an array. Clients older
// than MCP 2025-11-25 know only the former. On error it returns dst as it was
// and an *[Error].
func (b Blocks) AppendSampling(dst []byte) ([]byte, error) {
	if len(b) != 1 {
		return b.AppendJSON(dst)
	}
	out, err := appendBlock(dst, b[0])
	if err != nil {
		return dst, err
	}
	return out, nil
}

// MarshalJSON implements encoding/json.Marshaler.
func (b Blocks) MarshalJSON() ([]byte, error) { return appendBlocks(nil, b) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It accepts an array; null
// is taken for an empty one, because some peers send it. The error is an *[Error].
func (b *Blocks) UnmarshalJSON(data []byte) error {
	if !jsonview.Valid(data) {
		return &Error{Err: errNotJSON}
	}
	blocks, err := readBlocks(data)
	if err == nil {
		*b = blocks
	}
	return err
}

// UnmarshalSampling reads the content of a sampling message or result: an array of
// blocks or one block alone. The error is an *[Error].
func (b *Blocks) UnmarshalSampling(data []byte) error {
	if jsontext.Value(data).Kind() != '{' {
		return b.UnmarshalJSON(data)
	}
	block, err := ParseBlock(data)
	if err == nil {
		*b = Blocks{block}
	}
	return err
}
