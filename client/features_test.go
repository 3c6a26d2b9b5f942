package client_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

type topic struct {
	Topic string `json:"topic" jsonschema:"what the text is about"`
	Extra string `json:"extra,omitempty"`
}

type tone struct {
	Tone string `json:"tone"`
}

type number struct {
	ID string `json:"id"`
}

type none = struct{}

var (
	askTone  = &steps.Form[tone]{ID: "tone", Message: "How shall it sound?"}
	askWords = &steps.Sample{ID: "advice", Request: steps.SampleRequest{MaxTokens: 10}}
)

// write is a prompt that asks the user, and then the model.
var write = saga.Prompt[topic, none]{
	Machine: saga.Machine[topic, none]{
		Info:  saga.Info{Name: "write", Title: "Write", Description: "Writes a text.", Asks: []steps.Question{askTone, askWords}},
		Start: func(t *saga.Turn[topic, none]) (saga.Next, error) { return t.Ask("toned", askTone) },
		Steps: saga.Steps[topic, none]{
			"toned": func(t *saga.Turn[topic, none]) (saga.Next, error) {
				if _, err := askTone.Answer(t); err != nil {
					return nil, err
				}
				return t.Ask("advised", askWords.With(steps.Promptf("Which words?")))
			},
			"advised": func(t *saga.Turn[topic, none]) (saga.Next, error) {
				advice, err := askWords.Answer(t)
				if err != nil {
					return nil, err
				}
				return t.Messages(
					content.Message{Role: content.User, Content: content.Textf("Write about %s.", t.Args.Topic)},
					content.Message{Role: content.Assistant, Content: content.Text{Text: advice.Text()}})
			},
		},
	},
}

// file is a family of resources, of which one is read only after a question.
var file = saga.Resource[number, none]{
	Machine: saga.Machine[number, none]{
		Info: saga.Info{Name: "file", Description: "A file.", Asks: []steps.Question{askTone}},
		Start: func(t *saga.Turn[number, none]) (saga.Next, error) {
			switch t.Args.ID {
			case "asks":
				return t.Ask("toned", askTone)
			case "binary":
				return t.Contents(content.ResourceContents{URI: "files://binary", MIMEType: "image/png", Blob: []byte{0, 1, 2}})
			}
			return nil, saga.ErrNotFound
		},
		Steps: saga.Steps[number, none]{
			"toned": func(t *saga.Turn[number, none]) (saga.Next, error) {
				form, err := askTone.Answer(t)
				if err != nil {
					return nil, err
				}
				return t.Contents(content.ResourceContents{URI: "files://" + t.Args.ID, MIMEType: "text/plain", Text: "in a " + form.Tone + " tone"})
			},
		},
	},
	Template: "files://{id}",
}

var motd = saga.Resource[none, none]{
	Machine: saga.Machine[none, none]{
		Info: saga.Info{Name: "motd"},
		Start: func(t *saga.Turn[none, none]) (saga.Next, error) {
			return t.Contents(content.ResourceContents{URI: "text://motd", Text: "Hello."})
		},
	},
	URI:      "text://motd",
	MIMEType: "text/plain",
}

var features = []saga.Definition{write, file, motd}

func newFeatures(keys *codec.Keyset) (*server.Server, error) {
	return server.New(server.Options{Tools: features, Keys: keys, Logger: slog.New(slog.DiscardHandler)})
}

// featureServers are the servers that prompts and resources are got from.
func featureServers(t *testing.T) map[string]client.Transport {
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s, err := newFeatures(keys)
	require.NoError(t, err)
	own := httptest.NewServer(s.Handler())
	t.Cleanup(own.Close)

	self, err := os.Executable()
	require.NoError(t, err)
	stdio := func(initialize bool) *client.Stdio {
		return &client.Stdio{Command: self, Env: append(os.Environ(), childMode+"=features"), Stderr: io.Discard, Initialize: initialize}
	}
	return map[string]client.Transport{
		"HTTP":  &client.HTTP{URL: own.URL + server.Endpoint},
		"stdio": stdio(false), "stdio, greeted": stdio(true),
	}
}

