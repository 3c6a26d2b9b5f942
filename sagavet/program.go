package sagavet

import (
	"go/ast"
	"go/token"
	"go/types"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/ssa"
)

// program is a package in SSA form, for the analyzers that follow its control flow. It is nil for
// packages that do not use package saga.
type program struct {
	funcs []*ssa.Function
	// operations caches what functions do; mu guards it.
	mu         sync.Mutex
	operations map[*ssa.Function]operation
}

// analyzer returns an analyzer for packages that use package saga.
func analyzer(name, doc string, run func(*analysis.Pass, *program, *reporter)) *analysis.Analyzer {
	return &analysis.Analyzer{
		Name: name, Doc: doc, Requires: []*analysis.Analyzer{inspect.Analyzer, build},
		Run: func(pass *analysis.Pass) (any, error) {
			if p := pass.ResultOf[build].(*program); p != nil {
				run(pass, p, newReporter(pass))
			}
			return nil, nil
		},
	}
}

// build does what buildssa of x/tools does, but only where package saga is used, and without
// analysing dependencies to find out which of their functions return.
var build = &analysis.Analyzer{
	Name:       "sagaprogram",
	Doc:        "prepare packages that use package saga for the other analyzers",
	ResultType: reflect.TypeFor[*program](),
	Run: func(pass *analysis.Pass) (any, error) {
		if !usesSaga(pass.Pkg) {
			return (*program)(nil), nil
		}
		prog := ssa.NewProgram(pass.Fset, 0)
		prog.SetNoReturn(endsGoroutine)
		for _, p := range pass.Pkg.Imports() {
			prog.CreatePackage(p, nil, nil, true)
		}
		pkg := prog.CreatePackage(pass.Pkg, pass.Files, pass.TypesInfo, false)
		pkg.Build()
		p := &program{operations: make(map[*ssa.Function]operation)}
		for _, f := range pass.Files {
			for _, d := range f.Decls {
				if d, ok := d.(*ast.FuncDecl); ok {
					if f := prog.FuncValue(pass.TypesInfo.Defs[d.Name].(*types.Func)); f != nil {
						p.add(f)
					}
				}
			}
		}
		p.add(pkg.Func("init")) // literals of package variables
		return p, nil
	},
}

// nodes returns the nodes of all files of a package.
func nodes(pass *analysis.Pass) iter.Seq[ast.Node] {
	return pass.ResultOf[inspect.Analyzer].(*inspector.Inspector).PreorderSeq()
}

func (p *program) add(f *ssa.Function) {
	p.funcs = append(p.funcs, f)
	for _, inner := range f.AnonFuncs {
		p.add(inner)
	}
}

// usesSaga reports whether a package imports package saga, and is not that package.
func usesSaga(pkg *types.Package) bool {
	return pkg.Path() != sagaPath && slices.ContainsFunc(pkg.Imports(), func(p *types.Package) bool { return p.Path() == sagaPath })
}

// endsGoroutine reports whether a function is known not to return.
func endsGoroutine(f *types.Func) bool {
	switch name := f.FullName(); name {
	case "os.Exit", "runtime.Goexit":
		return true
	default:
		return strings.HasPrefix(name, "log.Fatal") || strings.HasPrefix(name, "log.Panic") ||
			strings.HasPrefix(name, "(*testing.common).Fatal") || strings.HasPrefix(name, "(*testing.common).Skip")
	}
}

// staticFunc returns the declared function that a call runs, of this package or another, or nil if
// that is decided at run time.
func staticFunc(c *ssa.CallCommon) *ssa.Function {
	f := c.StaticCallee()
	if f != nil && f.Origin() != nil {
		return f.Origin()
	}
	return f
}

// object returns the function or method that a call names, or nil.
func object(c *ssa.CallCommon) *types.Func {
	if c.IsInvoke() {
		return c.Method
	}
	if f := staticFunc(c); f != nil {
		o, _ := f.Object().(*types.Func)
		return o
	}
	return nil
}

// unpacked returns the value in an interface.
func unpacked(v ssa.Value) ssa.Value {
	if m, ok := v.(*ssa.MakeInterface); ok {
		return m.X
	}
	return v
}

// underlying returns the variable or value that v is an address or part of.
func underlying(v ssa.Value) ssa.Value {
	for {
		switch x := v.(type) {
		case *ssa.FieldAddr:
			v = x.X
		case *ssa.IndexAddr:
			v = x.X
		case *ssa.Slice:
			v = x.X
		default:
			return v
		}
	}
}

func isNil(v ssa.Value) bool {
	c, ok := v.(*ssa.Const)
	return ok && c.IsNil()
}

// instructions calls f for each instruction of a function, without those of its literals.
func instructions(fn *ssa.Function, f func(ssa.Instruction)) {
	for _, b := range fn.Blocks {
		for _, i := range b.Instrs {
			f(i)
		}
	}
}

// at returns the position of a call, or of its function if it has none.
func at(call ssa.CallInstruction) token.Pos {
	if call.Pos().IsValid() {
		return call.Pos()
	}
	return call.Parent().Pos()
}
