package doccheck

import (
	"go/types"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
)

const module = "github.com/mcpsaga/mcpsaga"

// mostNames are how many names each public package may export at its top level:
// somebody has to read them all. Who adds one raises the number, and has thought
// about it.
var mostNames = map[string]int{
	"audit": 7, "auth": 17, "client": 38, "client/legacy": 1, "codec": 14, "content": 21, "gosdk": 5, "kms/vault": 1, "ledger": 4,
	"ledger/postgres": 1, "ledger/sqlite": 1, "saga": 49, "sagatest": 23,
	"sagavet": 1, "server": 22, "sqleffect": 7, "steps": 54, "telemetry": 4,
}

// mostTogether is how many they may export together.
const mostTogether = 270

// hidden are packages whose types nobody outside can name, or should have to know.
var hidden = regexp.MustCompile(`^github\.com/(sourcegraph/jsonrpc2|go-json-experiment)\b|/internal(/|$)`)

// mayShow are hidden types that exported names mention nevertheless, with the reason.
var mayShow = map[string]string{
	"internal/engine.DefinitionError": "an alias, whose fields its comment lists; the engine finds the problems",
	"internal/engine.Program":         "what Compile returns: authors hand definitions to servers, and need not look into it",
	"internal/store.Store":            "an alias: stores are opened here and handed to servers, and others than ours have to wait until the interface has settled",
}

// load loads the packages of all modules, once for all tests.
var load = sync.OnceValues(func() ([]*packages.Package, error) {
	return packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedTypes, Dir: root}, "work")
})

// publicPackages are the packages that others may import.
func publicPackages(t *testing.T) map[string]*types.Package {
	t.Helper()
	loaded, err := load()
	require.NoError(t, err)
	found := map[string]*types.Package{}
	for _, p := range loaded {
		name := strings.TrimPrefix(p.PkgPath, module+"/")
		if p.Name == "main" || regexp.MustCompile(`(^|/)(internal|cmd|examples|bench|interop|gosdk/example)(/|$)`).MatchString(name) {
			continue
		}
		require.Empty(t, p.Errors)
		found[name] = p.Types
	}
	return found
}

// exported lists what a package exports at its top level.
func exported(p *types.Package) (list []types.Object) {
	for _, name := range p.Scope().Names() {
		if o := p.Scope().Lookup(name); o.Exported() {
			list = append(list, o)
		}
	}
	return list
}

func TestExportedNamesAreCounted(t *testing.T) {
	sum := 0
	for name, p := range publicPackages(t) {
		n := len(exported(p))
		sum += n
		assert.Contains(t, mostNames, name, "this package can be imported by everybody, and has %d exported names", n)
		assert.LessOrEqual(t, n, mostNames[name], "exported names of package %s", name)
		t.Logf("%s: %d", name, n)
	}
	t.Logf("together: %d", sum)
	assert.LessOrEqual(t, sum, mostTogether, "exported names of all packages")
}

// What is hidden may change at any time, so nothing that is exported is made of it.
func TestExportedNamesMentionNothingHidden(t *testing.T) {
	shown := map[string][]string{}
	for name, p := range publicPackages(t) {
		for _, o := range exported(p) {
			for _, m := range mentioned(o) {
				if path := m.Pkg().Path(); hidden.MatchString(path) {
					full := strings.TrimPrefix(path, module+"/") + "." + m.Name()
					shown[full] = append(shown[full], name+"."+o.Name())
				}
			}
		}
	}
	for _, full := range slices.Sorted(maps.Keys(shown)) {
		assert.Contains(t, mayShow, full, "%s is hidden, and what these are made of: %s", full, strings.Join(slices.Compact(shown[full]), ", "))
	}
	for full := range mayShow {
		assert.Contains(t, shown, full, "no exported name mentions it any more")
	}
}

// mentioned lists the named types that the declaration of an exported name shows:
// in signatures, exported fields and methods, constraints and type arguments.
func mentioned(o types.Object) (list []*types.TypeName) {
	var visit func(types.Type)
	name := func(n *types.TypeName, arguments *types.TypeList) {
		if n.Pkg() != nil { // not error or comparable
			list = append(list, n)
		}
		for a := range arguments.Types() {
			visit(a)
		}
	}
	visit = func(t types.Type) {
		switch t := t.(type) {
		case *types.Named:
			name(t.Obj(), t.TypeArgs())
		case *types.Alias:
			name(t.Obj(), t.TypeArgs())
		case *types.TypeParam:
		case interface{ Elem() types.Type }:
			visit(t.Elem())
			if m, ok := t.(*types.Map); ok {
				visit(m.Key())
			}
		case *types.Signature:
			for p := range t.TypeParams().TypeParams() {
				visit(p.Constraint())
			}
			for v := range t.Params().Variables() {
				visit(v.Type())
			}
			for v := range t.Results().Variables() {
				visit(v.Type())
			}
		case *types.Struct:
			for f := range t.Fields() {
				if f.Exported() {
					visit(f.Type())
				}
			}
		case *types.Interface:
			for m := range t.ExplicitMethods() {
				if m.Exported() {
					visit(m.Type())
				}
			}
			for e := range t.EmbeddedTypes() {
				visit(e)
			}
		case *types.Union:
			for term := range t.Terms() {
				visit(term.Type())
			}
		}
	}
	switch t := o.Type().(type) {
	case *types.Alias:
		visit(t.Rhs())
	case *types.Named:
		if _, ok := o.(*types.TypeName); !ok {
			visit(t)
			break
		}
		for p := range t.TypeParams().TypeParams() {
			visit(p.Constraint())
		}
		visit(t.Underlying())
		for m := range t.Methods() {
			if m.Exported() {
				visit(m.Type())
			}
		}
	default:
		visit(t)
	}
	return list
}
