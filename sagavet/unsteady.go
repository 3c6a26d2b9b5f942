package sagavet

import (
	"go/types"
	"slices"
	"strings"
)

const (
	adviseTime = "Use Run.Now"
	adviseRand = "Use Run.Rand, or for secrets take them in an effect"
	adviseID   = "Use Run.NewID, or for another form of id make it in an effect"
	adviseWait = "It would wait again in every turn; wait in an effect"
)

// unsteady returns the name of an object that gives something else each time, or waits, and what to
// use instead. For other objects the name is "".
func unsteady(o types.Object) (name, advice string) {
	if o == nil || o.Pkg() == nil || o.Parent() != o.Pkg().Scope() {
		return "", "" // the value that a method belongs to has been found already
	}
	switch path, short := o.Pkg().Path(), o.Pkg().Name()+"."+o.Name(); path {
	case "time":
		switch o.Name() {
		case "Now", "Since", "Until":
			return short, adviseTime
		case "Sleep", "After", "Tick", "NewTimer", "NewTicker":
			return short, adviseWait
		}
	case "math/rand", "math/rand/v2":
		// What New and the sources give depends on their seed only.
		if _, ok := o.(*types.Func); ok && !strings.HasPrefix(o.Name(), "New") && o.Name() != "Seed" {
			return "rand." + o.Name(), adviseRand
		}
	case "crypto/rand":
		return "rand." + o.Name(), adviseRand
	default:
		if fn, ok := o.(*types.Func); ok && slices.Contains(idMakers[major(path)], fn.Name()) {
			return short, adviseID
		}
	}
	return "", ""
}

// idMakers are functions of well-known packages that make a new id each time.
var idMakers = map[string][]string{
	"github.com/google/uuid":         {"New", "NewString", "NewRandom", "NewUUID", "NewV6", "NewV7"},
	"github.com/gofrs/uuid":          {"NewV1", "NewV4", "NewV6", "NewV7"},
	"github.com/satori/go.uuid":      {"NewV1", "NewV4"},
	"github.com/hashicorp/go-uuid":   {"GenerateUUID"},
	"github.com/oklog/ulid":          {"Make", "Now", "DefaultEntropy"},
	"github.com/rs/xid":              {"New"},
	"github.com/segmentio/ksuid":     {"New", "NewRandom"},
	"github.com/matoous/go-nanoid":   {"New", "Must", "Generate"},
	"github.com/lithammer/shortuuid": {"New"},
}

// major drops the major version from a path.
func major(path string) string {
	i := strings.LastIndex(path, "/v")
	if i < 0 || strings.Trim(path[i+2:], "0123456789") != "" {
		return path
	}
	return path[:i]
}
