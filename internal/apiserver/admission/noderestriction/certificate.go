package noderestriction

import (
	"context"
	"errors"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
)

// admitPodCertificateRequest lets a node ask for certificates of Pods that run on it, as what they
// are: a signer may believe what stands in the request (KEP-4317).
func (p *Plugin) admitPodCertificateRequest(ctx context.Context, name string, a admission.Attributes) error {
	if a.GetOperation() != admission.Create || a.GetSubresource() != "" {
		return errors.New("nodes can only create PodCertificateRequests")
	}
	r, ok := a.GetObject().(*certificatesv1.PodCertificateRequest)
	if !ok {
		return fmt.Errorf("unexpected type %T", a.GetObject())
	}
	s := &r.Spec
	if string(s.NodeName) != name {
		return fmt.Errorf("spec.nodeName is %q, which is not the requesting node %q", s.NodeName, name)
	}
	cached := metav1.GetOptions{ResourceVersion: "0"}
	node, err := p.client.CoreV1().Nodes().Get(ctx, name, cached)
	switch {
	case err != nil:
		return err
	case node.UID != s.NodeUID:
		return fmt.Errorf("spec.nodeUID is %q, the node has %q", s.NodeUID, node.UID)
	}
	pod, err := p.cachedOrStoredPod(ctx, a.GetNamespace(), s.PodName,
		func(pod *corev1.Pod) bool { return pod.UID == s.PodUID && pod.Spec.NodeName == name })
	switch {
	case err != nil:
		return err
	case pod.UID != s.PodUID:
		return fmt.Errorf("spec.podUID is %q, the Pod has %q. It might have been deleted and then recreated", s.PodUID,
			pod.UID)
	case pod.Spec.NodeName != name:
		return errors.New("node requested a certificate for a pod scheduled on a different node")
	case pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
		return errors.New("static pods cannot have certificates")
	case pod.Spec.ServiceAccountName != s.ServiceAccountName:
		return fmt.Errorf("spec.serviceAccountName is %q, the Pod runs as %q", s.ServiceAccountName,
			pod.Spec.ServiceAccountName)
	}
	account, err := p.client.CoreV1().ServiceAccounts(a.GetNamespace()).Get(ctx, s.ServiceAccountName,
		metav1.GetOptions{})
	switch {
	case err != nil:
		return err
	case account.UID != s.ServiceAccountUID:
		return fmt.Errorf("spec.serviceAccountUID is %q, the service account has %q", s.ServiceAccountUID, account.UID)
	}
	return nil
}
