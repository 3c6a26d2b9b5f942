package engine

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
)

// guard keeps what changes a turn, such as an effect, to the goroutine that runs the tool's code.
// In several goroutines the order would be chance, and with it the keys of effects and what a
// flow finds when it runs again. So that is refused whether or not two happen to meet: a tool
// that is wrong fails in its first test.
type guard struct {
	way     int   // by which the tool's code is called, see by
	enters  using // what is under way, or the zero value
	misused error // the first misuse: nothing was done, and the turn fails, whatever the tool makes of it
}

// using is what a tool calls; effect is empty unless it is for one.
type using struct{ name, effect string }

func (c using) String() string {
	if c.effect == "" {
		return c.name
	}
	return fmt.Sprintf("%s of the effect %q", c.name, c.effect)
}

// Enter is called before the tool's code does what changes the turn, and [Turn.Leave] after it;
// effect is the name of one or empty. It fails in a goroutine of the tool's own, in the code of another turn, after the
// turn, and in the middle of an effect.
func (tc *Turn) Enter(name, effect string) error {
	what := using{name, effect}
	g := &tc.guard
	own := runsBy(ways[g.way : g.way+1])
	tc.mu.Lock()
	defer tc.mu.Unlock()
	how := ""
	switch {
	case tc.over == errOver:
		return errOver
	case tc.over != nil:
		if world := sagahooks.From(tc); world != nil && effect != "" {
			world.Late(effect, true)
		}
		how = "after the turn had ended; a Turn or Run is valid until the function returns: keep none, and wait for your goroutines"
	case !own && !runsBy(ways[:]):
		how = "in a goroutine of the tool's own; call it in the one that runs the function, which can have saga.DoAll perform several effects at once"
	case !own:
		how = "by the code of another turn; a Turn or Run is for the call of the function that got it: hand it on as a parameter, and keep none in what calls share"
	case g.misused != nil:
		return g.misused
	case g.enters != (using{}):
		how = "within " + g.enters.String() + "; call it when that has ended"
	default:
		g.enters = what
		return nil
	}
	err := fmt.Errorf("tool %q, step function %q: %v was called %s", tc.program.Name, tc.Step, what, how)
	if g.misused == nil {
		g.misused = err
	}
	return err
}

// Leave is called when that is done for which [Turn.Enter] was called.
func (tc *Turn) Leave() {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	tc.guard.enters = using{}
}

// Together calls f with 0 to n-1 at the same time, each as the tool's code, and waits for all of them. If one panics or
// ends its goroutine, it does the same then. In a test they are called one after the other, so that it can be repeated.
func (tc *Turn) Together(n int, f func(i int)) {
	if n == 1 || sagahooks.From(tc) != nil {
		for i := range n {
			f(i)
		}
		return
	}
	var calls sync.WaitGroup
	ends := make([]error, n)
	for i := range n {
		ends[i] = exited // unless it returns or panics
		calls.Go(func() {
			ends[i] = Protect(func() error {
				return by[tc.guard.way](func() error {
					f(i)
					return nil
				})
			})
		})
	}
	calls.Wait()
	if slices.Contains(ends, error(exited)) {
		runtime.Goexit()
	}
	if err := cmp.Or(ends...); err != nil {
		panic(err)
	}
}

// Go has no name by which a goroutine could be known again. But what runs is on its stack: a turn's
// code is called in one of several places, so that turns which run at the same time mostly differ,
// and goroutines that the code has started have none of these places on theirs.

// by calls code in one of several places: the instances of in, whose machine code differs as their types do.
var by = [...]func(code func() error) error{
	in[[0]byte], in[[1]byte], in[[2]byte], in[[3]byte], in[[4]byte], in[[5]byte], in[[6]byte], in[[7]byte],
	in[[8]byte], in[[9]byte], in[[10]byte], in[[11]byte], in[[12]byte], in[[13]byte], in[[14]byte], in[[15]byte],
}

//go:noinline
func in[place any](code func() error) error { return code() }

// ways are the places in by where it calls code.
var ways = func() (at [len(by)]uintptr) {
	for way := range at {
		_ = by[way](func() error {
			runtime.Callers(2, at[way:way+1])
			return nil
		})
	}
	return at
}()

// called counts the turns whose code was called.
var called atomic.Uint32

// runsBy reports whether the calling goroutine runs code that was called in one of the places.
func runsBy(ways []uintptr) bool {
	var pcs [12]uintptr // as far as most tools go
	for skip := 3; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		for _, way := range ways {
			if slices.Contains(pcs[:n], way) {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}
