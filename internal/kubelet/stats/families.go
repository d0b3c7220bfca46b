package stats

import (
	"context"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"k8s.io/klog/v2"
)

// kinds of metrics.
const (
	counter = dto.MetricType_COUNTER
	gauge   = dto.MetricType_GAUGE
)

// labels are name and value in turn.
type labels []string

// point is one value of a family.
type point struct {
	labels labels
	value  float64
	at     time.Time // zero: no time stamp
}

// family makes the metric family; nil when it has no points.
func family(name, help string, kind dto.MetricType, points []point) *dto.MetricFamily {
	if len(points) == 0 {
		return nil
	}
	f := &dto.MetricFamily{Name: &name, Help: &help, Type: &kind}
	for _, p := range points {
		m := &dto.Metric{}
		for i := 0; i+1 < len(p.labels); i += 2 {
			m.Label = append(m.Label, &dto.LabelPair{Name: &p.labels[i], Value: &p.labels[i+1]})
		}
		if v := p.value; kind == counter {
			m.Counter = &dto.Counter{Value: &v}
		} else {
			m.Gauge = &dto.Gauge{Value: &v}
		}
		if !p.at.IsZero() {
			ms := p.at.UnixMilli()
			m.TimestampMs = &ms
		}
		f.Metric = append(f.Metric, m)
	}
	return f
}

// Handler serves what render makes of a snapshot, in the format the client asks for. When nothing
// can be measured, render gets nil.
func Handler(take func(context.Context) (*Snapshot, error), render func(*Snapshot) []*dto.MetricFamily) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, err := take(r.Context())
		if err != nil {
			klog.FromContext(r.Context()).Error(err, "Cannot measure the node", "path", r.URL.Path)
			s = nil
		}
		format := expfmt.Negotiate(r.Header)
		w.Header().Set("Content-Type", string(format))
		enc := expfmt.NewEncoder(w, format)
		for _, f := range render(s) {
			if f == nil {
				continue
			}
			if err := enc.Encode(f); err != nil {
				return // the client went away
			}
		}
		if c, ok := enc.(expfmt.Closer); ok {
			_ = c.Close()
		}
	})
}

func seconds[T uint64 | int64](nanos T) float64 { return float64(nanos) / float64(time.Second) }

func unix(t time.Time) float64 { return float64(t.UnixNano()) / float64(time.Second) }
