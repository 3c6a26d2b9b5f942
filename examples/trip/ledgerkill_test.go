package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/examples/trip/service"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
)

// How the client behaves when it was interrupted.
const (
	resumes = "resume"
	cancels = "cancel"
	leaves  = "leave" // and never comes back
)

// trip is one life of a saga on a cluster, in which something is killed.
type trip struct {
	life   string
	script script
	index  int
	where  point // where it is killed first, which is the life's point of that index; or nowhere
	victim string
	back   string

	mu     sync.Mutex
	passed []point
	struck bool
	booked bool     // the client was told that it is
	faults []string // what must not be

	end  string // what the client knows in the end
	told string // the result, if there was one
	left time.Time
}

func (tr *trip) String() string {
	return fmt.Sprintf("%s/%02d %v/kill %s/%s (%s)", tr.life, tr.index, tr.where, tr.victim, tr.back, tr.script.City)
}

func (tr *trip) fault(format string, args ...any) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.faults = append(tr.faults, fmt.Sprintf(format, args...))
}

// passes counts a point, and reports whether something is to be killed there.
func (tr *trip) passes(p point) bool {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.passed = append(tr.passed, p)
	if p.what == http.MethodDelete && tr.booked {
		tr.faults = append(tr.faults, fmt.Sprintf("%v although the client has its booking", p))
	}
	if tr.struck || p != tr.where {
		return false
	}
	tr.struck = true
	return true
}

func (tr *trip) wasStruck() bool {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.struck
}

// patience is how long a client comes back again and again.
const patience = 4 * time.Minute

// live is the client's side, which finds one server or another.
func (tr *trip) live(ctx context.Context, c *cluster) {
	c.add(tr)
	switch tr.life {
	case older:
		tr.liveInOneCall(ctx, c)
		return
	case firstActs:
		tr.liveWithKey(ctx, c)
		return
	}
	next := rand.N(replicas)
	d := &driver{script: tr.script, url: c.endpoint(next, tr.script.City)}
	began := time.Now()
	err := d.start(ctx)
	for ; ; next++ {
		switch struck := tr.wasStruck(); {
		case err == nil && d.result == "":
			tr.end = "there was nothing to cancel"
			return
		case err == nil && d.undo == "":
			tr.ended(d.result)
			if tr.back == resumes && d.position.Token != "" && tr.index%3 == 0 && tr.where != (point{}) {
				tr.repeat(ctx, c, d)
			}
			return
		case errors.Is(err, client.ErrPause), err != nil && struck && tr.back == leaves:
			tr.end, tr.left = "left", time.Now()
			return
		case refused(err):
			tr.end = "refused"
			if tr.life != "cancel" || tr.back != resumes { // who cancels cannot go on
				tr.fault("refused: %v", err)
			}
			return
		case time.Since(began) > patience:
			tr.end, tr.left = "gave up", time.Now()
			tr.fault("in vain for %v: %v", patience, err)
			return
		case struck && tr.back == resumes && d.script.Answer == "cancel":
			d.script.Answer = "accept" // the user thinks again
		}
		time.Sleep(50*time.Millisecond + rand.N(200*time.Millisecond))
		d.url = c.endpoint(next+1, tr.script.City)
		err = d.comeBack(ctx, tr.wasStruck() && tr.back == cancels || d.script.Answer == "cancel" && d.cancelling)
	}
}

// refused reports whether a server has refused the token, for good.
func refused(err error) bool {
	var no *client.Error
	return errors.As(err, &no) && no.Code == -32602 || err != nil && strings.Contains(err.Error(), `"code":-32602`)
}

// ended looks at what the client was told in the end.
func (tr *trip) ended(r string) {
	tr.told = r
	tr.mu.Lock()
	defer tr.mu.Unlock()
	switch {
	case strings.Contains(r, `"paid"`), strings.Contains(r, `\"paid\"`), strings.Contains(r, "it is too late"):
		tr.end, tr.booked = "booked", true
	case strings.Contains(r, "came back too late"):
		tr.end = tooLate
	case strings.Contains(r, `"isError":true`):
		tr.end = "failed, undone"
	default:
		tr.end = "cancelled, undone"
	}
}

const tooLate = "came too late, undone"

