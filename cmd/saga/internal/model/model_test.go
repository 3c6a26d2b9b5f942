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

// conversation has everything a request can have.
func conversation() *steps.SampleRequest {
	half := 0.5
	return &steps.SampleRequest{
		SystemPrompt: "Be brief.", MaxTokens: 100, Temperature: &half, StopSequences: []string{"END"},
		Messages: []steps.SampleMessage{
			{Role: content.User, Content: content.Blocks{content.Text{Text: "look"}, content.Image{Data: []byte("png"), MIMEType: "image/png"}}},
			{Role: content.Assistant, Content: content.Blocks{content.ToolUse{ID: "u1", Name: "weather", Input: json.RawMessage(`{"city":"Rome"}`)}}},
			{Role: content.User, Content: content.Blocks{content.ToolResult{ToolUseID: "u1", Content: content.Blocks{content.Text{Text: "sunny"}}}}},
			steps.UserText("and now?"),
		},
		Tools:            []steps.SampleTool{{Name: "weather", Description: "d", InputSchema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}}}`)}},
		ToolChoice:       "required",
		ModelPreferences: &steps.ModelPreferences{Hints: []string{"llama"}},
	}
}

func TestOpenAI(t *testing.T) {
	e := newFakeEndpoint(t, 200, `{"id":"c","object":"chat.completion","created":1,"model":"m-1","choices":[{"index":0,"finish_reason":"tool_calls",
		"message":{"role":"assistant","content":"wait","tool_calls":[{"id":"u2","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}}]}}]}`)
	m, err := New(Config{Provider: OpenAI, BaseURL: e.URL + "/v1", Key: "k", Model: "m", Getenv: environment()})
	require.NoError(t, err)
	got, err := m.Complete(t.Context(), conversation())
	require.NoError(t, err)
	assert.Equal(t, &steps.SampleResult{
		Role: content.Assistant, Model: "m-1", StopReason: "toolUse",
		Content: content.Blocks{content.Text{Text: "wait"}, content.ToolUse{ID: "u2", Name: "weather", Input: json.RawMessage(`{"city":"Oslo"}`)}},
	}, got)

	assert.Equal(t, "/v1/chat/completions", e.path)
	assert.Equal(t, "Bearer k", e.request.Get("Authorization"))
	sent, err := json.Marshal(e.body)
	require.NoError(t, err)
	assert.JSONEq(t, `{"model":"m","max_tokens":100,"temperature":0.5,"stop":["END"],"tool_choice":"required",
		"tools":[{"type":"function","function":{"name":"weather","description":"d","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}],
		"messages":[
			{"role":"system","content":"Be brief."},
			{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,cG5n"}}]},
			{"role":"assistant","content":"","tool_calls":[{"id":"u1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}}]},
			{"role":"tool","tool_call_id":"u1","content":"sunny"},
			{"role":"user","content":"and now?"}]}`, string(sent))
}

// Anthropic takes the same messages, at an address of its own.
func TestAnthropic(t *testing.T) {
	e := newFakeEndpoint(t, 200, `{"model":"m-1","choices":[{"finish_reason":"length","message":{"role":"assistant","content":"wait"}}]}`)
	m, err := New(Config{Provider: Anthropic, BaseURL: e.URL, Key: "k", Model: "m", Getenv: environment()})
	require.NoError(t, err)
	got, err := m.Complete(t.Context(), conversation())
	require.NoError(t, err)
	assert.Equal(t, &steps.SampleResult{
		Role: content.Assistant, Model: "m-1", StopReason: "maxTokens", Content: content.Blocks{content.Text{Text: "wait"}},
	}, got)
	assert.Equal(t, "/v1/chat/completions", e.path)
	assert.Equal(t, "Bearer k", e.request.Get("Authorization"))
	assert.EqualValues(t, 100, e.body["max_tokens"])
}

func TestFailuresAreErrors(t *testing.T) {
	for _, provider := range []string{OpenAI, Anthropic} {
		e := newFakeEndpoint(t, 401, `{"error":{"message":"bad key"}}`)
		m, err := New(Config{Provider: provider, BaseURL: e.URL, Model: "m", Getenv: environment()})
		require.NoError(t, err)
		_, err = m.Complete(t.Context(), conversation())
		require.ErrorContains(t, err, m.Host())
		assert.ErrorContains(t, err, `401 Unauthorized: "bad key"`)
	}
	e := newFakeEndpoint(t, 200, `{"choices":[]}`)
	m, err := New(Config{Provider: OpenAI, BaseURL: e.URL, Model: "m", Getenv: environment()})
	require.NoError(t, err)
	_, err = m.Complete(t.Context(), conversation())
	require.Error(t, err)
	r := &steps.SampleRequest{MaxTokens: 1, Messages: []steps.SampleMessage{{Role: content.User, Content: content.Blocks{content.ResourceLink{URI: "u", Name: "n"}}}}}
	_, err = m.Complete(t.Context(), r)
	require.EqualError(t, err, "this model cannot be given content of type resource_link")
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
		err := ask(t, OpenAI, busy.URL)
		busy.Close()
		assert.Equal(t, want, requests.Load(), "%d", status)
		assert.Equal(t, want == 1, err != nil, "%d: %v", status, err)
	}
}

func TestNewChoosesOnlyWhatIsMeant(t *testing.T) {
	openKey, anthropicKey := []string{"OPENAI_API_KEY", "o"}, []string{"ANTHROPIC_API_KEY", "a"}
	both := append(append([]string{}, openKey...), anthropicKey...)
	for name, c := range map[string]struct {
		config Config
		env    []string
		host   string // empty: nobody
		fails  string
	}{
		"nothing":                        {},
		"a key without a model":          {env: openKey},
		"a key and a model":              {config: Config{Model: "m"}, env: openKey, host: "api.openai.com"},
		"the other key and a model":      {config: Config{Model: "m"}, env: anthropicKey, host: "api.anthropic.com"},
		"two keys":                       {config: Config{Model: "m"}, env: both},
		"two keys, one chosen":           {config: Config{Model: "m", Provider: Anthropic}, env: both, host: "api.anthropic.com"},
		"none":                           {config: Config{Model: "m", Provider: None}, env: openKey},
		"an own endpoint":                {config: Config{Model: "m", BaseURL: "http://127.0.0.1:11434/v1"}, host: "127.0.0.1:11434"},
		"an endpoint in the environment": {config: Config{Model: "m", Provider: OpenAI}, env: []string{"OPENAI_BASE_URL", "http://box/v1"}, host: "box"},
		"chosen without a model":         {config: Config{Provider: OpenAI}, env: openKey, fails: "--model"},
		"chosen without a key":           {config: Config{Provider: OpenAI, Model: "m"}, fails: "OPENAI_API_KEY"},
		"unknown":                        {config: Config{Provider: "oracle"}, fails: "oracle"},
		"bad address":                    {config: Config{Provider: OpenAI, Model: "m", BaseURL: "box"}, fails: "URL"},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.Getenv = environment(c.env...)
			m, err := New(c.config)
			switch {
			case c.fails != "":
				var bad *ConfigError
				require.ErrorAs(t, err, &bad)
				assert.Contains(t, err.Error(), c.fails)
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
	m, err := New(Config{Provider: OpenAI, BaseURL: e.URL, Model: "m", Getenv: environment("OPENAI_API_KEY", "secret")})
	require.NoError(t, err)
	t.Setenv("OPENAI_API_KEY", "secret") // nor by way of the library
	_, err = m.Complete(t.Context(), &steps.SampleRequest{MaxTokens: 1, Messages: []steps.SampleMessage{steps.UserText("x")}})
	require.NoError(t, err)
	assert.Empty(t, e.request.Get("Authorization"))
}
