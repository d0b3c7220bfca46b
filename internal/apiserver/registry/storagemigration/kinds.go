// Package storagemigration holds the row of storagemigration.k8s.io/v1: StorageVersionMigration
// (KEP-4192).
//
// Upgrade does what a migration asks for. In: who is told of a new migration. Out: a row for
// apiserver.Kinds, with v1.37's checks and columns.
package storagemigration

import (
	"context"
	"strings"

	migrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// Kinds are the rows of this package. made is called after a migration was stored.
func Kinds(made func()) []resourcedef.Kind {
	k := resourcedef.Kind{
		Group: migrationv1.GroupName, Version: "v1", Resource: "storageversionmigrations",
		Singular: "storageversionmigration", Kind: "StorageVersionMigration",
		Types: typed.NewTypes[migrationv1.StorageVersionMigration, migrationv1.StorageVersionMigrationList](),
		Rules: typed.Rules[migrationv1.StorageVersionMigration]{Validate: check, ValidateStatus: checkStatus}.Untyped(),
		Table: resourcedef.Table{
			Columns: []metav1.TableColumnDefinition{
				printers.StringColumn("Name", metav1.ObjectMeta{}.SwaggerDoc()["name"]),
				printers.StringColumn("Resource", "GroupResource to migrate"),
				printers.StringColumn("Status", "Status of the migration"),
			},
			Row: typed.RowFunc(func(m *migrationv1.StorageVersionMigration, _ resourcedef.RowOptions) []any {
				return []any{m.Name, m.Spec.Resource.String(), progress(m)}
			}),
		},
	}
	k.Types.HasStatus, k.Types.NoGenerate = true, true
	k.Types.StatusResetFields = []string{"metadata"}
	k.Rules.BeginCreate = func(_ context.Context, _ runtime.Object, dryRun bool) (func(bool), error) {
		return func(ok bool) {
			if ok && !dryRun {
				made()
			}
		}, nil
	}
	return []resourcedef.Kind{k}
}

func check(m, previous *migrationv1.StorageVersionMigration) field.ErrorList {
	var f typed.Errors
	at, r := field.NewPath("spec", "resource"), m.Spec.Resource
	if r.Resource == "" {
		f.Required(at.Child("resource"), "resource is required to be set")
	} else if bad := validation.IsDNS1035Label(r.Resource); len(bad) > 0 {
		f.Invalid(at.Child("resource"), r.Resource, strings.Join(bad, ","))
	}
	if r.Group != "" {
		if bad := validation.IsDNS1123Subdomain(r.Group); len(bad) > 0 {
			f.Invalid(at.Child("group"), r.Group, strings.Join(bad, ","))
		}
	}
	if previous != nil {
		f.Immutable(field.NewPath("spec"), m.Spec, previous.Spec)
	}
	return f.List()
}

func checkStatus(m, previous *migrationv1.StorageVersionMigration) field.ErrorList {
	var f typed.Errors
	status := field.NewPath("status")
	version, conditions := status.Child("resourceVersion"), status.Child("conditions")
	if v := m.Status.ResourceVersion; v != "" {
		if _, err := resourceversion.CompareResourceVersion(v, v); err != nil {
			f.Invalid(version, v, err.Error())
		}
	}
	f.Add(metavalidation.ValidateConditions(m.Status.Conditions, conditions)...)
	if previous.Status.ResourceVersion != "" && previous.Status.ResourceVersion != m.Status.ResourceVersion {
		f.Invalid(version, m.Status.ResourceVersion, "field is immutable")
	}
	is := func(t migrationv1.MigrationConditionType) bool {
		return meta.IsStatusConditionTrue(m.Status.Conditions, string(t))
	}
	ran, done, failed := is(migrationv1.MigrationRunning), is(migrationv1.MigrationSucceeded),
		is(migrationv1.MigrationFailed)
	for _, rule := range []struct {
		broken bool
		text   string
	}{
		{done && failed, "Both success and failed conditions cannot be true at the same time"},
		{done && ran, "Running condition cannot be true when success condition is true"},
		{failed && ran, "Running condition cannot be true when failed condition is true"},
		{!done && meta.IsStatusConditionTrue(previous.Status.Conditions, string(migrationv1.MigrationSucceeded)),
			"Success condition cannot be set to false once it is true"},
		{!failed && meta.IsStatusConditionTrue(previous.Status.Conditions, string(migrationv1.MigrationFailed)),
			"Failed condition cannot be set to false once it is true"},
	} {
		if rule.broken {
			f.Invalid(conditions, m.Status.Conditions, rule.text)
		}
	}
	return f.List()
}

// progress is the condition that a migration is in.
func progress(m *migrationv1.StorageVersionMigration) string {
	out := "Unknown"
	for _, c := range m.Status.Conditions {
		switch t := migrationv1.MigrationConditionType(c.Type); {
		case c.Status != metav1.ConditionTrue:
		case t == migrationv1.MigrationRunning, t == migrationv1.MigrationFailed, t == migrationv1.MigrationSucceeded:
			out = c.Type
		}
	}
	return out
}