// repeat sends the last request again: the response is the same.
func (tr *trip) repeat(ctx context.Context, c *cluster, d *driver) {
	again := &driver{script: d.script, position: d.position}
	for try := range 200 {
		again.url = c.endpoint(try, tr.script.City)
		err := again.comeBack(ctx, false)
		if err == nil || refused(err) {
			if again.result != tr.told {
				tr.fault("repeated, the last request is answered %q (%v) instead of %q", again.result, err, tr.told)
			}
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	tr.fault("the last request cannot be repeated")
}

// unsettled counts the trips for which something is held.
func (c *cluster) unsettled(all []*trip) (n int) {
	held := map[string]bool{}
	for _, db := range c.dbs {
		rows, err := db.Query(`SELECT item FROM holds WHERE state = ?`, service.Held)
		require.NoError(c.t, err)
		for rows.Next() {
			var item string
			require.NoError(c.t, rows.Scan(&item))
			held[cityPattern.FindString(item)] = true
		}
		require.NoError(c.t, rows.Close())
	}
	for _, tr := range all {
		if held[tr.script.City] {
			n++
		}
	}
	return n
}

// check looks into the databases: see [scenario.check].
func (tr *trip) check(c *cluster) {
	ends := map[string]bool{}
	for _, name := range serviceNames {
		deeds := c.deeds(c.t, name, tr.script.City)
		if len(deeds) > 1 {
			tr.fault("%s has two holds: %v", name, deeds)
		}
		for _, d := range deeds {
			if d.State != service.Confirmed && d.State != service.Released {
				tr.fault("%s: what was held is %s", name, d.State)
			}
			if d.placed != 1 || d.confirmed > 1 {
				tr.fault("%s: it was held %d times and confirmed %d times", name, d.placed, d.confirmed)
			}
		}
		ends[name] = booked(deeds)
	}
	if ends["hotel"] != ends["payment"] || ends["flight"] != ends["payment"] {
		tr.fault("half booked: %v", ends)
	}
	if tr.told != "" && ends["payment"] != tr.booked {
		tr.fault("the client was told %q, and %v is booked", tr.told, ends)
	}
	switch {
	case (tr.life == "sold out" || tr.life == "too dear") && ends["payment"]:
		tr.fault("this trip is not to be booked")
	case (tr.life == "book" || tr.life == firstActs) && tr.back == resumes && !ends["payment"] && tr.end != tooLate:
		tr.fault("the client went on, so the trip is booked: %s", tr.told)
	}
}

// TestKillWithLedger has three servers share a ledger, kills them and its database at every
// point of every life of a saga, many at a time, and looks into the services' databases when
// the time for the answers of those is over who never came back.
func TestKillWithLedger(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until claims of servers that are dead are over")
	}
	longtests.OnlyIfWanted(t, "waits until claims of servers that are dead are over")
	t.Parallel()
	for _, kind := range ledgers {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			killWithLedger(t, kind)
		})
	}
}

