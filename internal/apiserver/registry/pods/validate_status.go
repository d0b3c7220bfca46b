package pods

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
	"github.com/gantry-project/gantry/internal/pod"
)

// ValidateStatusUpdate validates a change of the status: QoS class fixed, ended containers that may
// not restart stay ended, conditions have names that cannot collide, addresses are addresses.
func ValidateStatusUpdate(p, old *v1.Pod) field.ErrorList {
	errs := statusMetadata(p, old)
	status := field.NewPath("status")
	errs = append(errs, podConditions(p.Status.Conditions, status.Child("conditions"))...)
	if n := p.Status.NominatedNodeName; n != old.Status.NominatedNodeName && n != "" {
		for _, msg := range validation.IsDNS1123Subdomain(n) {
			errs = append(errs, field.Invalid(status.Child("nominatedNodeName"), n, msg))
		}
		if old.Spec.NodeName != "" {
			errs = append(errs, field.Forbidden(status.Child("nominatedNodeName"),
				"may not be set on pods that are already bound to a node"))
		}
	}
	if n := p.Status.ObservedGeneration; n < 0 {
		errs = append(errs, field.Invalid(status.Child("observedGeneration"), n, notNegative))
	}
	errs = append(errs, apivalidation.ValidateImmutableField(p.Status.QOSClass, old.Status.QOSClass,
		status.Child("qosClass"))...)
	errs = append(errs, transitions(p.Status.ContainerStatuses, old.Status.ContainerStatuses,
		status.Child("containerStatuses"), restarts(old, false))...)
	errs = append(errs, transitions(p.Status.InitContainerStatuses, old.Status.InitContainerStatuses,
		status.Child("initContainerStatuses"), restarts(old, true))...)
	errs = append(errs, transitions(p.Status.EphemeralContainerStatuses, old.Status.EphemeralContainerStatuses,
		status.Child("ephemeralContainerStatuses"), never)...)
	errs = append(errs, claimStatuses(p, status.Child("resourceClaimStatuses"))...)
	errs = append(errs, extendedClaimStatus(p, status.Child("extendedResourceClaimStatus"))...)
	errs = append(errs, addresses(p, old, status)...)
	return append(errs, containerStatuses(p, status)...)
}

const notNegative = "must be a non-negative integer"

// podConditions wants names that cannot collide, and generations that can be.
func podConditions(list []v1.PodCondition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, c := range list {
		if c.ObservedGeneration < 0 {
			errs = append(errs, field.Invalid(path.Index(i).Child("observedGeneration"), c.ObservedGeneration,
				notNegative))
		}
		switch c.Type {
		case v1.PodScheduled, v1.PodReady, v1.PodInitialized:
			continue
		}
		for _, msg := range validation.IsQualifiedName(string(c.Type)) {
			errs = append(errs, field.Invalid(path.Index(i).Child("Type"), string(c.Type), msg)) // upstream's spelling
		}
	}
	return errs
}

// restarts says of a container of the Pod whether it may run again after it ended with code.
func restarts(p *v1.Pod, inits bool) func(name string, code int32) bool {
	list := p.Spec.Containers
	if inits {
		list = p.Spec.InitContainers
	}
	if pod.CanRestartAll(p) {
		return func(string, int32) bool { return true }
	}
	return func(name string, code int32) bool {
		for i := range list {
			c := &list[i]
			if c.Name != name {
				continue
			}
			if r := c.RestartPolicy; r != nil {
				// Rules may restart the container, or all of them, whatever its policy.
				return *r == v1.ContainerRestartPolicyAlways || *r == v1.ContainerRestartPolicyOnFailure && code != 0 ||
					len(c.RestartPolicyRules) > 0
			}
			if inits && code == 0 {
				return p.Spec.RestartPolicy == v1.RestartPolicyAlways
			}
		}
		return p.Spec.RestartPolicy == v1.RestartPolicyAlways || p.Spec.RestartPolicy == v1.RestartPolicyOnFailure &&
			code != 0
	}
}

func never(string, int32) bool { return false }

func transitions(now, previous []v1.ContainerStatus, path *field.Path,
	mayRestart func(string, int32) bool) field.ErrorList {
	var errs field.ErrorList
	for i, w := range previous {
		if w.State.Terminated == nil || mayRestart(w.Name, w.State.Terminated.ExitCode) {
			continue
		}
		for _, n := range now {
			if n.Name == w.Name && n.State.Terminated == nil {
				errs = append(errs, field.Forbidden(path.Index(i).Child("state"),
					"may not be transitioned to non-terminated state"))
			}
		}
	}
	return errs
}

