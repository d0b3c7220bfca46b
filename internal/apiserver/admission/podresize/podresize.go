// Package podresize is the admission of in-place Pod resize: it refuses resources that the
// allocatable of the Pod's node could not hold even if the node were empty, before the kubelet is
// asked.
//
// In: a Pod being resized, its Node. Out: nothing, or a refusal with the sums. KEP-1287 as v1.37
// does it.
package podresize

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/gantry-project/gantry/internal/apiserver/admission/nodelister"
)

// Plugin is the validating plugin PodResize.
type Plugin struct{ nodelister.Handler }

// New makes it.
func New() *Plugin { return &Plugin{nodelister.New("pod resize")} }

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "resize" {
		return nil
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return nil
	}
	node, err := p.Node(ctx, pod.Spec.NodeName)
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	if os := node.Labels[corev1.LabelOSStable]; os != "" && os != string(corev1.Linux) {
		return admission.NewForbidden(a, fmt.Errorf("pod resize is only supported on linux nodes, node %q is %q",
			node.Name, os))
	}
	if exceeding := exceedingResources(pod, node.Status.Allocatable); exceeding != "" {
		return refusal(a, "node didn't have enough allocatable resources: "+exceeding)
	}
	return nil
}

// exceedingResources says what of a Pod's requests is more than the whole node.
func exceedingResources(pod *corev1.Pod, allocatable corev1.ResourceList) string {
	var out []string
	want := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	if n, most := want.Cpu().MilliValue(), allocatable.Cpu().MilliValue(); n > most {
		out = append(out, fmt.Sprintf("cpu, requested: %d, allocatable: %d", n, most))
	}
	if n, most := want.Memory().Value(), allocatable.Memory().Value(); n > most {
		out = append(out, fmt.Sprintf("memory, requested: %d, allocatable: %d", n, most))
	}
	return strings.Join(out, "; ")
}

// refusal carries the cause by which clients tell it from one by quota.
func refusal(a admission.Attributes, reason string) error {
	err := admission.NewForbidden(a, errors.New(reason))
	if s, ok := errors.AsType[*apierrors.StatusError](err); ok && s.ErrStatus.Code == http.StatusForbidden {
		s.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NodeCapacity"}}
	}
	return err
}