func killWithLedger(t *testing.T, kind string) {
	every := os.Getenv(nightly) == "1"
	ttl, most, atOnce := 10*time.Minute, 6, 6
	if every {
		ttl, most, atOnce = 30*time.Second, 1<<30, 12
	}
	c := newCluster(t, kind, ttl)
	all := c.killings(t)
	if !every {
		// They are struck at one point, at the same time, so that only one lease has to be
		// waited for.
		index := 2 + rand.N(16)
		all = slices.DeleteFunc(all, func(tr *trip) bool { return tr.index != index || tr.life == "leave" && index >= decided })
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = all[:min(most, len(all))]
	if !every {
		c.together = newMeeting(len(all))
	}
	began := time.Now()
	next := make(chan *trip)
	var clients sync.WaitGroup
	ctx, noMore := context.WithCancel(t.Context())
	defer noMore()
	if every {
		go c.strikeNowAndThen(ctx)
	}
	for range atOnce {
		clients.Go(func() {
			for tr := range next {
				tr.live(t.Context(), c)
			}
		})
	}
	for i, tr := range all {
		if next <- tr; i%100 == 99 {
			t.Logf("%d of %d trips have begun after %v", i+1, len(all), time.Since(began).Round(time.Second))
		}
	}
	close(next)
	clients.Wait()
	noMore()
	t.Logf("all clients have ended or left after %v", time.Since(began).Round(time.Second))
	due := time.Now()
	if every {
		// The time of the last token that was given out, and by how much clocks may differ.
		due = due.Add(ttl + time.Minute)
		time.Sleep(time.Until(due) - ttl)
		c.downFor(ttl) // at the deadlines of those who have left last
		t.Logf("%d trips hold something when all was down at their deadline", c.unsettled(all))
	}
	// Undoing takes longer where a server died in it, by a lease; and where it failed, as it may
	// without the database, by pauses of one minute, then two. A call of a session waits for its
	// client for a quarter of an hour, wherever it is gone on with.
	limit := 5 * time.Minute
	if every {
		limit = 20 * time.Minute
	}
	for time.Since(due) < limit && c.unsettled(all) > 0 {
		if !every {
			c.giveBack(t, all) // again, as what a dead server has is nobody's to undo before its lease is over
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Logf("nothing is held any more %v after the last deadline", time.Since(due).Round(time.Second))
	ends, struck, faults := map[string]int{}, map[string]int{}, 0
	for _, tr := range all {
		tr.check(c)
		ends[tr.end]++
		if tr.wasStruck() {
			struck[tr.victim]++
		}
		tr.mu.Lock()
		for _, f := range tr.faults {
			faults++
			t.Errorf("%v: %s", tr, f)
		}
		tr.mu.Unlock()
	}
	c.striking.Lock()
	defer c.striking.Unlock()
	t.Logf("%s: %d trips, killed at their points: %v; processes killed: %v; ends: %v; faults: %d; %v",
		kind, len(all), struck, c.kills, ends, faults, time.Since(began).Round(time.Second))
	if t.Failed() {
		c.logs()
	}
}

// killings lists all that can be killed in all lives; see [killings].
func (c *cluster) killings(t *testing.T) (list []*trip) {
	lives := maps.Clone(lives)
	lives["leave"] = script{Travellers: 2, Nights: 3, Answer: "leave"}
	lives[older], lives[firstActs] = lives["book"], lives["book"]
	for _, life := range slices.Sorted(maps.Keys(lives)) {
		script := lives[life]
		script.City = newCity()
		once := &trip{life: life, script: script}
		once.live(t.Context(), c)
		if life != "leave" {
			once.check(c)
		}
		require.Empty(t, once.faults)
		points := slices.Clone(once.passed)
		t.Logf("%s: %d points, %s", life, len(points), once.end)
		backs := []string{resumes, cancels, leaves}
		switch life {
		case "leave", older:
			for _, name := range []string{"payment", "flight", "hotel"} { // when what it holds is given back
				points = append(points, point{name, http.MethodDelete, before}, point{name, http.MethodDelete, after})
			}
			backs = []string{leaves}
		case firstActs:
			backs = []string{resumes, leaves}
		}
		for i, p := range points {
			if script.asBefore && i < decided {
				continue
			}
			for _, victim := range c.victims() {
				for _, back := range backs {
					script.City = newCity()
					list = append(list, &trip{life: life, script: script, index: i, where: p, victim: victim, back: back})
				}
			}
		}
	}
	return list
}

// giveBack has what clients hold who have left given back at once, as an operator can.
func (c *cluster) giveBack(t *testing.T, all []*trip) {
	t.Helper()
	keys, err := codec.LoadKeyset(c.keyset)
	require.NoError(t, err)
	var list []durable.Waiting
	var operator *durable.Operator
	var opened []ledger.Store
	defer func() {
		for _, store := range opened {
			_ = store.Close()
		}
	}()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		store, err := c.openLedger()
		require.NoError(t, err)
		opened = append(opened, store)
		operator = durable.NewOperator(store, func() *codec.Keyset { return keys }, "trip")
		list = nil
		for w, err := range operator.Waiting(context.Background()) {
			require.NoError(t, err)
			list = append(list, w)
		}
	}, time.Minute, 100*time.Millisecond)
	held := map[string]bool{}
	for _, tr := range all {
		for _, name := range serviceNames {
			for _, d := range c.deeds(t, name, tr.script.City) {
				held[d.Reference] = true
			}
		}
	}
	for _, w := range list {
		if held[w.Saga] {
			err := operator.UndoNow(t.Context(), w.ID)
			for try := 0; err != nil && !errors.Is(err, durable.ErrNothingWaits) && try < 50; try++ {
				time.Sleep(100 * time.Millisecond)
				err = operator.UndoNow(t.Context(), w.ID)
			}
		}
	}
}

// openLedger opens the ledger of the servers beside them.
func (c *cluster) openLedger() (ledger.Store, error) {
	if path, isFile := strings.CutPrefix(c.ledger, "sqlite:"); isFile {
		return sqlite.Open(context.Background(), path)
	}
	return postgres.Open(context.Background(), c.ledger)
}
