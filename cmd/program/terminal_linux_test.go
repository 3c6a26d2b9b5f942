package program

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// terminal is a person at a terminal, in front of the program.
type terminal struct {
	t      *testing.T
	keys   *os.File
	mu     sync.Mutex
	screen bytes.Buffer
	// seen is closed when the program has gone and all that it wrote was read.
	seen chan struct{}
}

// atTerminal gives cmd a terminal for its input and its messages.
func atTerminal(t *testing.T, cmd *exec.Cmd) *terminal { return inTerminal(t, cmd, 100, false) }

// atTerminalWhole gives cmd a terminal for its output too.
func atTerminalWhole(t *testing.T, cmd *exec.Cmd) *terminal { return inTerminal(t, cmd, 100, true) }

func inTerminal(t *testing.T, cmd *exec.Cmd, columns uint16, output bool) *terminal {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	raw, err := keys.SyscallConn() // Fd would have reads block, also those of a file that is closed
	require.NoError(t, err)
	var number int
	require.NoError(t, raw.Control(func(fd uintptr) {
		require.NoError(t, unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0))
		number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
	}))
	require.NoError(t, err)
	device, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(int(device.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: columns}))
	cmd.Stdin, cmd.Stderr = device, device
	if output {
		cmd.Stdout = device
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	require.NoError(t, device.Close())
	p := &terminal{t: t, keys: keys, seen: make(chan struct{})}
	go func() {
		defer close(p.seen)
		buffer := make([]byte, 4096)
		for {
			n, err := keys.Read(buffer)
			p.mu.Lock()
			p.screen.Write(buffer[:n])
			p.mu.Unlock()
			if err != nil {
				return // the program has gone
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.seen
		_ = keys.Close()
	})
	return p
}

func (p *terminal) shown() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.screen.String()
}

// end returns what is shown when the program has gone.
func (p *terminal) end() string {
	<-p.seen
	return p.shown()
}

// when types keys as soon as text has been shown, after what was shown when keys
// were typed before.
func (p *terminal) when(text, keys string) {
	p.t.Helper()
	if !assert.Eventually(p.t, func() bool { return strings.Contains(p.shown(), text) }, time.Minute, 10*time.Millisecond,
		"%q is not shown", text) {
		p.t.Fatalf("the screen: %q", p.shown())
	}
	if keys == "" {
		return
	}
	p.mu.Lock()
	p.screen.Reset()
	p.mu.Unlock()
	_, err := p.keys.WriteString(keys)
	require.NoError(p.t, err)
}

// until presses a key again and again until text is shown: one that is pressed
// while a form changes to the next may get lost, as at any terminal. It must be one that does no
// more if it comes twice.
func (p *terminal) until(text, key string) {
	p.t.Helper()
	for range 300 {
		_, err := p.keys.WriteString(key)
		require.NoError(p.t, err)
		for range 10 {
			time.Sleep(20 * time.Millisecond)
			if strings.Contains(p.shown(), text) {
				return
			}
		}
	}
	p.t.Fatalf("%q is not shown", text)
}

func TestCallAtATerminal(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	address, _ := h.serve()
	cmd := h.command("call", "complex_tool", "--server", address)
	var out bytes.Buffer
	cmd.Stdout = &out
	person := atTerminal(t, cmd)
	person.when("between 1 and 4", "1\n")
	person.when("target:", "production\n")
	person.when("Send this answer?", "y\n")
	person.when("Answer in one line", "Yes, do.\n")
	require.NoError(t, cmd.Wait())
	assert.Equal(t, done, out.String())
}

func TestTryingAgainAtATerminal(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer web.Close()
	cmd := h.command("call", "complex_tool", "--server", web.URL, "--retry-for", "1m")
	cmd.Env = append(cmd.Env, "TERM=xterm", "ACCESSIBLE=")
	person := atTerminal(t, cmd)
	person.when("the server answered with HTTP status 503", "")
	person.when("trying again", "")
}

// The person sees what goes to the model and what comes back, and decides.
func TestModelAtATerminal(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 10)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"model":"m","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"Yes, why not."}}]}`))
	}))
	defer endpoint.Close()
	for name, c := range map[string]struct {
		keys  []string
		asked int
		code  int
	}{
		"sent, sent":           {[]string{"Is deploying", "", "between 1 and 4", "1\n", "Yes, why not.", "", "between 1 and 4", "1\n"}, 1, 0},
		"sent, edited":         {[]string{"between 1 and 4", "1\n", "between 1 and 4", "2\n", "Answer in one line", "Yes!\n"}, 1, 0},
		"sent, answer refused": {[]string{"between 1 and 4", "1\n", "between 1 and 4", "3\n"}, 1, exitDeclined},
		"answered by hand":     {[]string{"between 1 and 4", "2\n", "Answer in one line", "Yes!\n"}, 0, 0},
		"refused":              {[]string{"between 1 and 4", "3\n"}, 0, exitDeclined},
		"stopped":              {[]string{"between 1 and 4", "4\n"}, 0, exitInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			address, _ := h.serve()
			_, _, code := h.run("call", "complex_tool", "--server", address, "--save", "saved.json", "--answers", h.file("a.json", firstAnswer))
			require.Equal(t, exitNeedsAnswer, code)
			cmd := h.command("call", "--resume", "saved.json", "--model", "m", "--model-url", endpoint.URL)
			person := atTerminal(t, cmd)
			for i := 0; i < len(c.keys); i += 2 {
				person.when(c.keys[i], c.keys[i+1])
			}
			assert.Equal(t, c.code, exitOf(t, cmd.Wait()), person.shown())
			assert.Len(t, asked, c.asked)
			for len(asked) > 0 {
				<-asked
			}
		})
	}
}

