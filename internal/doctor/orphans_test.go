package doctor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gantry-project/gantry/internal/doctor"
)

// The audit's result is reported with its numbers; leftovers need a remedy, and a missing audit is
// reported too.
func TestOrphansAreReported(t *testing.T) {
	at := fmt.Sprintf(
		"# TYPE gantry_apiserver_orphan_audit_timestamp_seconds "+
			"gauge\ngantry_apiserver_orphan_audit_timestamp_seconds %d\n", now.Add(-time.Hour).Unix())
	group := "# TYPE gantry_apiserver_orphaned_objects " +
		"gauge\ngantry_apiserver_orphaned_objects{namespace=\"a\",outcome=%q,resource=\"secrets\"} 2\n"
	for name, c := range map[string]struct {
		metrics string
		level   doctor.Level
		text    string
	}{
		"none": {at, doctor.OK, "none in the store"},
		"removed": {at + fmt.Sprintf(group, "removed"), doctor.Note,
			"2 lay in a namespace that does not exist; the audit of 2026-03-01 11:00:00 removed them"},
		"held": {at + fmt.Sprintf(group, "held"), doctor.Warning,
			"2 lie in a namespace that does not exist, and something holds them"},
		"failed": {at + fmt.Sprintf(group, "failed"), doctor.Problem, "cannot be deleted"},
		"not yet": {
			"# TYPE gantry_apiserver_orphan_audit_timestamp_seconds " +
				"gauge\ngantry_apiserver_orphan_audit_timestamp_seconds 0\n", doctor.Warning, "has not checked"},
		"long past": {strings.ReplaceAll(at, fmt.Sprint(now.Add(-time.Hour).Unix()),
			fmt.Sprint(now.Add(-26*time.Hour).Unix())), doctor.Warning, "has not checked"},
	} {
		var got []doctor.Finding
		for _, f := range doctor.Examine(doctor.Facts{Now: now,
			Orphans: doctor.ReadOrphans(strings.NewReader(c.metrics))}) {
			if f.Check == "orphans" {
				got = append(got, f)
			}
		}
		if len(got) != 1 || got[0].Level != c.level || !strings.Contains(got[0].Text, c.text) ||
			(got[0].Level > doctor.Note) != (got[0].Fix != "") {
			t.Errorf("%s: got %+v, want one of level %v, text with %q, and a fix from warnings on", name, got, c.level,
				c.text)
		}
	}
	if o := doctor.ReadOrphans(strings.NewReader("# TYPE apiserver_up gauge\napiserver_up 1\n")); o != nil {
		t.Errorf("another API server: %+v, want nil", o)
	}
}
