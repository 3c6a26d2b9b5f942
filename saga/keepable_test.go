package saga_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// gobs is an encoding that calls MarshalBinary.
type gobs struct{}

func (gobs) Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(v)
	return b.Bytes(), err
}

func (gobs) Unmarshal(data []byte, v any) error {
	return gob.NewDecoder(bytes.NewReader(data)).Decode(v)
}

// Types that take care of their encoding in a way that JSON does not know, or that lose
// something on the way there or back.
type (
	onlyBinary  struct{ n int }
	onlyGob     struct{ n int }
	onlyMarshal struct{ n int }
	level       int
	forgetful   string
	swapped     struct{ A, B string }
	namesake    int
)

func (b onlyBinary) MarshalBinary() ([]byte, error)   { return []byte{byte(b.n)}, nil }
func (b *onlyBinary) UnmarshalBinary(in []byte) error { b.n = int(in[0]); return nil }
func (b onlyGob) GobEncode() ([]byte, error)          { return []byte{byte(b.n)}, nil }
func (b *onlyGob) GobDecode(in []byte) error          { b.n = int(in[0]); return nil }
func (m onlyMarshal) MarshalText() ([]byte, error)    { return []byte{byte(m.n)}, nil }
func (level) MarshalText() ([]byte, error)            { return []byte("high"), nil }
func (f forgetful) MarshalText() ([]byte, error)      { return []byte(f)[:min(len(f), 3)], nil }
func (f *forgetful) UnmarshalText(b []byte) error     { *f = forgetful(b); return nil }
func (s swapped) MarshalJSON() ([]byte, error)        { return json.Marshal([]string{s.A, s.B}) }
func (s *swapped) UnmarshalJSON(b []byte) error {
	var list []string
	if err := json.Unmarshal(b, &list); err != nil || len(list) < 2 {
		return errors.New("not two")
	}
	s.B, s.A = list[0], list[1]
	return nil
}

type pointing struct{ At int }

// withEncoding builds a definition with a given state type and encoding.
func withEncoding[S any](e saga.Encoding) saga.Definition {
	m := withState[S]().(saga.Machine[empty, S])
	m.Encoding = e
	return m
}

func TestWhatAnEncodingLosesIsRefused(t *testing.T) {
	type one struct{ Same string }
	type other struct{ Same string }
	type twice struct { // neither of the two is encoded
		one
		other
	}
	tests := map[string]saga.Definition{
		"field P of the state's element is a url.URL, whose MarshalBinary the encoding does not call": withState[struct{ P *url.URL }](),
		"field P of field In of the state's element is a url.URL":                                     withState[struct{ In []struct{ P url.URL } }](),
		"field B of the state is a saga_test.onlyBinary, whose MarshalBinary":                         withState[struct{ B onlyBinary }](),
		"field B of the state's element is a saga_test.onlyGob, whose GobEncode":                      withState[struct{ B map[string]onlyGob }](),
		"field M of the state is a saga_test.onlyMarshal, whose MarshalText":                          withState[struct{ M onlyMarshal }](),
		"the state does not come back":                                                                withState[forgetful](),
		"field F of the state does not come back as it was":                                           withState[struct{ F forgetful }](),
		"field F of the state's element's element does not come back":                                 withState[struct{ F map[string][]forgetful }](),
		`the zero value of field L of the state does not come back`:                                   withState[struct{ L level }](),
		"field S of the state": withState[struct{ S swapped }](),
		"field Same of field one of the state does not come back": withState[twice](),
		"field namesake of the state is not exported":             withState[struct{ namesake }](),
		"field pointing of the state is not exported":             withState[struct{ *pointing }](),
		"a sample value of field N of the state does not come":    withState[struct{ N map[string]big.Int }](),
		"a url.URL, whose MarshalBinary":                          withEncoding[struct{ P *url.URL }](strictJSON{}),
		"the zero value of field P of the state does":             withEncoding[struct{ P string }](broken{}),
		"come back: its encoding panics: no word":                 withState[struct{ W word }](),
	}
	for want, d := range tests {
		t.Run(want, func(t *testing.T) {
			_, err := d.Compile()
			var wrong *saga.DefinitionError
			require.ErrorAs(t, err, &wrong)
			assert.ErrorContains(t, err, want)
			assert.ErrorContains(t, err, "cannot be kept between turns")
		})
	}
}

