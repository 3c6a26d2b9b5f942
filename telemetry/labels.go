package telemetry

import (
	"cmp"
	"errors"
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

// labels are what a measurement is of. Metrics have few different ones: each is turned into
// attributes once.
type labels struct {
	of                        family
	method, kind, name        string
	action, outcome, reason   string
	effect, errorType, called string
	undo                      bool
	status                    int64
}

// family says which of the labels a metric has.
type family uint8

const (
	ofRequest family = iota
	ofTurn
	ofProgram
	ofEffect
	ofCall
)

// set are labels in the forms that instruments take.
type set struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

// most is how many sets are kept. There are no more unless hooks of the program's make up codes of errors.
const most = 4096

// sets keeps the sets of labels.
type sets struct {
	mu   sync.RWMutex
	made map[labels]*set
}

func (s *sets) of(l labels) *set {
	s.mu.RLock()
	made := s.made[l]
	s.mu.RUnlock()
	if made != nil {
		return made
	}
	attributes := metric.WithAttributeSet(attribute.NewSet(l.attributes()...))
	made = &set{[]metric.AddOption{attributes}, []metric.RecordOption{attributes}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.made) < most {
		s.made[l] = made
	}
	return made
}

// attributes are the labels of a metric. All of a family have the same names but for those of errors.
func (l labels) attributes() (list []attribute.KeyValue) {
	switch l.of {
	case ofRequest:
		list = append([]attribute.KeyValue{keyMethod.String(l.method)}, l.target()...)
	case ofTurn:
		list = []attribute.KeyValue{keyKind.String(l.kind), keyName.String(l.name), keyAction.String(l.action), keyOutcome.String(l.outcome), keyReason.String(l.reason)}
	case ofProgram:
		list = []attribute.KeyValue{keyKind.String(l.kind), keyName.String(l.name)}
	case ofEffect:
		list = []attribute.KeyValue{keyKind.String(l.kind), keyName.String(l.name), keyEffect.String(l.effect), keyUndo.Bool(l.undo)}
	case ofCall:
		list = []attribute.KeyValue{keyCall.String(l.called)}
	}
	if l.status != 0 {
		list = append(list, keyStatus.String(strconv.FormatInt(l.status, 10)))
	}
	if l.errorType != "" {
		list = append(list, keyError.String(l.errorType))
	}
	return list
}

// target are the attributes that MCP's conventions have for what is called.
func (l labels) target() []attribute.KeyValue {
	switch {
	case l.kind == "tool" && l.name != "":
		return []attribute.KeyValue{keyOperation.String("execute_tool"), keyTool.String(l.name)}
	case l.kind == "prompt" && l.name != "":
		return []attribute.KeyValue{keyPrompt.String(l.name)}
	}
	return nil
}

// failed puts into labels how a request failed, which err tells, or else its turn. What was refused for a bound of the
// server's has the name of that as its type.
func (l *labels) failed(err error, bound string, tool bool) {
	var public *server.Error
	switch {
	case errors.As(err, &public):
		l.status = public.Code
		l.errorType = cmp.Or(bound, strconv.FormatInt(public.Code, 10))
	case err != nil:
		l.errorType = "_OTHER"
	case tool:
		l.errorType = "tool_error"
	}
}