// counter tells how far it is.
var counter = saga.Machine[none, none]{
	Info: saga.Info{Name: "count"},
	Start: func(t *saga.Turn[none, none]) (saga.Next, error) {
		for i := range 3 {
			t.Progress(float64(i+1), 3, "counting")
		}
		return t.Textf("counted")
	},
}

// serve is a server as a child process.
func serve(tools ...saga.Definition) int {
	keys, err := codec.NewKeyset()
	if err == nil {
		var s *server.Server
		if s, err = server.New(server.Options{Tools: tools, Keys: keys, Logger: slog.New(slog.DiscardHandler)}); err == nil {
			err = s.ServeStdio(context.Background(), os.Stdin, os.Stdout)
		}
	}
	if err != nil {
		return 1
	}
	return 0
}

func TestPromptsAndResources(t *testing.T) {
	t.Parallel()
	for name, transport := range featureServers(t) {
		t.Run(name, func(t *testing.T) {
			c := client.New(transport, client.Options{})
			t.Cleanup(func() { _ = c.Close() })
			prompts, err := c.Prompts(t.Context())
			require.NoError(t, err)
			require.Len(t, prompts, 1)
			assert.Equal(t, "write", prompts[0].Name)
			assert.Equal(t, "Writes a text.", prompts[0].Description)
			assert.Equal(t, []client.PromptArgument{
				{Name: "topic", Description: "what the text is about", Required: true}, {Name: "extra"},
			}, prompts[0].Arguments)
			resources, err := c.Resources(t.Context())
			require.NoError(t, err)
			require.Len(t, resources, 1)
			assert.Equal(t, "text://motd", resources[0].URI)
			templates, err := c.ResourceTemplates(t.Context())
			require.NoError(t, err)
			require.Len(t, templates, 1)
			assert.Equal(t, "files://{id}", templates[0].URITemplate)

			var who people
			prompt, err := c.GetPrompt(t.Context(), "write", map[string]string{"topic": "tea"}, answering(&who))
			require.NoError(t, err)
			assert.Equal(t, people{elicited: 1, sampled: 1}, who)
			assert.Equal(t, []content.Message{
				{Role: content.User, Content: content.Text{Text: "Write about tea."}},
				{Role: content.Assistant, Content: content.Text{Text: "Plain ones."}},
			}, prompt.Messages)
			assert.NotEmpty(t, prompt.Raw)

			read, err := c.ReadResource(t.Context(), "files://asks", answering(&who))
			require.NoError(t, err)
			assert.Equal(t, []content.ResourceContents{{URI: "files://asks", MIMEType: "text/plain", Text: "in a warm tone"}}, read.Contents)
			assert.Equal(t, 2, who.elicited)
			read, err = c.ReadResource(t.Context(), "files://binary", client.Handlers{})
			require.NoError(t, err)
			assert.Equal(t, []byte{0, 1, 2}, read.Contents[0].Blob)
			_, err = c.ReadResource(t.Context(), "files://nowhere", client.Handlers{})
			var refused *client.Error
			require.ErrorAs(t, err, &refused)
			_, err = c.ReadResource(t.Context(), "files://grüße ", client.Handlers{})
			require.ErrorAs(t, err, &refused)
			assert.NotContains(t, refused.Message, "header")
		})
	}
}

func answering(who *people) client.Handlers {
	return client.Handlers{
		Elicit: func(context.Context, *client.Request) (*client.ElicitResult, error) {
			who.elicited++
			return client.Accept(tone{"warm"}), nil
		},
		Sample: func(context.Context, *client.Request) (*steps.SampleResult, error) {
			who.sampled++
			return client.Reply("m", "Plain ones."), nil
		},
	}
}