// word is a type that is never empty to its author.
type word struct{ Text string }

func (w word) MarshalText() ([]byte, error) {
	if w.Text == "" {
		panic("no word")
	}
	return []byte(w.Text), nil
}

func (w *word) UnmarshalText(b []byte) error {
	w.Text = string(b)
	return nil
}

// broken is an encoding that cannot do anything.
type broken struct{ names []string }

func (b broken) Marshal(any) ([]byte, error) { return nil, fmt.Errorf("broken: %v", b.names) }
func (broken) Unmarshal([]byte, any) error   { return errors.New("broken") }

func TestWhatAnEncodingKeepsIsAllowed(t *testing.T) {
	type tree struct {
		Name     string
		Children []tree
		Parent   *tree
	}
	type state struct {
		tree
		When    time.Time
		Addr    netip.Addr
		Prefix  *netip.Prefix
		Number  json.Number
		Raw     json.RawMessage
		Big     *big.Int
		Flags   [3]bool
		ByAddr  map[netip.Addr]float32
		Any     any
		Small   int8
		Key     saga.Secret
		Nothing struct{}
		Quoted  int `json:",string"`
	}
	_, err := withState[state]().Compile()
	require.NoError(t, err)
	_, err = withEncoding[state](strictJSON{}).Compile()
	require.NoError(t, err)
	_, err = withState[saga.Secret]().Compile()
	require.NoError(t, err, "a state may be one secret")
	for name, d := range map[string]saga.Definition{
		"binary": withEncoding[struct{ B onlyBinary }](gobs{}), "gob": withEncoding[struct{ B onlyGob }](gobs{}), "url": withEncoding[struct{ P *url.URL }](gobs{}),
	} {
		_, err := d.Compile()
		require.NoError(t, err, name)
	}
	_, err = withEncoding[struct{ M onlyMarshal }](gobs{}).Compile()
	require.ErrorContains(t, err, "whose MarshalText the encoding does not call")
}

// A URL in a gob goes through a saga whole, as the encoding calls its methods.
func TestEncodingThatCallsMarshalBinary(t *testing.T) {
	type state struct{ Page *url.URL }
	page, err := url.Parse("https://ann:hunter-2@example.com/x")
	require.NoError(t, err)
	s := play(t, saga.Machine[empty, state]{
		Info: saga.Info{Name: "x", Asks: []steps.Question{askConfirm}}, Encoding: gobs{}, Start: func(t *saga.Turn[empty, state]) (saga.Next, error) {
			t.State.Page = page
			return t.Ask("end", askConfirm)
		},
		Steps: saga.Steps[empty, state]{"end": func(t *saga.Turn[empty, state]) (saga.Next, error) {
			return t.Textf("%s", t.State.Page)
		}},
	})
	s.start(`{}`)
	assert.Equal(t, page.String(), text(t, s.answer(accept("confirm", yes))))
}

// A state that JSON cannot say is shown to tests as Go prints it.
func TestStatesThatAreNotJSONAreShown(t *testing.T) {
	type state struct{ Rate float64 }
	s := play(t, saga.Machine[empty, state]{
		Info: saga.Info{Name: "x", Asks: []steps.Question{askConfirm}}, Encoding: gobs{}, Start: func(t *saga.Turn[empty, state]) (saga.Next, error) {
			t.State.Rate = math.NaN()
			return t.Ask("end", askConfirm)
		},
		Steps: saga.Steps[empty, state]{"end": func(t *saga.Turn[empty, state]) (saga.Next, error) { return t.Textf("") }},
	})
	s.start(`{}`)
	shown, err := s.tool.Decoded(s.pos)
	require.NoError(t, err)
	assert.JSONEq(t, `{"state":"&{Rate:NaN}"}`, string(shown))
}
