package noderestriction

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/apiserver/auth/node"
	"github.com/gantry-project/gantry/internal/apiserver/registry/journal"
)

// Plugin is the plugin NodeRestriction.
type Plugin struct {
	*admission.Handler
	client     kubernetes.Interface
	authorizer authorizer.Authorizer
	// the gate CSIVolumeHealth is on: a node writes the status of its CSINode
	volumeHealth bool
}

// New makes it, with the gate CSIVolumeHealth or without.
func New(volumeHealth bool) *Plugin {
	return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update, admission.Delete),
		volumeHealth: volumeHealth}
}

// SetExternalKubeClientSet implements initializer.WantsExternalKubeClientSet.
func (p *Plugin) SetExternalKubeClientSet(c kubernetes.Interface) { p.client = c }

// SetAuthorizer implements initializer.WantsAuthorizer.
func (p *Plugin) SetAuthorizer(a authorizer.Authorizer) { p.authorizer = a }

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.client == nil || p.authorizer == nil {
		return errors.New("node restriction: no client or no authorizer")
	}
	return nil
}

// Admit implements admission.MutationInterface, to refuse before others work on the object.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	name, isNode := node.NodeIdentity(a.GetUserInfo())
	if !isNode {
		return nil
	}
	if name == "" {
		return admission.NewForbidden(a, fmt.Errorf("could not determine node from user %q", a.GetUserInfo().GetName()))
	}
	err := p.admitRequest(ctx, name, a)
	var status apierrors.APIStatus
	var retry *retryable
	switch {
	case errors.As(err, &retry):
		return retry.error
	case err == nil, errors.As(err, &status):
		return err
	}
	return admission.NewForbidden(a, err)
}

func (p *Plugin) admitRequest(ctx context.Context, name string, a admission.Attributes) error {
	switch a.GetResource().GroupResource() {
	case corev1.Resource("pods"):
		return p.admitPod(ctx, name, a)
	case corev1.Resource("nodes"):
		return admitNode(name, a)
	case corev1.Resource("persistentvolumeclaims"):
		return admitPVCStatus(name, a)
	case corev1.Resource("serviceaccounts"):
		if a.GetSubresource() == "token" && a.GetOperation() == admission.Create {
			return p.admitTokenRequest(ctx, name, a)
		}
	case coordinationv1.Resource("leases"):
		return admitLease(name, a)
	case storagev1.Resource("csinodes"):
		return p.admitCSINode(name, a)
	case resourcev1.Resource("resourceslices"):
		return admitResourceSlice(name, a)
	case certificatesv1.Resource("podcertificaterequests"):
		return p.admitPodCertificateRequest(ctx, name, a)
	case journal.GroupVersion.WithResource(journal.Resource).GroupResource():
		return p.admitPodJournal(ctx, name, a)
	}
	return nil
}

// storedPod reads a Pod as it is stored; it returns the API's own error when it is not there.
func (p *Plugin) storedPod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return p.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
}

// cachedOrStoredPod reads a Pod from the watch cache, and as it is stored when the cache does not
// have it as it has to be: only what is refused must be up to date.
func (p *Plugin) cachedOrStoredPod(ctx context.Context, namespace, name string,
	good func(*corev1.Pod) bool) (*corev1.Pod, error) {
	pod, err := p.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{ResourceVersion: "0"})
	if err == nil && good(pod) {
		return pod, nil
	}
	return p.storedPod(ctx, namespace, name)
}

// admitTokenRequest lets a node have tokens for Pods bound to it, under the audiences those Pods
// ask for.
func (p *Plugin) admitTokenRequest(ctx context.Context, name string, a admission.Attributes) error {
	req, ok := a.GetObject().(*authenticationv1.TokenRequest)
	if !ok {
		return fmt.Errorf("unexpected type %T", a.GetObject())
	}
	ref := req.Spec.BoundObjectRef
	switch {
	case ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "":
		return errors.New("node requested token not bound to a pod")
	case ref.UID == "":
		return errors.New("node requested token with a pod binding without a uid")
	}
	pod, err := p.cachedOrStoredPod(ctx, a.GetNamespace(), ref.Name,
		func(pod *corev1.Pod) bool { return pod.UID == ref.UID && pod.Spec.NodeName == name })
	switch {
	case err != nil:
		return err
	case ref.UID != pod.UID:
		return fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object "+
			"might have been deleted and then recreated", ref.UID)
	case pod.Spec.NodeName != name:
		return errors.New("node requested token bound to a pod scheduled on a different node")
	}
	return p.audiences(ctx, a, pod, req.Spec.Audiences)
}

