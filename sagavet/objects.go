package sagavet

import (
	"go/types"
	"slices"
	"strings"
)

// table has functions, methods and variables by their package, or the type that they belong to, without its major version.
// A star stands for the rest of a name.
type table map[string][]string

// has reports whether an object is in the table.
func (t table) has(o types.Object) bool {
	of, name := home(o)
	return slices.ContainsFunc(t[of], func(known string) bool {
		prefix, star := strings.CutSuffix(known, "*")
		return known == name || star && strings.HasPrefix(name, prefix)
	})
}

// home says where a table has an object. One that is neither a method, nor a function or variable of a package, is nowhere.
func home(o types.Object) (of, name string) {
	switch o := o.(type) {
	case *types.Func:
		if o == nil || o.Pkg() == nil {
			return "", ""
		}
		if recv := o.Signature().Recv(); recv != nil {
			of = "." + shortName(recv.Type())
		}
	case *types.Var:
		if o.Pkg() == nil || o.Parent() != o.Pkg().Scope() {
			return "", ""
		}
	default:
		return "", ""
	}
	return major(o.Pkg().Path()) + of, o.Name()
}

// major drops the major version from a path.
func major(path string) string {
	i := strings.LastIndex(path, "/v")
	if i < 0 || strings.Trim(path[i+2:], "0123456789") != "" {
		return path
	}
	return path[:i]
}

// What tools do with a saga.
var (
	performing = table{sagaPath: {"Do", "DoAll"}}
	// suspending are what may suspend a flow, and counting what it must not take in another order.
	suspending = table{sagaPath: {"Ask"}, sagaPath + ".Run": {"AskAll", "Yield", "Sleep", "Until"}}
	counting   = table{sagaPath + ".Run": {"NewID", "Now", "Rand"}}
	handles    = table{sagaPath: {"Handle"}}
)

// starting run their arguments concurrently.
var starting = table{"sync.WaitGroup": {"Go"}, "golang.org/x/sync/errgroup.Group": {"Go", "TryGo"}, "time": {"AfterFunc"}}

// telling are packages whose functions only write messages for people.
var telling = []string{"log", "log/slog", "testing", "github.com/stretchr/testify/assert", "github.com/stretchr/testify/require"}

// onlyLogs reports whether a function only writes a message for people.
func onlyLogs(f *types.Func) bool {
	if f == nil || f.Pkg() == nil {
		return false
	}
	recv := f.Signature().Recv()
	return slices.Contains(telling, f.Pkg().Path()) || recv != nil && (isLogger(recv.Type()) || isNamed(recv.Type(), sagaPath, "working") && (f.Name() == "Log" || f.Name() == "Progress"))
}

// unsteadies are what gives something else each time, or waits, and what to use instead.
var unsteadies = map[string]table{
	"Use Run.Now": {"time": {"Now", "Since", "Until"}},
	"It would wait again in every turn; wait in an effect": {"time": {"Sleep", "After", "Tick", "NewTimer", "NewTicker"}},
	// What New and the sources give depends on their seed only.
	"Use Run.Rand, or for secrets take them in an effect": {
		"crypto/rand": {"*"},
		"math/rand":   {"Exp*", "Float*", "Int*", "N", "Norm*", "Perm", "Read", "Shuffle", "Uint*"},
	},
	"Use Run.NewID, or for another form of id make it in an effect": {
		"github.com/google/uuid":         {"New", "NewString", "NewRandom", "NewUUID", "NewV6", "NewV7"},
		"github.com/gofrs/uuid":          {"NewV1", "NewV4", "NewV6", "NewV7"},
		"github.com/satori/go.uuid":      {"NewV1", "NewV4"},
		"github.com/hashicorp/go-uuid":   {"GenerateUUID"},
		"github.com/oklog/ulid":          {"Make", "Now", "DefaultEntropy"},
		"github.com/rs/xid":              {"New"},
		"github.com/segmentio/ksuid":     {"New", "NewRandom"},
		"github.com/matoous/go-nanoid":   {"New", "Must", "Generate"},
		"github.com/lithammer/shortuuid": {"New"},
	},
}

// unsteady returns the name of an object that gives something else each time, or waits, and what to
// use instead. For other objects the name is "".
func unsteady(o types.Object) (name, advice string) {
	for advice, t := range unsteadies {
		if t.has(o) {
			return o.Pkg().Name() + "." + o.Name(), advice
		}
	}
	return "", ""
}
