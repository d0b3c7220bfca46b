package pods

import (
	"fmt"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// containerStatuses validates what the kubelet tells of users and of devices.
func containerStatuses(p *v1.Pod, status *field.Path) field.ErrorList {
	var errs field.ErrorList
	lists := []struct {
		child string
		of    []v1.ContainerStatus
		spec  []v1.Container
	}{
		{"containerStatuses", p.Status.ContainerStatuses, p.Spec.Containers},
		{"initContainerStatuses", p.Status.InitContainerStatuses, p.Spec.InitContainers},
		{"ephemeralContainerStatuses", p.Status.EphemeralContainerStatuses, nil},
	}
	for _, l := range lists {
		for i := range l.of {
			errs = append(errs, statusUser(&l.of[i], p.Spec.OS, status.Child(l.child).Index(i))...)
		}
	}
	for _, l := range lists[:2] {
		for i := range l.of {
			errs = append(errs,
				statusDevices(&l.of[i], l.spec, status.Child(l.child).Index(i).Child("allocatedResourcesStatus"))...)
		}
	}
	last := lists[2]
	for i := range last.of {
		if len(last.of[i].AllocatedResourcesStatus) > 0 {
			errs = append(errs, field.Forbidden(status.Child(last.child).Index(i).Child("allocatedResourcesStatus"),
				"must not be specified in container status"))
		}
	}
	return errs
}

// statusUser wants user and groups to be numbers that a kernel can have; Windows has none.
func statusUser(s *v1.ContainerStatus, os *v1.PodOS, path *field.Path) field.ErrorList {
	if s.User == nil || s.User.Linux == nil {
		return nil
	}
	var errs field.ErrorList
	at, u := path.Child("user", "linux"), s.User.Linux
	if os != nil && os.Name == v1.Windows {
		return field.ErrorList{field.Forbidden(at, "cannot be set for a windows pod")}
	}
	if u.UID < 0 || u.UID > math.MaxUint32 { // what a runtime reports may be more than a Pod may ask for
		errs = append(errs, field.Invalid(at.Child("uid"), u.UID,
			fmt.Sprintf("must be between 0 and %d, inclusive", uint32(math.MaxUint32))))
	}
	for _, msg := range validation.IsValidGroupID(u.GID) {
		errs = append(errs, field.Invalid(at.Child("gid"), u.GID, msg))
	}
	for i, g := range u.SupplementalGroups {
		for _, msg := range validation.IsValidGroupID(g) {
			errs = append(errs, field.Invalid(at.Child("supplementalGroups").Index(i), g, msg))
		}
	}
	return errs
}

// statusDevices wants the health of devices to be that of what the container asks for, each device
// told once. Of a container that the Pod does not have any more nothing is known.
func statusDevices(s *v1.ContainerStatus, spec []v1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := slices.IndexFunc(spec, func(c v1.Container) bool { return c.Name == s.Name })
	for i, r := range s.AllocatedResourcesStatus {
		if at >= 0 {
			if detail := unrequestedReason(&spec[at].Resources, r.Name); detail != "" {
				errs = append(errs, field.Invalid(path.Index(i).Child("name"), r.Name, detail))
			}
		}
		ids := map[v1.ResourceID]bool{}
		for k, d := range r.Resources {
			one := path.Index(i).Child("resources").Index(k)
			switch d.Health {
			case v1.ResourceHealthStatusHealthy, v1.ResourceHealthStatusUnhealthy, v1.ResourceHealthStatusUnknown:
			default:
				errs = append(errs, field.NotSupported(one.Child("health"), d.Health,
					[]v1.ResourceHealthStatus{v1.ResourceHealthStatusHealthy, v1.ResourceHealthStatusUnhealthy,
						v1.ResourceHealthStatusUnknown}))
			}
			if ids[d.ResourceID] {
				errs = append(errs, field.Duplicate(one.Child("resourceID"), d.ResourceID))
			}
			ids[d.ResourceID] = true
		}
	}
	return errs
}

// unrequestedReason says what is wrong with a name that a container asks for neither as a resource
// nor as claim:CLAIM or claim:CLAIM/REQUEST; "" when it does.
func unrequestedReason(r *v1.ResourceRequirements, name v1.ResourceName) string {
	claim, isClaim := strings.CutPrefix(string(name), "claim:")
	if !isClaim {
		if _, ok := r.Requests[name]; ok {
			return ""
		}
		return "must match one of the container's resource requests"
	}
	for _, c := range r.Claims {
		if c.Request == "" && c.Name == claim || c.Request != "" && c.Name+"/"+c.Request == claim {
			return ""
		}
	}
	return "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or " +
		"'claim:<claimName>' if request is empty"
}