// audiences lets a node ask only for one audience, and one its Pod asks for: in a projected volume,
// or by a CSI driver that wants tokens. No audience is that of the server, "".
func (p *Plugin) audiences(ctx context.Context, a admission.Attributes, pod *corev1.Pod, requested []string) error {
	if len(requested) > 1 {
		return errors.New("node may only request 0 or 1 audiences")
	}
	audience := strings.Join(requested, "")
	if p.podAudiences(ctx, pod)[audience] {
		return nil
	}
	allowed, err := p.mayRequest(ctx, a, authorizer.AttributesRecord{
		Verb: "request-serviceaccounts-token-audience", Resource: audience, Name: a.GetName()})
	switch who := a.GetUserInfo().GetName(); {
	case allowed:
		return nil
	case err != nil:
		return fmt.Errorf("error authorizing %s to request tokens for audience %q: %w", who, audience, err)
	default:
		return fmt.Errorf("%s is not authorized to request tokens for audience %q", who, audience)
	}
}

// mayRequest asks the authorizer whether the node may do what, on behalf of the account that is its
// name: verb, resource and name are given, the rest is that of the request.
func (p *Plugin) mayRequest(ctx context.Context, a admission.Attributes, what authorizer.AttributesRecord) (bool,
	error) {
	what.User, what.Namespace, what.ResourceRequest = a.GetUserInfo(), a.GetNamespace(), true
	what.APIGroup, what.APIVersion = a.GetResource().Group, a.GetResource().Version
	d, _, err := p.authorizer.Authorize(ctx, what)
	return d == authorizer.DecisionAllow, err
}

func (p *Plugin) podAudiences(ctx context.Context, pod *corev1.Pod) map[string]bool {
	out := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.Projected != nil:
			for _, s := range v.Projected.Sources {
				if s.ServiceAccountToken != nil {
					out[s.ServiceAccountToken.Audience] = true
				}
			}
		case v.CSI != nil:
			p.driverAudiences(ctx, v.CSI.Driver, out)
		case v.PersistentVolumeClaim != nil:
			p.claimAudiences(ctx, pod.Namespace, v.PersistentVolumeClaim.ClaimName, out)
		case v.Ephemeral != nil:
			p.claimAudiences(ctx, pod.Namespace, pod.Name+"-"+v.Name, out)
		}
	}
	return out
}

func (p *Plugin) claimAudiences(ctx context.Context, namespace, name string, out map[string]bool) {
	claim, err := p.client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil || claim.Spec.VolumeName == "" {
		return
	}
	pv, err := p.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err == nil && pv.Spec.CSI != nil {
		p.driverAudiences(ctx, pv.Spec.CSI.Driver, out)
	}
}

func (p *Plugin) driverAudiences(ctx context.Context, driver string, out map[string]bool) {
	d, err := p.client.StorageV1().CSIDrivers().Get(ctx, driver, metav1.GetOptions{})
	if err != nil {
		return
	}
	for _, r := range d.Spec.TokenRequests {
		out[r.Audience] = true
	}
}

// admitLease, admitCSINode and slices: each node its own.
func admitLease(name string, a admission.Attributes) error {
	if a.GetNamespace() != corev1.NamespaceNodeLease {
		return fmt.Errorf("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
	}
	target := a.GetName()
	if o, ok := a.GetObject().(*coordinationv1.Lease); ok && a.GetOperation() == admission.Create {
		target = o.Name
	}
	if target != name {
		return errors.New("can only access node lease with the same name as the requesting node")
	}
	return nil
}

func (p *Plugin) admitCSINode(name string, a admission.Attributes) error {
	target := a.GetName()
	if o, ok := a.GetObject().(*storagev1.CSINode); ok && a.GetOperation() == admission.Create {
		target = o.Name
	}
	if target != name {
		return errors.New("can only access CSINode with the same name as the requesting node")
	}
	if a.GetSubresource() != "status" {
		return nil
	}
	return p.admitCSINodeStatus(name, a)
}

// admitCSINodeStatus lets a node write the health of its storage and nothing else that way.
func (p *Plugin) admitCSINodeStatus(name string, a admission.Attributes) error {
	if !p.volumeHealth {
		return errors.New("CSIVolumeHealth feature gate is disabled")
	}
	if a.GetOperation() != admission.Update {
		return fmt.Errorf("unexpected operation %q", a.GetOperation())
	}
	old, isOld := a.GetOldObject().(*storagev1.CSINode)
	o, isNew := a.GetObject().(*storagev1.CSINode)
	if !isOld || !isNew {
		return fmt.Errorf("unexpected type %T", a.GetObject())
	}
	if !apiequality.Semantic.DeepEqual(old.Spec, o.Spec) {
		return fmt.Errorf("node %q is not allowed to modify CSINode spec via status", name)
	}
	return nil
}

func admitResourceSlice(name string, a admission.Attributes) error {
	if a.GetOperation() == admission.Delete {
		o, ok := a.GetOldObject().(*resourcev1.ResourceSlice)
		if ok && (o.Spec.NodeName == nil || *o.Spec.NodeName != name) {
			return errors.New("can only delete ResourceSlice with the same NodeName as the requesting node")
		}
		return nil
	}
	o, ok := a.GetObject().(*resourcev1.ResourceSlice)
	if ok && (o.Spec.NodeName == nil || *o.Spec.NodeName != name) {
		return errors.New("can only create ResourceSlice with the same NodeName as the requesting node")
	}
	return nil
}
