package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// spoken are the protocols by which the things of a server are reached.
type spoken struct {
	// tools calls tools, toolList lists them, features is for prompts and resources.
	tools, toolList, features string
	// tasks: the server has the tasks extension, for tools that the saga proposal cannot call.
	tasks bool
}

// older are the revisions of MCP with sessions.
var older = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

func isOld(revision string) bool { return slices.Contains(older, revision) }

// probePatience is how long a process may take to answer server/discover, which some never do before initialize.
const probePatience = 15 * time.Second

// speak returns what to speak, and asks the server the first time.
func (c *Client) speak(ctx context.Context) (*spoken, error) {
	select {
	case c.choosing <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-c.choosing }()
	if c.chosen != nil {
		return c.chosen, nil
	}
	var err error
	c.chosen, err = c.choose(ctx)
	return c.chosen, err
}

func (c *Client) choose(ctx context.Context) (*spoken, error) {
	switch protocol := c.options.Protocol; {
	case protocol == "saga":
		return &spoken{tools: sagaProposal, toolList: sagaProposal, features: stateless}, nil
	case protocol == revision:
		return &spoken{tools: stateless, toolList: stateless, features: stateless}, nil
	case isOld(protocol):
		return c.withSessions(nil)
	case protocol != "":
		return nil, fmt.Errorf("there is no protocol %q here: use saga, %s, or one of %v", protocol, revision, older)
	}
	made, err := c.discover(ctx)
	if slices.Contains(supportedBy(err), revision) {
		made, err = c.discover(ctx) // it has refused what it says it speaks
	}
	if err != nil && (isOlder(err) || c.neverDiscovers(ctx, err)) {
		return c.withSessions(err)
	}
	return made, err
}

// withSessions speaks an older revision. why says what made that necessary, or is nil.
func (c *Client) withSessions(why error) (*spoken, error) {
	if c.options.Sessions != nil {
		return &spoken{tools: inSessions, toolList: inSessions, features: inSessions}, nil
	}
	err := fmt.Errorf("older revisions of MCP than %s need Options.Sessions", revision)
	if why != nil {
		err = fmt.Errorf("%w (to server/discover it said: %w)", err, why)
	}
	return nil, err
}

// discover asks a server what it speaks (MCP 2026-07-28, server/discover).
func (c *Client) discover(ctx context.Context) (*spoken, error) {
	if _, process := c.transport.(*Stdio); process && c.options.Sessions != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, min(probePatience, c.options.Timeout), ErrTimeout)
		defer cancel()
	}
	raw, err := c.send(ctx, statelessDialect{c.options}.request("server/discover", "", new(Handlers), params{}))
	if err != nil {
		return nil, err
	}
	wire := struct {
		Versions     bounded[string] `json:"supportedVersions"`
		Capabilities json.RawMessage `json:"capabilities"`
	}{Versions: bounded[string]{max: c.options.Limits.Items, what: "versions of a server"}}
	if err := read(raw, &wire, "the server's answer to server/discover"); err != nil {
		return nil, err
	}
	if !slices.Contains(wire.Versions.items, revision) {
		unknown := &ProtocolError{Reason: fmt.Sprintf("the server speaks MCP %.200v, and this client %s and what is older", wire.Versions.items, revision)}
		if slices.ContainsFunc(wire.Versions.items, isOld) {
			return c.withSessions(unknown)
		}
		return nil, unknown
	}
	made := &spoken{tools: stateless, toolList: stateless, features: stateless, tasks: jsonview.Get(wire.Capabilities, "extensions", tasksExtension) != nil}
	if jsonview.Get(wire.Capabilities, "experimental", sagaMarker) != nil && (!c.options.PreferTasks || !made.tasks) {
		made.tools = sagaProposal
	}
	return made, nil
}

// isOlder reports whether the server knows nothing of server/discover, as 2026-07-28 (basic/versioning) has it.
func isOlder(err error) bool {
	if refused, ok := errors.AsType[*Error](err); ok {
		if refused.Code != codeUnsupportedVersion {
			return refused.Code != codeHeaderMismatch && refused.Code != codeMissingCapability
		}
		return slices.ContainsFunc(supportedBy(err), isOld)
	}
	lost, ok := errors.AsType[*TransportError](err)
	// What servers answer to a request without a session, if not by JSON-RPC.
	statuses := []int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnprocessableEntity}
	return ok && slices.Contains(statuses, lost.Status)
}

// supportedBy are the versions that a server says it speaks when it refuses one.
func supportedBy(err error) []string {
	refused, ok := errors.AsType[*Error](err)
	if !ok || refused.Code != codeUnsupportedVersion {
		return nil
	}
	var data struct {
		Supported []string `json:"supported"`
	}
	_ = json.Unmarshal(refused.Data, &data)
	return data.Supported
}

// neverDiscovers reports whether the server is a process that did not answer before initialize, or ended.
func (c *Client) neverDiscovers(ctx context.Context, err error) bool {
	process, is := c.transport.(*Stdio)
	if !is || ctx.Err() != nil || c.options.Sessions == nil {
		return false
	}
	if lost, ok := errors.AsType[*TransportError](err); ok && (lost.final && !errors.Is(err, ErrTimeout) || !lost.Sent) {
		return false // it cannot be started at all
	}
	process.drop()
	return true
}

// taskDialect returns how to call a tool that was refused by this result or error because it has to be a task, and nil if it was
// not. Nothing has begun then. The saga proposal cannot call it, but MCP 2026-07-28 can.
func (c *Client) taskDialect(ctx context.Context, p *Position, d dialect, result json.RawMessage, err error) dialect {
	refused, _ := errors.AsType[*Error](err)
	switch {
	case p.Tool == "" || p.Round > 0:
	case d == sagaDialect{} && refused != nil && refused.Code == jsonrpc2.CodeInvalidParams:
		spoken, err := c.speak(ctx)
		if err != nil || !spoken.tasks {
			return nil
		}
		if tool := c.tool(ctx, p.Tool); tool != nil && !tool.IsSaga() {
			p.Dialect = stateless
			return c.dialects[stateless]
		}
	case d == sessionDialect{} && (refused != nil && refused.Code == jsonrpc2.CodeMethodNotFound || string(jsonview.Get(result, "isError")) == "true"):
		if tool := c.tool(ctx, p.Tool); tool != nil && tool.Execution.TaskSupport == "required" {
			return sessionDialect{asTask: true}
		}
	}
	return nil
}
