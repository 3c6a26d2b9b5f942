package doccheck

import (
	"go/ast"
	"go/format"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// numbers are the limits and defaults that documents tell: what the document says, and
// what the code has. Whoever changes one is sent to the other.
var numbers = []struct{ document, says, name, value string }{
	{"security", "`MaxBody` bytes (1 MiB)", "server.o.MaxBody", "1 << 20"},
	{"security", "its header at most 64 KiB", "server.maxHeaderBytes", "64<<10 - 4<<10"},
	{"security", "its id 1 KiB", "wire.MaxID", "1 << 10"},
	{"security", "256 levels of nesting", "wire.MaxNesting", "256"},
	{"security", "at most 253 bytes of it", "server.maxShown", "253"},
	{"security", "at most 64 requests at once", "server.maxInFlight", "64"},
	{"security", "at most 1024 open", "server.maxOpen", "1024"},
	{"security", "with 16 MiB altogether", "server.maxOpenBytes", "16 << 20"},
	{"security", "A session holds 4 MiB of requests under way", "handshake.maxSessionBytes", "4 << 20"},
	{"security", "at most 256 notifications", "handshake.maxNotes", "256"},
	{"security", "those of all calls share 1 MiB", "handshake.maxNoteBytes", "1 << 20"},
	{"security", "of ended calls it keeps the last 8", "handshake.maxFinished", "8"},
	{"security", "the last 8, up to 1 MiB", "handshake.maxFinishedBytes", "1 << 20"},
	{"security", "Each, like each session, is for 1000 resources at most, with 128 KiB of URIs", "dialect.MaxURIs", "1000"},
	{"security", "Each, like each session, is for 1000 resources at most, with 128 KiB of URIs", "dialect.MaxURIBytes", "128 << 10"},
	{"operate", "| subscriptions | 1024, 64 |", "server.o.MaxStreams", "1024"},
	{"operate", "| subscriptions | 1024, 64 |", "server.o.MaxStreamsPerPrincipal", "64"},
	{"operate", "more wait a second (`TestBusyServerSheds`) | 2048 |", "server.o.MaxTurns", "2048"},
	{"operate", "more wait a second (`TestBusyServerSheds`) | 2048 |", "bounds.Patience", "time.Second"},
	{"operate", "one caller's to five eighths", "bounds.freely", "2"},
	{"operate", "one caller's to five eighths", "bounds.ofOneMost", "8"},
	{"security", "(30 days unless set; negative for not at all;", "turns.DefaultUndoGrace", "30 * 24 * time.Hour"},
	{"security", "8 MiB (`MaxResponse`, `MaxLine`)", "client.defaultMaxResponse", "8 << 20"},
	{"security", "a header 256 KiB", "client.maxHeader", "256 << 10"},
	{"security", "at most 100 steps", "client.l.Steps", "100"},
	{"security", "a form 200 fields", "client.l.Fields", "200"},
	{"security", "200 fields, 1000 choices", "client.l.Choices", "1000"},
	{"security", "1000 choices and 256 KiB (`Limits`", "client.l.FormBytes", "256 << 10"},
	{"security", "A list has at most 10 000 items, 1000 pages and 32 MiB", "client.l.Items", "10_000"},
	{"security", "A list has at most 10 000 items, 1000 pages and 32 MiB", "client.l.Pages", "1000"},
	{"security", "A list has at most 10 000 items, 1000 pages and 32 MiB", "client.l.ListBytes", "32 << 20"},
	{"security", "20 rounds (`MaxRounds`;", "client.options.MaxRounds", "20"},
	{"security", "at least 1 KiB in 30 s (`Stall`)", "client.minProgress", "1 << 10"},
	{"security", "at least 1 KiB in 30 s (`Stall`)", "client.defaultStall", "30 * time.Second"},
	{"security", "a turn ends in 5 min (`Timeout`;", "client.options.Timeout", "5 * time.Minute"},
	{"write", "A token has at most 65 536 characters", "tokens.DefaultMaxToken", "64 << 10"},
	{"write", "a token has at most 65 536 characters, and holds at most 262 144 bytes before compression", "tokens.DefaultMaxPlaintext", "256 << 10"},
	{"operate", "sealed more than a minute later than it is here", "tokens.DefaultSkew", "time.Minute"},
	{"serve", "`TurnTimeout` bounds the work of one turn, its hook included (`TestATurnHasWhatItsHookHasLeft`). Default one minute", "server.o.TurnTimeout", "time.Minute"},
	{"serve", "that has a minute more", "engine.UndoTime", "time.Minute"},
	{"write", "have up to 64 of the characters", "ident.Max", "64"},
	{"write", "a fingerprint of 12 bytes", "engine.fingerprint", "[12]byte"},
	{"write", "The engine tries `Do` three times (`Tries`)", "saga.effectTries", "3"},
	{"write", "each at most 30 seconds (`Timeout`)", "saga.effectTimeout", "30 * time.Second"},
	{"write", "package client gives up after 20 (`MaxRounds`)", "client.options.MaxRounds", "20"},
	{"operate", "which show every 15 seconds that they live", "server.keepAlive", "15 * time.Second"},
	{"operate", "tries again every five seconds", "keyfile.interval", "5 * time.Second"},
	{"operate", "says why in its log, each minute again", "keyfile.reminder", "time.Minute"},
	{"serve", "what is older than 30 days is removed", "state.Keep", "30 * 24 * time.Hour"},
	{"operate", "per turn; 10 minutes unless set", "tokens.DefaultTTL", "10 * time.Minute"},
	{"operate", "wait `UndoGrace` (30 days)", "turns.DefaultUndoGrace", "30 * 24 * time.Hour"},
	{"gosdk", "exact up to 2^53, refused beyond", "gosdk.maxExact", "1 << 53"},
	{"testing", "more than eight rounds fail", "sagatest.usualRounds", "8"},
}

// The numbers in documents are those of the code.
func TestNumbersInDocumentsAreThoseOfTheCode(t *testing.T) {
	values := valuesOfTheCode(t)
	texts := make(map[string]string)
	for _, n := range numbers {
		name := "docs/" + n.document + ".md"
		if texts[name] == "" {
			texts[name] = strings.ToLower(strings.Join(strings.Fields(read(t, name)), " "))
		}
		assert.True(t, strings.Contains(texts[name], strings.ToLower(n.says)), "%s does not say %q of %s any more", name, n.says, n.name)
		assert.Equal(t, []string{n.value}, values[n.name], "%s: %s says %q", n.name, name, n.says)
	}
}

// valuesOfTheCode finds what names of packages are defined as, such as server.maxOpen,
// and what is taken for fields that have not been set: those of options in New and the like, such as
// server.o.MaxBody, and of limits, such as client.l.Steps.
func valuesOfTheCode(t *testing.T) map[string][]string {
	t.Helper()
	fset, dirs := goFiles(t, false)
	found := make(map[string][]string)
	for dir, files := range dirs {
		add := func(name string, value ast.Expr) {
			var b strings.Builder
			require.NoError(t, format.Node(&b, fset, value))
			name = filepath.Base(dir) + "." + name
			found[name] = append(found[name], b.String())
		}
		for _, f := range files {
			for _, d := range f.Decls {
				switch d := d.(type) {
				case *ast.GenDecl:
					for _, s := range d.Specs {
						switch s := s.(type) {
						case *ast.ValueSpec:
							for i, v := range s.Values {
								add(s.Names[i].Name, v)
							}
						case *ast.TypeSpec:
							add(s.Name.Name, s.Type)
						}
					}
				case *ast.FuncDecl:
					ast.Inspect(d, func(n ast.Node) bool { // cmp.Or(l.Steps, 100)
						if c, ok := n.(*ast.CallExpr); ok && len(c.Args) == 2 {
							fun, _ := c.Fun.(*ast.SelectorExpr)
							arg, _ := c.Args[0].(*ast.SelectorExpr)
							if fun != nil && arg != nil && baseType(fun.X)+"."+fun.Sel.Name == "cmp.Or" && slices.Contains([]string{"l", "options"}, baseType(arg.X)) {
								add(baseType(arg.X)+"."+arg.Sel.Name, c.Args[1])
							}
						}
						return true
					})
					if slices.Contains([]string{"New", "newServer", "complete"}, d.Name.Name) {
						ast.Inspect(d, func(n ast.Node) bool {
							if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == 1 {
								if l, ok := a.Lhs[0].(*ast.SelectorExpr); ok && baseType(l.X) == "o" {
									value := a.Rhs[0]
									if c, ok := value.(*ast.CallExpr); ok && baseType(c.Fun) == "positive" {
										value = c.Args[1] // after the option its default
									}
									add("o."+l.Sel.Name, value)
								}
							}
							return true
						})
					}
				}
			}
		}
	}
	return found
}
