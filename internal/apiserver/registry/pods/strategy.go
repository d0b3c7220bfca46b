package pods

import (
	"context"
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/pod"
)

// rules are the decisions about writes of Pods.
func rules() resourcedef.Rules {
	return resourcedef.Rules{
		Default: func(o runtime.Object) { Default(o.(*v1.Pod)) },
		PrepareCreate: func(ctx context.Context, o runtime.Object) {
			p := o.(*v1.Pod)
			for _, w := range podspec.AppArmorWarnings(&p.Spec, p.Annotations,
				field.NewPath("metadata", "annotations")) {
				warning.AddWarning(ctx, "", w)
			}
			podspec.DefaultPodLevel(&p.Spec) // again: admission may have changed the containers
			podspec.DefaultPodLevelLimits(&p.Spec)
			PrepareCreate(p, metav1.Now())
		},
		PrepareUpdate: func(_ context.Context, o, old runtime.Object) { PrepareUpdate(o.(*v1.Pod), old.(*v1.Pod)) },
		PrepareStatus: func(_ context.Context, o, old runtime.Object) { PrepareStatus(o.(*v1.Pod), old.(*v1.Pod)) },
		Validate:      func(_ context.Context, o runtime.Object) field.ErrorList { return Validate(o.(*v1.Pod)) },
		ValidateUpdate: func(_ context.Context, o, old runtime.Object) field.ErrorList {
			return ValidateUpdate(o.(*v1.Pod), old.(*v1.Pod))
		},
		ValidateStatus: func(_ context.Context, o, old runtime.Object) field.ErrorList {
			return ValidateStatusUpdate(o.(*v1.Pod), old.(*v1.Pod))
		},
		Warn:                     warn,
		CheckGracefulDelete:      gracefulDelete,
		Fields:                   func(o runtime.Object) fields.Set { return Fields(o.(*v1.Pod)) },
		IndexedField:             "spec.nodeName",
		AllowUnconditionalUpdate: true,
	}
}

// warn tells the creator of a Pod what may surprise. Updates are silent: people seldom update Pods,
// and programs do not read warnings.
func warn(ctx context.Context, o runtime.Object) []string {
	if info, ok := request.RequestInfoFrom(ctx); ok && info.Verb != "create" {
		return nil
	}
	p := o.(*v1.Pod)
	var out []string
	if m := validation.IsDNS1123Label(p.Name); len(m) > 0 {
		out = append(out,
			fmt.Sprintf("metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "+
				"a DNS label is recommended: %v", m))
	}
	return append(out, podspec.Warnings(&p.Spec, p.Annotations, nil)...)
}

// Default fills in what a Pod leaves open, and keeps the two forms of an address list telling the
// same.
func Default(p *v1.Pod) {
	podspec.DefaultPod(p)
	defaultStatus(&p.Status)
}

// defaultStatus makes podIP and podIPs agree: the single field wins when both are given and differ.
func defaultStatus(s *v1.PodStatus) {
	switch {
	case s.PodIP != "" && (len(s.PodIPs) == 0 || s.PodIPs[0].IP != s.PodIP):
		s.PodIPs = []v1.PodIP{{IP: s.PodIP}}
	case s.PodIP == "" && len(s.PodIPs) > 0:
		s.PodIP = s.PodIPs[0].IP
	}
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses,
		s.EphemeralContainerStatuses} {
		for i := range list {
			podspec.RoundResources(list[i].AllocatedResources)
			if r := list[i].Resources; r != nil {
				podspec.RoundResources(r.Limits)
				podspec.RoundResources(r.Requests)
			}
		}
	}
}

// PrepareCreate resets what a client may not set at creation: the status is Pending with its QoS
// class, generation starts at 1, fields of features that are off are dropped, and what derives from
// other fields is derived.
func PrepareCreate(p *v1.Pod, now metav1.Time) {
	p.Generation = 1
	podspec.DropDisabledPod(p, nil)
	p.Status = v1.PodStatus{Phase: v1.PodPending, QOSClass: pod.QOS(p)}
	p.Spec.DeprecatedServiceAccount = p.Spec.ServiceAccountName
	if len(p.Spec.SchedulingGates) > 0 {
		p.Status.Conditions = []v1.PodCondition{{
			Type: v1.PodScheduled, Status: v1.ConditionFalse, LastTransitionTime: now,
			Reason: v1.PodReasonSchedulingGated, Message: "Scheduling is blocked due to non-empty scheduling gates",
		}}
	}
	if g := p.Spec.TerminationGracePeriodSeconds; g != nil && *g < 0 {
		*g = 1 // the shortest graceful end
	}
	podspec.MergeMatchLabelKeys(p)
	podspec.SyncAppArmor(p)
}

// PrepareUpdate keeps what an update of the main endpoint may not touch and counts generations of
// the spec.
func PrepareUpdate(p, old *v1.Pod) {
	p.Status = *old.Status.DeepCopy()
	podspec.DropDisabledPod(p, old)
	p.Spec.DeprecatedServiceAccount = p.Spec.ServiceAccountName
	bumpGeneration(p, old)
}

