package prober_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/probe"
	probehttp "github.com/gantry-project/gantry/internal/kubelet/probe/http"
	"github.com/gantry-project/gantry/internal/kubelet/prober"
)

// lateProber notes how much later than its period each question comes.
type lateProber struct {
	probehttp.Prober
	mu   sync.Mutex
	last map[types.UID]time.Time
	by   []time.Duration
	bad  int
}

func (l *lateProber) Probe(ctx context.Context, t probe.Target) probe.Outcome {
	now := time.Now()
	l.mu.Lock()
	if at, ok := l.last[t.Pod.UID]; ok {
		l.by = append(l.by, now.Sub(at)-time.Second)
	}
	l.last[t.Pod.UID] = now
	l.mu.Unlock()
	o := l.Prober.Probe(ctx, t)
	if o.Result != probe.Success {
		l.mu.Lock()
		l.bad++
		l.mu.Unlock()
	}
	return o
}

func (*lateProber) Event(runtime.Object, string, string, string) {}

// BenchmarkThousandProbes asks a thousand containers over HTTP once a second and reports how late
// the questions come.
func BenchmarkThousandProbes(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	u, err := url.Parse(server.URL)
	if err != nil {
		b.Fatal(err)
	}
	port, _ := strconv.Atoi(u.Port())
	for b.Loop() {
		l := &lateProber{last: map[types.UID]time.Time{}}
		a := prober.New(prober.Deps{Probers: prober.Probers{HTTP: l}, Recorder: l, Journal: journal.Discard{},
			Changed: func(types.UID) {}})
		for i := range 1000 {
			p := pod(v1.Container{ReadinessProbe: &v1.Probe{PeriodSeconds: 1,
				ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt(port)}}}})
			p.UID = types.UID(fmt.Sprint(i))
			a.SyncPod(p, u.Hostname(),
				[]prober.Running{{Name: "c", ID: "1", StartedAt: time.Now().Add(time.Duration(i) * time.Millisecond)}},
				prober.NotEnding)
		}
		time.Sleep(5 * time.Second)
		for i := range 1000 {
			a.Forget(types.UID(fmt.Sprint(i)))
		}
		l.mu.Lock()
		slices.SortFunc(l.by, cmp.Compare)
		b.ReportMetric(float64(l.by[len(l.by)/2].Microseconds())/1000, "p50-late-ms")
		b.ReportMetric(float64(l.by[len(l.by)*99/100].Microseconds())/1000, "p99-late-ms")
		b.ReportMetric(float64(len(l.by)+1000)/5, "probes/s")
		b.ReportMetric(float64(l.bad), "failed")
		l.mu.Unlock()
	}
}
