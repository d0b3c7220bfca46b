package reason_test

import (
	"encoding/json"
	"testing"

	"github.com/gantry-project/gantry/internal/reason"
)

// TestRenamedCodesAreStillRead: journals written before three codes were renamed give the new
// names; every other code, known or not, is read as it stands.
func TestRenamedCodesAreStillRead(t *testing.T) {
	for stored, want := range map[string]reason.Code{
		"PodMinded":            reason.AntiAffinity,
		"PodUnwelcome":         reason.ExistingAntiAffinity,
		"PodWanted":            reason.Affinity,
		"AntiAffinity":         reason.AntiAffinity,
		"ExistingAntiAffinity": reason.ExistingAntiAffinity,
		"Affinity":             reason.Affinity,
		"NoRoom":               reason.NoRoom,
		"OfALaterRelease":      "OfALaterRelease",
		"":                     "",
	} {
		var got struct{ Code reason.Code }
		if err := json.Unmarshal([]byte(`{"Code":"`+stored+`"}`), &got); err != nil {
			t.Errorf("reading code %q: got error %v, want none", stored, err)
		} else if got.Code != want {
			t.Errorf("reading code %q: got %q, want %q", stored, got.Code, want)
		}
		written, err := json.Marshal(got)
		if back := `{"Code":"` + string(want) + `"}`; err != nil || string(written) != back {
			t.Errorf("writing code %q: got %s (error %v), want %s", want, written, err, back)
		}
	}
}
