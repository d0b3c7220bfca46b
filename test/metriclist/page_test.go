package metriclist

import (
	"bytes"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

const pagePath = "../../docs/user/metrics.md"

// TestMetricsPage compares docs/user/metrics.md with the lists and notes.
func TestMetricsPage(t *testing.T) {
	got, err := page()
	if err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		if err := os.WriteFile(pagePath, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(pagePath)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got other metrics than docs/user/metrics.md has: run `make stories` and commit what it writes")
	}
}

// TestTypesAreKnown checks that every family of the lists has a type, and that those with
// upstream's sources say what they mean.
func TestTypesAreKnown(t *testing.T) {
	for _, list := range []string{
		"apiserver", "controllers", "dns", "kubelet", "kubelet-cadvisor", "kubelet-resource", "network", "proxy",
		"scheduler",
	} {
		families, err := readList(listPath(list))
		if err != nil {
			t.Fatal(err)
		}
		if len(families) == 0 {
			t.Errorf("got no families of %s, want some", list)
		}
		for _, f := range families {
			if f.Type == "" || f.Type == "untyped" || strings.TrimSpace(f.Help) == "" {
				t.Errorf("%s of %s: got type %q and help %q, want both", f.Name, list, f.Type, f.Help)
			}
		}
	}
}

// TestEveryAbsenceHasAReason checks that the page gives a reason for each family of upstream's
// component that is not served, and that it calls none absent that is.
func TestEveryAbsenceHasAReason(t *testing.T) {
	upstream := map[string]string{
		"apiserver": "apiserver", "kubelet": "kubelet/metrics", "proxy": "proxy", "scheduler": "scheduler",
		"controllers": "control",
	}
	all, err := readNotes()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range all {
		for _, list := range n.Lists {
			served, err := readList(listPath(list))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range served {
				if named(n.Absent, f.Name) && !named(n.Differs, f.Name) {
					t.Errorf("%s of %s is served, and notes.yaml calls it absent", f.Name, n.Component)
				}
			}
		}
		dir, ok := upstream[n.Component]
		if !ok {
			continue
		}
		raw, err := os.ReadFile("../../internal/" + dir + "/testdata/metrics-v1.37.2.txt")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(raw)) {
			f := strings.Fields(line)
			if f[0] == "-" && !named(n.Absent, f[2]) && !named(n.Differs, f[2]) {
				t.Errorf("%s of %s is not served: give a reason in notes.yaml", f[2], n.Component)
			}
		}
	}
}

// named reports whether one of the remarks names the family.
func named(all []remark, family string) bool {
	return slices.ContainsFunc(all, func(r remark) bool {
		return slices.ContainsFunc(r.Names, func(pattern string) bool {
			ok, err := path.Match(pattern, family)
			return ok && err == nil
		})
	})
}
