package postgres_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
)

// plan is a plan as EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) shows it, or a part of one.
type plan struct {
	Type    string  `json:"Node Type"`
	Table   string  `json:"Relation Name"`
	Rows    float64 `json:"Actual Rows"`
	Removed float64 `json:"Rows Removed by Filter"`
	Hit     int     `json:"Shared Hit Blocks"`
	Read    int     `json:"Shared Read Blocks"`
	Plans   []plan
}

// each calls do with a plan and its parts.
func (p *plan) each(do func(*plan)) {
	do(p)
	for i := range p.Plans {
		p.Plans[i].each(do)
	}
}

// plans gathers the plans that the server has used, in which the module auto_explain shows also those
// of what foreign keys do.
type plans struct {
	mu   sync.Mutex
	list []string
}

func (p *plans) notice(_ *pgconn.PgConn, n *pgconn.Notice) {
	if _, text, ok := strings.Cut(n.Message, "plan:\n"); ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.list = append(p.list, text)
	}
}

// take returns what was gathered.
func (p *plans) take() (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list, p.list = p.list, nil
	return list
}

// Each query finds what it needs by an index, however many records there are: it reads no table from one end
// to the other, sorts no more than it returns, and reads few blocks. There are a million records if
// SAGA_NIGHTLY is 1.
func TestPlans(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	n := 10_000
	if os.Getenv("SAGA_NIGHTLY") == "1" {
		n = 1_000_000
	}
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		if mode == "force_generic_plan" || n == 10_000 {
			t.Run(mode, func(t *testing.T) { testPlans(t, server, n, mode) })
		}
	}
}

func testPlans(t *testing.T, server *postgrestest.Server, n int, mode string) {
	name, url := newDatabase(t, server)
	require.NoError(t, open(t, url).Close())
	fill(server, name, n)
	var seen plans
	s := openWith(t, url+"&session_preload_libraries=auto_explain&auto_explain.log_min_duration=0&auto_explain.log_analyze=on&auto_explain.log_buffers=on"+
		"&auto_explain.log_format=json&auto_explain.log_nested_statements=on&client_min_messages=log&plan_cache_mode="+mode,
		postgres.Settings{Connect: func(config *pgx.ConnConfig) { config.OnNotice = seen.notice }, Gather: time.Hour})
	create(t, s) // others are notified of this change only
	time.Sleep(100 * time.Millisecond)

	load := func(i int) *store.Record {
		r, err := s.Load(t.Context(), filled(i))
		require.NoError(t, err)
		return r
	}
	for _, call := range []struct {
		name   string
		blocks int // that are read at most
		do     func() error
	}{
		{"create", 75, func() error {
			r := sample()
			r.Request, r.Wake, r.Keep = r.ID, time.Unix(2e9, 0), time.Unix(2e9, 0)
			c := change("x", "y")
			c.Most = 100
			return s.Write(t.Context(), r, c)
		}},
		{"commit", 85, func() error {
			r := load(7)
			r.Status, r.Wake, r.Floor = store.Working, time.Unix(3e9, 0), 1
			return s.Write(t.Context(), r, change("x"))
		}},
		{"Signal", 32, func() error { return s.Signal(t.Context(), filled(11), 2, change("x").Items...) }},
		{"Load", 15, func() error { load(9); return nil }},
		{"Find", 20, func() error { _, err := s.Find(t.Context(), filled(9)); return err }},
		{"Log", 15, func() error { _, err := s.Log(t.Context(), filled(9), 1, 10); return err }},
		{"Take", 300, func() error {
			taken, next, err := s.Take(t.Context(), store.Take{Audience: "a", Tools: []store.Tool{{Name: "tool 1", Revision: 1}, {Name: "tool 2", Revision: 1}}, Format: 1, Limit: 5, Lease: time.Hour})
			assert.Len(t, taken, 5)
			assert.False(t, next.IsZero())
			return err
		}},
		{"Renew", 20, func() error {
			_, err := s.Renew(t.Context(), []store.Held{{ID: filled(1)}, {ID: filled(n / 2)}}, time.Hour)
			return err
		}},
		{"List by owner", 75, func() error {
			list, err := s.List(t.Context(), store.Filter{Audience: "a", Owner: filled(3), Mode: store.ModeTask}, store.Cursor{Created: time.Unix(1e9, 0)}, 50)
			assert.NotEmpty(t, list)
			return err
		}},
		{"List by status", 75, func() error {
			list, err := s.List(t.Context(), store.Filter{Audience: "a", Statuses: []store.Status{store.Ended, store.Waiting}}, store.Cursor{Created: time.Unix(1e9, 0)}, 50)
			assert.Len(t, list, 50)
			return err
		}},
		{"Forget", 1300, func() error {
			n, err := s.Forget(t.Context(), 50)
			assert.Equal(t, 50, n)
			return err
		}},
		{"Identity", 5, func() error { _, err := s.Identity(t.Context()); return err }},
	} {
		seen.take()
		require.NoError(t, call.do(), call.name)
		list := seen.take()
		require.NotEmpty(t, list, call.name)
		blocks := 0
		for _, text := range list {
			var shown struct{ Plan plan }
			require.NoError(t, json.Unmarshal([]byte(text), &shown), text)
			blocks += shown.Plan.Hit + shown.Plan.Read
			shown.Plan.each(func(p *plan) {
				if p.Type == "Seq Scan" {
					assert.Equal(t, "version", p.Table, "%s: %s", call.name, text)
				}
				assert.LessOrEqual(t, p.Rows+p.Removed, 200.0, "%s: %s", call.name, text)
			})
		}
		t.Logf("%-15s %d statements, %d blocks", call.name, len(list), blocks)
		assert.LessOrEqual(t, blocks, call.blocks, call.name)
	}
}

