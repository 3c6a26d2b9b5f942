// Package swallowed has flows that do not return the error of asking, and some
// that do.
package swallowed

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type form struct {
	Sure bool `json:"sure"`
}

var (
	askSure  = &steps.Form[form]{ID: "sure", Message: "Sure?"}
	askAgain = &steps.Form[form]{ID: "again", Message: "Really?"}
	pay      = &saga.Effect[int, string]{Name: "pay", Do: func(context.Context, saga.Key, int) (string, error) { return "", nil }}
)

func discarded(r *saga.Run) (bool, error) {
	f, _ := saga.Ask(r, askSure) // want `the flow continues after saga.Ask although the saga may have to wait`
	return f.Sure, nil
}

func dropped(r *saga.Run) error {
	r.AskAll(askSure, askAgain) // want `the flow continues after Run.AskAll`
	return nil
}

func yieldDropped(r *saga.Run) error {
	r.Yield() // want `the flow continues after Run.Yield although the saga may have to wait`
	return nil
}

func sleepReplaced(r *saga.Run) error {
	if err := r.Sleep(time.Hour); err != nil {
		return errors.New("woken") // want `the flow replaces the error of Run.Sleep by one that does not wrap it`
	}
	if err := r.Until(r.Now()); err != nil {
		return fmt.Errorf("until: %w", err)
	}
	return nil
}

func effectDropped(r *saga.Run) error {
	_, _ = saga.Do(r, pay, 1) // want `the flow continues after saga.Do as if the effect had happened`
	return nil
}

func overwritten(r *saga.Run) error {
	_, err := saga.Ask(r, askSure) // want `the flow continues after saga.Ask`
	_, err = saga.Ask(r, askAgain)
	return err
}

func logged(r *saga.Run) (string, error) {
	f, err := saga.Ask(r, askSure) // want `the flow continues after saga.Ask`
	if err != nil {
		log.Print(err)
	}
	return fmt.Sprint(f), nil
}

func defaulted(r *saga.Run) (string, error) {
	if _, err := saga.Ask(r, askSure); err != nil { // want `the flow continues after saga.Ask`
		return "no", nil
	}
	return "yes", nil
}

func replaced(r *saga.Run, way int) error {
	_, err := saga.Ask(r, askSure)
	switch {
	case err == nil:
		return nil
	case way == 0:
		return errors.New("oh no") // want `the flow replaces the error of saga.Ask by one that does not wrap it`
	case way == 1:
		return fmt.Errorf("asking: %v", err) // want `the flow replaces the error of saga.Ask`
	case way == 2:
		return saga.Failf("The user is away: %s", err) // want `the flow replaces the error of saga.Ask`
	case way == 3:
		return saga.Fail("The user is away.", nil) // want `the flow replaces the error of saga.Ask`
	case way == 4:
		return errors.New(err.Error()) // want `the flow replaces the error of saga.Ask`
	}
	return err
}

func effectReplaced(r *saga.Run) error {
	if _, err := saga.Do(r, pay, 1); err != nil {
		return saga.Failf("The bank refuses.") // want `the flow replaces the error of saga.Do by one that does not wrap it, so the engine cannot know that the effect may have happened. Wrap it with %w`
	}
	return nil
}

func withoutError(r *saga.Run) string {
	_, err := saga.Ask(r, askSure) // want `the flow continues after saga.Ask`
	return fmt.Sprint(err)
}

func forEver(r *saga.Run) error {
	for {
		f, err := saga.Ask(r, askSure) // want `the flow continues after saga.Ask`
		if err != nil {
			continue
		}
		if f.Sure {
			return nil
		}
	}
}

func helper(r *saga.Run) error {
	_, err := saga.Ask(r, askSure)
	return err
}

func discardedHelper(r *saga.Run) error {
	_ = helper(r) // want `the flow continues after helper although the saga may have to wait`
	return nil
}

func discardedLiteral(r *saga.Run) error {
	sure := func() error { return r.AskAll(askSure) }
	_ = sure() // want `the flow continues after this call`
	return nil
}

