package ways

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver "sqlite", to look into a ledger without the package

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// crowded is a server that knows its callers, and says what it uses when it is asked.
const crowded = "crowded"

// use is what a process has in use.
type use struct {
	Goroutines, Files int
	Heap              uint64
}

// reportUse writes what this process uses for each line of its input.
func reportUse() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		files, _ := os.ReadDir("/proc/self/fd")
		_ = json.NewEncoder(os.Stdout).Encode(use{runtime.NumGoroutine(), len(files), m.HeapAlloc})
	}
}

const sleepTool = "sleep"

type sleepArgs struct {
	Until time.Time `json:"until"`
}

// sleeper is a tool that does nothing but sleep.
func sleeper() saga.Definition {
	return saga.Machine[sleepArgs, struct{}]{
		Info:  saga.Info{Name: sleepTool, Tasks: saga.Tasks{Mode: saga.TasksRequired}},
		Start: func(t *saga.Turn[sleepArgs, struct{}]) (saga.Next, error) { return t.Until(t.Args.Until, "end") },
		Steps: saga.Steps[sleepArgs, struct{}]{
			"end": func(t *saga.Turn[sleepArgs, struct{}]) (saga.Next, error) { return t.Textf("awake") },
		},
	}
}

// crowd is a server with many clients.
type crowd struct {
	*testing.T
	life   *life
	ledger string
	in     io.Writer
	out    *bufio.Reader
}

func newCrowd(t *testing.T) *crowd {
	dir := t.TempDir()
	c := &crowd{T: t, ledger: filepath.Join(dir, "ledger.db")}
	keyset := filepath.Join(dir, "keys.json")
	_, err := codec.CreateKeysetFile(keyset)
	require.NoError(t, err)
	addr := address(t)
	c.life = &life{t: t, urls: []string{"http://" + addr + server.Endpoint}, began: time.Now().Add(time.Hour)}
	cmd := exec.Command(os.Args[0], addr, keyset, c.ledger, "http://nowhere.invalid")
	cmd.Env, cmd.Stderr = append(os.Environ(), roleEnv+"="+crowded), os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	c.in, c.out = in, bufio.NewReader(out)
	_, err = c.out.ReadString('\n')
	require.NoError(t, err)
	return c
}

func (c *crowd) use() (u use) {
	c.Helper()
	_, err := fmt.Fprintln(c.in)
	require.NoError(c, err)
	line, err := c.out.ReadBytes('\n')
	require.NoError(c, err)
	require.NoError(c, json.Unmarshal(line, &u))
	return u
}

var extension = object{"io.modelcontextprotocol/tasks": object{}}

// as is a client of a user's.
func (c *crowd) as(user string) modern {
	l := &life{t: c.T, urls: c.life.urls, began: c.life.began, user: user}
	return newModern(l)
}

// task creates a task of a user's and returns its id.
func (c *crowd) task(user, tool string, args object) (string, error) {
	result, err := c.as(user).send("", "tools/call", object{"name": tool, "arguments": args}, extension)
	if err != nil {
		return "", err
	}
	var created struct{ TaskID string }
	err = json.Unmarshal(result, &created)
	return created.TaskID, err
}

func (c *crowd) get(user, id string) (status string, updated time.Time) {
	result, err := c.as(user).send("", "tasks/get", object{"taskId": id}, extension)
	if !assert.NoError(c, err) {
		return "", updated
	}
	var task struct {
		Status        string
		LastUpdatedAt time.Time
	}
	assert.NoError(c, json.Unmarshal(result, &task))
	return task.Status, task.LastUpdatedAt
}

