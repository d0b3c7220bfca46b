package metrics_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/metrics"
)

// Created 3 s before it came, images pulled for 4 s and 4 s with a second of both, an init
// container of 5 s, reported 1 s after it ran. A static Pod is not measured, and a Pod is measured
// once.
//
// row: OPS-11
func TestStartTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New()
		log := m.Sink(journal.Discard{})
		pod := journal.Ref{Namespace: "a", Name: "p", UID: "1"}
		after := func(s int, f journal.Fact) {
			time.Sleep(time.Duration(s) * time.Second)
			log.Put(pod, f)
		}
		created := time.Now()
		after(3, journal.Accepted{Source: "api", Created: created})
		after(0, journal.Pulling{Image: "a"})
		after(3, journal.Pulling{Image: "b"})
		after(1, journal.Pulled{Image: "a"})
		after(3, journal.Pulled{Image: "b"})
		after(0, journal.Pulled{Image: "c", Present: true})
		after(1, journal.ContainerStarted{Container: "init", Init: true})
		after(5, journal.ContainerExited{Container: "init"})
		after(0, journal.ContainerStarted{Container: "sidecar", Init: true})
		after(1, journal.StatusWritten{}) // of something else
		after(1, journal.ContainerStarted{Container: "app"})
		after(0, journal.PhaseChanged{Phase: "Running"})
		after(1, journal.StatusWritten{})
		after(9, journal.ContainerExited{Container: "app"})
		after(0, journal.PhaseChanged{Phase: "Running"})
		after(1, journal.StatusWritten{})
		pod.UID = "2"
		after(1, journal.Accepted{Source: "file"})
		after(1, journal.PhaseChanged{Phase: "Running"})
		after(1, journal.StatusWritten{})
		text := scrape(t, m.Handler())
		for _, line := range []string{
			"kubelet_pod_start_sli_duration_seconds_sum 7", "kubelet_pod_start_sli_duration_seconds_count 1",
			"kubelet_pod_start_total_duration_seconds_sum 19", "kubelet_pod_start_total_duration_seconds_count 1",
		} {
			if !strings.Contains(text, "\n"+line+"\n") {
				t.Errorf("missing: %s\n%s", line, text[strings.Index(text, "# HELP kubelet_pod_start"):][:1000])
			}
		}
	})
}
