package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/cputime"
)

// order is what a child process receives, a line each.
type order struct {
	Callers int           `json:"callers,omitzero"` // so many begin, and wait, one piece of work after the other
	For     time.Duration `json:"for,omitzero"`     // and for so long begin others; zero: begin one, and do not wait
}

// answer is what it says: when it is ready, when it has done what it was ordered to, and when it continues
// with a step that another process has not ended.
type answer struct {
	Error   string        `json:"error,omitzero"`
	Done    int           `json:"done,omitzero"` // pieces of work
	Elapsed time.Duration `json:"elapsed,omitzero"`
	Half    time.Duration `json:"half,omitzero"` // what half of them took at most
	CPU     time.Duration `json:"cpu,omitzero"`  // of the process, since it began
}

// beChild works until its standard input ends, as it does when the parent ends, however that
// comes. The arguments: the store, the system, the place's Target, Keys and Executor, and "stuck"
// if the second step is not to end.
func beChild(args []string) error {
	if len(args) != 6 {
		return errors.New("child: wrong arguments")
	}
	s, err := find(args[0], args[1])
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	var mu sync.Mutex
	say := func(a answer) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(a)
	}
	var once sync.Once
	step := func() {}
	switch args[5] {
	case "stuck":
		step = func() { say(answer{}); select {} }
	case "heir":
		step = func() { once.Do(func() { say(answer{}) }) }
	}
	ctx := context.Background()
	w, err := s.open(ctx, place{Target: args[2], Keys: args[3], Executor: args[4], Step: step})
	if err != nil {
		return err
	}
	say(answer{})
	in := json.NewDecoder(os.Stdin)
	for {
		var o order
		if err := in.Decode(&o); err != nil {
			go func() {
				time.Sleep(10 * time.Second)
				os.Exit(1) // it does not end by itself
			}()
			w.Close()
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
		switch {
		case o.Callers == 0:
			say(answer{CPU: cputime.Used()})
		case o.For == 0:
			go func() {
				if err := w.Do(ctx, 0); err != nil {
					say(answer{Error: err.Error()})
				}
			}()
		default:
			say(load(ctx, w, o))
		}
	}
}

// load has callers have work done, one after the other, for a while, and waits for the last.
func load(ctx context.Context, w worker, o order) (a answer) {
	ctx, cancel := context.WithTimeout(ctx, o.For+20*time.Second)
	defer cancel()
	var all sync.WaitGroup
	times, errs := make([][]time.Duration, o.Callers), make([]error, o.Callers)
	began := time.Now()
	for caller := range o.Callers {
		all.Go(func() {
			for errs[caller] == nil && time.Since(began) < o.For {
				start := time.Now()
				errs[caller] = w.Do(ctx, caller)
				times[caller] = append(times[caller], time.Since(start))
			}
		})
	}
	all.Wait()
	a.Elapsed, a.CPU = time.Since(began), cputime.Used()
	if err := errors.Join(errs...); err != nil {
		a.Error = err.Error()
	}
	flat := slices.Concat(times...)
	slices.Sort(flat)
	a.Done, a.Half = len(flat), flat[len(flat)/2]
	return a
}

// child is such a process.
type child struct {
	label   string
	process *os.Process
	in      io.WriteCloser
	answers chan answer
}

// startChild starts a system, and waits until that is ready. It is killed when ctx ends.
func startChild(ctx context.Context, s system, at place, role string) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, "child", s.store, s.name, at.Target, at.Keys, at.Executor, role)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{label: s.name + " on " + s.store, process: cmd.Process, in: in, answers: make(chan answer, 16)}
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var a answer
			if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
				a.Error = fmt.Sprintf("it says %q", lines.Text())
			}
			c.answers <- a
		}
		_ = cmd.Wait()
		close(c.answers)
	}()
	if _, err := c.answer(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// answer waits for the next line.
func (c *child) answer(ctx context.Context) (answer, error) {
	select {
	case a, open := <-c.answers:
		if !open {
			return a, fmt.Errorf("the process of %s has ended", c.label)
		}
		if a.Error != "" {
			return a, fmt.Errorf("%s: %s", c.label, a.Error)
		}
		return a, nil
	case <-ctx.Done():
		return answer{}, fmt.Errorf("%s: %w", c.label, context.Cause(ctx))
	}
}

// tell gives an order and waits for the answer.
func (c *child) tell(ctx context.Context, o order) (answer, error) {
	if err := json.NewEncoder(c.in).Encode(o); err != nil {
		return answer{}, fmt.Errorf("%s: %w", c.label, err)
	}
	return c.answer(ctx)
}

// end has the process end, and waits until it has.
func (c *child) end() {
	_ = c.in.Close()
	for range c.answers {
	}
}

// kill ends the process as kill -9 does.
func (c *child) kill() {
	_ = c.process.Kill()
	for range c.answers {
	}
}
