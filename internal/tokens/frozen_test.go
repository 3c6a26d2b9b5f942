package tokens_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

// A frozen token was sealed by some release of this package, and every later one
// must open it. The keys beside the tokens are for tests and protect nothing.
type frozen struct {
	Audience string
	Binding  tokens.Binding
	Now      time.Time
	Token    string
	Claims   tokens.Claims
	// The state is State, so many times over.
	State  string
	Times  int
	Secret []byte
	Coding string
	// Apart and Plain are missing in tokens from before there were these parts.
	Apart       string `json:",omitempty"`
	Plain       []byte `json:",omitempty"`
	ApartCoding string `json:",omitempty"`
}

const frozenDir = "testdata/frozen"

// frozenKeyset returns the keyset of the frozen tokens.
func frozenKeyset(t testing.TB) *codec.Keyset {
	t.Helper()
	path := filepath.Join(frozenDir, "keyset", "keyset.json")
	data, err := os.ReadFile(path)
	if *update && errors.Is(err, fs.ErrNotExist) {
		k := newKeyset(t)
		for _, kt := range codec.KeyTypes()[1:] {
			k, _, err = k.Add(kt)
			require.NoError(t, err)
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, (codec.KeysetFile{Path: path}).Write(k))
		data, err = os.ReadFile(path)
	}
	require.NoError(t, err)
	k, err := codec.ParseKeyset(data)
	require.NoError(t, err)
	return k
}

// frozenCases are the tokens made with -update, if they are missing.
func frozenCases() map[string]frozen {
	claims := sample("").Claims
	full := claims
	full.Request, full.Trace = []byte("0123456789abcdef0123456789abcdef"), []byte("trace context of 26 bytes.")
	bare := tokens.Claims{IssuedAt: noon, ExpiresAt: noon.Add(61 * time.Second)}
	return map[string]frozen{
		"raw":            {State: "~", Claims: claims},
		"empty":          {Claims: bare},
		"dictionary":     {State: smallState, Claims: claims, Audience: "here", Binding: alice},
		"medium":         {State: mediumState, Claims: claims, Binding: alice},
		"no-dictionary":  {State: smallState, Times: 60, Claims: claims, Audience: "here"},
		"several-blocks": {State: smallState, Times: 600, Claims: claims},
		"secret":         {State: smallState, Secret: []byte("s3cret\x00"), Claims: full, Binding: alice},
		"only-secret":    {Secret: []byte{0x80, 0, 0}, Claims: full},
		"apart":          {State: smallState, Apart: mediumState, Claims: claims, Binding: alice},
		"plain":          {State: smallState, Plain: []byte(mediumState), Claims: claims, Binding: alice},
		"all-parts":      {State: smallState, Apart: "~", Plain: []byte("\x00\x80"), Secret: []byte("s3cret\x00"), Claims: full, Audience: "here"},
		"only-apart":     {Apart: smallState, Claims: bare},

		"dictionary-2":        {State: smallState, Claims: claims, Audience: "here", Binding: alice},
		"medium-dictionary-2": {State: mediumState, Claims: claims, Binding: alice},
		"long-dictionary-2":   {State: smallState, Times: 30, Claims: claims},
		"deflate":             {State: smallState, Times: 100, Claims: claims, Binding: alice},
		"apart-deflate":       {State: smallState, Times: 1, Apart: strings.Repeat(mediumState, 20), Claims: claims},
		"apart-dictionary-2":  {State: smallState, Apart: mediumState, Claims: claims, Binding: alice},
	}
}

// frozenForms are states of all sizes, for the forms that bodies have had: an encoder of our own wrote
// blocks of zstd up to 4 KB, with the dictionary's entropy codes up to 1 KB and with codes of the text's own
// beyond, zstd's fastest level up to 16 KB, deflate's level 7 up to 64 KB, and zstd without a dictionary
// whatever was longer.
func frozenForms(t testing.TB) map[string]frozen {
	forms := make(map[string]frozen)
	for name, state := range corpus(t) {
		forms["form-"+name] = frozen{State: state, Claims: sample("").Claims, Binding: alice}
	}
	noise := base64.StdEncoding.EncodeToString(noise(700))
	forms["form-noise"] = frozen{State: noise[:90], Apart: noise, Claims: sample("").Claims}
	forms["form-one-byte"] = frozen{State: "x", Times: 3000, Claims: sample("").Claims}
	forms["form-blocks"] = frozen{State: forms["form-ids"].State, Times: 50, Apart: forms["form-form"].State, Claims: sample("").Claims}
	return forms
}

func TestFrozenTokens(t *testing.T) {
	keys := frozenKeyset(t)
	if *update {
		for _, info := range keys.Keys() {
			k, err := keys.Promote(info.ID)
			require.NoError(t, err)
			for name, f := range frozenCases() {
				writeFrozen(t, k, name+"-"+string(info.Type), f)
			}
		}
		for name, f := range frozenForms(t) {
			writeFrozen(t, keys, name, f)
		}
	}
	paths, err := filepath.Glob(filepath.Join(frozenDir, "*.json"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(paths), 67)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			var f frozen
			require.NoError(t, json.Unmarshal(data, &f))
			c := newCodec(t, keys, tokens.Options{Audience: f.Audience})
			x, err := c.Open(f.Binding, f.Now, f.Token)
			require.NoError(t, err)
			require.Equal(t, f.Claims, x.Claims)
			require.Equal(t, strings.Repeat(f.State, f.Times), string(x.State))
			require.Equal(t, f.Secret, x.Secret)
			require.Equal(t, f.Apart, string(x.Apart))
			require.Equal(t, string(f.Plain), string(x.Plain))
			layout := c.Layout(f.Binding, f.Now, f.Token)
			require.Equal(t, f.Coding, layout.Coding)
			require.Equal(t, f.ApartCoding, layout.ApartCoding)
		})
	}
}

func writeFrozen(t *testing.T, k *codec.Keyset, name string, f frozen) {
	path := filepath.Join(frozenDir, name+".json")
	if _, err := os.Stat(path); err == nil {
		return
	}
	f.Now = noon
	f.Times = max(f.Times, 1)
	c := newCodec(t, k, tokens.Options{Audience: f.Audience})
	x := &tokens.Contents{Claims: f.Claims, State: []byte(strings.Repeat(f.State, f.Times)), Apart: []byte(f.Apart), Plain: f.Plain, Secret: f.Secret}
	f.Token = seal(t, c, f.Binding, x)
	layout := c.Layout(f.Binding, noon, f.Token)
	f.Coding, f.ApartCoding = layout.Coding, layout.ApartCoding
	data, err := json.MarshalIndent(f, "", "  ")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(data, '\n'), 0o644))
}
