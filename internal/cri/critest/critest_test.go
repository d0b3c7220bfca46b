package critest_test

import (
	"testing"

	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/internal/cri/critest"
)

const image = "registry.example/busybox:1.37"

func dialFake(t testing.TB) critest.Target {
	f, err := crifake.Start(crifake.Options{Dir: t.TempDir(), Images: []crifake.Image{{Names: []string{image}}},
		Registry: []crifake.Image{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	c, err := cri.Dial(t.Context(), cri.Options{Endpoint: f.Endpoint()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return critest.Target{Runtime: c.Runtime(), Images: c.Images(), Events: c.Events, Image: image, Dir: t.TempDir()}
}

func TestFake(t *testing.T) { critest.Run(t, dialFake) }

// A runtime of one's own: GANTRY_CRI_ENDPOINT=unix:///run/crio/crio.sock GANTRY_CRI_IMAGE=… go test
// ./internal/cri/critest
func TestReal(t *testing.T) { critest.Run(t, critest.FromEnv) }