// A prompt goes on from its position, with another client on another connection.
func TestResumePrompt(t *testing.T) {
	t.Parallel()
	at := featureServers(t)["HTTP"]
	pause := client.Handlers{
		Elicit: func(context.Context, *client.Request) (*client.ElicitResult, error) {
			return nil, client.ErrPause
		},
		Sample: func(context.Context, *client.Request) (*steps.SampleResult, error) { return nil, client.ErrPause },
	}
	open := func() *client.Client {
		c := client.New(&client.HTTP{URL: at.(*client.HTTP).URL}, client.Options{})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	_, err := open().GetPrompt(t.Context(), "write", map[string]string{"topic": "tea"}, pause)
	require.ErrorIs(t, err, client.ErrPause)
	position := throughJSON(t, interrupted(t, err))
	assert.Equal(t, "prompt", position.Kind())
	assert.Equal(t, "write", position.Subject())

	var who people
	halfway := answering(&who)
	halfway.Sample = pause.Sample
	_, err = open().ResumePrompt(t.Context(), position, halfway)
	require.ErrorIs(t, err, client.ErrPause)
	prompt, err := open().ResumePrompt(t.Context(), throughJSON(t, interrupted(t, err)), answering(&who))
	require.NoError(t, err)
	assert.Len(t, prompt.Messages, 2)
	assert.Equal(t, people{elicited: 1, sampled: 1}, who)

	_, err = open().ReadResource(t.Context(), "files://asks", pause)
	position = throughJSON(t, interrupted(t, err))
	read, err := open().ResumeResource(t.Context(), position, answering(&who))
	require.NoError(t, err)
	assert.Len(t, read.Contents, 1)

	// Each kind has its own way to go on, and nothing to undo.
	for _, wrong := range []func() error{
		func() error { _, err := open().Resume(t.Context(), position, pause); return err },
		func() error { _, err := open().ResumePrompt(t.Context(), position, pause); return err },
		func() error { _, err := open().Cancel(t.Context(), position); return err },
		func() error { _, err := open().ReadResource(t.Context(), "", pause); return err },
	} {
		require.ErrorAs(t, wrong(), new(*client.PositionError))
	}
}

// In this protocol a step cannot be answered with an error, so the call ends, with
// the step still to be answered.
func TestPromptEndsWithAHandler(t *testing.T) {
	t.Parallel()
	c := client.New(featureServers(t)["HTTP"], client.Options{})
	t.Cleanup(func() { _ = c.Close() })
	var who people
	refusing := answering(&who)
	refusing.Sample = func(context.Context, *client.Request) (*steps.SampleResult, error) {
		return nil, &client.Error{Code: -1, Message: "the user refused"}
	}
	_, err := c.GetPrompt(t.Context(), "write", map[string]string{"topic": "tea"}, refusing)
	var refused *client.Error
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, "the user refused", refused.Message)
	assert.Len(t, interrupted(t, err).Pending(), 1)

	// What there is no handler for is not declared, so the server does not ask.
	refusing.Sample = nil
	_, err = c.GetPrompt(t.Context(), "write", map[string]string{"topic": "tea"}, refusing)
	require.ErrorAs(t, err, &refused)
	assert.EqualValues(t, -32021, refused.Code)
}

func TestPromptsOnTheWire(t *testing.T) {
	t.Parallel()
	ask := func(state, key string) reply {
		return result(`{"resultType":"input_required","requestState":"` + state + `","inputRequests":{"` + key + `":{"method":"elicitation/create","params":` + emptyForm + `}}}`)
	}
	s := play(t, ask("s1", "who"), ask("s2", "who"), result(`{"resultType":"complete","messages":[]}`))
	var who people
	prompt, err := s.client(t).GetPrompt(t.Context(), "p", nil, who.handlers())
	require.NoError(t, err, "another round may use the same key")
	assert.Empty(t, prompt.Messages)
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"mcpsaga","version":"1"},
		"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{},"url":{}},"sampling":{}}}`
	answers := `"inputResponses":{"who":{"action":"accept","content":{"target":"production"}}}`
	for i, want := range []string{
		`{"name":"p",` + meta + `}`, `{"name":"p","requestState":"s1",` + answers + `,` + meta + `}`, `{"name":"p","requestState":"s2",` + answers + `,` + meta + `}`,
	} {
		assert.Equal(t, "prompts/get", s.got()[i].Method)
		assert.JSONEq(t, want, string(s.got()[i].Params))
	}
}

