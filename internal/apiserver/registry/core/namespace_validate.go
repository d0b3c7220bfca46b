package core

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateFinalizers validates the names in spec.finalizers: qualified, and with a domain unless it
// is the standard one. On finalize the path names the entry; at creation it names the list.
func validateFinalizers(ns *v1.Namespace, indexed bool) field.ErrorList {
	var errs field.ErrorList
	base := field.NewPath("spec", "finalizers")
	for i, f := range ns.Spec.Finalizers {
		path, name := base, string(f)
		if indexed {
			path = base.Index(i)
		}
		for _, msg := range validation.IsQualifiedName(name) {
			errs = append(errs, field.Invalid(path, name, msg))
		}
		if !strings.Contains(name, "/") && f != v1.FinalizerKubernetes {
			errs = append(errs,
				field.Invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}

// validatePhase keeps phase and deletion telling the same.
func validatePhase(ns *v1.Namespace) field.ErrorList {
	phase := field.NewPath("status", "Phase")
	switch {
	case ns.DeletionTimestamp.IsZero() && ns.Status.Phase != v1.NamespaceActive:
		return field.ErrorList{field.Invalid(phase, ns.Status.Phase,
			"may only be 'Active' if `deletionTimestamp` is empty")}
	case !ns.DeletionTimestamp.IsZero() && ns.Status.Phase != v1.NamespaceTerminating:
		return field.ErrorList{field.Invalid(phase, ns.Status.Phase,
			"may only be 'Terminating' if `deletionTimestamp` is not empty")}
	}
	return nil
}