type conversation struct{ run *saga.Run }

func (c *conversation) sure() error { return helper(c.run) }

func discardedMethod(r *saga.Run) error {
	c := &conversation{r}
	c.sure() // want `the flow continues after sure`
	return nil
}

// What follows is as it should be.

func returned(r *saga.Run, way int) (out string, err error) {
	f, err := saga.Ask(r, askSure)
	if err != nil {
		switch way {
		case 0:
			return "", fmt.Errorf("asking: %w", err)
		case 1:
			return "", errors.Join(errors.New("asking"), err)
		case 2:
			return "", saga.Fail("The user is away.", err)
		case 3:
			return "", saga.Failf("The user is away: %w", err)
		case 4:
			return "", wrapped{err}
		case 5:
			return "", explained(err)
		}
		return
	}
	return fmt.Sprint(f), nil
}

type wrapped struct{ error }

func explained(err error) error { return wrapped{err} }

func atOnce(r *saga.Run) (form, error) { return saga.Ask(r, askSure) }

func late(r *saga.Run) (string, error) {
	f, err := saga.Ask(r, askSure)
	return fmt.Sprint(f), err
}

func recognised(r *saga.Run) (string, error) {
	_, err := saga.Ask(r, askSure)
	if errors.Is(err, steps.ErrDeclined) {
		return "declined", nil
	}
	var failed *steps.ClientError
	if errors.As(err, &failed) {
		return "", saga.Failf("The client failed with %d.", failed.Code)
	}
	if _, ok := errors.AsType[*steps.StepError](err); ok || refused(err) {
		return "refused", nil
	}
	if err != nil && !errors.Is(err, steps.ErrCancelled) {
		return "", err
	}
	return "answered or cancelled", nil
}

func refused(err error) bool { return errors.Is(err, steps.ErrDeclined) }

func typed(r *saga.Run) error {
	err := r.AskAll(askSure)
	switch err := err.(type) {
	case nil, *steps.StepError:
		return nil
	default:
		return err
	}
}

func together(r *saga.Run) error {
	_, err1 := saga.Ask(r, askSure)
	_, err2 := saga.Ask(r, askAgain)
	return errors.Join(err1, err2)
}

func collected(r *saga.Run) error {
	var all []error
	for range 3 {
		if err := helper(r); err != nil {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

func sticky(r *saga.Run) (err error) {
	func() { _, err = saga.Ask(r, askSure) }()
	return err
}

func named(r *saga.Run) (out string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("named: %w", err)
		}
	}()
	var f form
	if f, err = saga.Ask(r, askSure); err != nil {
		return "", err
	}
	return fmt.Sprint(f), nil
}

func fallback(r *saga.Run) error {
	if _, err := saga.Do(r, pay, 1); err != nil {
		_, err := saga.Do(r, pay, 2)
		return err
	}
	return nil
}

func blamed(r *saga.Run) (string, error) {
	out, err := saga.Do(r, pay, 1)
	var failed *saga.EffectError
	switch {
	case !errors.As(err, &failed):
		return out, err
	case failed.Unknown:
		return out, saga.Fail("The bank does not answer.", err)
	}
	return out, saga.Fail("The bank refuses.", err)
}

func machine(t *saga.Turn[form, form]) (saga.Next, error) {
	_, _ = saga.Do(t, pay, 1) // a machine does not run again
	return t.Textf("done")
}

// These mistakes are meant.
func meant(r *saga.Run) {
	//sagavet:ignore the test is about this
	_ = r.AskAll(askSure)
	_ = r.AskAll(askSure) //sagavet:ignore here too

	//sagavet:ignore two lines above do not count

	_ = r.AskAll(askSure) // want `the flow continues after Run.AskAll`
	//sagavet:ignored
	_ = r.AskAll(askSure) // want `if it is not nil; recognise with errors.Is or errors.As what the flow itself can deal with.$`
	//sagavet:ignore
	_ = r.AskAll(askSure) // want `the flow continues after Run.AskAll.* \(A //sagavet:ignore needs a reason.\)`
}
