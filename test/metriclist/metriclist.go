// Package metriclist keeps the list of metrics that each component serves: name, type, labels and
// help, one line each in testdata/COMPONENT.txt. A test of the component reads its registry and
// compares; docs/user/metrics.md is rendered from the lists.
//
// In: a component's registries, or families it has gathered. Out: errors of the test that calls, or
// with -rewrite the list. To add a component: a test that calls Check, and a row in components
// (page.go).
package metriclist

import (
	"cmp"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the lists of metrics and docs/user/metrics.md")

// Family is one metric family as /metrics shows it. Labels are sorted.
type Family struct {
	Name, Type, Help string
	Labels           []string
}

// line is the family in a list. Fields are parted by tabs.
func (f Family) line() string {
	help := strings.Join(strings.Fields(f.Help), " ")
	return strings.Join([]string{f.Name, f.Type, strings.Join(f.Labels, ","), help}, "\t")
}

// described reads a description, which offers no other access to its name, help and labels.
var described = regexp.MustCompile(`fqName: "([^"]+)", help: "((?:[^"\\]|\\.)*)".*variableLabels: \{([^}]*)\}`)

// unquoted takes the quoting of a description's help away.
var unquoted = strings.NewReplacer(`\"`, `"`, `\n`, " ", `\t`, " ", `\\`, `\`)

// Registered lists every family that the collectors of a registry describe, with or without series.
// Collectors that describe nothing are left out: see Gathered.
func Registered(t *testing.T, r *prometheus.Registry) []Family {
	t.Helper()
	types := collectorTypes(r)
	descs := make(chan *prometheus.Desc)
	go func() { r.Describe(descs); close(descs) }()
	gathered := map[string]string{}
	for _, f := range Gathered(t, r) {
		gathered[f.Name] = f.Type
	}
	seen := map[string]bool{}
	var out []Family
	for d := range descs {
		m := described.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("got a description that cannot be read: %s", d)
		}
		f := Family{Name: m[1], Type: types[descID(d)], Help: unquoted.Replace(m[2])}
		if f.Type == "" {
			f.Type = cmp.Or(gathered[f.Name], typeByConvention(f.Name))
		}
		f.Labels = commaSeparated(strings.NewReplacer("c(", "", ")", "").Replace(m[3]))
		slices.Sort(f.Labels)
		if !seen[f.Name] {
			seen[f.Name] = true
			out = append(out, f)
		}
	}
	return out
}

// descID is the identity of a description, by which a registry knows the collector of a single
// family.
func descID(d *prometheus.Desc) uint64 { return reflect.ValueOf(d).Elem().FieldByName("id").Uint() }

// collectorTypes are the types of the families of collectors that have one each, by the identity of
// their description.
func collectorTypes(r *prometheus.Registry) map[uint64]string {
	out := map[uint64]string{}
	for all := reflect.ValueOf(r).Elem().FieldByName("collectorsByID").MapRange(); all.Next(); {
		if kind := typeByName(all.Value().Elem().Type().String()); kind != "" {
			out[all.Key().Uint()] = kind
		}
	}
	return out
}

// typeByName returns the type of a collector from the name of its Go type; what observes is a
// histogram.
func typeByName(name string) string {
	name = strings.ToLower(name)
	for _, kind := range []string{"counter", "gauge", "histogram", "summary"} {
		if strings.Contains(name, kind) {
			return kind
		}
	}
	if strings.Contains(name, "observer") {
		return "histogram"
	}
	return ""
}

// typeByConvention returns the type from the name of a family whose collector has several.
func typeByConvention(family string) string {
	switch {
	case strings.HasSuffix(family, "_total"):
		return "counter"
	case strings.HasSuffix(family, "_info"):
		return "gauge"
	}
	return "untyped"
}

// Gathered lists the families that have series now, with the labels of their first series.
func Gathered(t *testing.T, g prometheus.Gatherer) []Family {
	t.Helper()
	all, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return Of(all)
}

// Of lists families that were gathered; nil ones are left out.
func Of(all []*dto.MetricFamily) []Family {
	var out []Family
	for _, f := range all {
		if f == nil {
			continue
		}
		one := Family{Name: f.GetName(), Type: strings.ToLower(f.GetType().String()), Help: f.GetHelp()}
		if len(f.GetMetric()) > 0 {
			for _, l := range f.GetMetric()[0].GetLabel() {
				one.Labels = append(one.Labels, l.GetName())
			}
		}
		slices.Sort(one.Labels)
		out = append(out, one)
	}
	return out
}

// Named keeps the families whose names begin with one of prefixes.
func Named(all []Family, prefixes ...string) []Family {
	return slices.DeleteFunc(all, func(f Family) bool {
		return !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(f.Name, p) })
	})
}

func commaSeparated(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' })
}

// Check compares the families of a component with its list. Families of the Go runtime and of the
// process are left out: they are the same everywhere and depend on the version of Go. Other tests
// of the same process may have registered more in a registry that they share: a family that the
// list does not have is an error only where exact.
func Check(t *testing.T, component string, exact bool, families ...[]Family) {
	t.Helper()
	have := map[string]string{}
	for _, f := range slices.Concat(families...) {
		if !strings.HasPrefix(f.Name, "go_") && !strings.HasPrefix(f.Name, "process_") && have[f.Name] == "" {
			have[f.Name] = f.line()
		}
	}
	path := listPath(component)
	if *rewrite {
		lines := make([]string, 0, len(have))
		for _, l := range have {
			lines = append(lines, l)
		}
		slices.Sort(lines)
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	list, err := readList(path)
	if err != nil {
		t.Fatal(err)
	}
	const fix = "run `make stories` and commit what it writes"
	for _, want := range list {
		if got := have[want.Name]; got != want.line() {
			t.Errorf("got metric %q, want %q as in %s: %s", got, want.line(), path, fix)
		}
		delete(have, want.Name)
	}
	for _, got := range have {
		if exact {
			t.Errorf("got metric %q, want it in %s: %s", got, path, fix)
		}
	}
}

func listPath(component string) string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "testdata", component+".txt")
}

func readList(path string) ([]Family, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []Family
	for l := range strings.Lines(string(raw)) {
		f := strings.Split(strings.TrimSuffix(l, "\n"), "\t")
		if len(f) != 4 {
			continue
		}
		out = append(out, Family{Name: f[0], Type: f[1], Help: f[3], Labels: commaSeparated(f[2])})
	}
	return out, nil
}
