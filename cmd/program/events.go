package program

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/cmd/program/internal/plain"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/outgoing"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/server"
)

// deliveryTime is how long a server may take to accept an event.
const deliveryTime = 30 * time.Second

// handleSizes are the sizes of what a handle encodes, in bytes: one that names its saga is longer.
var handleSizes = []int{24, 40}

func (p *program) eventsCommand() *cli.Command {
	return &cli.Command{
		Name:  "events",
		Usage: "deliver what tools wait for",
		Commands: []*cli.Command{{
			Name:      "send",
			Usage:     "deliver an event, as its provider would",
			ArgsUsage: "URL [VALUE], or HANDLE [VALUE]",
			Description: `Sends a value to the address of an event, which ends with its handle: JSON, or - for what is
read from the standard input. Without a value it is an empty object. The first value counts.

With a handle alone it writes to the --ledger of the servers, and needs their keyset and audience.
There it does not know the tool, so make sure that the value fits: the tool fails if it does not.

Exits with 1 if the event is not taken.

Examples:
   {program} events send https://tools.example.com/events/HANDLE '{"amount": 12}'
   {program} events send https://tools.example.com/events/HANDLE --reject 'the card was refused'
   {program} events send HANDLE '{"amount": 12}' --ledger sqlite:/var/lib/{program}/ledger.db --keyset /etc/{program}/keyset.json --audience prod`,
			Flags:  append([]cli.Flag{p.stringFlag("reject", "say that it will not happen, and why", "")}, p.ledgerFlags()...),
			Action: p.sendEvent,
		}},
	}
}

func (p *program) sendEvent(ctx context.Context, c *cli.Command) error {
	if c.NArg() < 1 || c.NArg() > 2 {
		return p.usage(c, "%s takes the address of an event, and its value", c.FullName())
	}
	handle, _ := base64.RawURLEncoding.DecodeString(c.Args().First())
	byHandle := slices.Contains(handleSizes, len(handle))
	address, err := url.Parse(c.Args().First())
	if err != nil || !byHandle && (address.Host == "" || address.Scheme != "https" && address.Scheme != "http") {
		return p.usage(c, "the address is no http or https URL, and no handle")
	}
	body := c.Args().Get(1)
	if body == "-" {
		raw, err := p.input(body)
		if err != nil {
			return failed(err)
		}
		body = string(raw)
	}
	switch rejects, given := c.IsSet("reject"), c.NArg() == 2; {
	case rejects && given:
		return p.usage(c, "give a value or --reject, not both")
	case given && body == "": // as of a command in a pipe that has failed
		return p.usage(c, "the value is empty: leave it out to send an empty object")
	case given && !json.Valid([]byte(body)):
		return p.usage(c, "the value is no JSON")
	case byHandle:
		return p.keepEvent(ctx, c, c.Args().First(), body)
	case rejects:
		address, body = address.JoinPath("reject"), c.String("reject")
	}
	return failed(p.postEvent(ctx, address.String(), body))
}

// keepEvent delivers an event by the ledger of the servers.
func (p *program) keepEvent(ctx context.Context, c *cli.Command, handle, body string) error {
	return p.withStore(ctx, c, func(s store.Store, keys *codec.Keyset) error {
		srv, err := server.New(server.Options{Keys: keys, Audience: c.String("audience"), Ledger: s, Workers: -1, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return failed(err)
		}
		defer srv.Close()
		ctx, cancel := context.WithTimeout(ctx, deliveryTime)
		defer cancel()
		if c.IsSet("reject") {
			err = srv.Reject(ctx, handle, c.String("reject"))
		} else if body == "" {
			err = srv.Deliver(ctx, handle, nil)
		} else {
			err = srv.Deliver(ctx, handle, json.RawMessage(body))
		}
		if err != nil {
			return failed(fmt.Errorf("the event was not taken: %w", err))
		}
		_, err = fmt.Fprintln(p.stdout, "delivered")
		return err
	})
}

func (p *program) postEvent(ctx context.Context, address, body string) error {
	ctx, cancel := context.WithTimeout(ctx, deliveryTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{CheckRedirect: outgoing.CheckRedirect}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := outgoing.ReadAll(resp.Body, 1<<16)
	if err != nil {
		return err
	}
	var said struct {
		Status string `json:"status"`
	}
	if json.Unmarshal(raw, &said) != nil || said.Status == "" {
		said.Status = resp.Status
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("the event was not taken (%d): %s", resp.StatusCode, plain.Line(said.Status))
	}
	_, err = fmt.Fprintln(p.stdout, plain.Line(said.Status))
	return err
}
