// Package doccheck holds tests that keep the documentation true: every exported
// name is documented, and what the documents show exists and compiles.
package doccheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the module's directory, as seen from this package's.
const root = "../.."

// goFiles parses the module's Go files: those of tests, or the others.
func goFiles(t *testing.T, tests bool) (*token.FileSet, map[string][]*ast.File) {
	t.Helper()
	fset := token.NewFileSet()
	byDir := make(map[string][]*ast.File)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") != tests {
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		byDir[dir] = append(byDir[dir], file)
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, byDir)
	return fset, byDir
}

func TestEveryExportedNameIsDocumented(t *testing.T) {
	fset, dirs := goFiles(t, false)
	for dir, files := range dirs {
		var documented bool
		for _, f := range files {
			documented = documented || hasText(f.Doc)
			c := checker{t, fset, isLibrary(strings.TrimPrefix(dir, root+"/"))}
			for _, d := range f.Decls {
				c.decl(d)
			}
		}
		if !documented {
			t.Errorf("%s: the package has no documentation", strings.TrimPrefix(dir, root+"/"))
		}
	}
}

// checker reports the exported names of a file that nothing is said about.
type checker struct {
	t    *testing.T
	fset *token.FileSet
	// members: fields and methods of interfaces too.
	members bool
}

// isLibrary reports whether a package is made for others to import.
func isLibrary(dir string) bool {
	top, _, _ := strings.Cut(dir, "/")
	return top != "cmd" && top != "examples" && !strings.Contains("/"+dir+"/", "/internal/")
}

// toBeWritten lists the names that are still waiting for their documentation. It
// only ever gets shorter.
var toBeWritten []string

func (c checker) missing(at token.Pos, what string) {
	c.t.Helper()
	if slices.Contains(toBeWritten, what) {
		return
	}
	p := c.fset.Position(at)
	c.t.Errorf("%s:%d: %s has no documentation", strings.TrimPrefix(p.Filename, root+"/"), p.Line, what)
}

func (c checker) decl(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if !d.Name.IsExported() || hasText(d.Doc) {
			return
		}
		receiver := ""
		if d.Recv != nil {
			if receiver = baseType(d.Recv.List[0].Type); !ast.IsExported(receiver) {
				return // the interface that it implements is documented
			}
			receiver += "."
		}
		c.missing(d.Pos(), receiver+d.Name.Name)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				c.typeSpec(d, s)
			case *ast.ValueSpec:
				// A comment over a group speaks for all of it.
				if hasText(d.Doc) || hasText(s.Doc) || hasText(s.Comment) {
					continue
				}
				for _, n := range s.Names {
					if n.IsExported() {
						c.missing(n.Pos(), n.Name)
					}
				}
			}
		}
	}
}

func (c checker) typeSpec(d *ast.GenDecl, s *ast.TypeSpec) {
	if !s.Name.IsExported() {
		return
	}
	if !hasText(s.Doc) && (d.Lparen.IsValid() || !hasText(d.Doc)) {
		c.missing(s.Pos(), s.Name.Name)
	}
	if !c.members {
		return
	}
	var members *ast.FieldList
	switch typ := s.Type.(type) {
	case *ast.StructType:
		members = typ.Fields
	case *ast.InterfaceType:
		members = typ.Methods
	default:
		return
	}
	// Fields of one comment are documented by it, as in "Prompt is set for prompts,
	// Resource for resources."
	said := d.Doc.Text() + s.Doc.Text()
	for _, m := range members.List {
		said += m.Doc.Text() + m.Comment.Text()
	}
	for _, m := range members.List {
		if hasText(m.Doc) || hasText(m.Comment) {
			continue
		}
		for _, n := range m.Names { // none if it is embedded
			if n.IsExported() && !regexp.MustCompile(`\b`+n.Name+`\b`).MatchString(said) {
				c.missing(n.Pos(), s.Name.Name+"."+n.Name)
			}
		}
	}
}

func hasText(c *ast.CommentGroup) bool { return c != nil && strings.TrimSpace(c.Text()) != "" }

// baseType returns the name of a receiver's type.
func baseType(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return baseType(e.X)
	case *ast.IndexExpr:
		return baseType(e.X)
	case *ast.IndexListExpr:
		return baseType(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// funcName returns the name of a function that is no method, or "".
func funcName(d ast.Decl) string {
	if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
		return f.Name.Name
	}
	return ""
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(b)
}
