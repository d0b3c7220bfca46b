package dra

import (
	"fmt"
	"testing"
	"time"
)

// TestHealthIsBounded: a driver that names other devices in each report, each to be kept for years,
// fills no memory, and what it reported last is known.
func TestHealthIsBounded(t *testing.T) {
	h, now := Health{}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	last := DeviceID{}
	for round := range 4 {
		report := map[DeviceID]DeviceHealth{}
		for i := range MaxDevicesPerDriver - 1 {
			last = DeviceID{"d", "pool", fmt.Sprintf("%d-%d", round, i)}
			report[last] = DeviceHealth{Status: "Healthy", At: now, Timeout: 1000 * time.Hour}
		}
		h.Update("d", report, now)
	}
	if len(h) > MaxDevicesPerDriver || h[last].Status != "Healthy" {
		t.Errorf("got %d devices kept and %+v of the last, want %d at most and the last report", len(h), h[last],
			MaxDevicesPerDriver)
	}
}
