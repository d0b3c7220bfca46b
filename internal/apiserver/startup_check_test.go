package apiserver

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A step that cannot succeed costs next to nothing, and readiness says why it fails.
func TestAFailingStepOfTheStartIsTriedLessAndLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		step := &startupCheck{name: "first-objects"}
		if err := step.Check(nil); err == nil {
			t.Error("ready before the first try")
		}
		tries, broken := 0, true
		go step.run(ctx, func() error {
			tries++
			if broken {
				return errors.New("no room in the range")
			}
			return nil
		})
		time.Sleep(time.Second)
		if tries < 10 {
			t.Errorf("%d tries in the first second: too slow for caches that fill", tries)
		}
		time.Sleep(10 * time.Minute)
		if tries > 350 {
			t.Errorf("%d tries in ten minutes", tries)
		}
		if err := step.Check(nil); err == nil || !strings.Contains(err.Error(), "no room in the range") {
			t.Errorf("readiness says %v", err)
		}
		broken = false
		time.Sleep(3 * time.Second)
		if err := step.Check(nil); err != nil {
			t.Error(err)
		}
	})
}
