package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

var (
	crowdSize    = flag.Int("crowd", 1500, "how many sessions wait in TestWaitingSessions")
	crowdLedger  = flag.String("crowd-ledger", "sqlite", "their ledger: sqlite or memory")
	crowdProfile = flag.String("crowd-profile", "", "a directory for profiles of the server that they wait for")
)

// crowdDir is the environment variable that makes of this test's binary a server for
// TestWaitingSessions, whose ledger is in that directory.
const crowdDir = "MCPSAGA_TEST_CROWD_DIR"

// memoryUse is what a process uses, when it has tidied up.
type memoryUse struct{ Goroutines, Live, Heap, Stacks, RSS int }

func (m memoryUse) since(before memoryUse, n int) memoryUse {
	return memoryUse{m.Goroutines - before.Goroutines, (m.Live - before.Live) / n, (m.Heap - before.Heap) / n, (m.Stacks - before.Stacks) / n, (m.RSS - before.RSS) / n}
}

func (m memoryUse) String() string {
	return fmt.Sprintf("%d goroutines; bytes each: live %d, heap %d, stacks %d, resident %d", m.Goroutines, m.Live, m.Heap, m.Stacks, m.RSS)
}

func useOfMemory() (m memoryUse) {
	runtime.GC() // and what finalizers and pools hold
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	m = memoryUse{Goroutines: runtime.NumGoroutine(), Live: int(stats.HeapAlloc), Heap: int(stats.HeapInuse), Stacks: int(stats.StackInuse)}
	status, _ := os.ReadFile("/proc/self/status") // elsewhere than on Linux it is not known
	if _, rest, ok := bytes.Cut(status, []byte("VmRSS:")); ok {
		kilobytes, _ := strconv.Atoi(string(bytes.Fields(rest)[0]))
		m.RSS = kilobytes << 10
	}
	return m
}

// TestCrowdProcess is the server of TestWaitingSessions. It says how much memory it uses for
// each line that it reads.
func TestCrowdProcess(t *testing.T) {
	dir := os.Getenv(crowdDir)
	if dir == "" {
		t.Skip("it is started by another test")
	}
	store := ledger.NewMemory(ledger.MemoryOptions{})
	if *crowdLedger == "sqlite" {
		var err error
		store, err = sqlite.Open(t.Context(), filepath.Join(dir, "ledger.db"))
		require.NoError(t, err)
	}
	askNick := &steps.Form[struct {
		Nick string `json:"nick"`
	}]{ID: "nick", Message: "What shall I call you?"}
	asks := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "ask", Asks: []steps.Question{askNick}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			who, err := saga.Ask(r, askNick)
			return "Hello, " + who.Nick, err
		},
	}
	s, err := server.New(server.Options{Tools: []saga.Definition{asks}, Keys: newKeys(t), Ledger: store})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = s.Serve(t.Context(), l) }()
	fmt.Println(l.Addr())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		use, err := json.Marshal(useOfMemory())
		require.NoError(t, err)
		if *crowdProfile != "" {
			for _, name := range []string{"heap", "goroutine"} {
				f, err := os.Create(filepath.Join(*crowdProfile, in.Text()+"."+name))
				require.NoError(t, err)
				_ = pprof.Lookup(name).WriteTo(f, 0)
				_ = f.Close()
			}
		}
		fmt.Println(string(use))
	}
}

// crowdServer is a server in a process of its own, and those who wait for it.
type crowdServer struct {
	t    testing.TB
	addr string
	in   io.Writer
	out  *bufio.Scanner
}

func newCrowd(t testing.TB) *crowdServer {
	cmd := exec.Command(os.Args[0], "-test.memprofilerate=1", "-test.run=^TestCrowdProcess$", "-crowd-ledger="+*crowdLedger, "-crowd-profile="+*crowdProfile)
	cmd.Env = append(os.Environ(), crowdDir+"="+t.TempDir(), "GOGC=100", "GOMEMLIMIT=off") // as servers run
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	c := &crowdServer{t: t, in: in, out: bufio.NewScanner(out)}
	require.True(t, c.out.Scan(), "the server did not start")
	c.addr = c.out.Text()
	return c
}

// use is what the server uses now.
func (c *crowdServer) use(when string) (m memoryUse) {
	c.t.Helper()
	_, err := fmt.Fprintln(c.in, when)
	require.NoError(c.t, err)
	require.True(c.t, c.out.Scan(), "the server has ended")
	require.NoError(c.t, json.Unmarshal(c.out.Bytes(), &m))
	return m
}

// crowdClient is one whose call asks it something.
type crowdClient struct {
	conn    net.Conn
	in      *bufio.Reader
	body    io.Reader
	session string
	id      json.Number // of the question
}

func (w *crowdClient) post(addr, message string) (*http.Response, error) {
	session := ""
	if w.session != "" {
		session = "Mcp-Session-Id: " + w.session + "\r\nMCP-Protocol-Version: 2025-11-25\r\n"
	}
	_, err := fmt.Fprintf(w.conn, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n%sContent-Length: %d\r\n\r\n%s",
		addr, session, len(message), message)
	if err != nil {
		return nil, err
	}
	return http.ReadResponse(w.in, nil)
}

