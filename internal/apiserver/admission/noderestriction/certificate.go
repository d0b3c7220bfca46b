package noderestriction

import (
	"context"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	podutil "github.com/gantry-project/gantry/internal/pod"
)

// admitPodCertificateRequest lets a node ask for certificates of Pods that run on it, as what they
// are: a signer may believe what stands in the request (KEP-4317).
func (p *Plugin) admitPodCertificateRequest(ctx context.Context, name string, a admission.Attributes) error {
	if a.GetOperation() != admission.Create {
		return fmt.Errorf("unexpected operation %v", a.GetOperation())
	}
	if a.GetSubresource() != "" {
		return fmt.Errorf("unexpected subresource %v", a.GetSubresource())
	}
	r, ok := a.GetObject().(*certificatesv1.PodCertificateRequest)
	if !ok {
		return fmt.Errorf("unexpected type %T", a.GetObject())
	}
	s := &r.Spec
	if string(s.NodeName) != name {
		return fmt.Errorf("PodCertificateRequest.Spec.NodeName=%q, which is not the requesting node %q", s.NodeName,
			name)
	}
	podName := a.GetNamespace() + "/" + s.PodName
	cached := metav1.GetOptions{ResourceVersion: "0"}
	node, err := p.client.CoreV1().Nodes().Get(ctx, name, cached)
	switch {
	case err != nil:
		return retrieving("node", name, err)
	case node.UID != s.NodeUID:
		return outdated("PodCertificateRequest for pod %q names node UID %q, inconsistent with the running node (%q)",
			podName, s.NodeUID, node.UID)
	}
	pod, err := p.cachedOrStoredPod(ctx, a.GetNamespace(), s.PodName,
		func(pod *corev1.Pod) bool { return pod.UID == s.PodUID && pod.Spec.NodeName == name })
	switch {
	case err != nil:
		return retrieving("pod", podName, err)
	case pod.UID != s.PodUID:
		return outdated("PodCertificateRequest for pod %q contains pod UID (%q) which differs from running pod %q",
			podName, s.PodUID, pod.UID)
	case pod.Spec.NodeName != name:
		return fmt.Errorf("pod %q is not running on node %q named in the PodCertificateRequest", podName, name)
	}
	if podutil.IsMirror(pod) {
		return fmt.Errorf("pod %q is a mirror pod", podName)
	}
	if pod.Spec.ServiceAccountName != s.ServiceAccountName {
		return fmt.Errorf("PodCertificateRequest for pod %q contains serviceAccountName (%q) that differs from "+
			"running pod (%q)", podName, s.ServiceAccountName, pod.Spec.ServiceAccountName)
	}
	account, err := p.client.CoreV1().ServiceAccounts(a.GetNamespace()).Get(ctx, s.ServiceAccountName,
		metav1.GetOptions{})
	switch {
	case err != nil:
		return retrieving("service account", a.GetNamespace()+"/"+s.ServiceAccountName, err)
	case account.UID != s.ServiceAccountUID:
		return outdated("PodCertificateRequest for pod %q names service account UID %q, which differs from the "+
			"running service account (%q)", podName, s.ServiceAccountUID, account.UID)
	}
	return p.signer(ctx, a, pod, s.SignerName)
}

// signer lets a node ask only for certificates of a signer that a projected volume of the Pod
// names.
func (p *Plugin) signer(ctx context.Context, a admission.Attributes, pod *corev1.Pod, signer string) error {
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.PodCertificate != nil && s.PodCertificate.SignerName == signer {
				return nil
			}
		}
	}
	allowed, err := p.mayRequest(ctx, a, authorizer.AttributesRecord{
		Verb:     "request-serviceaccounts-podcertificate-signer",
		Resource: strings.ReplaceAll(signer, "/", ":"), // as in names of trust bundles
		Name:     pod.Spec.ServiceAccountName})
	switch {
	case allowed:
		return nil
	case err != nil:
		return fmt.Errorf("error authorizing %s to request podcertificaterequests for signer %q: %w",
			a.GetUserInfo().GetName(), signer, err)
	default:
		return fmt.Errorf("pod %q does not mount a podCertificate projected volume for signer %q",
			pod.Namespace+"/"+pod.Name, signer)
	}
}

func retrieving(what, name string, err error) error {
	missing := apierrors.IsNotFound(err)
	err = fmt.Errorf("while retrieving %s %q named in the PodCertificateRequest: %w", what, name, err)
	if missing {
		return &retryable{err}
	}
	return err
}

// retryable is an error that is no refusal: the request may succeed when the server's caches have
// followed.
type retryable struct{ error }

func outdated(format string, args ...any) error { return &retryable{fmt.Errorf(format, args...)} }
