package csi_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-project/gantry/internal/pod/usage"
)

// What a driver says of its volume is what the node reports; one that does not say is passed over,
// and one that does not answer is let rest.
func TestADriverSaysHowFullItsVolumeIs(t *testing.T) {
	r := newRig(t, csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS)
	r.driver.Stats = &csipb.NodeGetVolumeStatsResponse{Usage: []*csipb.VolumeUsage{
		{Unit: csipb.VolumeUsage_BYTES, Total: 100, Available: 60, Used: 40},
		{Unit: csipb.VolumeUsage_INODES, Total: 10, Available: 7, Used: 3},
		{Unit: csipb.VolumeUsage_UNKNOWN, Total: 1}}}
	m := r.mount(claiming("a"))
	got, says, err := r.drivers.VolumeStats(t.Context(), m.Driver, m.Path)
	if want := (usage.Disk{Capacity: 100, Available: 60, Used: 40, Inodes: 10, InodesFree: 7}); got != want || !says ||
		err != nil {
		t.Errorf("got %+v, %t, %v, want %+v", got, says, err, want)
	}
	asked := r.driver.Request("NodeGetVolumeStats").(*csipb.NodeGetVolumeStatsRequest)
	if asked.GetVolumePath() != m.Path || asked.GetVolumeId() != handle ||
		!strings.HasSuffix(asked.GetStagingTargetPath(), "/globalmount") {
		t.Errorf("the driver was asked about %v, want the volume at %s", asked, m.Path)
	}
	r.driver.Stats.Usage[0].Available = -1
	if got, _, _ := r.drivers.VolumeStats(t.Context(), m.Driver, m.Path); got.Available != 0 {
		t.Errorf("a number below zero is %d, want 0", got.Available)
	}
	until := make(chan struct{})
	defer close(until)
	r.driver.Hang("NodeGetVolumeStats", until)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, want := range []string{"context canceled", "it is asked again"} {
		if _, _, err := r.drivers.VolumeStats(gone, m.Driver, m.Path); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("a driver that does not answer: %v, want %q", err, want)
		}
	}
	m.Driver.Name = "other.example.com"
	if _, _, err := r.drivers.VolumeStats(t.Context(), m.Driver, m.Path); err == nil ||
		!strings.Contains(err.Error(), "not found in the list of registered CSI drivers") {
		t.Errorf("a driver that is gone: %v", err)
	}
}

// Each call of a driver is told with its name, its full method, its code and how long it took.
//
// row: OPS-11
func TestCallsOfDriversAreReported(t *testing.T) {
	r := newRig(t, csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS)
	var calls []string
	r.drivers.Called = func(driver, method string, err error, took time.Duration) {
		if took <= 0 {
			t.Errorf("%s took %s", method, took)
		}
		calls = append(calls, driver+" "+method+" "+status.Code(err).String())
	}
	m := r.mount(claiming("a"))
	r.driver.Fail("NodeGetVolumeStats", status.Error(codes.NotFound, "gone"))
	if _, _, err := r.drivers.VolumeStats(t.Context(), m.Driver, m.Path); err == nil {
		t.Error("got no error of a call that fails")
	}
	for _, want := range []string{m.Driver.Name + " /csi.v1.Node/NodePublishVolume OK",
		m.Driver.Name + " /csi.v1.Node/NodeGetVolumeStats NotFound"} {
		if !slices.Contains(calls, want) {
			t.Errorf("got calls %q, want one of them to be %q", calls, want)
		}
	}
}

func TestADriverWithoutStatsIsNotAsked(t *testing.T) {
	r := newRig(t)
	m := r.mount(claiming("a"))
	if _, says, err := r.drivers.VolumeStats(t.Context(), m.Driver, m.Path); says || err != nil {
		t.Errorf("got %t, %v, want that it does not say", says, err)
	}
	if r.driver.Request("NodeGetVolumeStats") != nil {
		t.Error("the driver was asked for what it does not serve")
	}
}
