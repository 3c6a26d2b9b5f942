package codec_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
)

// These states were written after the dictionary was frozen, about other subjects
// than the states of the size test, and nothing was changed after measuring them.
// They show what to expect of states nobody tuned anything for.
var heldOut = map[string]string{
	"small": `{"args":{"patient":"K-3381","clinic":"north"},"answers":{"slot":{"action":"accept","content":{"day":"2027-02-09","hour":14,"remote":false,"urgency":"routine"}},` +
		`"check":{"role":"assistant","content":{"type":"text","text":"No conflicts found."},"model":"qwen3-32b","stopReason":"endTurn"}},"at":"reserve","tries":1}`,
	"medium": `{"args":{"ticket":"INC-77120","reporter":"Tomasz Wilk","product":"label printer firmware","serials":["ZX-19-00412","ZX-19-00977"],"warranty":true},` +
		`"answers":{"symptoms":{"action":"accept","content":{"firstSeen":"2026-10-30","frequency":"several times a shift","errorCode":"E-214","blinking":true,"paper":"thermal, 62 mm"}},` +
		`"setup":{"action":"accept","content":{"connection":"ethernet","firewall":"managed by head office","driver":"7.2.1","os":"Windows 11","usersAffected":14,"sharedQueue":false}},` +
		`"visit":{"action":"accept","content":{"site":"Gdynia warehouse 3","contact":"t.wilk@example.net","phone":"+48 58 555 01 44","badge":"needed at gate B","earliest":"07:30","forklift":false}},` +
		`"diagnosis":{"role":"assistant","content":{"type":"text","text":"The blinking pattern together with E-214 points to the cutter sensor rather than to the print head. ` +
		`Both units come from the same batch, whose felt strip is known to shed fibres after roughly forty thousand labels. ` +
		`Ask the crew to open the lid, blow out the slot beside the blade, and run the self test three times in a row. ` +
		`If the counter still jumps, swap the sensor board; it is held by two screws and needs no calibration. ` +
		`Updating the driver will not help here, since the fault is raised by the device itself. ` +
		`A technician could cover both printers in under an hour, so one visit is cheaper than shipping them back."},"model":"qwen3-32b","stopReason":"endTurn"}},` +
		`"parts":[{"number":"SB-0088","stock":6,"bin":"C14"},{"number":"FELT-62","stock":0,"bin":"","reorder":"2026-12-04"}],"at":"dispatch","waiting":["signature","slot"]}`,
}

func TestHeldOutSizes(t *testing.T) {
	c := newCodec(t, newKeyset(t), codec.Options{Audience: "https://tools.example.com"})
	for name, state := range heldOut {
		require.True(t, json.Valid([]byte(state)))
		token := seal(t, c, alice, sample(state))
		for _, p := range peers[:4] {
			t.Logf("%s: state %d bytes (flate %.2f), token %d, %s %d: %.3f", name, len(state), float64(flated(state))/float64(len(state)),
				len(token), p.name, p.length(state), float64(len(token))/float64(p.length(state)))
			require.Less(t, len(token), p.length(state))
		}
	}
}
