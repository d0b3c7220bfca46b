package storagemigration_test

import (
	"fmt"
	"strings"
	"testing"

	migrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/storagemigration"
)

func messages(errs field.ErrorList) string {
	var out []string
	for _, e := range errs {
		out = append(out, fmt.Sprintf("%s: %s", e.Field, e.ErrorBody()))
	}
	return strings.Join(out, "; ")
}

// migration is one with these conditions true, in this order; with - before its name it is false.
func migration(version string, conditions ...string) *migrationv1.StorageVersionMigration {
	m := &migrationv1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: "m"}}
	m.Spec.Resource.Resource = "secrets"
	m.Status.ResourceVersion = version
	for _, c := range conditions {
		status := metav1.ConditionTrue
		if strings.HasPrefix(c, "-") {
			status = metav1.ConditionFalse
		}
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: strings.TrimPrefix(c, "-"),
			Status: status,
			Reason: "R", LastTransitionTime: metav1.Now()})
	}
	return m
}

const (
	running, succeeded, failed = "Running", "Succeeded", "Failed"
	both                       = "Both success and failed conditions cannot be true at the same time"
	runsAndDone                = "Running condition cannot be true when success condition is true"
	runsAndFailed              = "Running condition cannot be true when failed condition is true"
	notDone                    = "Success condition cannot be set to false once it is true"
	notFailed                  = "Failed condition cannot be set to false once it is true"
)

// How a migration's status may go on (KEP-4192).
func TestStatus(t *testing.T) {
	k := storagemigration.Kinds(func() {})[0]
	for _, c := range []struct {
		was, is *migrationv1.StorageVersionMigration
		want    string
	}{
		{migration(""), migration("5", running), ""},
		{migration("5", running), migration("5", "-"+running, succeeded), ""},
		{migration("5", running), migration("5", failed), ""},
		{migration("5", succeeded), migration("5", succeeded), ""},
		{migration("5"), migration("6"), `status.resourceVersion: Invalid value: "6": field is immutable`},
		{migration("5"), migration(""), `status.resourceVersion: Invalid value: "": field is immutable`},
		{migration(""), migration("x"), "status.resourceVersion: Invalid value: \"x\": "},
		{migration(""), migration("", succeeded, failed), both},
		{migration(""), migration("", succeeded, running), runsAndDone},
		{migration(""), migration("", failed, running), runsAndFailed},
		{migration("", succeeded), migration("", "-"+succeeded), notDone},
		{migration("", failed), migration(""), notFailed},
		{migration("", failed), migration("", failed), ""},
		{migration(""), migration("", "bad type"), "status.conditions[0].type: Invalid value: \"bad type\": "},
	} {
		got := messages(k.Rules.ValidateStatus(t.Context(), c.is, c.was))
		ok := got == c.want
		switch c.want {
		case both, runsAndDone, runsAndFailed, notDone, notFailed:
			ok = strings.HasPrefix(got, "status.conditions: Invalid value: ") && strings.HasSuffix(got, c.want) &&
				strings.Count(got, "status.conditions") == 1
		default:
			ok = ok || c.want != "" && strings.HasSuffix(c.want, ": ") && strings.HasPrefix(got, c.want)
		}
		if !ok {
			t.Errorf("%+v after %+v: got %q, want %q", c.is.Status, c.was.Status, got, c.want)
		}
	}
}

// What a migration may ask for; that stays.
func TestSpec(t *testing.T) {
	k := storagemigration.Kinds(func() {})[0]
	of := func(group, resource string) *migrationv1.StorageVersionMigration {
		m := migration("")
		m.Spec.Resource = metav1.GroupResource{Group: group, Resource: resource}
		return m
	}
	for _, c := range []struct {
		m    *migrationv1.StorageVersionMigration
		want string
	}{
		{of("", "secrets"), ""}, {of("apps", "deployments"), ""},
		{of("", ""), "spec.resource.resource: Required value: resource is required to be set"},
		{of("", "Bad_Name"), `spec.resource.resource: Invalid value: "Bad_Name": a DNS-1035 label must consist of`},
		{of("Bad_Group", "x"), `spec.resource.group: Invalid value: "Bad_Group": a lowercase RFC 1123 subdomain must`},
	} {
		got := messages(k.Rules.Validate(t.Context(), c.m))
		if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%v: got %q, want %q", c.m.Spec, got, c.want)
		}
	}
	if got := messages(k.Rules.ValidateUpdate(t.Context(), of("", "pods"), of("", "secrets"))); !strings.HasPrefix(got,
		"spec: Invalid value: ") || !strings.HasSuffix(got, "field is immutable") {
		t.Errorf("another resource: got %q, want the spec immutable", got)
	}
	if got := messages(k.Rules.ValidateUpdate(t.Context(), of("", "pods"), of("", "pods"))); got != "" {
		t.Errorf("the same: got %q, want no error", got)
	}
}

// Who migrates hears of each migration that was stored, and of no other.
func TestNewMigrationsAreReported(t *testing.T) {
	for _, c := range []struct{ stored, dryRun bool }{{true, false}, {true, true}, {false, false}, {false, true}} {
		reported := 0
		k := storagemigration.Kinds(func() { reported++ })[0]
		finish, err := k.Rules.BeginCreate(t.Context(), migration(""), c.dryRun)
		if err != nil {
			t.Fatal(err)
		}
		finish(c.stored)
		if want := c.stored && !c.dryRun; (reported == 1) != want {
			t.Errorf("stored %v, dry run %v: reported %d times, want it reported %v", c.stored, c.dryRun, reported,
				want)
		}
	}
}

// The last of a migration's conditions that is true is shown.
func TestRows(t *testing.T) {
	k := storagemigration.Kinds(func() {})[0]
	for want, m := range map[string]*migrationv1.StorageVersionMigration{
		"[m secrets Unknown]": migration("", "-"+running, "Other"), "[m secrets Running]": migration("", running),
		"[m secrets Succeeded]": migration("", running, succeeded), "[m secrets Failed]": migration("", failed,
			"-"+succeeded),
	} {
		if got := fmt.Sprint(k.Table.Row(m, resourcedef.RowOptions{})); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