func TestOddAnswersToPrompts(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"a task":                 `{"resultType":"task","taskId":"1"}`,
		"nothing to go on with":  `{"resultType":"input_required"}`,
		"no messages":            `{"resultType":"complete"}`,
		"messages of no list":    `{"messages":7}`,
		"questions of no object": `{"resultType":"input_required","inputRequests":[],"requestState":"s"}`,
		"a question twice":       `{"resultType":"input_required","inputRequests":{"a":{},"a":{}},"requestState":"s"}`,
		"too many questions":     `{"resultType":"input_required","inputRequests":{` + many(101, `"q%d":{"method":"roots/list"}`) + `},"requestState":"s"}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := play(t, result(answer)).client(t).GetPrompt(t.Context(), "p", nil, client.Handlers{})
			require.ErrorAs(t, err, new(*client.ProtocolError))
		})
	}
	_, err := play(t, result(`{"contents":[{"uri":"u","blob":"***"}]}`)).client(t).ReadResource(t.Context(), "u", client.Handlers{})
	require.ErrorAs(t, err, new(*client.ProtocolError))
	none, err := play(t, refuse(-32601, "method not found")).client(t).Prompts(t.Context())
	require.NoError(t, err, "a server without prompts")
	assert.Empty(t, none)
}

func TestPositionsOfFeaturesAreChecked(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		`{"version":1,"dialect":"mcp-2026-07-28","prompt":"p","uri":"u"}`,
		`{"version":1,"dialect":"mcp-2026-07-28"}`,
		`{"version":1,"dialect":"carrier-pigeon","prompt":"p"}`,
	} {
		var p client.Position
		require.NoError(t, json.Unmarshal([]byte(bad), &p))
		_, err := play(t).client(t).ResumePrompt(t.Context(), p, client.Handlers{})
		require.ErrorAs(t, err, new(*client.PositionError), bad)
	}
}

// A client declares the extensions of its options, and lists are as those see them that answer with Options.Lists.
func TestExtensionsAreDeclared(t *testing.T) {
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	tool := saga.Flow[none, string]{Info: saga.Info{Name: "sing", Asks: []steps.Question{askTone}}, Run: func(r *saga.Run, _ none) (string, error) {
		form, err := saga.Ask(r, askTone)
		return form.Tone, err
	}}
	s, err := server.New(server.Options{Keys: keys, Tools: []saga.Definition{tool}, Ledger: ledger.NewMemory(ledger.MemoryOptions{}), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	apps := map[string]any{"io.modelcontextprotocol/ui": map[string]any{"mimeTypes": []string{"text/html;profile=mcp-app"}}}
	asks := &client.Handlers{Elicit: func(context.Context, *client.Request) (*client.ElicitResult, error) { return client.Decline(), nil }}
	for name, c := range map[string]struct {
		extensions map[string]any
		lists      *client.Handlers
		shown      bool
	}{"apps": {apps, nil, true}, "no apps": {nil, nil, false}, "asks itself": {apps, asks, false}} {
		t.Run(name, func(t *testing.T) {
			connection := client.New(&client.HTTP{URL: web.URL + "/mcp"}, client.Options{Protocol: "2026-07-28", Extensions: c.extensions, Lists: c.lists})
			defer connection.Close()
			tools, err := connection.Tools(t.Context())
			require.NoError(t, err)
			assert.Equal(t, c.shown, tools[0].Meta["ui"] != nil)
			page, err := connection.ReadResource(t.Context(), "ui://mcpsaga/form", client.Handlers{})
			require.NoError(t, err)
			assert.NotEmpty(t, page.Contents)
		})
	}
}
