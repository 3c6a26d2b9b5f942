//go:build linux

package sqlite_test

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
)

func init() { children["power"] = childPower }

// childPower changes records from 8 goroutines, and writes which revision of which record
// has been acknowledged.
func childPower(path string, _ []string) error {
	s, err := sqlite.Open(context.Background(), path)
	if err != nil {
		return err
	}
	return using(s, func(ctx context.Context, s ledger.Store) error {
		var all sync.WaitGroup
		for w := range 8 {
			all.Go(func() {
				records := make([]ledger.Record, 20)
				for i := range 150 {
					r := &records[i%len(records)]
					r.Key = fmt.Sprintf("%d-%d", w, i%len(records))
					r.Body = append(fmt.Appendf(nil, "%d ", r.Rev+1), make([]byte, rand.N(2000))...)
					if err := s.Swap(ctx, r, ledger.Item{N: r.Rev + 1}); err != nil {
						panic(err)
					}
					_, _ = os.Stdout.WriteString(fmt.Sprintf("acknowledged %s %d\n", r.Key, r.Rev))
				}
			})
		}
		all.Wait()
		return nil
	})
}

// The power fails at random moments. What was not synced until then is lost in part: of each
// write every sector, each truncation and each new name in a directory may have reached the
// disk or not. Nothing that was acknowledged is missing afterwards, and the file is whole.
//
// A process is traced (strace), to know what it wrote, synced and acknowledged in which order.
func TestPowerFails(t *testing.T) {
	if os.Getenv("LEDGER_POWER") == "" {
		t.Skip("set LEDGER_POWER=1, and install strace")
	}
	strace, err := exec.LookPath("strace")
	require.NoError(t, err, "LEDGER_POWER is set")
	path := somePath(t)
	trace := filepath.Join(t.TempDir(), "trace")
	c := started(t, "power", exec.Command(strace, "-f", "-qq", "-y", "-xx", "-s", "100000", "-o", trace,
		"-e", "trace=open,openat,creat,link,linkat,pwrite64,write,ftruncate,fsync,fdatasync,unlink,unlinkat", os.Args[0], path))
	for range 8 * 150 {
		c.line()
	}
	require.NoError(t, c.Wait())
	events := readTrace(t, trace, path)
	var moments []int // after an acknowledgement, and any others
	syncs := 0
	for i, e := range events {
		if e.kind == acknowledged {
			moments = append(moments, i+1)
		}
		if e.kind == syncEnded {
			syncs++
		}
	}
	require.Len(t, moments, 8*150)
	lost := 0
	rand.Shuffle(len(moments), func(i, j int) { moments[i], moments[j] = moments[j], moments[i] })
	const failures = 120
	for i := range failures / 2 {
		moments[i] = rand.N(len(events))
	}
	for _, m := range moments[:failures] {
		dir := t.TempDir()
		lost += crash(t, events[:m], path, dir)
		after := filepath.Join(dir, filepath.Base(path))
		newest := map[string]uint64{}
		for _, e := range events[:m] {
			if e.kind == acknowledged {
				newest[e.key] = max(newest[e.key], e.rev)
			}
		}
		s := opened(t, after)
		for key, rev := range newest {
			r, err := s.Load(t.Context(), key)
			if assert.NoError(t, err, key) && assert.GreaterOrEqual(t, r.Rev, rev, key) {
				assert.True(t, strings.HasPrefix(string(r.Body), fmt.Sprint(r.Rev, " ")))
				items, err := s.Items(t.Context(), key, 0, 1000)
				assert.NoError(t, err)
				assert.Len(t, items, int(r.Rev))
			}
		}
		require.NoError(t, s.Close())
		assert.Equal(t, "ok", query(t, after, "PRAGMA integrity_check"))
		if t.Failed() {
			t.Fatalf("after %d of %d events", m, len(events))
		}
	}
	t.Logf("%d acknowledged changes, %d syncs; %d power failures lost %d sectors, truncations and names", 8*150, syncs, failures, lost)
	assert.NotZero(t, lost, "the failures cost something")
}

type eventKind int

const (
	written eventKind = iota
	truncated
	named // a new name in a directory
	unnamed
	syncBegan
	syncEnded
	acknowledged
)

// event is what a process did to a file.
type event struct {
	kind   eventKind
	file   string
	data   []byte
	offset int64
	began  int // of a sync that ended: the index of its beginning
	key    string
	rev    uint64
}

var (
	call       = regexp.MustCompile(`^(\d+)\s+(\w+)\((.*)$`)
	resumed    = regexp.MustCompile(`^(\d+)\s+<\.\.\. (\w+) resumed>(.*)$`)
	descriptor = regexp.MustCompile(`^\d+<([^>]*)>`)
	quoted     = regexp.MustCompile(`"((?:\\x[0-9a-f]{2})*)"`)
)

func unhex(t *testing.T, s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, `\x`, ""))
	require.NoError(t, err)
	return b
}

