package server_test

import (
	"bufio"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkStdio is what a line costs that is answered at once, and a call that asks its client
// two questions.
func BenchmarkStdio(b *testing.B) {
	for name, exchange := range map[string]func(b *testing.B, say func(string), hear func() string){
		"ping": func(b *testing.B, say func(string), hear func() string) {
			say(pingMessage)
			hear()
		},
		"asks": func(b *testing.B, say func(string), hear func() string) {
			say(toolCall(7, "crowd", "{}"))
			one, two := parseLegacy(b, hear()), parseLegacy(b, hear())
			for _, id := range [][]byte{one.ID, two.ID} {
				say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{}}}`, id))
			}
			hear()
		},
	} {
		b.Run(name, func(b *testing.B) {
			in, write := io.Pipe()
			read, out := io.Pipe()
			ended := make(chan error, 1)
			go func() { ended <- newStdio(b, crowdTool()).ServeStdio(b.Context(), in, out) }()
			answers := bufio.NewScanner(read)
			hear := func() string {
				require.True(b, answers.Scan())
				return answers.Text()
			}
			say := func(line string) { fmt.Fprintln(write, line) }
			say(initializeMessage("2025-11-25", everything))
			hear()
			b.ReportAllocs()
			for b.Loop() {
				exchange(b, say, hear)
			}
			write.Close()
			require.NoError(b, <-ended)
		})
	}
}
