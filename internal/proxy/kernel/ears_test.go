package kernel

import (
	"errors"
	"testing"

	"github.com/gantry-project/gantry/internal/proxy/kernel/wire"
)

// A table that is not listened to any more says so, and may have been touched.
func TestATableSaysWhetherItHears(t *testing.T) {
	k := &Table{}
	if open, err := k.Hears(); open || err != nil {
		t.Errorf("before: %v, %v", open, err)
	}
	k.ears.set(true)
	k.ears.take(wire.Heard{Chains: []string{"c"}})
	if open, err := k.Hears(); !open || err != nil || !k.Touched() || k.Touched() {
		t.Errorf("while it hears: %v, %v", open, err)
	}
	why := errors.New("the socket is gone")
	k.ears.take(wire.Heard{Lost: true, Ended: why})
	if open, err := k.Hears(); open || !errors.Is(err, why) || !k.Touched() {
		t.Errorf("after the end: %v, %v", open, err)
	}
}
