package proxy

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes/fake"
)

// TestResyncSyncsEveryService: with ResyncPeriod (configSyncPeriod) all Services are synced,
// whether or not they changed.
func TestResyncSyncsEveryService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p, err := New(Options{Client: fake.NewClientset(), Node: "n", Tables: []Table{{}}, ResyncPeriod: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.watch(ctx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		p.changes.takePending()
		for _, want := range []bool{false, true, false, true} {
			time.Sleep(31 * time.Minute)
			synctest.Wait()
			if _, all := p.changes.takePending(); all != want {
				t.Errorf("everything is to be looked at: %t, want %t", all, want)
			}
		}
		cancel()
		synctest.Wait()
	})
}