func claimStatuses(p *v1.Pod, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	known, seen := map[string]bool{}, map[string]bool{}
	for _, c := range p.Spec.ResourceClaims {
		known[c.Name] = true
	}
	for i, s := range p.Status.ResourceClaimStatuses {
		at := path.Index(i)
		if !known[s.Name] {
			errs = append(errs,
				field.Invalid(at.Child("name"), s.Name, "must match the name of an entry in `spec.resourceClaims`"))
		}
		if seen[s.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), s.Name))
		}
		seen[s.Name] = true
		if s.ResourceClaimName != nil {
			for _, msg := range validation.IsDNS1123Subdomain(*s.ResourceClaimName) {
				errs = append(errs, field.Invalid(at.Child("resourceClaimName"), *s.ResourceClaimName, msg))
			}
		}
	}
	return errs
}

// extendedClaimStatus checks the claim for extended resources: each mapping is of a container and
// of a resource that it asks for.
func extendedClaimStatus(p *v1.Pod, at *field.Path) field.ErrorList {
	s := p.Status.ExtendedResourceClaimStatus
	if s == nil {
		return nil
	}
	var errs field.ErrorList
	asks := map[string]v1.ResourceList{}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		asks[c.Name] = c.Resources.Requests
	}
	if len(s.RequestMappings) == 0 {
		errs = append(errs, field.Required(at.Child("requestMappings"), "at least one request mapping is required"))
	}
	seen := map[v1.ContainerExtendedResourceRequest]bool{}
	for i, m := range s.RequestMappings {
		one := at.Child("requestMappings").Index(i)
		requests, known := asks[m.ContainerName]
		switch _, asked := requests[v1.ResourceName(m.ResourceName)]; {
		case !known:
			errs = append(errs, field.Invalid(one.Child("containerName"), m.ContainerName,
				"must match the name of an entry in spec.initContainers.name or spec.containers.name"))
		case !asked:
			errs = append(errs, field.Invalid(one.Child("resourceName"), m.ResourceName,
				"must match the extended resource name of an entry in spec.initContainers.resources.requests or "+
					"spec.containers.resources.requests"))
		}
		for _, msg := range validation.IsDNS1123Label(m.RequestName) {
			errs = append(errs, field.Invalid(at.Child("requestName"), m.RequestName, msg)) // upstream's path
		}
		if seen[m] {
			errs = append(errs, field.Duplicate(one.Child("containerName"), m.ContainerName),
				field.Duplicate(one.Child("resourceName"), m.ResourceName),
				field.Duplicate(one.Child("requestName"), m.RequestName))
		}
		seen[m] = true
	}
	if s.ResourceClaimName == "" {
		return append(errs, field.Required(at.Child("resourceClaimName"), ""))
	}
	for _, msg := range validation.IsDNS1123Subdomain(s.ResourceClaimName) {
		errs = append(errs, field.Invalid(at.Child("resourceClaimName"), s.ResourceClaimName, msg))
	}
	return errs
}

// addresses validates those of the Pod and of its host. What is stored may stay.
func addresses(p, old *v1.Pod, status *field.Path) field.ErrorList {
	pods, hosts := status.Child("podIPs"), status.Child("hostIPs")
	errs := addressList(podIPs(p), podIPs(old), typed.GoFields(p.Status.PodIPs), pods)
	switch list := p.Status.PodIPs; {
	case (p.Status.PodIP != "") != (len(list) > 0):
		errs = append(errs,
			field.Invalid(pods, typed.GoFields(list), "podIP and podIPs must either both be set or both be unset"))
	case len(list) > 0 && p.Status.PodIP != list[0].IP:
		errs = append(errs, field.Invalid(pods.Index(0).Child("ip"), list[0].IP, "must be equal to `podIP`"))
	}
	if h := p.Status.HostIPs; len(h) > 0 && p.Status.HostIP != h[0].IP {
		errs = append(errs, field.Invalid(hosts.Index(0).Child("ip"), h[0].IP, "must be equal to `hostIP`"))
	}
	return append(errs, addressList(hostIPs(p), hostIPs(old), typed.GoFields(p.Status.HostIPs), hosts)...)
}

func podIPs(p *v1.Pod) (out []string) {
	for _, ip := range p.Status.PodIPs {
		out = append(out, ip.IP)
	}
	return out
}

func hostIPs(p *v1.Pod) (out []string) {
	for _, ip := range p.Status.HostIPs {
		out = append(out, ip.IP)
	}
	return out
}

// addressList wants addresses, two only when they are of both families. shown is what messages
// show.
func addressList(list, stored []string, shown any, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, ip := range list {
		errs = append(errs, validation.IsValidIPForLegacyField(path.Index(i), ip, true, stored)...)
	}
	if len(list) < 2 {
		return errs
	}
	dual, err := netutils.IsDualStackIPStrings(list)
	if err != nil {
		errs = append(errs, field.InternalError(path, fmt.Errorf("failed to check for dual stack with error:%w", err)))
	}
	if !dual || len(list) > 2 {
		errs = append(errs, field.Invalid(path, shown, "may specify no more than one IP for each IP family"))
	}
	return errs
}
