// Package podsecurity is the admission plugin PodSecurity: it enforces the Pod Security Standard
// that the labels of a namespace name.
//
// In: Pods, kinds that make Pods, namespaces being written. Out: a refusal, a warning, or a note
// for the audit log, as the library k8s.io/pod-security-admission decides; without labels
// everything passes.
package podsecurity

import (
	"context"
	"errors"
	"fmt"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics/legacyregistry"
	podsecurity "k8s.io/pod-security-admission/admission"
	"k8s.io/pod-security-admission/admission/api/load"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/metrics"
	"k8s.io/pod-security-admission/policy"
)

// Plugin is the validating plugin PodSecurity.
type Plugin struct {
	*admission.Handler
	delegate  *podsecurity.Admission
	client    kubernetes.Interface
	informers informers.SharedInformerFactory
}

// New makes it with the library's default configuration: privileged unless labels say otherwise.
func New() (*Plugin, error) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return nil, fmt.Errorf("pod security: %w", err)
	}
	config, err := load.LoadFromData(nil)
	if err != nil {
		return nil, fmt.Errorf("pod security: %w", err)
	}
	return &Plugin{
		Handler: admission.NewHandler(admission.Create, admission.Update),
		delegate: &podsecurity.Admission{
			Configuration: config, Evaluator: evaluator, Metrics: metricsRecorder(),
			PodSpecExtractor: podsecurity.DefaultPodSpecExtractor{},
		},
	}, nil
}

// SetExternalKubeClientSet implements initializer.WantsExternalKubeClientSet.
func (p *Plugin) SetExternalKubeClientSet(c kubernetes.Interface) { p.client = c }

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	p.informers = f
	p.SetReadyFunc(f.Core().V1().Namespaces().Informer().HasSynced)
}

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.client == nil || p.informers == nil {
		return errors.New("pod security: no client or no informers")
	}
	p.delegate.NamespaceGetter = podsecurity.NamespaceGetterFromListerAndClient(
		p.informers.Core().V1().Namespaces().Lister(), p.client)
	p.delegate.PodLister = podsecurity.PodListerFromClient(p.client)
	if err := p.delegate.CompleteConfiguration(); err != nil {
		return err
	}
	return p.delegate.ValidateConfiguration()
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	gr := a.GetResource().GroupResource()
	if gr != corev1.Resource("namespaces") && !p.delegate.PodSpecExtractor.HasPodSpec(gr) {
		return nil
	}
	if !p.WaitForReady() {
		return admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	result := p.delegate.Validate(ctx, podSecurityAttributes{a})
	for _, w := range result.Warnings {
		warning.AddWarning(ctx, "", w)
	}
	for k, v := range result.AuditAnnotations {
		audit.AddAuditAnnotation(ctx, api.AuditAnnotationPrefix+k, v)
	}
	if result.Allowed {
		return nil
	}
	return refusal(a, result)
}

// refusal is the library's answer as an API error.
func refusal(a admission.Attributes, result *admissionv1.AdmissionResponse) error {
	err := admission.NewForbidden(a, errors.New("Not allowed by PodSecurity"))
	status := &apierrors.StatusError{}
	if !errors.As(err, &status) || result.Result == nil {
		return err
	}
	from, to := result.Result, &status.ErrStatus
	if from.Message != "" {
		to.Message = from.Message
	}
	if from.Reason != "" {
		to.Reason = from.Reason
	}
	if from.Details != nil {
		to.Details = from.Details
	}
	if from.Code != 0 {
		to.Code = from.Code
	}
	return status
}

// podSecurityAttributes gives the library what it asks about a write; our objects are external v1
// objects already.
type podSecurityAttributes struct{ admission.Attributes }

// GetObject implements api.Attributes.
func (q podSecurityAttributes) GetObject() (runtime.Object, error) {
	return q.Attributes.GetObject(), nil
}

// GetOldObject implements api.Attributes.
func (q podSecurityAttributes) GetOldObject() (runtime.Object, error) {
	return q.Attributes.GetOldObject(), nil
}

// GetOperation implements api.Attributes.
func (q podSecurityAttributes) GetOperation() admissionv1.Operation {
	return admissionv1.Operation(q.Attributes.GetOperation())
}

// GetUserName implements api.Attributes.
func (q podSecurityAttributes) GetUserName() string {
	if u := q.GetUserInfo(); u != nil {
		return u.GetName()
	}
	return ""
}

// metricsRecorder are the process's, as its registry is: all servers in it count together.
var metricsRecorder = sync.OnceValue(func() metrics.Recorder {
	r := metrics.NewPrometheusRecorder(api.GetAPIVersion())
	r.MustRegister(legacyregistry.MustRegister)
	return r
})
