package main

import (
	"strings"
	"testing"
	"time"
)

func TestPageCountsGroupsAndNamesWhatDidNotPass(t *testing.T) {
	specs := []spec{
		{Name: "[sig-node] Pods run [Conformance]", State: "passed"},
		{Name: "[sig-node] Pods end [Conformance]", State: "failed"},
		{Name: "[sig-api-machinery] Namespaces go [Conformance]", State: "passed"},
		{Name: "[sig-apps] Jobs are skipped [Conformance]", State: "skipped"},
	}
	got := page(about{Commit: "0123456789ab", Version: "v1.37.2", Date: time.Date(2026, 11, 24, 1, 0, 0, 0, time.UTC),
		Certified: 4}, specs)
	for _, want := range []string{
		"at commit 0123456789ab, on 2026-11-24, against the 4 tests that Kubernetes v1.37.2\ncertifies with",
		"| api-machinery | 1 | 0 | 1 |\n| apps | 0 | 1 | 1 |\n| node | 1 | 1 | 2 |\n| all | 2 | 2 | 4 |\n",
		"- [sig-apps] Jobs are skipped [Conformance] (skipped)\n- [sig-node] Pods end [Conformance] (failed)\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(page(about{}, specs[:1]), "Not passed") {
		t.Error("a page on which all passed names failures")
	}
}

func TestOutcomesAreThoseOfTestsThatRan(t *testing.T) {
	specs, err := outcomes(strings.NewReader(`[{"SpecReports": [
		{"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeText": "run",
			"State": "passed", "NumAttempts": 1},
		{"LeafNodeType": "It", "ContainerHierarchyTexts": [], "LeafNodeText": "filtered",
			"State": "skipped", "NumAttempts": 0},
		{"LeafNodeType": "SynchronizedBeforeSuite", "State": "passed"}]}]`))
	if err != nil || len(specs) != 1 || specs[0].Name != "[sig-node] Pods run" {
		t.Errorf(`got %+v %v, want no error, 1 in specs and Name "[sig-node] Pods run"`, specs, err)
	}
	if _, err := outcomes(
		strings.NewReader(
			`[{"SpecReports": [{"LeafNodeType": "SynchronizedBeforeSuite", "State": "failed", "Failure": {"Message": ` +
				`"no node"}}]}]`)); err == nil {
		t.Error("a suite that could not begin is no error")
	}
}

func TestVerdict(t *testing.T) {
	pass, fail := spec{State: "passed"}, spec{State: "failed"}
	for _, c := range []struct {
		all   []spec
		whole bool
		good  bool
	}{{[]spec{pass, pass}, true, true}, {[]spec{pass}, false, true}, {[]spec{pass}, true, false}, {nil, false, false},
		{[]spec{pass, fail}, true, false}} {
		if err := suiteError(c.all, 2, c.whole); (err == nil) != c.good {
			t.Errorf("%+v: got error %v, want it passed: %t", c, err, c.good)
		}
	}
}
