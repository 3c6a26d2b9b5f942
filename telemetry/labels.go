package telemetry

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/mcpsaga/mcpsaga/server"
)

// Names of attributes: of MCP's conventions, and our own.
const (
	keyMethod    = attribute.Key("mcp.method.name")
	keyTool      = attribute.Key("gen_ai.tool.name")
	keyPrompt    = attribute.Key("gen_ai.prompt.name")
	keyOperation = attribute.Key("gen_ai.operation.name")
	keyRequest   = attribute.Key("jsonrpc.request.id")
	keyVersion   = attribute.Key("mcp.protocol.version")
	keyStatus    = attribute.Key("rpc.response.status_code")
	keyError     = attribute.Key("error.type")

	keyKind    = attribute.Key("mcpsaga.kind")
	keyName    = attribute.Key("mcpsaga.name")
	keySaga    = attribute.Key("mcpsaga.saga.id")
	keyTurn    = attribute.Key("mcpsaga.turn.number")
	keyAction  = attribute.Key("mcpsaga.action")
	keyOutcome = attribute.Key("mcpsaga.outcome")
	keyReason  = attribute.Key("mcpsaga.reason")
	keyEffect  = attribute.Key("mcpsaga.effect.name")
	keyUndo    = attribute.Key("mcpsaga.undo")
	keyAttempt = attribute.Key("mcpsaga.attempt")
	keyCall    = attribute.Key("mcpsaga.ledger.operation")
	keyMode    = attribute.Key("mcpsaga.mode")
	keyState   = attribute.Key("mcpsaga.status")
	keyCount   = attribute.Key("mcpsaga.questions")
	keyWaited  = attribute.Key("mcpsaga.waited")
	keyToken   = attribute.Key("mcpsaga.token.size")
)

// methods are those that have their names in metrics and spans; clients may send any.
var methods = map[string]bool{
	"initialize": true, "ping": true, "server/discover": true, "logging/setLevel": true, "completion/complete": true,
	"tools/list": true, "tools/call": true, "tools/callSaga": true, "tools/resumeSaga": true, "tools/cancelSaga": true,
	"prompts/list": true, "prompts/get": true,
	"resources/list": true, "resources/read": true, "resources/templates/list": true, "resources/subscribe": true, "resources/unsubscribe": true,
	"tasks/get": true, "tasks/list": true, "tasks/result": true, "tasks/cancel": true, "tasks/update": true,
	"subscriptions/listen": true, "notifications/initialized": true, "notifications/cancelled": true, "notifications/progress": true,
	"notifications/roots/list_changed": true,
}

// methodOf is what a request's method is called.
func methodOf(r *server.RequestInfo) string {
	if methods[r.Method] {
		return r.Method
	}
	return "_OTHER"
}

// mostOptions bounds how many options are kept: names are the tools', and reasons ours.
const mostOptions = 4096

// options keeps labels as instruments take them, as they cost more to make than what is measured with them.
type options struct {
	mu   sync.RWMutex
	made map[[6]attribute.KeyValue]metric.MeasurementOption
}

// of keeps what is made of up to six labels. Attribute sets sort what they are given, so that gets a copy.
func (o *options) of(labels ...attribute.KeyValue) metric.MeasurementOption {
	var key [6]attribute.KeyValue
	if copy(key[:], labels) < len(labels) {
		return metric.WithAttributeSet(attribute.NewSet(slices.Clone(labels)...))
	}
	o.mu.RLock()
	option := o.made[key]
	o.mu.RUnlock()
	if option != nil {
		return option
	}
	option = metric.WithAttributeSet(attribute.NewSet(slices.Clone(labels)...))
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.made) < mostOptions {
		o.made[key] = option
	}
	return option
}

// appendTarget appends the attributes that MCP's conventions have for what is called.
func appendTarget(labels []attribute.KeyValue, kind, name string) []attribute.KeyValue {
	switch {
	case kind == "tool" && name != "":
		return append(labels, keyOperation.String("execute_tool"), keyTool.String(name))
	case kind == "prompt" && name != "":
		return append(labels, keyPrompt.String(name))
	}
	return labels
}

// failure are the labels of how a request failed, which err tells, or else its turn. What was refused for a bound of the
// server's has the name of that as its type.
func failure(err error, bound string, tool bool) (labels []attribute.KeyValue, errorType string) {
	if public, ok := errors.AsType[*server.Error](err); ok {
		code := strconv.FormatInt(public.Code, 10)
		errorType = cmp.Or(bound, code)
		return []attribute.KeyValue{keyStatus.String(code), keyError.String(errorType)}, errorType
	}
	switch {
	case err != nil:
		errorType = "_OTHER"
	case tool:
		errorType = "tool_error"
	default:
		return nil, ""
	}
	return []attribute.KeyValue{keyError.String(errorType)}, errorType
}