// readTrace reads what strace has written about the files whose names begin with path,
// and their directory.
func readTrace(t *testing.T, name, path string) (events []event) {
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<24)
	pending := map[string]string{} // by thread: the beginning of an unfinished call
	syncing := map[string]int{}    // by thread: when its sync began
	exists := map[string]bool{}
	for lines.Scan() {
		line := lines.Text()
		if m := resumed.FindStringSubmatch(line); m != nil {
			line = pending[m[1]] + m[3]
			delete(pending, m[1])
		} else if m := call.FindStringSubmatch(line); m != nil {
			if strings.HasSuffix(m[2], "sync") {
				syncing[m[1]] = len(events)
				events = append(events, event{kind: syncBegan})
			}
			if head, unfinished := strings.CutSuffix(line, " <unfinished ...>"); unfinished {
				pending[m[1]] = head
				// What is being said may have been heard already; all else is noted when
				// it has ended.
				if m[2] != "write" {
					continue
				}
				delete(pending, m[1])
				pending[m[1]] = m[1] + " done("
			}
		}
		m := call.FindStringSubmatch(line)
		if m == nil || strings.Contains(line, ") = -1 ") || strings.HasSuffix(m[2], "done") {
			continue
		}
		thread, what, args := m[1], m[2], m[3]
		file := ""
		if d := descriptor.FindStringSubmatch(args); d != nil {
			file = string(unhexPath(t, d[1]))
		}
		ours := strings.HasPrefix(file, path) && !strings.HasSuffix(file, "-shm") && !strings.HasSuffix(file, "-wait")
		var strs []string
		for _, q := range quoted.FindAllStringSubmatch(args, -1) {
			strs = append(strs, string(unhex(t, q[1])))
		}
		switch what {
		case "open", "openat", "creat", "link", "linkat", "unlink", "unlinkat":
			target := strs[len(strs)-1]
			if !strings.HasPrefix(target, path) || strings.HasSuffix(target, "-shm") || strings.HasSuffix(target, "-wait") {
				continue
			}
			if strings.HasPrefix(what, "unlink") {
				events = append(events, event{kind: unnamed, file: target})
				exists[target] = false
			} else if !exists[target] && (!strings.HasPrefix(what, "open") || strings.Contains(args, "O_CREAT")) {
				events = append(events, event{kind: named, file: target})
				exists[target] = true
			}
		case "pwrite64":
			if ours {
				at := args[strings.LastIndex(args, `"`)+1:]
				var n, offset int64
				_, err := fmt.Sscanf(at, ", %d, %d)", &n, &offset)
				require.NoError(t, err, at)
				require.Len(t, strs[0], int(n))
				events = append(events, event{kind: written, file: file, data: []byte(strs[0]), offset: offset})
			}
		case "write":
			require.False(t, ours, "a write that is not understood: %.200s", line)
			for _, s := range strs {
				for l := range strings.Lines(s) {
					var e event
					if n, _ := fmt.Sscanf(l, "acknowledged %s %d\n", &e.key, &e.rev); n == 2 {
						e.kind = acknowledged
						events = append(events, e)
					}
				}
			}
		case "ftruncate":
			if ours {
				size, err := strconv.ParseInt(strings.TrimSpace(regexp.MustCompile(`>, (\d+)\)`).FindStringSubmatch(args)[1]), 10, 64)
				require.NoError(t, err)
				events = append(events, event{kind: truncated, file: file, offset: size})
			}
		case "fsync", "fdatasync":
			events = append(events, event{kind: syncEnded, file: file, began: syncing[thread]})
		}
	}
	require.NoError(t, lines.Err())
	return events
}

// unhexPath reads the path that strace shows with a descriptor.
func unhexPath(t *testing.T, s string) []byte {
	if !strings.HasPrefix(s, `\x`) {
		return []byte(s)
	}
	return unhex(t, s)
}

// crash makes the files as they may be found after the power has failed, and returns how much was lost.
func crash(t *testing.T, events []event, path, dir string) (lost int) {
	synced := make([]bool, len(events))
	for _, e := range events {
		if e.kind != syncEnded {
			continue
		}
		for i, w := range events[:e.began] {
			switch w.kind {
			case written, truncated:
				synced[i] = synced[i] || w.file == e.file
			case named, unnamed:
				synced[i] = synced[i] || filepath.Dir(w.file) == e.file
			}
		}
	}
	files := map[string][]byte{}
	names := map[string]bool{}
	for i, e := range events {
		keep := func() bool {
			if synced[i] || rand.N(2) == 0 {
				return true
			}
			lost++
			return false
		}
		switch e.kind {
		case named:
			names[e.file] = keep()
		case unnamed:
			if keep() {
				names[e.file], files[e.file] = false, nil
			}
		case truncated:
			if keep() {
				f := files[e.file]
				files[e.file] = append(f[:min(int64(len(f)), e.offset)], make([]byte, max(0, e.offset-int64(len(f))))...)
			}
		case written:
			const sector = 512
			for at := e.offset; at < e.offset+int64(len(e.data)); {
				next := min(at/sector*sector+sector, e.offset+int64(len(e.data)))
				if keep() {
					f := files[e.file]
					if grow := next - int64(len(f)); grow > 0 {
						f = append(f, make([]byte, grow)...)
					}
					copy(f[at:], e.data[at-e.offset:next-e.offset])
					files[e.file] = f
				}
				at = next
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if names[name] {
			require.NoError(t, os.WriteFile(filepath.Join(dir, strings.TrimPrefix(name, filepath.Dir(path))), files[name], 0o600))
		}
	}
	return lost
}