// bumpGeneration counts one generation for each change of the spec.
func bumpGeneration(p, old *v1.Pod) {
	p.Generation = old.Generation
	if !apiequality.Semantic.DeepEqual(p.Spec, old.Spec) {
		p.Generation++
	}
}

// PrepareStatus keeps what a status update may not touch: spec, owners, a deletion mark, and the
// QoS class when the client left it out.
func PrepareStatus(p, old *v1.Pod) {
	p.Spec = *old.Spec.DeepCopy()
	p.Generation = old.Generation
	p.DeletionTimestamp = nil
	p.OwnerReferences = old.OwnerReferences
	if p.Status.QOSClass == "" {
		p.Status.QOSClass = old.Status.QOSClass
	}
	keepClaimStatuses(&p.Status, &old.Status)
	dropStatusFields(&p.Status, &old.Status)
	defaultStatus(&p.Status)
	keepObservedGenerations(p, old)
}

// dropStatusFields removes fields behind gates that are off, unless the stored status has them.
func dropStatusFields(s, old *v1.PodStatus) {
	if len(old.VolumeHealth) == 0 {
		s.VolumeHealth = nil
	}
	if len(old.NodeAllocatableResourceClaimStatuses) == 0 {
		s.NodeAllocatableResourceClaimStatuses = nil
	}
	used := false
	eachMountStatus(old, func(m *v1.VolumeMountStatus) { used = used || m.VolumeStatus != nil })
	if !used {
		eachMountStatus(s, func(m *v1.VolumeMountStatus) { m.VolumeStatus = nil })
	}
}

// eachMountStatus calls f for the status of each volume mount.
func eachMountStatus(s *v1.PodStatus, f func(*v1.VolumeMountStatus)) {
	for _, list := range [][]v1.ContainerStatus{s.ContainerStatuses, s.InitContainerStatuses,
		s.EphemeralContainerStatuses} {
		for i := range list {
			for k := range list[i].VolumeMounts {
				f(&list[i].VolumeMounts[k])
			}
		}
	}
}

// keepClaimStatuses keeps what is known of claims, for writers that leave it out.
func keepClaimStatuses(s, old *v1.PodStatus) {
	if s.ResourceClaimStatuses == nil && old.ResourceClaimStatuses != nil {
		s.ResourceClaimStatuses = old.DeepCopy().ResourceClaimStatuses
	}
	if s.ExtendedResourceClaimStatus == nil {
		s.ExtendedResourceClaimStatus = old.ExtendedResourceClaimStatus.DeepCopy()
	}
	if s.NodeAllocatableResourceClaimStatuses == nil && old.NodeAllocatableResourceClaimStatuses != nil {
		s.NodeAllocatableResourceClaimStatuses = old.DeepCopy().NodeAllocatableResourceClaimStatuses
	}
}

// keepObservedGenerations keeps the observed generation of a condition whose other fields did not
// change, for writers that do not know the field.
func keepObservedGenerations(p, old *v1.Pod) {
	if p.Status.ObservedGeneration == 0 {
		p.Status.ObservedGeneration = old.Status.ObservedGeneration
	}
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.ObservedGeneration != 0 {
			continue
		}
		if before := pod.Condition(old, c.Type); before != nil {
			c.ObservedGeneration = before.ObservedGeneration
		}
	}
}

// gracefulDelete fills in the grace period of a delete.
func gracefulDelete(_ context.Context, o runtime.Object, options *metav1.DeleteOptions) bool {
	if options == nil {
		return false
	}
	options.GracePeriodSeconds = new(GracePeriodSeconds(o.(*v1.Pod), options.GracePeriodSeconds))
	return true
}

// GracePeriodSeconds is the grace period of a delete in seconds: what was asked, else the spec's; 0
// for a Pod that never started anywhere or has ended; a negative one counts as one second, the
// shortest graceful end.
func GracePeriodSeconds(p *v1.Pod, requestedOptions *int64) int64 {
	period := int64(0)
	switch {
	case requestedOptions != nil:
		period = *requestedOptions
	case p.Spec.TerminationGracePeriodSeconds != nil:
		period = *p.Spec.TerminationGracePeriodSeconds
	}
	if p.Spec.NodeName == "" || pod.IsTerminal(p) {
		period = 0
	}
	if period < 0 {
		period = 1
	}
	return period
}

// Fields are what a field selector may ask of a Pod beyond name and namespace.
func Fields(p *v1.Pod) fields.Set {
	ip := p.Status.PodIP
	if len(p.Status.PodIPs) > 0 {
		ip = p.Status.PodIPs[0].IP
	}
	return fields.Set{
		"spec.nodeName":            p.Spec.NodeName,
		"spec.restartPolicy":       string(p.Spec.RestartPolicy),
		"spec.schedulerName":       p.Spec.SchedulerName,
		"spec.serviceAccountName":  p.Spec.ServiceAccountName,
		"spec.hostNetwork":         strconv.FormatBool(p.Spec.HostNetwork),
		"status.phase":             string(p.Status.Phase),
		"status.podIP":             ip,
		"status.podIPs":            ip,
		"status.nominatedNodeName": p.Status.NominatedNodeName,
	}
}
