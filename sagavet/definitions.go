package sagavet

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

// definitions knows where a package writes out definitions of tools, prompts and resources, or
// parts of one, and what it sets of them later.
type definitions struct {
	info *types.Info
	// literals are what variables are defined as: nil if that is no literal, or not only one.
	literals map[types.Object]*ast.CompositeLit
	// zero are variables that are defined as nothing.
	zero  map[*ast.CompositeLit]types.Type
	later []setting
}

// setting is a field of a definition that is set later, or an element of the field.
type setting struct {
	name string
	// of is the literal of the variable with it; nil if it may be any.
	of *ast.CompositeLit
	// in is the type of that variable, and of the field its own.
	in, typ types.Type
	// key is that of an element, or nil; value is nil if it is not known.
	key, value ast.Expr
}

func findDefinitions(pass *analysis.Pass) *definitions {
	d := &definitions{pass.TypesInfo, make(map[types.Object]*ast.CompositeLit), make(map[*ast.CompositeLit]types.Type), nil}
	for n := range nodes(pass) {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 0 && spec.Type != nil {
			for _, name := range spec.Names {
				lit := &ast.CompositeLit{Type: spec.Type, Rbrace: name.End()}
				d.zero[lit] = d.info.TypeOf(name)
				d.define(name, lit)
			}
		}
		assigned(n, func(to, value ast.Expr) {
			if id, ok := ast.Unparen(to).(*ast.Ident); ok {
				d.define(id, written(value))
			}
		})
	}
	for n := range nodes(pass) {
		assigned(n, func(to, value ast.Expr) {
			if s := d.setting(to); s.name != "" || s.key != nil {
				s.value = value
				d.later = append(d.later, s)
			}
		})
	}
	return d
}

func (d *definitions) define(name *ast.Ident, lit *ast.CompositeLit) {
	o := d.info.ObjectOf(name)
	if _, again := d.literals[o]; again {
		lit = nil
	}
	d.literals[o] = lit
}

// setting says what an expression names of a definition.
func (d *definitions) setting(x ast.Expr) (s setting) {
	x = ast.Unparen(x)
	if element, ok := x.(*ast.IndexExpr); ok {
		s.key, x = element.Index, ast.Unparen(element.X)
	}
	f, ok := x.(*ast.SelectorExpr)
	s.typ = d.info.TypeOf(x)
	if !ok { // a variable, which may have been given to any
		return s
	}
	s.name, s.in = f.Sel.Name, d.info.TypeOf(f.X)
	root := ast.Unparen(f.X)
	for {
		inner, ok := root.(*ast.SelectorExpr)
		if !ok {
			break
		}
		if _, pointer := d.info.TypeOf(inner).Underlying().(*types.Pointer); pointer {
			return s
		}
		root = ast.Unparen(inner.X)
	}
	if named := d.info.TypeOf(root); namedSaga(named) != nil {
		s.in = named
	}
	s.of = d.literal(root)
	return s
}

// written is the literal that an expression is, or points to, or nil.
func written(x ast.Expr) *ast.CompositeLit {
	if x == nil {
		return nil
	}
	x = ast.Unparen(x)
	if u, ok := x.(*ast.UnaryExpr); ok && u.Op == token.AND {
		x = ast.Unparen(u.X)
	}
	lit, _ := x.(*ast.CompositeLit)
	return lit
}

// literal is what an expression is written out as, or the variable that it names, or nil.
func (d *definitions) literal(x ast.Expr) *ast.CompositeLit {
	if lit := written(x); lit != nil || x == nil {
		return lit
	}
	id, ok := ast.Unparen(x).(*ast.Ident)
	if !ok {
		return nil
	}
	return d.literals[d.info.ObjectOf(id)]
}

// has reports whether a setting is one of a literal's.
func (d *definitions) has(s setting, lit *ast.CompositeLit) bool {
	if s.of == nil || s.of == lit {
		return s.of == lit
	}
	return s.of.Pos() <= lit.Pos() && lit.End() <= s.of.End() || d.literal(field(s.of, "Machine")) == lit
}
