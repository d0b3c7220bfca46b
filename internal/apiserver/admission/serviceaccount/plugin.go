package serviceaccount

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	podutil "github.com/gantry-project/gantry/internal/pod"
)

// Plugin is the plugin ServiceAccount.
type Plugin struct {
	*admission.Handler
	client        kubernetes.Interface
	accounts      corelisters.ServiceAccountLister
	suffix        func() string // of the volume's name
	retryInterval time.Duration // between looks for the default account of a new namespace
}

// New makes it.
func New() *Plugin {
	return &Plugin{
		Handler:       admission.NewHandler(admission.Create, admission.Update),
		suffix:        func() string { return rand.String(5) },
		retryInterval: 50 * time.Millisecond,
	}
}

// SetExternalKubeClientSet implements initializer.WantsExternalKubeClientSet.
func (p *Plugin) SetExternalKubeClientSet(c kubernetes.Interface) { p.client = c }

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	i := f.Core().V1().ServiceAccounts()
	p.accounts = i.Lister()
	p.SetReadyFunc(i.Informer().HasSynced)
}

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.client == nil || p.accounts == nil {
		return errors.New("service account admission: no client or no informer of ServiceAccounts")
	}
	return nil
}

func podOf(a admission.Attributes) (*corev1.Pod, bool) {
	if a.GetResource().GroupResource() != corev1.Resource("pods") {
		return nil, false
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	return pod, ok
}

// Admit implements admission.MutationInterface.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	pod, ok := podOf(a)
	if !ok || a.GetOperation() != admission.Create || a.GetSubresource() != "" {
		return nil
	}
	if podutil.IsMirror(pod) {
		return p.Validate(ctx, a, o)
	}
	name := pod.Spec.ServiceAccountName
	if name == "" {
		name = pod.Spec.DeprecatedServiceAccount
	}
	if name == "" {
		name = "default"
	}
	pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount = name, name
	account, err := p.getServiceAccount(ctx, a)
	if err != nil {
		return err
	}
	if shouldAutomount(account, pod) {
		mountServiceAccountToken(pod, p.suffix)
	}
	if len(pod.Spec.ImagePullSecrets) == 0 {
		pod.Spec.ImagePullSecrets = append([]corev1.LocalObjectReference(nil), account.ImagePullSecrets...)
	}
	return p.Validate(ctx, a, o)
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, ok := podOf(a)
	if !ok {
		return nil
	}
	switch {
	case a.GetOperation() == admission.Create && a.GetSubresource() == "":
	case a.GetOperation() == admission.Update && a.GetSubresource() == "ephemeralcontainers":
	default:
		return nil
	}
	if podutil.IsMirror(pod) {
		if err := checkMirror(pod); err != nil {
			return admission.NewForbidden(a, err)
		}
		return nil
	}
	account, err := p.getServiceAccount(ctx, a)
	if err != nil {
		return err
	}
	if account.Annotations[enforceMountable] == "true" {
		if err := limitSecretReferences(account, pod); err != nil {
			return admission.NewForbidden(a, err)
		}
	}
	return nil
}

// getServiceAccount finds the Pod's ServiceAccount. The one called default is made by a controller
// soon after its namespace: it is waited for a little.
func (p *Plugin) getServiceAccount(ctx context.Context, a admission.Attributes) (*corev1.ServiceAccount, error) {
	if !p.WaitForReady() {
		return nil, admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	pod, _ := podOf(a)
	namespace, name := a.GetNamespace(), pod.Spec.ServiceAccountName
	if found, err := p.accounts.ServiceAccounts(namespace).Get(name); err == nil {
		return found, nil
	}
	tries := 1
	if name == "default" {
		tries = 20
	}
	var err error
	for i := range tries {
		if i > 0 {
			select {
			case <-time.After(p.retryInterval):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		var found *corev1.ServiceAccount
		if found, err = p.client.CoreV1().ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
			return found, nil
		}
		if !apierrors.IsNotFound(err) {
			break
		}
		err = apierrors.NewNotFound(corev1.Resource("serviceaccount"), name) // upstream's words
	}
	return nil, admission.NewForbidden(a, fmt.Errorf("error looking up service account %s/%s: %w", namespace, name,
		err))
}
