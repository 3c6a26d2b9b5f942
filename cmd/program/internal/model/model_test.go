package model

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/steps"
)

// fakeEndpoint is an API that answers with reply and keeps what it got.
type fakeEndpoint struct {
	*httptest.Server
	request http.Header
	path    string
	body    map[string]any
}

func newFakeEndpoint(t *testing.T, status int, reply string) *fakeEndpoint {
	e := new(fakeEndpoint)
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		e.request, e.path, e.body = r.Header, r.URL.Path, nil
		assert.NoError(t, json.Unmarshal(data, &e.body))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, reply)
	}))
	t.Cleanup(e.Close)
	return e
}

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// conversation has everything that a request for text can have.
func conversation() *steps.SampleRequest {
	half := 0.5
	return &steps.SampleRequest{
		SystemPrompt: "Be brief.", MaxTokens: 100, Temperature: &half, StopSequences: []string{"END"},
		Messages: []steps.SampleMessage{
			steps.UserText("hello"),
			{Role: content.Assistant, Content: content.Blocks{content.Text{Text: "what?"}}},
			steps.UserText("and now?"),
		},
		ModelPreferences: &steps.ModelPreferences{Hints: []string{"llama"}},
	}
}

func TestComplete(t *testing.T) {
	e := newFakeEndpoint(t, 200, `{"model":"m-1","choices":[{"finish_reason":"length","message":{"role":"assistant","content":"wait"}}]}`)
	m, err := New("m", e.URL+"/v1", "k", environment())
	require.NoError(t, err)
	got, err := m.Complete(t.Context(), conversation())
	require.NoError(t, err)
	assert.Equal(t, &steps.SampleResult{
		Role: content.Assistant, Model: "m-1", StopReason: "maxTokens", Content: content.Blocks{content.Text{Text: "wait"}},
	}, got)
	assert.Equal(t, "/v1/chat/completions", e.path)
	assert.Equal(t, "Bearer k", e.request.Get("Authorization"))
	sent, err := json.Marshal(e.body)
	require.NoError(t, err)
	assert.JSONEq(t, `{"model":"m","max_tokens":100,"temperature":0.5,"stop":["END"],
		"messages":[
			{"role":"system","content":"Be brief."},
			{"role":"user","content":"hello"},
			{"role":"assistant","content":"what?"},
			{"role":"user","content":"and now?"}]}`, string(sent))
}

// Anthropic takes the same messages, at an address of its own.
func TestAnthropic(t *testing.T) {
	e := newFakeEndpoint(t, 200, `{"model":"m-1","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"wait"}}]}`)
	m, err := New("m", "", "", environment("ANTHROPIC_API_KEY", "k", "ANTHROPIC_BASE_URL", e.URL))
	require.NoError(t, err)
	_, err = m.Complete(t.Context(), conversation())
	require.NoError(t, err)
	assert.Equal(t, "/v1/chat/completions", e.path)
	assert.Equal(t, "Bearer k", e.request.Get("Authorization"))
}

func TestFailuresAreErrors(t *testing.T) {
	e := newFakeEndpoint(t, 401, `{"error":{"message":"bad key"}}`)
	m, err := New("m", e.URL, "", environment())
	require.NoError(t, err)
	_, err = m.Complete(t.Context(), conversation())
	require.ErrorContains(t, err, m.Host())
	require.ErrorContains(t, err, `401 Unauthorized: "bad key"`)
	e = newFakeEndpoint(t, 200, `{"choices":[]}`)
	m, err = New("m", e.URL, "", environment())
	require.NoError(t, err)
	_, err = m.Complete(t.Context(), conversation())
	require.Error(t, err)
	r := &steps.SampleRequest{MaxTokens: 1, Messages: []steps.SampleMessage{{Role: content.User, Content: content.Blocks{content.Image{Data: []byte("png"), MIMEType: "image/png"}}}}}
	_, err = m.Complete(t.Context(), r)
	require.EqualError(t, err, "this model cannot be given content of type image")
	_, err = m.Complete(t.Context(), &steps.SampleRequest{MaxTokens: 1, Messages: []steps.SampleMessage{steps.UserText("x")}, Tools: []steps.SampleTool{{Name: "weather"}}})
	require.EqualError(t, err, "this model cannot be given tools")
}

