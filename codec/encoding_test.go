package codec_test

import (
	stdjson "encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
)

type embedded struct{ Depth int }

type anything struct {
	embedded
	Text     string `json:"text"`
	Count    int64
	Big      uint64
	Ratio    float64
	Flag     bool
	When     time.Time
	Wait     time.Duration
	Raw      []byte
	Array    [3]byte
	Hash     [4]uint16
	Opaque   stdjson.RawMessage
	Map      map[string]int
	Numbered map[int]string
	Nested   map[string][]*anything
	List     []string
	Pointer  *int
	Any      any
	Skipped  string `json:"-"`
	Left     string `json:",omitempty"`
	private  int
}

func TestJSONRoundTrip(t *testing.T) {
	seven := 7
	for name, in := range map[string]anything{
		"nil":   {Opaque: stdjson.RawMessage("null")},
		"empty": {Opaque: stdjson.RawMessage("{}"), Map: map[string]int{}, List: []string{}, Raw: []byte{}, Nested: map[string][]*anything{}},
		"full": {
			embedded: embedded{3}, Text: "a\u2028b<&>\"\\\x00é\U0001F600", Count: math.MinInt64, Big: math.MaxUint64, Ratio: 0.1, Flag: true,
			When: time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC), Wait: 90 * time.Minute, Raw: []byte{0, 255}, Array: [3]byte{1, 2, 3}, Hash: [4]uint16{9},
			Opaque: stdjson.RawMessage(`{"b":[1,2.50],"a":null}`), Map: map[string]int{"z": 1, "a": 2}, Numbered: map[int]string{-1: "x"},
			Nested: map[string][]*anything{"k": {nil, {Text: "inner", Opaque: stdjson.RawMessage("1")}}}, List: []string{"", "x"}, Pointer: &seven,
			Any: map[string]any{"x": []any{1.5, "s", nil, true}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := codec.JSON.Marshal(in)
			require.NoError(t, err)
			var out anything
			require.NoError(t, codec.JSON.Unmarshal(data, &out))
			require.Equal(t, in, out)
			again, err := codec.JSON.Marshal(out)
			require.NoError(t, err)
			require.Equal(t, string(data), string(again), "equal values give equal bytes")
		})
	}
	require.Equal(t, "json", codec.JSON.Name())
	require.Zero(t, anything{}.private)
}

func TestJSONIsStrict(t *testing.T) {
	for name, data := range map[string]string{
		"twice":      `{"text":"a","text":"b"}`,
		"cut":        `{"text":"a"`,
		"more":       `{"text":"a"}{}`,
		"wrong type": `{"text":1}`,
		"bad UTF-8":  "{\"text\":\"\xff\"}",
		"empty":      "",
	} {
		var out anything
		require.ErrorContains(t, codec.JSON.Unmarshal([]byte(data), &out), "codec: decode the state", name)
	}
	var out anything
	require.NoError(t, codec.JSON.Unmarshal([]byte(`{"TEXT":"other case","unknown":1}`), &out))
	require.Empty(t, out.Text)
	for name, in := range map[string]any{"channel": make(chan int), "not a number": math.NaN(), "bad UTF-8": "\xff"} {
		_, err := codec.JSON.Marshal(in)
		require.ErrorContains(t, err, "codec: encode the state", name)
	}
}