func TestInterruptedAtATerminal(t *testing.T) {
	t.Parallel()
	const escape, interrupt, enter, last = "\x1b", "\x03", "\r", "G"
	for name, keys := range map[string]struct {
		accessible string
		leave      []string
	}{
		"lines, Ctrl-C": {"1", []string{"between 1 and 4", interrupt}},
		"lines, a menu": {"1", []string{"between 1 and 4", "4\n"}},
		"form, Ctrl-C":  {"", []string{"Send this answer?", interrupt}},
		"form, a menu":  {"", []string{"Send this answer?", escape, "What now?", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			h.env = append(h.env, "ACCESSIBLE="+keys.accessible, "TERM=xterm")
			address, _ := h.serve()
			cmd := h.command("call", "complex_tool", "--server", address)
			person := atTerminal(t, cmd)
			for i := 0; i < len(keys.leave); i += 2 {
				person.when(keys.leave[i], keys.leave[i+1])
			}
			if name == "form, a menu" {
				const selected = "> \x1b[32mStop here"
				person.until(selected, last)
				person.when(selected, enter)
			}
			assert.Equal(t, exitInterrupted, exitOf(t, cmd.Wait()), person.shown())
			require.Contains(t, person.end(), "saga call --resume")
			saved, err := filepath.Glob(filepath.Join(h.dir, "state", "saga", "calls", "*.json"))
			require.NoError(t, err)
			require.Len(t, saved, 1)
			assert.Equal(t, done, h.ok("call", "--resume", saved[0], "--answers", h.file("a.json", bothAnswers)))
		})
	}
}

// A terminal that is closed, or lost with its connection, loses no call and no answer.
func TestTerminalThatIsClosed(t *testing.T) {
	t.Parallel()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // else the programs ignore it if the tests do (nohup)
	for name, c := range map[string]struct {
		accessible string
		// leave ends the terminal or what is connected with it.
		leave func(*terminal, *exec.Cmd) error
	}{
		"lines, closed": {"1", func(p *terminal, _ *exec.Cmd) error { return p.keys.Close() }},
		"form, closed":  {"", func(p *terminal, _ *exec.Cmd) error { return p.keys.Close() }},
		"lines, signal": {"1", func(_ *terminal, cmd *exec.Cmd) error { return cmd.Process.Signal(syscall.SIGHUP) }},
		"form, signal":  {"", func(_ *terminal, cmd *exec.Cmd) error { return cmd.Process.Signal(syscall.SIGHUP) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			h.env = append(h.env, "ACCESSIBLE="+c.accessible, "TERM=xterm")
			address, _ := h.serve()
			cmd := h.command("call", "complex_tool", "--server", address)
			person := atTerminal(t, cmd)
			if c.accessible != "" {
				person.when("between 1 and 4", "1\n")
				person.when("target:", "production\n")
				person.when("Send this answer?", "y\n")
				person.when("Answer in one line", "")
			} else {
				person.when("Send this answer?", "production\r")
				person.until("Your answer, in place", "\r")
			}
			require.NoError(t, c.leave(person, cmd))
			code := exitOf(t, cmd.Wait())
			assert.NotZero(t, code)
			if strings.HasSuffix(name, "signal") { // else it may be the terminal's error that comes first
				assert.Equal(t, exitInterrupted, code, person.shown())
			}
			saved, err := filepath.Glob(filepath.Join(h.dir, "state", "saga", "calls", "*.json"))
			require.NoError(t, err)
			require.Len(t, saved, 1)
			const secondAnswer = `{"step-sampling-B":"Yes, all systems are green."}`
			assert.Equal(t, done, h.ok("call", "--resume", saved[0], "--answers", h.file("a.json", secondAnswer)))
		})
	}
}

// A signal at a form ends the call at once, saved, and leaves the terminal as it was.
func TestSignalsAtAForm(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env = append(h.env, "ACCESSIBLE=", "TERM=xterm")
	address, _ := h.serve()
	for range 6 { // one that hangs does so in every third round or so
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			cmd := h.command("call", "complex_tool", "--server", address, "--save", "saved.json")
			person := atTerminal(t, cmd)
			person.when("Send this answer?", "")
			require.NoError(t, cmd.Process.Signal(s))
			hangs := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
			require.Equal(t, exitInterrupted, exitOf(t, cmd.Wait()), person.shown())
			hangs.Stop()
			require.NoError(t, os.Remove(filepath.Join(h.dir, "saved.json")))
		}
	}
}
