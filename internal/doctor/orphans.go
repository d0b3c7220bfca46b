package doctor

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Orphans is the result of the API server's last audit for objects whose namespace does not exist.
type Orphans struct {
	Audited time.Time // zero: not finished yet
	Groups  []OrphanGroup
	Err     error
}

// OrphanGroup counts objects of one resource in one namespace with one outcome: removed, held,
// failed.
type OrphanGroup struct {
	Namespace, Resource, Outcome string
	Count                        int
}

// ReadOrphans parses an API server's /metrics; nil if the server has no such audit.
func ReadOrphans(text io.Reader) *Orphans {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return &Orphans{Err: fmt.Errorf("the API server's metrics: %w", err)}
	}
	at, ok := all["gantry_apiserver_orphan_audit_timestamp_seconds"]
	if !ok {
		return nil
	}
	out := &Orphans{}
	for _, m := range at.GetMetric() {
		if v := m.GetGauge().GetValue(); v > 0 {
			out.Audited = time.UnixMilli(int64(v * 1000))
		}
	}
	for _, m := range all["gantry_apiserver_orphaned_objects"].GetMetric() {
		out.Groups = append(out.Groups, OrphanGroup{label(m, "namespace"), label(m, "resource"), label(m, "outcome"),
			int(m.GetGauge().GetValue())})
	}
	slices.SortFunc(out.Groups, func(a, b OrphanGroup) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Resource, b.Resource),
			strings.Compare(a.Outcome, b.Outcome))
	})
	return out
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// auditOverdue is the age from which the audit, which runs daily, is overdue.
const auditOverdue = 25 * time.Hour

func orphans(f Facts) []Finding {
	o := f.Orphans
	switch {
	case o == nil:
		return nil
	case o.Err != nil:
		return []Finding{{Level: Note, Text: o.Err.Error()}}
	case o.Audited.IsZero(), f.Now.Sub(o.Audited) > auditOverdue:
		return []Finding{{
			Level: Warning,
			Text: "the API server has not checked its store for objects of namespaces that do not exist in the last " +
				"day",
			Fix: "its log says why (\"could not be checked\")",
		}}
	}
	var out []Finding
	for _, g := range o.Groups {
		about := fmt.Sprintf("%s in %s", g.Resource, g.Namespace)
		switch g.Outcome {
		case "removed":
			out = append(out,
				Finding{About: about, Level: Note,
					Text: fmt.Sprintf("%d lay in a namespace that does not exist; the audit of %s removed them",
						g.Count, o.Audited.UTC().Format(time.DateTime))})
		case "held":
			out = append(out, Finding{
				About: about, Level: Warning,
				Text: fmt.Sprintf("%d lie in a namespace that does not exist, and something holds them: who makes "+
					"the namespace again owns them", g.Count),
				Fix: fmt.Sprintf("`kubectl get %s -n %s -o yaml` shows finalizers and the grace period; the API "+
					"server's log names them", g.Resource, g.Namespace),
			})
		default:
			out = append(out, Finding{
				About: about, Level: Problem,
				Text: fmt.Sprintf("%d lie in a namespace that does not exist and cannot be deleted: who makes the "+
					"namespace again owns them", g.Count),
				Fix: "the API server's log says why their deletion is refused",
			})
		}
	}
	if out == nil {
		out = []Finding{{Text: "none in the store"}}
	}
	return out
}
