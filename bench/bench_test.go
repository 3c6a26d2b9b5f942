package bench

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain is a server where a benchmark starts one.
func TestMain(m *testing.M) {
	for name, spoil := range spoilers {
		servers[name] = func([]string) http.Handler {
			good := servers["mcpsaga"](nil)
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				rec := httptest.NewRecorder()
				good.ServeHTTP(rec, r)
				w.WriteHeader(rec.Code)
				w.Write([]byte(spoil(rec.Body.String())))
			})
		}
	}
	if len(os.Args) > 2 && os.Args[1] == "child" {
		serveChild(os.Args[2:])
		return
	}
	os.Exit(m.Run())
}

// spoilers make good answers wrong.
var spoilers = map[string]func(string) string{
	"another id":        func(s string) string { return strings.Replace(s, `"id":`, `"id":1`, 1) },
	"another step":      func(s string) string { return strings.ReplaceAll(s, "step-sampling-B", "step-sampling-C") },
	"no token":          strings.NewReplacer(`"sagaToken"`, `"token"`, `"requestState"`, `"token"`).Replace,
	"another result":    func(s string) string { return strings.Replace(s, "initiated successfully", "refused", 1) },
	"an error at last":  func(s string) string { return strings.Replace(s, `"content":`, `"isError":true,"content":`, 1) },
	"not JSON":          func(s string) string { return s[:len(s)-1] },
	"an altered token":  strings.NewReplacer(`"sagaToken":"1`, `"sagaToken":"1A`, `"requestState":"1`, `"requestState":"1A`).Replace,
	"nothing but space": func(string) string { return " " },
	"not suspended":     strings.NewReplacer("suspended", "extended", "input_required", "complete").Replace,
}

func TestWrongAnswersFail(t *testing.T) { testWrongAnswers(t, proposal) }

func TestWrongAnswersOfTheOtherDialectFail(t *testing.T) { testWrongAnswers(t, mrtr) }

func testWrongAnswers(t *testing.T, d *dialect) {
	for name := range spoilers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := clientOf(startChild(t, name))
			defer client.CloseIdleConnections()
			defer func() { require.Contains(t, fmt.Sprint(recover()), "a wrong answer") }()
			deploy(d, over(client))
		})
	}
}