func TestBusyEndpointsAreAskedAgain(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]int32{503: 2, 429: 2, 400: 1} {
		var requests atomic.Int32
		busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if requests.Add(1) == 1 {
				w.WriteHeader(status)
				return
			}
			_, _ = io.WriteString(w, `{"model":"m","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"hi"}}]}`)
		}))
		err := ask(t, busy.URL)
		busy.Close()
		assert.Equal(t, want, requests.Load(), "%d", status)
		assert.Equal(t, want == 1, err != nil, "%d: %v", status, err)
	}
}

func TestNewChoosesOnlyWhatIsMeant(t *testing.T) {
	openKey, anthropicKey := []string{"OPENAI_API_KEY", "o"}, []string{"ANTHROPIC_API_KEY", "a"}
	both := append(append([]string{}, openKey...), anthropicKey...)
	for name, c := range map[string]struct {
		name, address, key string
		env                []string
		host               string // empty: nobody
		fails              string
	}{
		"nothing":                        {},
		"a key without a model":          {env: openKey},
		"a key and a model":              {name: "m", env: openKey, host: "api.openai.com"},
		"the other key and a model":      {name: "m", env: anthropicKey, host: "api.anthropic.com"},
		"two keys":                       {name: "m", env: both, host: "api.openai.com"},
		"two keys, and the other's name": {name: "claude-3", env: both, host: "api.anthropic.com"},
		"an own endpoint":                {name: "m", address: "http://127.0.0.1:11434/v1", host: "127.0.0.1:11434"},
		"an endpoint in the environment": {name: "m", env: []string{"OPENAI_BASE_URL", "http://box/v1"}, host: "box"},
		"an address without a model":     {address: "http://box", fails: "--model"},
		"a model without a key":          {name: "m", fails: "OPENAI_API_KEY"},
		"bad address":                    {name: "m", address: "box", fails: "URL"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := New(c.name, c.address, c.key, environment(c.env...))
			switch {
			case c.fails != "":
				assert.ErrorContains(t, err, c.fails)
			case c.host == "":
				require.NoError(t, err)
				assert.Nil(t, m)
			default:
				require.NoError(t, err)
				assert.Equal(t, c.host, m.Host())
			}
		})
	}
}

// A key from the environment must not travel to an address from elsewhere.
func TestKeysStayWithTheirAddress(t *testing.T) {
	e := newFakeEndpoint(t, 200, `{"model":"m","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"hi"}}]}`)
	m, err := New("m", e.URL, "", environment("OPENAI_API_KEY", "secret"))
	require.NoError(t, err)
	_, err = m.Complete(t.Context(), &steps.SampleRequest{MaxTokens: 1, Messages: []steps.SampleMessage{steps.UserText("x")}})
	require.NoError(t, err)
	assert.Empty(t, e.request.Get("Authorization"))
}

// A key does not leave this machine in the clear.
func TestKeysNeedHTTPS(t *testing.T) {
	_, err := New("m", "http://models.example.com:8000/v1", "secret", environment())
	require.EqualError(t, err, "no model can be used: its key would cross the network in the clear to models.example.com:8000: use https")
	_, err = New("m", "", "", environment("OPENAI_BASE_URL", "http://models.example.com", "OPENAI_API_KEY", "secret"))
	require.ErrorContains(t, err, "in the clear")
	for _, c := range [][2]string{{"http://models.example.com/v1", ""}, {"https://models.example.com/v1", "secret"}, {"http://127.0.0.1:1/v1", "secret"}, {"http://localhost/v1", "secret"}} {
		_, err = New("m", c[0], c[1], environment())
		require.NoError(t, err, c)
	}
}