// filled is the ID of a record of fill.
func filled(i int) (id store.ID) {
	binary.BigEndian.PutUint64(id[8:], uint64(i))
	id[0] = byte(i * 37) // in another order than they were created
	return id
}

// fill creates so many records with two items each: a quarter of them of each status, a tenth due, of ten tools,
// a hundred for each owner.
func fill(server *postgrestest.Server, name string, n int) {
	id := func(i string) string {
		return fmt.Sprintf("(lpad(to_hex((%[1]s * 37) %% 256), 2, '0') || lpad(to_hex(%[1]s), 30, '0'))::uuid", i)
	}
	server.ExecIn(name, fmt.Sprintf(`INSERT INTO mcpsaga_ledger.records (id, audience, owner, account, tool, revision, format, mode, status, request, wake, keep, fence, tries, head, applied, floor, created, updated, summary, state)
SELECT %s, 'a', %s, %s, 'tool ' || i %% 10, 1, 1, 'task', (ARRAY['waiting', 'working', 'ended', 'sleeping'])[1 + i / 10 %% 4], %s,
	CASE WHEN i / 10 %% 10 = 1 THEN now() - i * interval '1 second' WHEN i / 10 %% 10 < 5 THEN now() + interval '1 year' + i * interval '1 second' END,
	CASE WHEN i %% 50 = 49 THEN now() - i * interval '1 second' WHEN i %% 2 = 1 THEN now() + interval '1 year' END,
	0, 0, 2, 1, 0, now() - interval '10 years' + i * interval '1 second', now(), '\x00'::bytea, decode(repeat('ab', 300), 'hex')
FROM generate_series(0, %d) AS i`, id("i"), id("(i % "+fmt.Sprint(n/100)+")"), id("(i % "+fmt.Sprint(n/100)+")"), id("i"), n-1)+`;
INSERT INTO mcpsaga_ledger.items (id, n, kind, lasting, at, body) SELECT id, n, 'k', n = 2, now(), '\x00' FROM mcpsaga_ledger.records, generate_series(1, 2) AS n`)
	server.ExecIn(name, "VACUUM ANALYZE")
}
