package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/internal/jsontest"
)

// script is what a user wants, and the client with it.
type script struct {
	City       string `json:"city"` // one of its own for every saga
	Travellers int    `json:"travellers"`
	Nights     int    `json:"nights"`
	// Answer is "accept" or "decline", or "cancel" for a client that cancels the
	// saga while the last question is asked, or "leave" for one that goes away.
	Answer string `json:"answer"`
	// asBefore: until that question this life is the same as another.
	asBefore bool
}

// driver is the client's side of a saga.
type driver struct {
	script script
	url    string
	// position is where the saga stands, as far as the client knows; kept in file,
	// if that is set.
	position client.Position
	file     string
	// cancelling: the client wants the saga undone, whatever the answers.
	cancelling bool
	// undo is a token with which an undo is to be tried again.
	undo string
	// result is how the saga ended, as JSON.
	result string
}

func (d *driver) client() *client.Client {
	h := &client.HTTP{URL: d.url, RoundTripper: &http.Transport{DisableKeepAlives: true}}
	return client.New(h, client.Options{Protocol: "saga", Retries: -1, Timeout: 30 * time.Second})
}

func (d *driver) handlers() client.Handlers {
	return client.Handlers{
		Elicit: func(_ context.Context, r *client.Request) (*client.ElicitResult, error) {
			switch {
			case r.StepID == "journey":
				return client.Accept(map[string]any{
					"city": d.script.City, "arrival": time.Now().AddDate(0, 1, 0).Format(time.DateOnly),
					"nights": d.script.Nights, "travellers": d.script.Travellers,
				}), nil
			case d.script.Answer == "decline":
				return client.Decline(), nil
			case d.script.Answer == "cancel":
				d.cancelling = true
				return nil, client.ErrPause
			case d.script.Answer == "leave":
				return nil, client.ErrPause
			}
			return client.Accept(map[string]any{"pay": "deposit"}), nil
		},
		OnPosition: func(_ context.Context, p client.Position) error { return d.save(p) },
	}
}

func (d *driver) save(p client.Position) error {
	d.position = p
	if d.file == "" {
		return nil
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return err
	}
	next := d.file + ".next"
	if err := os.WriteFile(next, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(next, d.file)
}

// load takes the position that a client which was killed had saved.
func (d *driver) load() error {
	raw, err := os.ReadFile(d.file)
	if errors.Is(err, os.ErrNotExist) {
		return nil // killed before it knew anything
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, &d.position)
}

// start calls the tool, and goes on as the script says.
func (d *driver) start(ctx context.Context) error {
	c := d.client()
	defer func() { _ = c.Close() }()
	args := map[string]any{"from": "Oslo", "account": "account of " + d.script.City}
	result, err := c.Call(ctx, "trip", args, d.handlers())
	return d.ended(ctx, result, err)
}

// comeBack goes on with the saga from what the client knows of it.
func (d *driver) comeBack(ctx context.Context, cancel bool) error {
	switch {
	case d.undo != "":
		return d.cancel(ctx, d.undo, nil)
	case d.position.Token == "" && cancel:
		return nil // there is nothing to cancel
	case d.position.Token == "":
		return d.start(ctx)
	case cancel:
		return d.cancel(ctx, d.position.Token, d.position.Answers)
	}
	c := d.client()
	defer func() { _ = c.Close() }()
	result, err := c.Resume(ctx, d.position, d.handlers())
	return d.ended(ctx, result, err)
}

func (d *driver) ended(ctx context.Context, result *client.Result, err error) error {
	if errors.Is(err, client.ErrPause) && d.cancelling {
		return d.cancel(ctx, d.position.Token, d.position.Answers)
	}
	if err != nil {
		return err
	}
	return d.finished(string(result.Raw))
}

// finished takes a result. It is the end unless an undo has to be tried again.
func (d *driver) finished(result string) error {
	d.result = result
	d.undo = jsontest.Get(result, `_meta.io\.github\.mcpsaga/undo.sagaToken`).String()
	return nil
}

// cancel sends tools/cancelSaga.
func (d *driver) cancel(ctx context.Context, token string, answers []client.Answer) error {
	raw, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": 1, "method": "tools/cancelSaga",
		"params": map[string]any{"sagaToken": token, "completedSteps": answers},
	})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Close = true
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	result := jsontest.Get(body, "result")
	if !result.Exists() {
		return fmt.Errorf("cancelSaga: %s: %s", response.Status, body)
	}
	return d.finished(result.Raw)
}

// clientProcess is a client that can be killed: args are the URL, the script as
// JSON, and the file of the position.
func clientProcess(ctx context.Context, args []string) error {
	d := &driver{url: args[0], file: filepath.Clean(args[2])}
	if err := json.Unmarshal([]byte(args[1]), &d.script); err != nil {
		return err
	}
	return d.start(ctx)
}