// tasks creates n of them, for n/500 users, and returns their ids by user.
func (c *crowd) tasks(n int, tool string, args object) map[string][]string {
	c.Helper()
	ids, mu, all := map[string][]string{}, sync.Mutex{}, sync.WaitGroup{}
	for at := range 32 {
		all.Go(func() {
			for i := at; i < n; i += 32 {
				user := fmt.Sprint("user ", i/500)
				id, err := c.task(user, tool, args)
				if !assert.NoError(c, err) {
					return
				}
				mu.Lock()
				ids[user] = append(ids[user], id)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return ids
}

// TestManyWait has tasks wait for answers, which cost a server nothing while they do.
func TestManyWait(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("looks into /proc")
	}
	t.Parallel() // the server is a process of its own
	n := 500
	if every() {
		n = 10_000
	}
	c := newCrowd(t)
	waiting := func(ids map[string][]string) {
		t.Helper()
		for user, list := range ids {
			for _, id := range list[max(0, len(list)-20):] {
				require.Eventually(t, func() bool { s, _ := c.get(user, id); return s == "input_required" }, time.Minute, 20*time.Millisecond)
			}
		}
	}
	waiting(c.tasks(200, taskTool, object{"order": "x"})) // buffers and connections are there
	http.DefaultClient.CloseIdleConnections()
	before := c.use()
	for left := 1; left > 0; { // what only began ends
		time.Sleep(300 * time.Millisecond)
		now := c.use()
		left = before.Goroutines - now.Goroutines + before.Files - now.Files
		before = now
	}
	began := time.Now()
	waiting(c.tasks(n, taskTool, object{"order": "x"}))
	t.Logf("%d tasks began in %v", n, time.Since(began).Round(time.Millisecond))
	after := c.use()
	assert.Eventually(t, func() bool { // connections end, and what is not used any more is collected
		after = c.use()
		return after.Goroutines <= before.Goroutines+10 && after.Files <= before.Files+10 && int64(after.Heap)-int64(before.Heap) < 4<<20
	}, time.Minute, 200*time.Millisecond, "with %d tasks more", n)
	t.Logf("before: %+v, with %d tasks more: %+v", before, n, after)
}

// TestManySleep has a thousand tasks wake at once from among a million that sleep on. Those are
// copies of a record, as nobody would wait for a million calls.
func TestManySleep(t *testing.T) {
	longtests.OnlyIfWanted(t, "waits until many have slept")
	asleep, wake := 2000, 50
	if every() {
		asleep, wake = 1_000_000, 1000
	}
	c := newCrowd(t)
	_, err := c.task("somebody", sleepTool, object{"until": time.Now().Add(20 * time.Hour)})
	require.NoError(t, err)
	db, err := sql.Open("sqlite", "file:"+c.ledger+"?_pragma=busy_timeout(60000)")
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	asleepIn := func() (n int) {
		require.NoError(t, db.QueryRow(`SELECT count(*) FROM records WHERE wake > (unixepoch() + 3600) * 1000000`).Scan(&n))
		return n
	}
	for end := time.Now().Add(time.Minute); asleepIn() == 0; time.Sleep(10 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "it does not sleep")
	}
	// All but what follows from others, names a record, or says when it is due.
	var columns string
	require.NoError(t, db.QueryRow(`SELECT group_concat(name) FROM pragma_table_info('records') WHERE name NOT IN ('n', 'id', 'request', 'owner', 'account', 'wake', 'due')`).Scan(&columns))
	began := time.Now()
	for left := asleep; left > 0; left -= 10_000 { // in parts, so that the server can write
		tx, err := db.Begin()
		require.NoError(t, err)
		_, err = tx.Exec(`WITH RECURSIVE i(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM i WHERE i < ?)
			INSERT INTO records (`+columns+`, id, owner, account, wake, due)
			SELECT `+columns+`, randomblob(16), randomblob(16), randomblob(16), at, at
			FROM (SELECT r.*, i.i, wake + i.i * 100000 AS at FROM (SELECT * FROM records WHERE wake > (unixepoch() + 3600) * 1000000 ORDER BY n LIMIT 1) r, i)`, min(left, 10_000))
		require.NoError(t, err)
		_, err = tx.Exec(`INSERT INTO states SELECT n, (SELECT body FROM states LIMIT 1) FROM records WHERE n NOT IN (SELECT record FROM states)`)
		require.NoError(t, err)
		err = tx.Commit()
		require.NoError(t, err)
	}
	there := asleepIn()
	require.Equal(t, asleep+1, there)
	t.Logf("%d tasks are asleep after %v", there, time.Since(began).Round(time.Second))
	// A task has to be asleep before it is to wake.
	began = time.Now()
	at := began.Add(time.Duration(wake)*15*time.Millisecond + 5*time.Second).UTC().Truncate(time.Second)
	ids := c.tasks(wake, sleepTool, object{"until": at})
	t.Logf("%d more in %v", wake, time.Since(began).Round(time.Millisecond))
	require.Greater(t, time.Until(at), time.Duration(0), "this machine is too slow for that")
	t.Logf("before they wake: %+v", c.use())
	time.Sleep(time.Until(at) + 2*time.Second)
	var last time.Duration
	for user, list := range ids {
		for _, id := range list {
			status, updated := "", time.Time{}
			require.Eventually(t, func() bool { status, updated = c.get(user, id); return status == "completed" }, time.Minute, 10*time.Millisecond)
			require.False(t, updated.Before(at), "it woke too early")
			last = max(last, updated.Sub(at))
		}
	}
	t.Logf("the last of %d ended %v after it was to wake", wake, last)
	assert.Less(t, last, 2*time.Second+slack)
}

// slack is what a machine may take longer that does other things besides.
const slack = time.Second
