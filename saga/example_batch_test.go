package saga_test

import (
	"context"
	"errors"
	"strings"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Addresses are invited at the same time. What fails is reported by address, and the others stay invited.
func Example_batch() {
	type batch struct {
		Addresses []string `json:"addresses" maxItems:"500"`
	}
	type report struct {
		Invited []string `json:"invited,omitempty"`
		Refused []string `json:"refused,omitempty"` // not done
		Unknown []string `json:"unknown,omitempty"` // perhaps done
	}
	type sureForm struct {
		Sure bool `json:"sure"`
	}
	askSure := &steps.Form[sureForm]{ID: "sure", Message: "Shall I invite them?"}
	invite := &saga.Effect[string, bool]{
		Name: "invite", AtOnce: 4, Tries: 1,
		Do: func(_ context.Context, _ saga.Key, address string) (bool, error) {
			switch {
			case !strings.Contains(address, "@"):
				return false, saga.Refused(errors.New("this is no address"))
			case strings.HasSuffix(address, ".test"):
				return false, errors.New("connection reset")
			}
			return true, nil
		},
	}
	tool := saga.Flow[batch, report]{
		Info: saga.Info{Name: "invite_all", Asks: []steps.Question{askSure}, Effects: []saga.Declared{invite}},
		Run: func(r *saga.Run, in batch) (out report, err error) {
			if sure, err := saga.Ask(r, askSure); err != nil || !sure.Sure {
				return out, err
			}
			_, err = saga.DoAll(r, invite, in.Addresses)
			failed, some := errors.AsType[saga.EffectErrors](err)
			if err != nil && !some {
				return out, err // the turn cannot continue
			}
			for i, address := range in.Addresses {
				switch {
				case !some || failed[i] == nil:
					out.Invited = append(out.Invited, address)
				case failed[i].Unknown:
					out.Unknown = append(out.Unknown, address)
				default:
					out.Refused = append(out.Refused, address+": "+failed[i].Err.Error())
				}
			}
			return out, nil
		},
	}
	talk(tool, fields{"addresses": []string{"ada@example.com", "bob", "eve@down.test"}}, client.Accept(fields{"sure": true}))
	// Output:
	// sure asks: Shall I invite them?
	// structured result: {"invited":["ada@example.com"],"refused":["bob: this is no address"],"unknown":["eve@down.test"]}
}