// begin opens a session and calls the tool.
func (c *crowdServer) begin() (w *crowdClient, err error) {
	if w, err = c.connect(); err != nil {
		return nil, err
	}
	resp, err := w.post(c.addr, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{}}}`)
	if err != nil {
		return nil, err
	}
	w.body = resp.Body
	line, err := w.read(`"elicitation/create"`)
	if err != nil {
		return nil, err
	}
	var question struct{ ID json.Number }
	err = json.Unmarshal([]byte(line), &question)
	w.id = question.ID
	return w, err
}

// listen opens a session and its stream that belongs to no request.
func (c *crowdServer) listen() (w *crowdClient, err error) {
	if w, err = c.connect(); err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(w.conn, "GET /mcp HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\nMcp-Session-Id: %s\r\nMCP-Protocol-Version: 2025-11-25\r\n\r\n", c.addr, w.session)
	if err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the stream was refused: %s", resp.Status)
	}
	w.body = resp.Body
	_, err = w.read("")
	return w, err
}

// connect opens a session.
func (c *crowdServer) connect() (w *crowdClient, err error) {
	w = new(crowdClient)
	if w.conn, err = net.Dial("tcp", c.addr); err != nil {
		return nil, err
	}
	w.in = bufio.NewReaderSize(w.conn, 1<<10)
	resp, err := w.post(c.addr, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"crowd","version":"1"}}}`)
	if err != nil {
		return nil, err
	}
	if _, err = io.Copy(io.Discard, resp.Body); err != nil {
		return nil, err
	}
	w.session = resp.Header.Get("Mcp-Session-Id")
	return w, nil
}

// read reads until a message of the stream has that text.
func (w *crowdClient) read(text string) (string, error) {
	var read []byte
	for b := make([]byte, 1); ; {
		if _, err := w.body.Read(b); err != nil {
			return "", fmt.Errorf("%w after %q", err, read)
		}
		if read = append(read, b[0]); b[0] != '\n' {
			continue
		}
		line := strings.TrimSuffix(string(read), "\n")
		if data, ok := strings.CutPrefix(line, "data:"); ok && strings.Contains(data, text) {
			return data, nil
		}
		read = read[:0]
	}
}

// answer answers the question on another connection, and reads the result.
func (c *crowdServer) answer(w *crowdClient) error {
	other := crowdClient{session: w.session}
	var err error
	if other.conn, err = net.Dial("tcp", c.addr); err != nil {
		return err
	}
	defer other.conn.Close()
	other.in = bufio.NewReader(other.conn)
	resp, err := other.post(c.addr, `{"jsonrpc":"2.0","id":`+string(w.id)+`,"result":{"action":"accept","content":{"nick":"Bo"}}}`)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusAccepted {
		return fmt.Errorf("the answer was refused: %s", resp.Status)
	}
	_ = w.conn.SetReadDeadline(time.Now().Add(time.Minute))
	_, err = w.read("Hello, Bo")
	return err
}

// gather has n more sessions begin something.
func (c *crowdServer) gather(n int, begin func() (*crowdClient, error)) []*crowdClient {
	c.t.Helper()
	all := make([]*crowdClient, n)
	next := make(chan int)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for i := range next {
				w, err := begin()
				if !assert.NoError(c.t, err) {
					continue
				}
				all[i] = w
				c.t.Cleanup(func() { _ = w.conn.Close() })
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
	if c.t.Failed() {
		c.t.FailNow()
	}
	return all
}

// What a session costs that waits: one whose call waits for the client's answer, and one with an idle
// stream of its own.
func TestWaitingSessions(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector takes memory of its own")
	}
	t.Parallel() // the server is a process of its own
	c := newCrowd(t)
	n := *crowdSize
	for _, w := range c.gather(300, c.begin) { // what is made once
		require.NoError(t, c.answer(w))
		require.NoError(t, w.conn.Close())
	}
	time.Sleep(500 * time.Millisecond)
	waiting := func(of string, begin func() (*crowdClient, error), goroutines, most int) []*crowdClient {
		before := c.use("before " + of)
		began := time.Now()
		all := c.gather(n, begin)
		t.Log(n, of, "wait after", time.Since(began).Round(time.Millisecond))
		few := func(m memoryUse) bool { return m.Goroutines <= goroutines*n+16 && m.Live+m.Stacks < most }
		each := c.use(of).since(before, n)
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && !few(each); time.Sleep(500 * time.Millisecond) {
			each = c.use(of).since(before, n) // stacks shrink when memory is tidied up
		}
		t.Log(of, each)
		assert.True(t, few(each), "none of the %s takes more than %d goroutines and %d bytes", of, goroutines, most)
		return all
	}
	waiting("ended calls", func() (*crowdClient, error) {
		w, err := c.begin()
		if err == nil {
			err = c.answer(w)
			_ = w.conn.Close()
		}
		return w, err
	}, 0, 5_000)
	for _, w := range waiting("streams", c.listen, 2, 36_000) {
		_ = w.conn.Close()
	}
	time.Sleep(time.Second)
	all := waiting("calls", c.begin, 3, 75_000)
	for _, i := range []int{0, n / 2, n - 1} {
		require.NoError(t, c.answer(all[i]))
	}
	require.NoError(t, c.answer(c.gather(1, c.begin)[0]), "one more is served as well")
}
