package registry

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// keepsAnyGenerateName lists, by group, the resources whose updates upstream accepts with any
// metadata.generateName. The updates of all others validate it as creates do.
var keepsAnyGenerateName = map[string][]string{
	"":                          {"events", "podtemplates", "replicationcontrollers", "resourcequotas", "services"},
	"apps":                      {"daemonsets", "deployments", "replicasets", "statefulsets"},
	"autoscaling":               {"horizontalpodautoscalers"},
	"batch":                     {"cronjobs", "jobs"},
	"certificates.k8s.io":       {"certificatesigningrequests", "podcertificaterequests"},
	"coordination.k8s.io":       {"leases"},
	"events.k8s.io":             {"events"},
	"networking.k8s.io":         {"networkpolicies", "servicecidrs"},
	"policy":                    {"poddisruptionbudgets"},
	"rbac.authorization.k8s.io": {"clusterrolebindings", "clusterroles", "rolebindings", "roles"},
	"resource.k8s.io":           {"deviceclasses", "devicetaintrules", "resourceslices"},
	"scheduling.k8s.io":         {"priorityclasses"},
	"storage.k8s.io":            {"csidrivers"},
}

// updatedGenerateName returns the errors about the generateName of an updated object.
func (s *strategy) updatedGenerateName(obj runtime.Object) field.ErrorList {
	if slices.Contains(keepsAnyGenerateName[s.kind.Group], s.kind.Resource) {
		return nil
	}
	return slices.DeleteFunc(s.validateMeta(obj), func(e *field.Error) bool {
		return e.Field != "metadata.generateName"
	})
}
